"""Records as bytes between worker, store and gate, and what is left of one that showed nothing.

Rules
1. A record that failed, is void, incomplete or has a finding is kept whole.
2. A slim record has its conclusion, scores, digest and answer: enough to judge the case again. What
   was done step by step shows when the episode is run again: its place and seed are pinned.
"""

import msgspec
import zstandard
from msgspec import structs

from sidecar.replay.record import EpisodeRecord

_LEVEL = 3
_DECODER = msgspec.json.Decoder(EpisodeRecord)


def packed(record: EpisodeRecord) -> bytes:
    """The record as bytes; equal records give equal bytes."""
    text = msgspec.json.encode(record)
    return zstandard.ZstdCompressor(level=_LEVEL).compress(text)


def unpacked(content: bytes) -> EpisodeRecord:
    """The record of such bytes. Raises ValueError."""
    try:
        return _DECODER.decode(zstandard.ZstdDecompressor().decompress(content))
    except zstandard.ZstdError as error:
        raise ValueError(f"the record cannot be unpacked: {error}") from None


def slim(record: EpisodeRecord) -> EpisodeRecord:
    """The record without its steps, where they showed nothing."""
    trace = record.trace
    if record.conclusion != "passed" or record.void or trace.detections:
        return record
    return structs.replace(
        record,
        trace=structs.replace(trace, steps=(), evidence=()),
        receipts=(),
        events=(),
        changes=(),
    )
