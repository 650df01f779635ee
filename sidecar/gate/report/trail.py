"""The events around a finding, each as a line."""

import json
from typing import Any, Final

from sidecar.gate.report.model import Run, Step
from sidecar.tape.model import Event
from sidecar.tape.tape import Tape

BEFORE: Final = 20
AFTER: Final = 5
_PREVIEW: Final = 80


def steps_at(tape: Tape, seq: int | None) -> tuple[Step, ...]:
    """The events from a little before ``seq`` to a little after; none where there is no seq."""
    if seq is None:
        return ()
    near = tape.events[max(seq - BEFORE, 0) : seq + AFTER + 1]
    return tuple(Step(seq=one.seq, text=event_line(one)) for one in near)


def event_at(tape: Tape, seq: int | None) -> Event | None:
    """The event of a seq; None where there is none."""
    return tape.events[seq] if seq is not None and 0 <= seq < len(tape.events) else None


def run_of(name: str, tape: Tape, role: str = "tape") -> Run:
    """A tape as a report names it."""
    computed = tape.examination.computed
    return Run(
        name=name,
        role=role,
        tape_id=tape.header.tape_id,
        state=tape.examination.state,
        fidelity=tape.header.fidelity,
        events=len(tape.events),
        exact_digest=computed.exact_digest,
        behavior_digest=computed.behavior_digest,
    )


def event_line(event: Event) -> str:
    """``12 tool_call shell ok {"n": 1}``."""
    said = event.inl.get("in", event.inl.get("out"))
    shown = "" if said is None else f" {preview(said)}"
    status = "" if event.st == "unset" else f" {event.st}"
    return f"{event.seq} {event.kind} {event.name or event.site}{status}{shown}"


def preview(value: Any) -> str:
    """A value in one short line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _PREVIEW else text[: _PREVIEW - 1] + "…"
