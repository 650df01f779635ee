"""A replay of a tape as a report: its status by outcome, and where the run left its tape."""

import pytest
from report_rig import diff_report, tape

from sidecar.gate.report.render import render
from sidecar.gate.report.replayed import replayed_report
from sidecar.outcome import Exits, Outcome

pytestmark = pytest.mark.requirement("RPT-01")

DRIFT = {
    "kind": "ARGS", "seq": 6, "reason": "another input", "event_kind": "tool_call", "name": "pay",
    "agent": "a",
    "candidates": [
        {"seq": 6, "why": "here", "name": "pay", "used": False, "places": ["/amount"]},
        {"seq": 4, "why": "alike", "name": "pay", "used": True, "places": None},
    ],
}  # fmt: skip


def value(outcome=Outcome.OK, word="ok", **more):
    return {
        **Exits().told(outcome, word), "mode": "strict", "tape": "a.tape", "taint": [],
        "target_signal": None, "events": 13, **more,
    }  # fmt: skip


def test_a_drift_is_a_failure_at_its_event_with_what_is_nearest(tmp_path):
    told = value(Outcome.DIVERGED, "diverged", drift=DRIFT)
    made = replayed_report(told, tape(tmp_path / "a.tape"))
    (case,) = made.cases
    assert (case.status, case.rule, case.seq, case.drift) == ("fail", "replay/args", 6, ("ARGS",))
    assert "nearest: seq 6 pay (here, differs at /amount); seq 4 pay (alike, used" in case.detail
    assert (made.outcome, made.exit_code, made.drifts) == ("diverged", 2, {"ARGS": 1})
    assert case.signature and case.steps
    assert "replay/args" in render(made, "junit") and "replay/args" in render(made, "sarif")


@pytest.mark.parametrize(
    ("outcome", "word", "status"),
    [
        (Outcome.OK, "ok", "pass"),
        (Outcome.OK, "shown", "pass"),
        (Outcome.DIVERGED, "miss", "fail"),
        (Outcome.TARGET_CRASH, "target_crash", "fail"),
        (Outcome.UNDECIDED, "incomparable", "error"),
        (Outcome.INTERNAL, "timeout", "error"),
        (Outcome.INTERNAL, "internal", "error"),
    ],
)
def test_every_word_has_a_status_and_what_is_no_answer_is_an_error(tmp_path, outcome, word, status):
    drift = DRIFT if word in ("miss", "incomparable", "shown") else None
    made = replayed_report(value(outcome, word, drift=drift), tape(tmp_path / "a.tape"))
    assert [one.status for one in made.cases] == [status]
    assert bool(made.cases[0].drift) == (word == "miss")


def test_a_new_tape_stands_beside_the_old_one(tmp_path):
    one, two, found, _ = diff_report(tmp_path)
    made = replayed_report(value(word="shown", to="b.tape"), one, new=two, found=found)
    assert [run.role for run in made.runs] == ["recorded", "replayed"]
    assert made.first_divergence.seq_r == 6 and made.cases[0].status == "pass"
