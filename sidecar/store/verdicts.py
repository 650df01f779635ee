"""Gate verdicts as they are kept: written once, found by id, listed newest first."""

import msgspec
from msgspec import Struct

from processors.model.names import VerdictStatus
from processors.model.verdict import Verdict

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Verdict)
SUMMARY = "verdict_id, project, suite, baseline, candidate, status, exit_code, created_at_ns"
"""The columns of a summary, in its order; ``digest, content`` follow where a verdict is kept."""


class VerdictQuery(Struct, frozen=True, kw_only=True):
    """Which verdicts to list; None is no condition; ``after`` a moment and id in their order."""

    project: str | None = None
    suite: str | None = None
    limit: int = 50
    after: tuple[int, str] | None = None


class VerdictSummary(Struct, frozen=True, kw_only=True):
    """One line of a list of verdicts."""

    verdict_id: str
    project: str
    suite: str
    baseline: str
    candidate: str
    status: VerdictStatus | None
    exit_code: int
    created_at_ns: int


def verdict_row(verdict: Verdict) -> tuple[object, ...]:
    """The values of ``SUMMARY, digest, content``."""
    return (
        verdict.verdict_id,
        verdict.project,
        verdict.suite,
        verdict.baseline,
        verdict.candidate,
        verdict.status,
        verdict.exit_code,
        verdict.created_at_ns,
        verdict.digest,
        _ENCODER.encode(verdict),
    )


def decode_verdict(content: bytes) -> Verdict:
    """The verdict of JSON bytes. Raises msgspec.ValidationError."""
    return _DECODER.decode(content)
