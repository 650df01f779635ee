"""What a failed test says: which assertion, the first event that offends, and what is around it.

**Rules**
1. The first line says it all; the events around it follow, the offending one marked.
2. What could not be asked and what has no answer are told apart from what does not hold.
3. Text of a tape passes ``plain``: a terminal shows it and does nothing else with it.
"""

from collections.abc import Sequence
from typing import Final

from sidecar.capture.play import Drift
from sidecar.evaluate.assertions.conclude import Asserted
from sidecar.gate.report.trail import event_line
from sidecar.plain import plain
from sidecar.tape.tape import Tape

_NEAR: Final = 3
_WORD: Final = {"fail": "does not hold", "skip": "could not be asked", "error": "has no answer"}


def finding_text(one: Asserted, tape: Tape) -> str:
    """One assertion that is no pass, with the events around the one that offends."""
    finding = one.finding
    seq = "" if finding.seq is None else f" at {finding.seq}"
    code = f" [{finding.code}]" if finding.code else ""
    weight = "" if one.counts else " (told, and not counted)"
    head = f"{one.id} {_WORD[finding.status]}{seq}: {finding.detail}{code}{weight}"
    return "\n".join([plain(head), *around(tape, finding.seq)])


def findings_text(name: str, found: Sequence[Asserted], tape: Tape) -> str:
    """All that are no pass, those that decide first."""
    order = {"fail": 0, "error": 1, "skip": 2}
    wanted = [one for one in found if one.finding.status != "pass"]
    wanted.sort(key=lambda one: (not one.counts, order[one.finding.status]))
    passed = len(found) - len(wanted)
    head = f"tape {name}: of {len(found)} assertions {passed} hold"
    return "\n".join([plain(head), *(finding_text(one, tape) for one in wanted)])


def drift_text(name: str, drift: Drift, tape: Tape, again: str = "") -> str:
    """Where a run left its tape. ``again``: how it is recorded anew."""
    asked, event = drift.asked, drift.expected
    one = asked or event
    what = "" if one is None else f" ({one.kind} {one.name}".rstrip() + ")"
    lines = [
        plain(f"tape {name}: {drift.kind} at {drift.seq}{what}: {drift.reason}"),
        *around(tape, drift.seq),
    ]
    if again:
        lines.append(plain(f"where the change is meant, record it again: {again}"))
    return "\n".join(lines)


def around(tape: Tape, seq: int | None) -> list[str]:
    """The events around one, it marked; where it would have stood, behind the last before it."""
    if seq is None:
        return []
    near = tape.events[max(seq - _NEAR, 0) : seq + _NEAR + 1]
    return [f"  {'>' if one.seq == seq else ' '} {plain(event_line(one))}" for one in near]
