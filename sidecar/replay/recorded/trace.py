"""A tape as the recorded side of a replay: its trace, with what it proves of its calls.

Rules
1. A call counts as made where the tape has its result and that was no refusal: for a recording the
   tape is what a receipt is for a run, and says no more than it.
2. A call that was held, and made once somebody approved it, is one step, as in a trace.
3. A tape that proves nothing (tainted, partial, broken) is refused, with why.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from processors.model.evidence import Evidence
from processors.model.step import Step, StepDecision
from processors.model.trace import AgentTrace
from sidecar.errors import ExitCode, SidecarError
from sidecar.replay.tape_trace import tape_trace
from sidecar.replay.taped import TapedCall, taped_run
from sidecar.tape.model import Event
from sidecar.tape.tape import MISSING, Tape
from sidecar.tape.value import decoded

STATUS = "http.status"
"""The attribute of a step that says what the service answered with."""


def refuse_unproven(tape: Tape, name: str) -> None:
    """Raises SidecarError (exit 2) for a tape that nothing may be concluded from."""
    why = None
    if tape.header.taint:
        why = f"the tape is tainted: {', '.join(tape.header.taint)}"
    elif tape.examination.state != "sealed":
        why = "the tape is partial: it has no seal"
    elif tape.examination.faults:
        why = f"the tape does not hold: {tape.examination.faults[0].detail}"
    if why is not None:
        raise SidecarError(
            why, where=name, do="Record it again; see sidecar tape verify.", code=ExitCode.UNDECIDED
        )


def recorded_trace(tape: Tape, name: str) -> AgentTrace:
    """The trace of a tape under a name of ours, its tool calls with evidence of what they did."""
    trace = tape_trace(tape)
    events = {f"{trace.trace_id}:{event.seq}": event for event in tape.events}
    calls = {one.seq: one for one in taped_run(name, tape).calls}
    by_seq = {event.seq: event for event in tape.events}
    steps, evidence = [], []
    for step in trace.steps:
        event = events[step.step_id]
        if event.kind != "tool_call":
            steps.append(step)
        elif event.seam == "tool":  # what is below a tool's own call (HTTP, files) is the tool's
            call = calls[event.seq]
            steps.append(_step(step, call, _decision(event, by_seq, tape)))
            if call.ended != "kept_out" and step.status != "unset":
                evidence.append(_evidence(step, event, call))
    return replace(
        trace,
        trace_id=name,
        trace_ids=(name,),
        completeness="missing_root" if tape.header.gaps else trace.completeness,
        steps=_joined(steps),
        evidence=tuple(evidence),
    )


def status_of(call: TapedCall) -> int:
    """The HTTP status that a recorded answer stands for."""
    if call.http_status is not None:
        return call.http_status
    return {"ok": 200, "refused": 400}.get(call.ended, 500)


def _step(step: Step, call: TapedCall, decision: StepDecision | None) -> Step:
    tool = step.tool
    return replace(
        step,
        decision=decision,
        tool=replace(tool, result=call.result) if tool is not None else None,
        attributes={STATUS: status_of(call)},
    )


def _evidence(step: Step, event: Event, call: TapedCall) -> Evidence:
    gateway = event.attr.get("gateway") or {}
    data = {
        "phase": "executed",
        "status": status_of(call),
        "action": event.in_,
        "key": gateway.get("key"),
        "arguments": call.arguments,
    }
    return Evidence(
        evidence_id=f"tape:{event.seq}",
        source="receipt",
        name="tape",
        held={"ok": True, "refused": False}.get(call.ended),
        subject=call.tool,
        step_id=step.step_id,
        data={name: value for name, value in data.items() if value is not None},
    )


def _decision(event: Event, by_seq: Mapping[int, Event], tape: Tape) -> StepDecision | None:
    """What policy said of a call: the decision it comes after."""
    for seq in event.cause:
        before = by_seq.get(seq)
        value = tape.payload(before, "out") if before and before.kind == "decision" else MISSING
        said = None if value is MISSING else decoded(value)
        if isinstance(said, dict) and said.get("subtype") == "policy_decision":
            try:
                return msgspec.convert({"effect": said.get("effect")}, StepDecision)
            except msgspec.ValidationError:
                return StepDecision(effect="unknown")
    return None


def _joined(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Without the calls that were held, where the same call was made later on."""
    found: list[Step] = []
    later: dict[str, int] = {}
    for step in reversed(steps):
        key = _asked(step)
        if key is not None and step.status == "deferred" and key in later:
            made = found[later[key]]
            found[later[key]] = replace(made, decision=step.decision or made.decision)
            continue
        if key is not None:
            later[key] = len(found)
        found.append(step)
    return tuple(reversed(found))


def _asked(step: Step) -> str | None:
    if step.kind != "tool_call" or step.tool is None:
        return None
    asked: list[Any] = [step.name, step.tool.arguments]
    return msgspec.json.encode(asked, order="sorted").decode()
