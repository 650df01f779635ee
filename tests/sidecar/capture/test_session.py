"""A session records what seams tell it, and answers them from a tape."""

import itertools

import pytest
from capture_rig import Echo, recorded, replayed, tick

from sidecar.capture.play import Drifted, incomparable
from sidecar.capture.record import redactor_of
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.files import examine, read_tape

pytestmark = pytest.mark.requirement("TAP-02")


def agent_of(echo, asked=("a", "b"), ticks=2):
    clock = itertools.count(100)

    def agent():
        for one in asked:
            echo(one)
        for _ in range(ticks):
            tick(lambda: next(clock))
        echo("hello", kind="llm_call", seam="provider")

    return agent


def test_a_recording_is_a_tape_that_holds(tmp_path):
    tape = recorded(tmp_path / "a.tape", agent_of(Echo()))
    assert examine(tmp_path / "a.tape").holds
    assert [(one.kind, one.seam, one.st) for one in tape.events] == [
        ("decision", None, "ok"),
        *[("tool_call", "tool", "unset"), ("tool_result", "tool", "ok")] * 2,
        *[("decision", "clock", "ok")] * 2,
        ("llm_call", "provider", "ok"),
        ("terminal", None, "ok"),
    ]
    assert [one.cause for one in tape.events] == [(), *((seq,) for seq in range(7)), ()]


def test_a_strict_replay_answers_from_the_tape_and_touches_nothing(tmp_path):
    tape = recorded(tmp_path / "a.tape", agent_of(Echo()))
    echo = Echo()
    session = replayed(tape, agent_of(echo))
    assert session.drift is None
    assert echo.calls == 0
    assert session.tally.digest() == tape.seal.exact_digest


def test_what_failed_fails_again_with_its_class_and_text(tmp_path):
    said = []

    def agent_with(echo):
        def agent():
            try:
                echo("bad")
            except LookupError as error:
                said.append(str(error))

        return agent

    tape = recorded(tmp_path / "a.tape", agent_with(Echo()))
    assert replayed(tape, agent_with(Echo())).drift is None
    assert said == ["no such thing"] * 2


@pytest.mark.parametrize(
    ("change", "kind", "seq"),
    [
        ({"asked": ("a", "x")}, "ARGS", 3),
        ({"asked": ("a", "b", "c")}, "EXTRA_CALL", 5),
        ({"ticks": 1}, "MISSING_CALL", 6),
        ({"asked": ("a",)}, "MISSING_CALL", 3),
    ],
)
@pytest.mark.requirement("REP-02")
def test_an_agent_that_asks_something_else_drifts_there(tmp_path, change, kind, seq):
    tape = recorded(tmp_path / "a.tape", agent_of(Echo()))
    echo = Echo()
    drift = replayed(tape, agent_of(echo, **change)).drift
    assert (drift.kind, drift.seq) == (kind, seq)
    assert echo.calls == 0


def test_a_drift_that_was_swallowed_is_met_again(tmp_path):
    tape = recorded(tmp_path / "a.tape", agent_of(Echo()))
    echo, met = Echo(), []

    def agent():
        for one in ("x", "a", "b"):
            try:
                echo(one)
            except Exception:
                met.append("swallowed")
            except Drifted as error:
                met.append(error.drift.seq)

    session = replayed(tape, agent)
    assert met == [1, 1, 1]
    assert (session.drift.kind, echo.calls) == ("ARGS", 0)


def test_without_content_there_is_a_tape_but_no_replay(tmp_path):
    recorded(tmp_path / "a.tape", agent_of(Echo()), capture="off")
    tape = read_tape(tmp_path / "a.tape")
    assert tape.header.fidelity == "L1"
    drift = incomparable(tape, redactor_of("off"), Codecs(DEFAULT))
    assert drift.kind == "INCOMPARABLE"
    assert drift.reason.startswith("PARTIAL")


def test_inner_seams_are_mute_while_a_seam_is_at_work(tmp_path):
    inner = Echo()

    class Outer(Echo):
        def real(self, given):
            inner("inner")
            return super().real(given)

    tape = recorded(tmp_path / "a.tape", lambda: Outer()("outer"))
    assert [one.kind for one in tape.events] == [
        *("decision", "tool_call", "tool_result", "terminal")
    ]
    assert inner.calls == 1
