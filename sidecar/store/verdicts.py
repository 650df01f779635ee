"""Gate verdicts as they are kept: written once, found by id, listed newest first."""

import msgspec
from msgspec import Struct

from processors.model.names import VerdictStatus
from processors.model.verdict import Verdict

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Verdict)


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


def encode_verdict(verdict: Verdict) -> bytes:
    """The verdict as JSON bytes."""
    return _ENCODER.encode(verdict)


def decode_verdict(content: bytes) -> Verdict:
    """The verdict of JSON bytes. Raises msgspec.ValidationError."""
    return _DECODER.decode(content)
