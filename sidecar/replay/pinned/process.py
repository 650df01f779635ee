"""Runs the candidate against the tapes that a suite pins: each in a strict replay of its own.

Rules
1. The replay is the command's (``sidecar tape replay``) in a process: what it forbids the agent is
   forbidden here, and its words are the result.
2. Only an agent that is a command can follow a tape.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from sidecar.canonical import sha256
from sidecar.replay.pinned.told import TapeReplayed, came_to
from sidecar.replay.reference import AgentRef
from sidecar.twins.pinned import PinnedTape

_GRACE_S: Final = 60.0


def follow(
    tapes: Sequence[PinnedTape],
    folder: Path,
    agent: AgentRef,
    *,
    environment: Mapping[str, str],
    deadline_s: float,
) -> tuple[TapeReplayed, ...]:
    """What the agent's replay of each tape came to; ``folder`` is the suite's."""
    return tuple(_followed(one, folder / one.tape, agent, environment, deadline_s) for one in tapes)


def _followed(
    pinned: PinnedTape,
    path: Path,
    agent: AgentRef,
    environment: Mapping[str, str],
    deadline_s: float,
) -> TapeReplayed:
    if not path.is_file():  # nor is a device or a pipe one
        return _not(pinned, "there is no such file")
    try:
        whole = sha256(path.read_bytes())
    except OSError as error:
        return _not(pinned, f"it cannot be read: {error.strerror}")
    if agent.kind != "cmd":
        return _not(pinned, "only an agent that is a command (cmd:) can follow a tape", whole)
    words = [
        *(sys.executable, "-P", "-m", "sidecar", "tape", "replay", str(path)),
        *("--output", "json", "--fail-if-expired", "--timeout", str(deadline_s)),
        *("--", *agent.argv, *pinned.arguments),
    ]
    try:
        done = subprocess.run(  # noqa: S603 (our own interpreter, no shell)
            words,
            input=msgspec.json.encode(pinned.request()) + b"\n",
            capture_output=True,
            env=dict(environment),
            timeout=deadline_s + _GRACE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _not(pinned, f"it could not be replayed: {type(error).__name__}", whole)
    try:
        told = msgspec.json.decode(done.stdout, type=dict)
    except msgspec.DecodeError:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return _not(pinned, f"it could not be replayed: {last[:300]}", whole)
    return came_to(pinned.tape, whole, told, pinned.drift)


def _not(pinned: PinnedTape, why: str, whole: str = "") -> TapeReplayed:
    return TapeReplayed(tape=pinned.tape, sha256=whole, came_to="unreplayable", detail=why)
