"""Captures that contradict themselves, lack content, or were made to do harm."""

import pytest
from draft_rig import onto, run_of
from hypothesis import given, settings
from hypothesis import strategies as st
from tier import examples

from sidecar.analyse.draft.draft import draft
from sidecar.analyse.draft.model import Asked
from sidecar.analyse.draft.written import written
from sidecar.expression.document import convert, read
from sidecar.twins.declaration import Declaration
from sidecar.twins.twin import Twin

pytestmark = pytest.mark.requirement("TWN-06")

WORDS = st.sampled_from(
    [
        *(
            "A-1",
            "A-2",
            "x",
            "",
            "null",
            "[email]",
            "tok:email:0123456789ab",
            '"',
            "\\",
            "\n#: - x",
        ),
        *(
            "order_id",
            "record",
            "*",
            "in",
            "a-b",
            "${x}",
            "é😀",
            "\x00\x7f",
            "{{7*7}}",
            "' || true",
        ),
    ]
)
SCALARS = WORDS | st.integers(-3, 3) | st.booleans() | st.none() | st.floats(-2, 2)
VALUES = st.recursive(
    SCALARS,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(WORDS, some, max_size=3),
    max_leaves=6,
)
TOOLS = st.sampled_from(["get_order", "list all", "cancel", "ünïcode", "a" * 64, "get_"])
ENDED = st.sampled_from(["ok", "ok", "ok", "refused", "unknown", "kept_out"])
CALLS = st.tuples(
    TOOLS,
    st.dictionaries(WORDS, SCALARS | VALUES, max_size=3) | st.none() | st.just("text"),
    VALUES,
    ENDED,
    st.sampled_from([None, 200, 404, 409]),
)


@settings(max_examples=examples(60), deadline=None)
@given(runs=st.lists(st.lists(CALLS, min_size=1, max_size=6), min_size=1, max_size=5))
def test_whatever_was_captured_the_draft_is_a_twin_that_reads_back(runs):
    told = [run_of(f"r{n}", calls) for n, calls in enumerate(runs)]
    try:
        drafted = draft(told, support=1)
    except ValueError:
        assert all(one[3] == "kept_out" for calls in runs for one in calls)
        return
    declared = convert(read(written(drafted), name="twin.yaml"), Declaration)
    assert declared == drafted.declaration()
    names = [problem for problem in declared.problems() if not problem.path.endswith(".name")]
    assert not names and not Twin(declared).problems


def reads(*answers, tool="get_order", asked="A-1"):
    return [(tool, {"order_id": asked}, answer) for answer in answers]


ONE, TWO = {"order_id": "A-1", "total": 5}, {"order_id": "A-1", "total": 6}


def test_runs_that_saw_different_things_at_first_leave_the_row_out():
    runs = [run_of(f"r{n}", reads(answer)) for n, answer in enumerate([ONE, ONE, ONE, TWO])]
    drafted = draft(runs)
    assert drafted.document["entities"]["orders"]["rows"] == []
    (left,) = [one for one in drafted.left_out if "A-1" in one.what]
    assert (left.support.n, left.support.against) == (4, 3)
    equal, gaps, otherwise = onto(drafted, runs)
    assert (len(equal), len(gaps), len(otherwise)) == (0, 4, 0)


def test_a_read_that_changes_by_itself_is_left_out():
    runs = [run_of(f"r{n}", reads(ONE, TWO, ONE)) for n in range(4)]
    drafted = draft(runs)
    assert drafted.tools() == {"get_order": 0}
    assert not onto(drafted, runs)[0]


CANCELLED = {"order_id": "A-1", "total": 5, "status": "cancelled"}
PAID = {"order_id": "A-1", "total": 5, "status": "paid"}


def cancel(before, after, answer=None):
    called = ("cancel", {"order_id": "A-1"}, answer or {"ok": True})
    return [*reads(before), called, *reads(after)]


def test_an_effect_that_once_did_not_happen_is_no_rule():
    runs = [run_of(f"r{n}", cancel(PAID, CANCELLED)) for n in range(9)]
    assert not onto(draft(runs), runs)[1]
    lied = [*runs, run_of("r9", cancel(PAID, PAID))]
    drafted = draft(lied)
    assert any("nothing explains status" in one.why for one in drafted.left_out)
    claims = drafted.declaration().fidelity
    assert claims.faithful == ("orders",) and list(claims.unfaithful) == ["unsettled"]
    _, gaps, otherwise = onto(drafted, lied)
    assert not otherwise and len(gaps) == 10  # the reads after it


def test_too_little_support_is_no_rule():
    runs = [run_of(f"r{n}", cancel(PAID, CANCELLED)) for n in range(2)]
    drafted = draft(runs)
    assert drafted.tools()["cancel"] == 0
    assert any("too little support" in one.why for one in drafted.left_out)
    assert draft(runs, support=2).tools()["cancel"] > 0


def test_a_call_whose_end_nobody_knows_teaches_nothing_and_touches_what_it_names():
    lost = ("cancel", {"order_id": "A-1"}, None, "unknown")
    runs = [run_of(f"r{n}", [lost, *reads(CANCELLED)]) for n in range(5)]
    drafted = draft(runs)
    assert drafted.document["entities"]["orders"]["rows"] == []
    assert drafted.tools()["cancel"] == 0


def test_what_a_gateway_kept_out_is_no_call_of_the_service():
    denied = ("cancel", {"order_id": "A-1"}, {"error": "denied"}, "kept_out")
    drafted = draft([run_of(f"r{n}", [denied, *reads(ONE)]) for n in range(3)])
    assert list(drafted.tools()) == ["get_order"]


def test_masks_are_no_keys_and_explain_nothing_while_tokens_are_values():
    mask, token = "[email]", "tok:email:0123456789ab"
    asked = [("get_user", {"email": mask}, {"email": mask, "name": n}) for n in "ab"]
    drafted = draft([run_of(f"r{n}", [one]) for n, one in enumerate(asked * 3)])
    text = written(drafted)
    assert not [one for one in drafted.rules if one.part.startswith("entities.")]
    assert "rows" not in text or '"name": "a"' not in text
    sends = [("send", {"to": mask, "n": n}, {"to": mask, "id": f"EM-{n}"}) for n in range(6)]
    masked = draft([run_of(f"r{n}", [one]) for n, one in enumerate(sends)])
    assert masked.tools()["send"] == 0
    kept = [("get_user", {"email": token}, {"email": token, "name": "a"})] * 3
    (row,) = draft([run_of("r", kept)]).document["entities"]["emails"]["rows"]
    assert row == {"email": token, "name": "a"}


def test_refusals_that_nothing_tells_apart_leave_the_tool_out():
    accepted = [("pay", {"id": "A", "n": 1}, {"ok": True})] * 5
    refused = [("pay", {"id": "A", "n": 1}, {"error": "no"}, "refused", 409)] * 5
    runs = [run_of(f"r{n}", [one]) for n, one in enumerate(accepted + refused)]
    drafted = draft(runs)
    assert drafted.tools()["pay"] == 0
    assert any("refuse" in one.why for one in drafted.left_out)


def test_explanations_that_agreed_so_far_must_agree_or_it_is_a_gap():
    """Every order was cancelled for its own total: whether what counts is the argument or the row
    was never seen."""
    orders = [{"order_id": f"A-{n}", "total": n, "paid_back": 0} for n in range(1, 6)]
    calls = [
        [
            ("get_order", {"order_id": one["order_id"]}, one),
            ("refund", {"order_id": one["order_id"], "amount": one["total"]}, {"ok": True}),
            ("get_order", {"order_id": one["order_id"]}, {**one, "paid_back": one["total"]}),
        ]
        for one in orders
    ]
    drafted = draft([run_of(f"r{n}", some) for n, some in enumerate(calls)])
    ask = {"order_id": "A-3", "amount": 2}
    again = run_of(
        "new", [("refund", ask, {"ok": True}), ("refund", {**ask, "amount": 3}, {"ok": True})]
    )
    equal, gaps, _ = onto(drafted, [again])
    assert not equal and "never other than" in gaps[0].gap
    right = run_of("right", [("refund", {**ask, "amount": 3}, {"ok": True})])
    assert len(onto(drafted, [right])[0]) == 1


def test_a_new_row_is_found_by_the_name_it_was_given_and_flows_on():
    def ordered(n):
        asked = {"item": f"thing{n}", "count": n % 5}
        name = f"ORD-{4000 + n}"
        return [
            ("create_order", asked, {"order_id": name, "status": "placed"}, "ok", 201),
            ("get_order", {"order_id": name}, {"order_id": name, **asked, "status": "placed"}),
        ]

    runs = [run_of(f"r{n}", ordered(n)) for n in range(1, 8)]
    drafted = draft(runs)
    fresh = [run_of("new", [*ordered(11), *ordered(12)])]
    twin_made = onto(drafted, fresh)
    assert [len(one) for one in twin_made] == [4, 0, 0] or len(twin_made[2]) == 0
    made = twin_made[0][0]
    assert made.value == {"order_id": "ORD-1", "status": "placed"} and made.status == 201


def test_a_registry_says_what_reads_and_where_it_is():
    known = {"think": Asked(class_="read", match={"method": "POST", "path": "/t"}, upstream="u")}
    calls = [("think", {"thought": str(n)}, "noted") for n in range(6)]
    drafted = draft([run_of("r", calls)], asked=known)
    (tool,) = drafted.document["tools"]
    assert (tool["class"], tool["match"]["path"], tool["upstream"]) == ("read", "/t", "u")
    assert tool["response"]["body"] == '"noted"'
    unseen = run_of("s", [("think", {"thought": "new"}, "noted")])
    assert len(onto(drafted, [unseen])[0]) == 1
