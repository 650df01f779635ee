"""What a verdict depends on beside the comparison: stops, pinned regressions and tapes, fairness,
coverage, twins that are too old, permissions, and criteria that nobody judged.
"""

import pytest
from msgspec.structs import replace
from sampled_rig import FAILED, PASSED, case, given, result
from suite_rig import TWIN

from sidecar.errors import SidecarError
from sidecar.evaluate.fairness import Fairness
from sidecar.expression.document import convert, read, report
from sidecar.gate.circumstances import Circumstances, Stopped, stale
from sidecar.gate.given import GateInput
from sidecar.gate.paired import runs_wanted
from sidecar.gate.policy import GatePolicy, policy_problems
from sidecar.gate.rules import decide
from sidecar.gate.samples import Sample
from sidecar.replay.pinned.told import TapeReplayed, came_to
from sidecar.twins.declaration import Declaration
from sidecar.twins.group import TwinGroup
from sidecar.twins.twin import Twin

NOW = 1_796_083_200_000_000_000  # 2026-12-01
OTHERS = [case(f"c{number}", (PASSED,) * 2, (PASSED,) * 2) for number in range(3)]


def fixed(cases=(), **more):
    """The input of a suite that is deterministic."""
    several = [*OTHERS, *cases]
    return GateInput(
        results=tuple(map(result, several)), samples=tuple(several), deterministic=True, **more
    )


def fired(decision):
    return {one.rule: one for one in decision.findings}


@pytest.mark.requirement("GAT-01")
@pytest.mark.parametrize("kind", ["kill", "freeze"])
def test_nothing_is_released_while_it_is_stopped(kind):
    stop = Stopped(kind=kind, scope="tool", subject="pay", reason="twice")
    decision = decide(fixed(circumstances=Circumstances(stops=(stop,))))
    assert (decision.status, decision.exit_code) == ("BLOCK", 1)
    assert f"{kind} of tool pay" in fired(decision)["stopped"].detail


@pytest.mark.requirement("GAT-01")
@pytest.mark.parametrize(
    ("came", "status", "rule"),
    [
        ("as_recorded", "PASS", None),
        ("declared", "PASS", None),
        ("drifted", "BLOCK", "tape_drift"),
        ("unreplayable", None, "tape_unreplayable"),
    ],
)
def test_a_pinned_tape_is_followed_or_its_drift_declared(came, status, rule):
    tape = TapeReplayed(tape="a.tape", came_to=came, kind="ARGS" if came == "drifted" else "")
    decision = decide(fixed(circumstances=Circumstances(tapes=(tape,))))
    assert decision.status == status and set(fired(decision)) == ({rule} if rule else set())
    if rule:
        assert "a.tape" in fired(decision)[rule].detail


@pytest.mark.parametrize(
    ("told", "declared", "came"),
    [
        ({"outcome": "ok"}, (), "as_recorded"),
        ({"outcome": "miss", "drift": {"kind": "ARGS"}}, (), "drifted"),
        ({"outcome": "miss", "drift": {"kind": "ARGS"}}, ("ARGS",), "declared"),
        ({"outcome": "diverged", "drift": {"kind": "OUTPUT"}}, ("ARGS",), "drifted"),
        ({"outcome": "target_crash", "drift": None}, ("ARGS",), "drifted"),
        ({"outcome": "incomparable", "drift": None}, ("ARGS",), "unreplayable"),
        ({"outcome": "miss", "drift": {"kind": "INCOMPARABLE"}}, (), "unreplayable"),
        ({"outcome": "deadline"}, (), "unreplayable"),
        ({}, (), "unreplayable"),
    ],
)
def test_only_what_is_told_as_recorded_is_good(told, declared, came):
    assert came_to("a.tape", "sha256:1", told, declared).came_to == came


@pytest.mark.requirement("GAT-01")
@pytest.mark.parametrize("severity", ["critical", "minor"])
def test_a_known_regression_blocks_though_the_baseline_fails_too_and_no_quarantine_excuses(
    severity,
):
    back = case("back", (FAILED,) * 2, (FAILED,) * 2, severity=severity)
    assert decide(fixed([back])).status == "WARN"
    pinned = replace(back, regression="trace 4bf9")
    for held in ({}, {"back": True}):
        decision = decide(fixed([pinned], quarantined=held))
        assert decision.status == "BLOCK"
        assert fired(decision)["known_regression"].cases == ("back",)
        assert ("quarantine_idle" in fired(decision)) == bool(held)
    assert decide(fixed([replace(pinned, candidate=(PASSED,) * 2)])).status == "PASS"


def mixed(passed, failed):
    return (FAILED,) * failed + (PASSED,) * passed


@pytest.mark.requirement("GAT-02")
@pytest.mark.parametrize(
    ("passed", "failed", "status"),
    [
        (0, 1, None),
        (0, 3, None),
        (0, 5, "BLOCK"),
        (0, 7, "BLOCK"),
        (1, 6, None),
        (6, 1, None),
        (7, 0, "WARN"),
        (13, 2, "WARN"),
        (3, 12, "BLOCK"),
    ],
)
def test_a_known_regression_of_a_sampled_suite_must_pass_more_often_than_not_shown(
    passed, failed, status
):
    runs = mixed(passed, failed)
    pinned = case("back", runs, runs, severity="minor")
    pinned = replace(pinned, regression="trace 4bf9")
    decision = decide(given([pinned, *OTHERS]))
    assert decision.status == status
    more = runs_wanted([pinned, *OTHERS], GatePolicy())
    wanted = {1: 3, 3: 7}.get(passed + failed, 0) if status is None else 0
    assert more == ({"back": wanted} if wanted else {})


RULE = Fairness(id="equal", scenarios=("ada", "wei"), tool="pay")
PAID, UNPAID = replace(PASSED, executed=("pay",)), PASSED


def people(before, now):
    return [
        case(name, before[at], now[at], severity="minor") for at, name in enumerate(("ada", "wei"))
    ]


@pytest.mark.requirement("EVL-01")
@pytest.mark.parametrize(
    ("before", "now", "status", "rules"),
    [
        ((PAID, PAID), (PAID, PAID), "PASS", set()),
        ((UNPAID, UNPAID), (PAID, PAID), "PASS", set()),
        ((PAID, PAID), (PAID, UNPAID), "BLOCK", {"unfair"}),
        ((PAID, UNPAID), (PAID, UNPAID), "WARN", {"unfair_still"}),
        ((UNPAID, PAID), (PAID, UNPAID), "WARN", {"unfair_still"}),
    ],
)
def test_people_whom_the_baseline_treated_alike_are_treated_alike(before, now, status, rules):
    cases = people([(one,) * 2 for one in before], [(one,) * 2 for one in now])
    decision = decide(fixed(cases, fairness=(RULE,)))
    assert (decision.status, set(fired(decision))) == (status, rules)
    if rules:
        (one,) = decision.findings
        assert one.cases == ("ada", "wei") and "executed pay in 0 of 2" in one.detail
    lax = replace(RULE, required=False)
    assert decide(fixed(cases, fairness=(lax,))).status in ("PASS", "WARN")


def test_a_group_with_a_case_in_quarantine_or_without_runs_is_told_as_unclear():
    cases = people([(PAID,) * 2] * 2, [(PAID,) * 2, (UNPAID,) * 2])
    held = decide(fixed(cases, fairness=(RULE,), quarantined={"wei": True}))
    assert set(fired(held)) == {"fairness_unclear", "quarantined"}
    gone = replace(RULE, scenarios=("ada", "nobody"))
    assert "fairness_unclear" in fired(decide(fixed(cases, fairness=(gone,))))


@pytest.mark.requirement("EVL-01")
@pytest.mark.requirement("GAT-02")
@pytest.mark.parametrize(
    ("count", "paid", "rules"),
    [
        (1, 0, {"fairness_unclear"}),
        (6, 1, {"unfair_still"}),  # p 0.015: told, and not enough to block
        (7, 0, {"unfair"}),
        (20, 19, {"fairness_unclear"}),
        (20, 20, set()),
    ],
)
def test_a_spread_that_chance_explains_blocks_nobody(count, paid, rules):
    def side(hits):
        return tuple(
            replace(PASSED, run=at + 1, executed=("pay",) if at < hits else ())
            for at in range(count)
        )

    cases = people([side(count)] * 2, [side(count), side(paid)])
    found = set(fired(decide(given(cases, fairness=(RULE,)))))
    assert found & {"unfair", "unfair_still", "fairness_unclear"} == rules


def test_runs_that_were_added_to_a_case_weigh_nothing_in_its_group():
    cases = people([(PAID,), (PAID,)], [(PAID,), (PAID, *(UNPAID,) * 30)])
    assert not {"unfair", "unfair_still"} & set(fired(decide(given(cases, fairness=(RULE,)))))


@pytest.mark.requirement("GAT-01")
def test_too_little_coverage_and_twins_that_are_too_old_warn():
    short = Circumstances(coverage=("tool: 1 of 3, below 90%",))
    decision = decide(fixed(circumstances=short, stale=("shop is of 2026-01-01",)))
    assert decision.status == "WARN"
    assert "below 90%" in fired(decision)["surface_shortfall"].detail
    assert "shop is of" in fired(decision)["twin_stale"].detail


def test_only_the_names_of_stale_twins_are_told_for_their_ages_change():
    state = {"stale": ["shop: it is 40d old", "bank: it is 31d old"], "age_seconds": 9}
    assert stale(state) == ("shop", "bank") and stale({}) == ()


@pytest.mark.parametrize(
    ("as_of", "old"),
    [
        ("2026-11-02T00:00:00Z", False),
        ("2026-10-31T00:00:00Z", True),
        ("2026-12-01T12:00:00+12:00", False),
        ("2027-01-01T00:00:00Z", True),
    ],
)
def test_a_twin_of_no_snapshot_is_as_old_as_what_it_was_drafted_from(as_of, old):
    text = TWIN + f"as_of: '{as_of}'\nstate: {{age_max: 30d}}\n"
    twin = Twin(convert(read(text, name="twin.yaml"), Declaration))
    assert bool(TwinGroup([twin]).stale(NOW)) == old


@pytest.mark.requirement("GAT-01")
def test_a_permission_that_the_baseline_did_not_need_warns():
    tools = {"pay": "payments", "refund": "payments", "look": ""}

    def run(*names):
        return (Sample(run=1, passed=True, tools=names),) * 2

    def rules(before, now):
        cases = [case("c", run(*before), run(*now))]
        return set(fired(decide(fixed(cases, permissions=tools))))

    assert rules(["look"], ["look", "pay"]) == {"new_tool", "new_permission"}
    assert rules(["pay"], ["pay", "refund"]) == {"new_tool"}
    assert rules(["pay"], ["look", "other"]) == {"new_tool"}
    assert rules(["pay", "look"], ["pay"]) == set()


@pytest.mark.requirement("GAT-01")
def test_criteria_that_nobody_judged_are_no_silent_pass():
    dumb = replace(PASSED, unjudged=1)
    decision = decide(fixed([case("kind", (PASSED,) * 2, (PASSED, dumb))]))
    assert decision.status == "WARN" and fired(decision)["not_judged"].cases == ("kind",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("surfaces: {tools: 0.9}", "no surface 'tools'"),
        ("surfaces: {tool: 1.5}", "above 0 and at most 1"),
        ("surfaces: {tool: 0}", "above 0 and at most 1"),
    ],
)
def test_floors_are_shares_of_surfaces_that_there_are(text, said):
    document = read(text, name="gate.yaml")
    policy = convert(document, GatePolicy)
    with pytest.raises(SidecarError, match=said):
        report(document, list(policy_problems(policy, {}, "2026-12-01")))
