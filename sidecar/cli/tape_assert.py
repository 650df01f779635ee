"""Assertions on tapes, as ``sidecar tape assert`` tells them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sidecar.errors import ExitCode, SidecarError
from sidecar.evaluate.assertions.conclude import EXIT, as_json, asserted, conclude
from sidecar.evaluate.assertions.parse import Named, assertions_of
from sidecar.plain import plain
from sidecar.tape.files import read_tape

_WEIGHT = {"pass": "PASS", "fail": "FAIL", "skip": "SKIP", "error": "ERROR"}


def read_assertions(path: Path) -> tuple[Named, ...]:
    """The assertions of a file. Raises SidecarError."""
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        raise SidecarError("the assertions are no UTF-8", where=str(path)) from None
    except OSError as error:
        raise SidecarError(
            f"the assertions cannot be read: {error.strerror}", where=str(path)
        ) from None
    return assertions_of(text, name=str(path))


def judged(path: Path, named: Sequence[Named], now_ns: int, *, strict: bool) -> dict[str, Any]:
    """One tape in JSON. A tape that is none is told, with the exit code of its refusal."""
    try:
        tape = read_tape(path)
    except SidecarError as error:
        return {
            "tape": str(path),
            "state": "unreadable",
            "outcome": "undecided",
            "exit_code": int(error.code),
            "error": error.text(),
            "assertions": [],
        }
    found = asserted(named, tape, now_ns)
    outcome = conclude(found, strict=strict)
    computed = tape.examination.computed
    return {
        "tape": str(path),
        "state": tape.examination.state,
        "fidelity": tape.header.fidelity,
        "exact_digest": computed.exact_digest,
        "behavior_digest": computed.behavior_digest,
        "outcome": outcome,
        "exit_code": int(EXIT[outcome]),
        "assertions": [*map(as_json, found)],
    }


def concluded(told: Sequence[dict[str, Any]], *, strict: bool) -> dict[str, Any]:
    """All tapes in JSON; the greatest exit code is that of all."""
    code = max((one["exit_code"] for one in told), default=int(ExitCode.UNDECIDED))
    outcome = {0: "pass", 1: "fail"}.get(code, "undecided")
    return {
        "outcome": outcome,
        "profile": "ci",
        "exit_code": code,
        "strict": strict,
        "tapes": [*told],
    }


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
