"""Findings: what one assertion came to on one tape, and what several come to together.

**Rules**
1. Four statuses that never turn into one another: ``pass``, ``fail``, ``skip`` (it could not be
   asked here), ``error`` (it could be asked and could not be answered).
2. A failure names its first offending event.
3. What is not known decides nothing: a conjunction fails by a failure alone, a disjunction passes
   by a pass alone, and otherwise ``error`` counts before ``skip``.
"""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct, structs

from processors.model.verdict import ScoreStatus

Code = Literal[
    "",
    "partial",
    "dropped",
    "gaps",
    "tainted",
    "fidelity",
    "content",
    "usage",
    "times",
    "state",
    "agents",
    "slice",
    "claim",
    "unverified",
    "not_independent",
    "evidence",
    "expression",
    "payload",
    "limit",
    "crashed",
]

EVIDENCE_MAX: Final = 100


class Finding(Struct, frozen=True, kw_only=True):
    """``detail`` is a sentence of ours; ``code`` says why it is a skip or an error.

    ``seq``: the first offending event. ``evidence``: seqs of the events it rests on.
    """

    status: ScoreStatus
    detail: str
    code: Code = ""
    seq: int | None = None
    evidence: tuple[int, ...] = ()


def held(detail: str, *evidence: int) -> Finding:
    """It holds."""
    return Finding(status="pass", detail=detail, evidence=_few(evidence))


def broken(detail: str, seq: int, *evidence: int) -> Finding:
    """It does not hold, first at ``seq``."""
    return Finding(status="fail", detail=detail, seq=seq, evidence=_few(evidence) or (seq,))


def unasked(code: Code, detail: str) -> Finding:
    """It could not be asked: never a pass."""
    return Finding(status="skip", code=code, detail=detail)


def unanswered(code: Code, detail: str, seq: int | None = None) -> Finding:
    """It could be asked, and its answer is not known: neither a pass nor a failure."""
    return Finding(status="error", code=code, detail=detail, seq=seq)


def every(findings: Sequence[Finding]) -> Finding:
    """The conjunction; of several failures that which comes first on the tape."""
    for status in ("fail", "error", "skip"):
        found = [one for one in findings if one.status == status]
        if found:
            return min(found, key=_place)
    return held(f"all {len(findings)} hold", *_evidence(findings))


def some(findings: Sequence[Finding]) -> Finding:
    """The disjunction; where none holds, it is broken where the last way was closed."""
    for status in ("pass", "error", "skip"):
        found = [one for one in findings if one.status == status]
        if found:
            return found[0] if status == "pass" else min(found, key=_place)
    details = "none holds: " + "; ".join(one.detail for one in findings)
    return broken(details, max(one.seq or 0 for one in findings), *_evidence(findings))


def opposite(finding: Finding, last_seq: int) -> Finding:
    """The negation; what held and should not is broken at the last event it rests on."""
    if finding.status == "fail":
        return structs.replace(
            finding, status="pass", detail=f"as it should not: {finding.detail}", seq=None
        )
    if finding.status == "pass":
        seq = max(finding.evidence, default=last_seq)
        return broken(f"it should not: {finding.detail}", seq, *finding.evidence)
    return finding


def _few(seqs: tuple[int, ...]) -> tuple[int, ...]:
    """The first seqs and the last: a tape may hold a million."""
    known = sorted(set(seqs))
    return tuple(known if len(known) <= EVIDENCE_MAX else [*known[: EVIDENCE_MAX - 1], known[-1]])


def _place(finding: Finding) -> tuple[bool, int]:
    return finding.seq is None, finding.seq or 0


def _evidence(findings: Sequence[Finding]) -> tuple[int, ...]:
    return tuple(sorted({seq for one in findings for seq in one.evidence}))
