"""The nine factories and the statements over events, each on tapes that hold and that do not."""

import pytest
from assertion_rig import approval, call, end, model, patch, result, taped
from msgspec import structs

from sidecar.evaluate.assertions import factories as that
from sidecar.evaluate.assertions.conclude import asserted, conclude
from sidecar.evaluate.assertions.judge import judge
from sidecar.evaluate.assertions.parse import Named
from sidecar.evaluate.assertions.view import Where
from sidecar.tape.compose import Fact

pytestmark = pytest.mark.requirement("ASR-01")

LOOP = taped(*[call("shell", {"n": n // 2}) for n in range(6)], end(output="done"))
REFUND = [
    call("read_order"),
    result("read_order", 0, {"total": 5}),
    approval("refund"),
    call("refund", {"amount": 5}),
    result("refund", 3, {"id": "r-1"}),
]
ORDERLY = taped(*REFUND, end(output="refunded", claimed=["success"], verified="verified_success"))
ACCOUNT = [{"balance": 10}, {"balance": 4}, {"balance": -1}]
SPENDING = taped(
    patch([{"op": "replace", "path": "/balance", "value": 4}], *ACCOUNT[:2]),
    patch([{"op": "replace", "path": "/balance", "value": -1}], *ACCOUNT[1:]),
    end(),
    keep=ACCOUNT[:1],
)


def ended(seq, **output):
    return taped(*[call("x") for _ in range(seq)], end(**output))


def timed(*seconds):
    return taped(
        *[Fact(kind="decision", start_ns=1_782_907_200 * 10**9 + int(s * 1e9)) for s in seconds],
        end(),
    )


ANY = Where(name="go")
CASES = [
    (that.max_repeats(6, "shell"), LOOP, "pass", None),
    (that.max_repeats(3, "shell"), LOOP, "fail", 3),
    (that.max_repeats(3), LOOP, "fail", 3),
    (that.max_repeats(2, same="arguments"), LOOP, "pass", None),
    (that.max_repeats(1, same="arguments"), LOOP, "fail", 1),
    (that.max_repeats(1, arguments={"n": 1}), LOOP, "fail", 3),
    (that.never_calls("drop_table"), LOOP, "pass", None),
    (that.never_calls("drop_table", "shell"), LOOP, "fail", 0),
    (that.never_calls("shell", arguments={"n": 2}), LOOP, "fail", 4),
    (that.never_calls("pay"), taped(call("pay", status="denied"), end()), "fail", 0),
    (
        that.never_calls("pay", status="executed"),
        taped(call("pay"), result("pay", 0, status="denied"), end()),
        "pass",
        None,
    ),
    (that.never_calls("pay", status="executed"), taped(call("pay"), end()), "fail", 0),
    (that.terminates_within(9), ended(3), "pass", None),
    (that.terminates_within(9), ended(9), "fail", 9),
    (that.terminates_within(9), ended(8), "pass", None),
    (that.budget_within(tool_calls=6), LOOP, "pass", None),
    (that.budget_within(tool_calls=5), LOOP, "fail", 5),
    (that.budget_within(model_calls=0), taped(model(), end()), "fail", 0),
    (that.budget_within(tokens=9), taped(model(input=4, output=5), end()), "pass", None),
    (that.budget_within(tokens=8), taped(model(input=4), model(output=5), end()), "fail", 1),
    (that.budget_within(tokens=8), taped(model(input=4), model(), end()), "skip", None),
    (that.budget_within(tokens=3), taped(model(input=4), model(), end()), "fail", 0),
    (that.budget_within(cost_usd_micros=1), taped(model(cost_usd_micros=2), end()), "fail", 0),
    (that.budget_within(seconds=2), timed(0, 1, 2), "pass", None),
    (that.budget_within(seconds=2), timed(0, 1, 3, 4), "fail", 2),
    (that.budget_within(seconds=2), LOOP, "skip", None),
    (that.call_order("read_order", "refund"), ORDERLY, "pass", None),
    (that.call_order("refund", "read_order"), ORDERLY, "fail", 0),
    (that.call_order("read_order", "refund", "notify"), ORDERLY, "fail", 5),
    (that.output_schema({"type": "string"}), ORDERLY, "pass", None),
    (that.output_schema({"type": "object"}), ORDERLY, "fail", 5),
    (that.output_schema({"required": ["id"]}, "refund"), ORDERLY, "pass", None),
    (that.output_schema({"required": ["key"]}, "refund"), ORDERLY, "fail", 4),
    (that.output_schema({"const": 1}, parse=True), taped(end(output="1")), "pass", None),
    (that.output_schema({"const": 1}, parse=True), taped(end(output="one")), "fail", 0),
    (that.output_schema({}), taped(end()), "skip", None),
    (that.state_invariant("state.balance >= -1"), SPENDING, "pass", None),
    (that.state_invariant("state.balance >= 0"), SPENDING, "fail", 1),
    (that.state_invariant("state.balance < 10"), SPENDING, "fail", 0),
    (that.state_invariant("state.missing > 0"), SPENDING, "error", 0),
    (that.state_invariant("state.balance >= 0", of="other"), SPENDING, "skip", None),
    (that.state_invariant("state.balance >= 0"), LOOP, "skip", None),
    (that.requires_before("refund", read="read_order"), ORDERLY, "pass", None),
    (that.requires_before("refund", read="check_fraud"), ORDERLY, "fail", 3),
    (that.requires_before("refund", approval=True), ORDERLY, "pass", None),
    (that.requires_before("read_order", approval=True), ORDERLY, "fail", 0),
    (that.claim_verified(), ORDERLY, "pass", None),
    (
        that.claim_verified(),
        ended(2, claimed=["success"], verified="contradicted"),
        "fail",
        2,
    ),
    (that.claim_verified(), ended(0, claimed=["success"], verified="unverified"), "skip", None),
    (that.claim_verified(), ended(0), "skip", None),
    (that.eventually(Where(kind="human_input")), ORDERLY, "pass", None),
    (that.eventually(Where(name="notify")), ORDERLY, "fail", 5),
    (that.never(Where(kind="error")), ORDERLY, "pass", None),
    (that.never(Where(status="ok")), ORDERLY, "fail", 1),
    (that.until(Where(name="read_order"), Where(kind="human_input")), ORDERLY, "pass", None),
    (that.until(Where(kind="tool_call"), Where(kind="human_input")), ORDERLY, "fail", 1),
    (that.until(Where(), Where(name="notify")), ORDERLY, "fail", 5),
    (that.within(that.never_calls("refund"), to_seq=3), ORDERLY, "pass", None),
    (that.within(that.never_calls("refund"), from_seq=3), ORDERLY, "fail", 3),
    (
        that.within(that.never_calls("refund"), before=Where(kind="human_input")),
        ORDERLY,
        "pass",
        None,
    ),
    (
        that.within(that.never_calls("refund"), after=Where(kind="human_input")),
        ORDERLY,
        "fail",
        3,
    ),
    (that.within(that.never_calls("x"), after=Where(name="never")), ORDERLY, "skip", None),
    (
        that.within(that.never_calls("read_order"), after=Where(name="read_order")),
        ORDERLY,
        "pass",
        None,
    ),
    (that.within(that.never_calls("x"), from_seq=99), ORDERLY, "skip", None),
    (that.per_agent(that.max_repeats(6)), LOOP, "pass", None),
    (
        that.per_agent(that.max_repeats(1)),
        taped(call("x", agent="a"), call("x", agent="b"), end()),
        "pass",
        None,
    ),
    (
        that.per_agent(that.max_repeats(1)),
        taped(call("x", agent="a"), call("x", agent="b"), call("x", agent="b"), end()),
        "fail",
        2,
    ),
    (that.per_agent(that.max_repeats(1)), taped(end()), "skip", None),
    (that.implies(that.eventually(ANY), that.never_calls("x")), ORDERLY, "pass", None),
]


@pytest.mark.parametrize(
    ("one", "tape", "status", "seq"), CASES, ids=[f"{type(c[0]).__name__}-{c[2]}" for c in CASES]
)
def test_an_assertion_holds_or_names_the_first_event_that_offends(one, tape, status, seq):
    assert tape.examination.holds
    found = judge(one, tape)
    assert (found.status, found.seq) == (status, seq), found
    assert (found.code != "") == (status in ("skip", "error"))


def test_an_approval_is_used_once_and_in_time_and_a_denial_is_none():
    one = that.requires_before("pay", approval=True)
    twice = taped(approval("pay"), call("pay"), call("pay"), end())
    assert judge(one, twice).seq == 2
    both = taped(approval("pay"), approval("pay"), call("pay"), call("pay"), end())
    assert judge(one, both).status == "pass"
    assert judge(one, taped(approval("pay", "denied"), call("pay"), end())).seq == 1
    assert judge(one, taped(approval("other"), call("pay"), end())).seq == 1
    late = call("pay", start_ns=1_782_907_200 * 10**9 + 60 * 10**9)
    for until, status in (("2026-07-01T12:00:59Z", "fail"), ("2026-07-01T12:01:00Z", "pass")):
        assert judge(one, taped(approval("pay", expires_at=until), late, end())).status == status


def test_a_read_that_failed_is_no_read():
    tape = taped(call("look"), result("look", 0, status="error"), call("pay"), end())
    assert judge(that.requires_before("pay", read="look"), tape).seq == 2


def test_what_may_only_be_off_the_tape_is_no_pass_and_what_is_on_it_stays_a_failure():
    for cut in (
        taped(call("x"), seal=False),
        taped(call("x"), end(), dropped=2),
        taped(call("x"), end(), source="otlp", gaps=("orphans",)),
    ):
        assert judge(that.never_calls("y"), cut).status == "skip"
        assert judge(that.never_calls("x"), cut).status == "fail"
        assert judge(that.eventually(Where(name="x")), cut).status == "pass"
        assert judge(that.eventually(Where(name="y")), cut).status == "skip"
        assert judge(that.max_repeats(1), cut).status == "skip"
    partial = taped(call("x"), call("y"), seal=False)
    assert judge(that.within(that.never_calls("y"), to_seq=1), partial).status == "pass"
    assert judge(that.call_order("x", "y"), partial).status == "pass"
    assert judge(that.terminates_within(2), partial).seq == 1
    assert judge(that.terminates_within(3), partial).status == "skip"
    assert judge(that.call_order("x", "y"), taped(call("x"), call("y"), end(), dropped=1)).code == (
        "dropped"
    )


def test_a_tape_that_does_not_hold_or_is_tainted_proves_nothing():
    tainted = taped(call("x"), end(), taint=("live",))
    assert judge(that.never_calls("x"), tainted).code == "tainted"
    broken = structs.replace(LOOP, examination=structs.replace(LOOP.examination, faults=_faults()))
    assert judge(that.never_calls("shell"), broken).status == "error"
    assert judge(that.never_calls("none"), broken).code == "evidence"


def _faults():
    from sidecar.tape.faults import Fault

    return (Fault(code="chain", detail="the chain is another"),)


def test_without_content_what_needs_it_is_skipped_and_the_rest_is_judged():
    bare = taped(*REFUND, end(output="x", claimed=["success"]), contents=False)
    for one in (
        that.output_schema({}),
        that.claim_verified(),
        that.never_calls("refund", arguments={"amount": 5}),
        that.requires_before("refund", approval=True),
    ):
        assert judge(one, bare).code == "content"
    assert judge(that.never_calls("refund"), bare).seq == 3
    assert judge(that.max_repeats(0, same="arguments"), bare).seq == 0


def test_what_an_agents_own_process_says_is_verified_lowers_and_never_raises():
    sdk = {"source": "sdk"}
    good = taped(end(claimed=["success"], verified="verified_success"), **sdk)
    bad = taped(end(claimed=["success"], verified="verified_failure"), **sdk)
    assert judge(that.claim_verified(), good).code == "not_independent"
    assert judge(that.claim_verified(), bad).status == "fail"


def test_a_state_that_does_not_follow_from_the_tape_is_an_error():
    add = [{"op": "add", "path": "/n", "value": 1}]
    other = taped(patch(add, {}, {"n": 2}), end(), keep=[{}])
    gap = taped(patch(add, {}, {"n": 1}), patch(add, {"n": 9}, {"n": 1}), end(), keep=[{}])
    unfit = taped(patch([{"op": "remove", "path": "/x"}], {}, {}), end(), keep=[{}])
    one = that.state_invariant("size(state) >= 0")
    assert [judge(one, tape).status for tape in (other, gap, unfit)] == ["error"] * 3
    assert [judge(one, tape).seq for tape in (other, gap, unfit)] == [0, 1, 0]
    unknown = taped(patch(add, {}, {"n": 1}), end())
    assert judge(one, unknown).code == "state"
    assert judge(that.state_invariant("size(state) >= 0", start={}), unknown).status == "pass"
    other_start = that.state_invariant("size(state) >= 0", start={"x": 1})
    assert judge(other_start, unknown).status == "error"
    whole = taped(patch([{"op": "add", "path": "", "value": {"n": 1}}], None, {"n": 1}), end())
    assert judge(that.state_invariant("state.n == 1"), whole).status == "pass"


def test_patches_that_double_a_state_are_stopped():
    doubling = [{"op": "add", "path": "/a", "value": [0] * 64}]
    doubling += [{"op": "copy", "from": "/a", "path": "/a/-"}] * 40
    found = judge(that.state_invariant("true"), taped(patch(doubling, {}, {}), end(), keep=[{}]))
    assert found.status == "error" and "more than" in found.detail


def test_wrong_values_are_refused_before_any_tape_is_read():
    for make in (
        lambda: that.max_repeats(-1),
        lambda: that.never_calls(),
        lambda: that.terminates_within(0),
        lambda: that.budget_within(),
        lambda: that.call_order("x"),
        lambda: that.output_schema({"type": "nothing"}),
        lambda: that.output_schema({"$ref": "https://127.0.0.1:1/schema"}),
        lambda: that.state_invariant("state."),
        lambda: that.state_invariant("other > 1"),
        lambda: that.requires_before("x"),
        lambda: that.requires_before("x", read="y", approval=True),
        lambda: that.all_of(),
        lambda: that.not_(that.severity("warning", that.claim_verified())),
        lambda: that.per_agent(that.terminates_within(3)),
        lambda: that.quarantine("tomorrow", "me", that.claim_verified()),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            make()


def test_a_schema_reads_no_file(tmp_path):
    (tmp_path / "schema.json").write_text("{}")
    with pytest.raises(ValueError, match="schema"):
        that.output_schema({"$ref": (tmp_path / "schema.json").as_uri()})


def test_what_is_told_stays_small_however_long_the_tape_is():
    calls = [call("x", agent=f"a{n}") for n in range(300)]
    found = judge(that.per_agent(that.max_repeats(1)), taped(*calls, end()))
    assert found.status == "pass" and len(found.detail) < 100
    assert len(found.evidence) == 100 and found.evidence[-1] == 299
    assert judge(that.not_(that.max_repeats(300)), taped(*calls, end())).seq == 299


def concluded(*assertions, tape=LOOP, strict=False, now_ns=0):
    named = [Named(id=str(n), assertion=one) for n, one in enumerate(assertions)]
    return conclude(asserted(named, tape, now_ns), strict=strict)


def test_error_skip_failure_and_pass_are_told_apart_in_what_they_come_to():
    good, bad = that.max_repeats(6), that.max_repeats(1)
    skip, error = that.claim_verified(), that.state_invariant("state.missing")
    assert concluded(good) == "pass"
    assert concluded(good, bad) == "fail"
    assert concluded(good, skip) == "pass"
    assert concluded(good, skip, strict=True) == "fail"
    assert concluded(skip) == "undecided"
    assert concluded(skip, strict=True) == "fail"
    assert concluded(error, tape=SPENDING) == "undecided"
    assert concluded(that.max_repeats(0), error, tape=SPENDING) == "undecided"
    assert concluded(that.never_calls("x"), tape=taped(call("x"), seal=False)) == "fail"
    found = that.eventually(Where(name="x"))
    assert concluded(found, tape=taped(call("x"), seal=False)) == "pass"
    assert concluded(found, that.never_calls("y"), tape=taped(call("x"), seal=False)) == "undecided"


def test_a_warning_and_a_quarantine_decide_nothing_until_it_ends():
    good, bad = that.max_repeats(6), that.max_repeats(1)
    until = "2026-07-01T12:00:00Z"
    held = that.quarantine(until, "team-a", bad)
    moment = 1_782_907_200 * 10**9
    assert concluded(good, that.severity("warning", bad)) == "pass"
    assert concluded(good, that.severity("error", bad)) == "fail"
    assert concluded(that.severity("warning", bad)) == "undecided"
    assert concluded(good, held, now_ns=moment - 1) == "pass"
    assert concluded(good, held, now_ns=moment) == "fail"
    assert concluded(held, now_ns=moment - 1) == "undecided"
