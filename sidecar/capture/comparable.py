"""Whether anything may be concluded from replaying a tape, asked before it is played.

**Rules**
1. Other rules than those a tape was made by make it incomparable, never a drift.
2. What is reason enough is a closed set of words; the detail is ours to tell.
3. A fingerprint is compared where both sides have one.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from sidecar.tape.model import Fidelity, Header, RedactorId
from sidecar.tape.tape import Tape

Reason = Literal[
    "SCHEMA",
    "CODEC",
    "REDACTOR",
    "TAINTED",
    "PARTIAL",
    "DIRTY_TREE",
    "BROKEN",
    "PREFIX",
]
_FINGERPRINTS: Final = ("models", "toolset", "prompts", "policy", "env")


class Obstacle(Struct, frozen=True):
    """Why nothing may be concluded."""

    reason: Reason
    detail: str


def obstacles(
    tape: Tape,
    *,
    codecs: Mapping[str, str],
    redactor: RedactorId,
    clean: bool = False,
    least: Fidelity = "L0",
    until: int | None = None,
) -> tuple[Obstacle, ...]:
    """What stands against concluding from a replay under these codecs and this redactor.

    ``clean``: the tape must be of a clean tree, as bisect asks. ``least``: its fidelity at least.
    ``until``: only what stands before that seq is used, and that may be of a partial tape.
    """
    found: list[Obstacle] = []
    used = {event.seam for event in tape.events}
    other = [
        seam
        for seam in sorted(tape.header.codecs.keys() | codecs.keys())
        if seam in used and tape.header.codecs.get(seam) != codecs.get(seam)
    ]
    if other:
        found.append(Obstacle("CODEC", f"other codecs of {', '.join(other)}"))
    if tape.header.redactor != redactor:
        found.append(Obstacle("REDACTOR", "another redactor, version or key"))
    if tape.examination.faults:
        found.append(Obstacle("BROKEN", "it does not hold; see sidecar tape verify"))
    if tape.header.taint:
        found.append(Obstacle("TAINTED", ", ".join(tape.header.taint)))
    if until is None or len(tape.events) < until:
        found += _partial(tape)
    if tape.header.fidelity < least:
        found.append(Obstacle("PARTIAL", f"it is {tape.header.fidelity}, and this needs {least}"))
    if clean and tape.header.git is not None and tape.header.git.dirty:
        found.append(Obstacle("DIRTY_TREE", "it was recorded from a tree with changes"))
    return tuple(found)


def fingerprints(recorded: Header, live: Header) -> tuple[str, ...]:
    """Which of the agent's declared parts are others than recorded (FINGERPRINT drift)."""
    found = [
        name
        for name in _FINGERPRINTS
        if getattr(recorded, name) and getattr(live, name)
        if getattr(recorded, name) != getattr(live, name)
    ]
    manifests = [one.agent.manifest if one.agent is not None else None for one in (recorded, live)]
    if all(manifests) and manifests[0] != manifests[1]:
        found.append("manifest")
    return tuple(found)


def _partial(tape: Tape) -> list[Obstacle]:
    if tape.seal is None:
        return [Obstacle("PARTIAL", "the tape is not sealed")]
    counters = tape.seal.counters
    if counters.dropped or counters.truncated:
        lost = f"{counters.dropped} events and {counters.truncated} payloads were not kept"
        return [Obstacle("PARTIAL", lost)]
    return []
