"""Tapes that were to be recorded anew by now: told, or refused where only fresh ones count."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sidecar.cli.options import talk
from sidecar.errors import ExitCode, SidecarError
from sidecar.plain import plain
from sidecar.tape.tape import Tape

F = Callable[..., Any]


def expiring(function: F) -> F:
    """Add a ``fresh`` parameter: only tapes that have not expired count."""
    return click.option(
        "--fail-if-expired",
        "fresh",
        is_flag=True,
        help="A tape past its expires_at decides nothing: exit 2.",
    )(function)


def check_expiry(tape: Tape, path: Path, now_ns: int, *, fresh: bool) -> None:
    """Say on stderr that a tape has expired. Raises SidecarError (undecided) where only fresh ones
    count."""
    if not tape.header.has_expired(now_ns):
        return
    what = f"the tape has expired: it was to be recorded anew by {tape.header.expires_at}"
    if fresh:
        do = "Record it again, or leave out --fail-if-expired."
        raise SidecarError(what, where=str(path), do=do, code=ExitCode.UNDECIDED)
    talk(f"{plain(str(path))}: {what}")
