"""What the findings on one tape come to, and what is told of them.

Rules
1. A failure counts unless it is a warning, or in quarantine now.
2. Nothing passes on nothing: where no finding that counts is a pass or a failure, it is undecided.
3. Evidence that does not hold (an error; a tape that is partial, tainted or lossy) is undecided,
   whatever else was found; ``strict`` makes every other skip a failure.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from sidecar import outcome
from sidecar.evaluate.assertions.finding import Finding
from sidecar.evaluate.assertions.judge import judge
from sidecar.evaluate.assertions.parse import Named
from sidecar.evaluate.assertions.specs import SPEC_OF, Assertion, Quarantine, Severity
from sidecar.tape.moment import nanoseconds
from sidecar.tape.tape import Tape

Outcome = Literal["pass", "fail", "undecided"]
VERSION: Final = "1"
ENDS: Final[dict[Outcome, outcome.Outcome]] = {
    "pass": outcome.Outcome.OK,
    "fail": outcome.Outcome.FAILED,
    "undecided": outcome.Outcome.UNDECIDED,
}
_WORDS: Final = {end: word for word, end in ENDS.items()}
_NO_EVIDENCE: Final = ("partial", "dropped", "gaps", "tainted")


class Asserted(Struct, frozen=True, kw_only=True):
    """One assertion's finding and its weight; ``determinism`` D: equal tapes, equal findings."""

    id: str
    spec: str
    finding: Finding
    severity: Literal["error", "warning"] = "error"
    quarantined: bool = False
    owner: str = ""
    until: str = ""
    determinism: Literal["D"] = "D"
    version: str = VERSION

    @property
    def counts(self) -> bool:
        """Whether it may decide anything."""
        return self.severity == "error" and not self.quarantined


def asserted(named: Sequence[Named], tape: Tape, now_ns: int) -> tuple[Asserted, ...]:
    """Every assertion on a tape, in their order."""
    return tuple(_asserted(one, tape, now_ns) for one in named)


def conclude(found: Sequence[Asserted], *, strict: bool = False) -> Outcome:
    """What they come to: undecided before fail before pass."""
    counted = [one.finding for one in found if one.counts]
    if any(one.status == "error" or one.code in _NO_EVIDENCE for one in counted):
        return "undecided"
    if any(one.status == "fail" or (strict and one.status == "skip") for one in counted):
        return "fail"
    return "pass" if any(one.status == "pass" for one in counted) else "undecided"


def word_of(end: outcome.Outcome) -> Outcome:
    """The word for what judging came to; whatever else kept it from being judged is undecided."""
    return _WORDS.get(end, "undecided")


def as_json(one: Asserted) -> dict[str, Any]:
    """One assertion in JSON; the keys are fixed (docs/specs/tape-assertions.md)."""
    told: dict[str, Any] = msgspec.to_builtins(one)
    finding = told.pop("finding")
    return {**told, **finding}


def _asserted(named: Named, tape: Tape, now_ns: int) -> Asserted:
    one: Assertion = named.assertion
    severity: Literal["error", "warning"] = "error"
    quarantine: Quarantine | None = None
    while isinstance(one, Severity | Quarantine):
        if isinstance(one, Severity):
            severity = "warning" if "warning" in (severity, one.level) else "error"
        else:
            quarantine = one
        one = one.that
    return Asserted(
        id=named.id,
        spec=SPEC_OF[type(one)],
        finding=judge(one, tape),
        severity=severity,
        quarantined=quarantine is not None and now_ns < nanoseconds(quarantine.until),
        owner=quarantine.owner if quarantine is not None else "",
        until=quarantine.until if quarantine is not None else "",
    )
