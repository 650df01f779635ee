"""Tapes as text: one line a tape, one line an event."""

import json
from collections.abc import Sequence
from typing import Any

from sidecar.plain import plain
from sidecar.tape.examine import Examination
from sidecar.tape.model import Event

_PREVIEW = 60


def tape_text(found: Examination, shown: Sequence[Event], left_out: int) -> str:
    """A tape: its head, its events, what is wrong with it."""
    header = found.header
    lines = [
        f"tape {plain(header.tape_id)}  {_state(found)}  {found.events} events  "
        f"fidelity {header.fidelity}  from {header.source}"
    ]
    for name, value in _about(found):
        lines.append(f"  {name}: {plain(value)}")
    lines += map(_event_line, shown)
    if left_out:
        lines.append(f"  … {left_out} more; see --from and --limit")
    lines += [f"  does not hold: {fault}" for fault in _faults(found)]
    return "\n".join(lines)


def verified_text(told: dict[str, Any]) -> str:
    """What ``verify`` says of one tape."""
    name = plain(str(told["tape"]))
    if told["state"] == "unreadable":
        return f"{name} is unreadable: {plain(str(told['error']))}"
    counted = f"{told['events']} events"
    if told["faults"]:
        lines = [f"{name} does not hold ({counted}):"]
        lines += [f"  {plain(_fault(one))}" for one in told["faults"]]
        if told["more_faults"]:
            lines.append(f"  … and {told['more_faults']} more")
        return "\n".join(lines)
    if not told["holds"]:
        return f"{name} is partial: {counted}, no seal; it is no evidence"
    digests = f"exact {told['exact_digest']}, behavior {told['behavior_digest']}"
    note = f"; {told['unchecked']} payloads not looked at again" if told["unchecked"] else ""
    note += "; it has expired" if told["expired"] else ""
    return f"{name} holds: {counted}, {digests}{note}"


def migrated_text(path: str, found: Examination, reasons: Sequence[str]) -> str:
    """What ``migrate`` did."""
    changed = f"changed: {', '.join(reasons)}" if reasons else "nothing but its packaging changed"
    return f"{plain(path)}: {found.events} events, {found.state}; {plain(changed)}"


def imported_text(told: dict[str, Any]) -> str:
    """One tape that was imported."""
    gaps = told["header"].get("gaps", [])
    note = f"  gaps: {', '.join(gaps)}" if gaps else ""
    return plain(f"{told['tape']}  {told['fidelity']}  {told['events']} events{note}")


def _about(found: Examination) -> list[tuple[str, str]]:
    header, seal = found.header, found.seal
    lines = [("captured", header.captured_at)]
    if header.agent is not None:
        lines.append(("agent", f"{header.agent.name or '-'} {header.agent.version or ''}".rstrip()))
    if header.labels:
        lines.append(("labels", ", ".join(f"{k}={v}" for k, v in sorted(header.labels.items()))))
    if header.derived_from is not None:
        lines.append(("derived from", header.derived_from.tape_id))
    if header.gaps:
        lines.append(("gaps", ", ".join(header.gaps)))
    if header.taint:
        lines.append(("tainted", ", ".join(header.taint)))
    if seal is not None:
        counts = seal.counters
        lost = (
            f"dropped {counts.dropped}, truncated {counts.truncated}, late {counts.after_terminal}"
        )
        lines += [("exact", seal.exact_digest), ("behavior", seal.behavior_digest), ("lost", lost)]
    return lines


def _event_line(event: Event) -> str:
    cause = f"  after {','.join(map(str, event.cause))}" if event.cause else ""
    error = f"  {event.err.type}" if event.err is not None else ""
    said = event.inl.get("in", event.inl.get("out"))
    text = "" if said is None else json.dumps(said, ensure_ascii=False)
    preview = text if len(text) <= _PREVIEW else text[: _PREVIEW - 1] + "…"
    name = event.name or event.site
    agent = f"{event.agent}: " if event.agent else ""
    line = (
        f"{event.seq:>6}  {event.kind:<12}{event.seam or '-':<10}{agent}{name}  {event.st}{error}"
    )
    return plain(f"{line}{cause}  {preview}".rstrip())


def _state(found: Examination) -> str:
    return "partial (cut off inside a line)" if found.cut else found.state


def _faults(found: Examination) -> list[str]:
    told = [
        plain(_fault({"code": one.code, "detail": one.detail, "seq": one.seq}))
        for one in found.faults
    ]
    return [*told, f"and {found.more_faults} more"] if found.more_faults else told


def _fault(one: dict[str, Any]) -> str:
    where = f"event {one['seq']}: " if one.get("seq") is not None else ""
    return f"{where}{one['detail']} ({one['code']})"
