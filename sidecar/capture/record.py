"""What a recording's header says, and under which redaction it is made.

**Rules**
1. Content is kept only where it is asked for: ``off`` keeps digests (L1) and cannot be replayed,
   ``redacted`` hides what the light redactor knows, ``full`` hides nothing and says so.
2. A header is written before the first event: a tape of all seams with content is L3, and what is
   missing by its end shows as a missing seal or in the seal's counters.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from sidecar.capture.plan import Plan
from sidecar.tape.model import AgentBuild, Fidelity, Git, Header, Origin, RedactorId
from sidecar.tape.moment import moment
from sidecar.tape.redaction import Redactor, Redacts
from sidecar.tape.tape import Tape

Capture = Literal["off", "redacted", "full"]
CAPTURES: Final = ("off", "redacted", "full")


class PlainRedactor:
    """Capture ``full``: everything stays, and the tape says so."""

    @property
    def identity(self) -> RedactorId:
        """``none``."""
        return RedactorId(id="none", version="1")

    def value(self, value: Any, seen: set[str] | None = None) -> Any:  # noqa: ARG002
        """The value."""
        return value


def redactor_of(capture: Capture) -> Redacts:
    """How a recording is redacted; without content, digests are of what redaction leaves."""
    return PlainRedactor() if capture == "full" else Redactor()


def redactor_for(said: RedactorId | None) -> Redacts:
    """The redactor a tape says it was made with, or the light one where it is none we know."""
    plain = PlainRedactor()
    return plain if said == plain.identity else Redactor()


class Circumstances(Struct, frozen=True, kw_only=True):
    """What the process knows of itself when a recording begins. ``env`` is a digest."""

    tape_id: str
    now_ns: int
    argv: tuple[str, ...] = ()
    git: Git | None = None
    agent: AgentBuild | None = None
    env: str | None = None
    seed: str | None = None
    tenant: str = "default"
    labels: dict[str, str] = {}
    expires_ns: int | None = None


def header_again(tape: Tape, plan: Plan, found: Circumstances, redactor: Redacts) -> Header:
    """The header of the new tape that a replay of another is."""
    exact = tape.seal.exact_digest if tape.seal is not None else None
    seqs = [plan.fork, *(one.seq for one in plan.patches)]
    first = min((seq for seq in seqs if seq is not None), default=None)
    origin = Origin(tape_id=tape.header.tape_id, exact_digest=exact, seq=first)
    labels = {**tape.header.labels, **found.labels, "replay": plan.mode}
    plain = redactor.identity == PlainRedactor().identity
    made = header_of(
        replace(found, labels=labels),
        "full" if plain else "redacted",
        replayed_from=origin,
        taint=plan.taint,
    )
    return replace(made, anchor=tape.header.anchor or origin)


def header_of(
    found: Circumstances,
    capture: Capture,
    *,
    replayed_from: Origin | None = None,
    taint: Sequence[str] = (),
) -> Header:
    """The header of a recording of all seams."""
    fidelity: Fidelity = "L1" if capture == "off" else "L3"
    return Header(
        tape_id=found.tape_id,
        source="sdk",
        fidelity=fidelity,
        argv=found.argv,
        git=found.git,
        agent=found.agent,
        env=found.env,
        seed=found.seed,
        tenant=found.tenant,
        labels=found.labels,
        replayed_from=replayed_from,
        taint=tuple(taint),
        captured_at=moment(found.now_ns),
        expires_at=None if found.expires_ns is None else moment(found.expires_ns),
    )
