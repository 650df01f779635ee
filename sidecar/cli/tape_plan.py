"""The plan of a replay, from options and a patch file.

Rules
1. A patch file is YAML or JSON: ``patches``, and what may be ``live`` or ``exhausted`` beside.
2. All that is wrong is told at once and before anything runs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from sidecar.capture.plan import Plan, plan_of
from sidecar.errors import SidecarError
from sidecar.tape.tape import Tape

_HELP = "What there is: sidecar tape replay --help, and docs/specs/replay-tape.md."
_BYTES_MAX = 16 * 1024 * 1024


def read_plan(
    *,
    mode: str | None,
    fork: int | None,
    patch: Path | None,
    live: Sequence[str],
    repeat_last: Sequence[str],
) -> Plan:
    """The plan that options and a file ask for. Raises SidecarError."""
    said = _document(patch) if patch is not None else {}
    if not isinstance(said, dict) or not said.keys() <= {
        *("patches", "live", "exhausted", "allow_real")
    }:
        raise SidecarError(
            "a patch file has patches, live and exhausted", where=str(patch), do=_HELP
        )
    guessed = "fork" if fork is not None else "counterfactual" if patch is not None else "strict"
    value: dict[str, Any] = {
        **said,
        "mode": mode or guessed,
        "live": [*_listed(said.get("live")), *live],
        "exhausted": {**(said.get("exhausted") or {}), **dict.fromkeys(repeat_last, "repeat_last")},
    }
    if fork is not None:
        value["fork"] = fork
    try:
        return plan_of(value)
    except ValueError as error:
        raise SidecarError(
            str(error), where="" if patch is None else str(patch), do=_HELP
        ) from None


def check_fits(plan: Plan, tape: Tape, path: Path) -> None:
    """Refuse a plan that is not of a tape. Raises SidecarError."""
    problems = plan.fits(tape)
    if problems:
        raise SidecarError("; ".join(problems), where=str(path), do="See sidecar tape show.")


def _document(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise SidecarError(
            f"the patch file cannot be read: {error.strerror}", where=str(path)
        ) from None
    if len(data) > _BYTES_MAX:
        raise SidecarError("the patch file is too large", where=str(path))
    try:
        if path.suffix in (".yaml", ".yml"):
            return msgspec.yaml.decode(data)
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        # What is wrong would quote the file, and a patch may hold what was recorded.
        raise SidecarError("the patch file is no YAML or JSON", where=str(path)) from None
    except ImportError:
        raise SidecarError(
            "YAML needs the server's extra", where=str(path), do="Write it as JSON."
        ) from None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
