"""One report of how true a twin is: every figure, with what it rests on, on a twin that errs."""

import gzip
from pathlib import Path

import msgspec
import pytest

from sidecar.analyse.fidelity.report import report, schema
from sidecar.analyse.fidelity.shown import as_markdown, as_text
from sidecar.replay.import_tau import tau_runs
from sidecar.replay.onto_twin import OntoTwin
from sidecar.replay.taped import TapedCall, TapedRun, run_of
from sidecar.twins import examples
from sidecar.twins.declaration import Declaration
from sidecar.twins.files import load_twins
from sidecar.twins.group import TwinGroup
from sidecar.twins.state.files import with_state
from sidecar.twins.twin import Twin

pytestmark = pytest.mark.requirement("TWN-05")

CORPUS = Path(__file__).parents[5] / "shared" / "corpora" / "tau-airline"
MS, DAY = 1_000_000, 86_400_000_000_000
AS_OF_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z

SHOP = {
    "twin": "shop",
    "as_of": "2026-01-01T00:00:00Z",
    "entities": {
        "orders": {"key": "id", "rows": [{"id": "A", "total": 5}, {"id": "B", "total": 6}]}
    },
    "tools": [
        {
            "name": "get_order",
            "match": {"method": "GET", "path": "/orders/{id}"},
            "class": "read",
            "latency": "300ms",
            "let": {"order": 'row("orders", arguments.id)'},
            "preconditions": [{"require": "order != null", "gap": "nobody saw that order"}],
            "response": {"body": "order"},
            "observe": [{"entity": "orders", "rows": "[response]"}],
        },
        {
            "name": "cancel",
            "match": {"method": "POST", "path": "/orders/{id}/cancel"},
            "class": "irreversible",
            "preconditions": [
                {"require": 'arguments.id != "B"', "status": 409, "body": {"error": '"no"'}}
            ],
            "effects": [
                {"op": "set", "entity": "orders", "key": "arguments.id", "values": {"total": 0}}
            ],
            "response": {"status": 201, "body": {"ok": True}},
        },
    ],
}


def group():
    declared = msgspec.convert(SHOP, Declaration)
    assert declared.problems() == []
    twin = Twin(declared)
    assert twin.problems == []
    return TwinGroup([twin])


def told(calls, *, name="r", at_ns=0, verified="unverified", task="t"):
    made = [
        TapedCall(seq=n, tool=tool, arguments=arguments, result=result, **more)
        for n, (tool, arguments, result, more) in enumerate(calls)
    ]
    return TapedRun(
        name=name,
        task=task,
        calls=tuple(made),
        said=(),
        actions=None,
        outputs=(),
        verified=verified,
        at_ns=at_ns,
    )


def measured(*runs, observed=False, **more):
    onto = OntoTwin(group(), observed=observed)
    return report([onto.replay(one) for one in runs], group(), **more)


def of(found, tool):
    (one,) = [each for each in found.tools if each.tool == tool]
    return one


REFUSED = {"ended": "refused", "http_status": 409}


def test_gaps_are_no_mismatches_and_say_why():
    found = measured(
        told([("get_order", {"id": "A"}, {"id": "A", "total": 5}, {})]),
        told([("get_order", {"id": "X"}, {"id": "X", "total": 1}, {})], name="s"),
    )
    one = of(found, "get_order")
    assert (one.results, one.matches["exact"], one.gaps.n, one.gaps.calls) == (1, 1, 1, 2)
    assert one.gaps.reasons == {"nobody saw that order": 1}
    assert [each.run for each in found.void] == ["s"]
    assert ("ticket", "get_order") in [(each.level, each.about) for each in found.findings]


def test_effects_that_went_through_on_one_side_only_are_counted_apart():
    found = measured(
        told(
            [
                ("cancel", {"id": "A"}, {"ok": True}, {"http_status": 201}),
                ("cancel", {"id": "B"}, {"error": "no"}, REFUSED),
                ("cancel", {"id": "B"}, {"ok": True}, {"http_status": 201}),
                ("cancel", {"id": "A"}, {"error": "late"}, REFUSED),
            ]
        )
    )
    some = found.effects
    assert (some.n, some.both, some.neither) == (4, 1, 1)
    assert (some.recorded_only, some.twin_only) == (1, 1)
    errors = of(found, "cancel").errors
    assert errors.recorded == {"http_409": 2, "ok": 2} and errors.twin == {"http_409": 2, "ok": 2}
    assert (errors.n, errors.agreeing) == (4, 2)


def test_a_status_counts_only_where_production_told_one():
    bare = {"ended": "refused"}
    found = measured(told([("cancel", {"id": "B"}, {"error": "no"}, bare)]))
    errors = of(found, "cancel").errors
    assert errors.recorded == {"error": 1} and errors.twin == {"http_409": 1}
    assert errors.agreeing == 1


def test_reads_after_an_effect_tell_what_the_state_is_worth():
    cancelled = ("cancel", {"id": "A"}, {"ok": True}, {})
    right = ("get_order", {"id": "A"}, {"id": "A", "total": 0}, {})
    stale = ("get_order", {"id": "A"}, {"id": "A", "total": 5}, {})
    found = measured(told([stale, cancelled, right, stale]))
    assert (found.reads_after_effects.n, found.reads_after_effects.equal) == (2, 1)


def test_a_run_may_begin_with_what_only_its_own_first_reads_show():
    """Production had an order C that the twin knows nothing of, and A otherwise than the twin."""
    shown = ("get_order", {"id": "C"}, {"id": "C", "total": 9}, {})
    other = ("get_order", {"id": "A"}, {"id": "A", "total": 7}, {})
    cancelled = ("cancel", {"id": "C"}, {"ok": True}, {"http_status": 201})
    after = ("get_order", {"id": "C"}, {"id": "C", "total": 0}, {})
    late = ("get_order", {"id": "D"}, {"id": "D", "total": 1}, {})
    run = told([shown, other, cancelled, after, late])
    alone = measured(run)
    assert (of(alone, "cancel").gaps.n, alone.equal) == (1, 0)
    found = measured(run, observed=True)
    one = of(found, "get_order")
    assert (one.results, one.matches["exact"], one.gaps.n) == (
        2,
        1,
        1,
    )  # D was late
    assert found.not_compared == 1  # what showed C proves nothing
    assert (found.reads_after_effects.n, found.reads_after_effects.equal) == (1, 1)
    assert measured(run, observed=True) == found  # nothing of it stays in the world


def test_ten_against_three_hundred_milliseconds_ask_for_a_new_twin():
    calls = [("get_order", {"id": "A"}, {"id": "A", "total": 5}, {"took_ns": 10 * MS})] * 20
    found = measured(told(calls))
    time = of(found, "get_order").latency
    assert (time.ks, time.ratio_p50, time.n_recorded) == (1.0, 30.0, 20)
    assert of(found, "get_order").latency_declared
    assert [one.level for one in found.findings] == ["ticket"]
    assert not found.warns


def test_age_is_told_against_the_newest_recording_and_since_when_answers_differ():
    same = [("get_order", {"id": "A"}, {"id": "A", "total": 5}, {})]
    other = [("get_order", {"id": "A"}, {"id": "A", "cost": 5}, {})]
    found = measured(
        told(same, at_ns=AS_OF_NS - DAY),
        told(other, at_ns=AS_OF_NS + 2 * DAY, name="s"),
        told(same, at_ns=AS_OF_NS + 40 * DAY, name="u"),
    )
    (age,) = found.age
    assert (age.days, age.drift_since) == (40.0, "2026-01-03T00:00:00.000Z")
    assert age.version == "1" and "version 1: as of 2026-01-01" in as_text(found)
    assert sum(one.about == "shop" for one in found.findings) == 2
    fresh = measured(told(same, at_ns=AS_OF_NS + DAY))
    assert not fresh.findings and fresh.age[0].days == 1.0
    assert measured(told(same)).age[0].days is None


def test_what_an_agent_does_on_the_twin_is_compared_where_runs_of_it_are_given():
    read = ("get_order", {"id": "A"}, {"id": "A", "total": 5}, {})
    cancel = ("cancel", {"id": "A"}, {"ok": True}, {})
    production = [told([read, read, read], name=f"r{n}") for n in range(12)]
    on_twin = [told([cancel, cancel], name=f"t{n}") for n in range(12)]
    found = measured(*production, ran=on_twin, permutations=49)
    assert [one.n for one in found.behaviour] == [1, 2] and found.warns
    assert {one.about for one in found.findings if one.level == "warn"} == {"behaviour"}
    assert not measured(*production, ran=production, permutations=49).warns
    assert measured(*production).behaviour == ()


def test_nothing_compared_decides_nothing():
    assert measured(told([("get_order", {"id": "A"}, None, {})])).undecided
    assert not measured(told([("get_order", {"id": "A"}, {"id": "A", "total": 5}, {})])).undecided


def test_a_report_is_of_its_schema_and_its_pages_hold_whatever_was_recorded():
    import jsonschema_rs

    hostile = "x|y\n# <img src=x> `[a](b)`"
    calls = [
        ("get_order", {"id": "A"}, {"id": "A", hostile: 5}, {"took_ns": MS}),
        (hostile, {}, {}, {}),
    ]
    found = measured(told(calls, name=hostile, at_ns=AS_OF_NS), ran=[told(calls)], permutations=19)
    jsonschema_rs.validator_for(schema()).validate(msgspec.to_builtins(found))
    page = as_markdown(found)
    assert "<img" not in page.replace("\\<img", "")
    assert all(line.count("|") - line.count("\\|") in (0, 5, 9) for line in page.splitlines())
    assert "\n# <img" not in page and hostile not in as_text(found)


def test_the_airline_twin_drifts_at_one_path_and_changes_no_verdict():
    if not CORPUS.exists():
        pytest.skip("needs ../shared (corpora/tau-airline), which is absent here")
    twins = load_twins([Path(examples.__path__[0]) / "airline" / "twin.yaml"])
    airline = with_state(twins.group, CORPUS)
    onto = OntoTwin(airline)
    data = gzip.decompress((CORPUS / "runs.jsonl.gz").read_bytes())
    found = report([onto.replay(run_of(one)) for one in tau_runs(data, "full")], airline)
    assert (found.runs, found.calls, found.results, found.equal) == (100, 577, 577, 516)
    assert (found.verdicts.compared, found.verdicts.agreeing) == (98, 98)
    drift = [(one.tool, path) for one in found.tools for path in one.drift]
    ((tool, path),) = drift
    assert (tool, path.recorded, path.twin) == (
        "get_user_details",
        "/address/province",
        "/address/state",
    )
    assert (path.results, path.verdict) == (61, "neutral")
    assert [(one.level, one.about) for one in found.findings] == [("ticket", "get_user_details")]
    some = found.effects
    assert (some.n, some.both + some.neither) == (152, 152)
    # Five reads after an effect differ, all of them at that path.
    assert (found.reads_after_effects.n, found.reads_after_effects.equal) == (59, 54)
    assert not found.void and sum(one.gaps.n for one in found.tools) == 0
