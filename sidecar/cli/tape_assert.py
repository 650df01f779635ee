"""Assertions on tapes, as ``sidecar tape assert`` tells them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sidecar.cli.tape_expiry import check_expiry
from sidecar.errors import SidecarError
from sidecar.evaluate.assertions.conclude import ENDS, as_json, asserted, conclude, word_of
from sidecar.evaluate.assertions.parse import Named
from sidecar.gate.report.asserted import Judged, asserted_report, settled
from sidecar.gate.report.model import Report
from sidecar.outcome import Exits, Outcome, outcome_of, worst
from sidecar.plain import plain
from sidecar.tape.files import read_tape

_WEIGHT = {"pass": "PASS", "fail": "FAIL", "skip": "SKIP", "error": "ERROR"}


class Told(Struct, frozen=True):
    """One tape in JSON, what it comes to, and as its report needs it."""

    value: dict[str, Any]
    end: Outcome
    judged: Judged

    def settled(self, number: int) -> "Told":
        """The same without the tape; only the viewer shows that."""
        return replace(self, judged=settled(self.judged, number))


def judged(
    path: Path,
    named: Sequence[Named],
    now_ns: int,
    *,
    strict: bool,
    exits: Exits,
    fresh: bool = False,
) -> Told:
    """One tape. A tape that is none is told, with the exit code of its refusal; so is one that has
    expired, where only ``fresh`` ones count."""
    state = "unreadable"
    try:
        tape = read_tape(path)
        state = tape.examination.state
        check_expiry(tape, path, now_ns, fresh=fresh)
    except SidecarError as error:
        end = outcome_of(error.code)
        value = {
            "tape": str(path),
            "state": state,
            "outcome": "undecided",
            "exit_code": exits.code(end),
            "error": error.text(),
            "assertions": [],
        }
        return Told(value, end, Judged(name=str(path), tape=None, error=error.text()))
    found = asserted(named, tape, now_ns)
    outcome = conclude(found, strict=strict)
    computed = tape.examination.computed
    value = {
        "tape": str(path),
        "state": tape.examination.state,
        "fidelity": tape.header.fidelity,
        "exact_digest": computed.exact_digest,
        "behavior_digest": computed.behavior_digest,
        "outcome": outcome,
        "exit_code": exits.code(ENDS[outcome]),
        "assertions": [*map(as_json, found)],
    }
    return Told(value, ENDS[outcome], Judged(name=str(path), tape=tape, asserted=found))


def reported(told: Sequence[Told], value: dict[str, Any], exits: Exits) -> Report:
    """All tapes as a report."""
    return asserted_report(
        [one.judged for one in told],
        outcome=value["outcome"],
        exit_code=value["exit_code"],
        profile=exits.profile,
    )


def concluded(told: Sequence[Told], *, strict: bool, exits: Exits) -> dict[str, Any]:
    """All tapes in JSON; what outweighs the others is the outcome of all."""
    end = worst((one.end for one in told), Outcome.UNDECIDED)
    return {**exits.told(end, word_of(end)), "strict": strict, "tapes": [one.value for one in told]}


def text_of(value: dict[str, Any]) -> str:
    """All tapes as text: a line an assertion."""
    lines = []
    for tape in value["tapes"]:
        lines.append(f"{plain(tape['tape'])}: {tape['outcome']}")
        if "error" in tape:
            lines.append(f"  {plain(tape['error'])}")
        lines += [_line(one) for one in tape["assertions"]]
    return "\n".join(lines)


def _line(one: dict[str, Any]) -> str:
    seq = f"  at {one['seq']}" if one["seq"] is not None else ""
    weight = "  (warning)" if one["severity"] == "warning" else ""
    if one["quarantined"]:
        weight += f"  (quarantined until {plain(one['until'])}, {plain(one['owner'])})"
    code = f" [{one['code']}]" if one["code"] else ""
    status = _WEIGHT[one["status"]]
    return f"  {status:<5} {plain(one['id'])}{seq}  {plain(one['detail'])}{code}{weight}"
