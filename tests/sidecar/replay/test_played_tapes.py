"""Recorded behaviour as an agent: its calls made anew on the twins, or judged as it stands."""

import sys

import pytest
from recordings_rig import tape

from sidecar.app.played import with_tapes
from sidecar.errors import SidecarError
from sidecar.gate.conclude import conclude
from sidecar.replay.planning import CapturedPlan
from sidecar.replay.reference import read_reference

pytestmark = pytest.mark.requirement("REP-01")

REFUND = """
- id: refund
  input: {order: A-1}
  expect:
    - {type: toolCalled, tool: issue_refund, times: 1}
    - {type: order, tools: [get_order, issue_refund]}
    - {type: approvalRequired, tool: issue_refund}
    - {type: state, entity: orders, key: A-1, equals: {refunded: 49}}
    - {type: outcomeVerified}
    - {type: finalOutcome, claim: success}
"""
READ = ("get_order", {"order_id": "A-1"}, {"id": "A-1", "total": 49, "refunded": 0})
PAID = ("issue_refund", {"order_id": "A-1", "amount": 49}, {"refund_id": "RF-91"})
SAID = "I have issued the refund for order A-1."


@pytest.fixture
def played(replayed):
    """Plans with a tape on a side, and what became of them."""

    def plan(baseline, candidate="plain", scenarios=REFUND, **how):
        sides = [
            read_reference(f"tape:{side}", option="--x", python=sys.executable)
            if not isinstance(side, str)
            else side
            for side in (baseline, candidate)
        ]
        made = replayed.plan(replayed.suite(scenarios, **how), *sides)
        return with_tapes(CapturedPlan(plan=made, notes=()))

    return plan


def first(result, side):
    return next(one for one in result.runs if one.side == side)


def test_a_recorded_baseline_is_played_on_the_twins_and_judged_as_any_run(replayed, played):
    path = tape(replayed.folder / "tapes" / "refund.tape", READ, PAID, said=SAID)
    made = played(path.parent, deterministic=True)
    assert made.notes == ()
    result = replayed.play(made.plan)
    run = first(result, "baseline")
    assert (run.agent.ending, run.conclusion) == ("recorded", "passed"), run.scores
    assert run.trace.outcome.status == "verified_success"
    assert "approval_required" in {one.code for one in run.receipts}
    assert run.agent.stderr_tail == ""  # RF-1 stands for the recorded RF-91
    assert sum(one.side == "baseline" for one in result.runs) == 1
    verdict = conclude(result, verdict_id="v", now_ns=1)
    assert (verdict.status, verdict.counts["unchanged"]) == ("PASS", 1), verdict.findings


def test_a_recorded_candidate_is_held_to_the_same_and_never_believed_twice(replayed, played):
    path = tape(replayed.folder / "blind.tape", PAID, said=SAID)
    made = played("plain", path, deterministic=True)
    assert made.notes == ("a recording cannot be run twice: the suite is judged as sampled",)
    result = replayed.play(made.plan)
    run = first(result, "candidate")
    assert run.conclusion == "failed"
    assert [one.expectation for one in run.scores if one.status == "fail"] == ["order"]
    verdict = conclude(result, verdict_id="v", now_ns=1)
    assert verdict.status is None  # one failure of a critical case in one run: too few to tell


def test_an_answer_that_is_not_the_recorded_one_is_told_with_its_place(replayed, played):
    other = ("get_order", {"order_id": "A-1"}, {"id": "A-1", "total": 50, "refunded": 0})
    path = tape(replayed.folder / "refund.tape", other, PAID, said=SAID)
    run = first(replayed.play(played(path).plan), "baseline")
    assert "call 1, get_order: the answer is not the recorded one, first at /total" in (
        run.agent.stderr_tail
    )


def test_a_tape_without_content_is_judged_as_it_stands_and_the_rest_is_skipped(replayed, played):
    path = tape(replayed.folder / "refund.tape", READ, PAID, said=SAID, capture="off")
    made = played(path)
    assert "it is judged as it stands" in made.notes[0]
    (run,) = made.plan.recorded
    status = {one.expectation: one.status for one in run.scores}
    assert status["toolCalled:issue_refund"] == status["order"] == "pass"
    assert status["state:orders"] == status["approvalRequired:issue_refund"] == "skip"


def test_each_scenario_has_its_own_tape_and_what_has_none_decides_nothing(replayed, played):
    folder = replayed.folder / "tapes"
    tape(folder / "refund.tape", READ, PAID, said=SAID)
    two = REFUND + "- {id: other, input: {order: A-1}, expect: [{type: stateUnchanged}]}\n"
    made = played(folder, scenarios=two)
    assert "has no tape of other: that decides nothing" in made.notes[0]
    assert set(made.plan.baseline.tapes) == {"refund"}
    with pytest.raises(SidecarError, match="no tape is of a scenario"):
        played(tape(replayed.folder / "strange.tape", READ), scenarios=two)


def test_tapes_that_prove_nothing_or_lie_elsewhere_are_refused(replayed, played):
    folder = replayed.folder / "tapes"
    path = tape(folder / "refund.tape", READ)
    path.rename(replayed.folder / "outside.tape")
    path.symlink_to(replayed.folder / "outside.tape")
    with pytest.raises(SidecarError, match="leads out of the folder"):
        played(folder)
    with pytest.raises(SidecarError, match="no such tape"):
        played(folder / "absent.tape")
    broken = tape(folder / "broken.tape", READ)
    broken.write_bytes(broken.read_bytes()[:-30])
    with pytest.raises(SidecarError, match="partial"):
        played(broken)
