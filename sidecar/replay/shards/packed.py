"""Records as bytes between worker, store and gate, and what is left of one that showed nothing.

Rules
1. A record that failed, is void, incomplete or has a finding is kept whole.
2. A slim record has its conclusion, scores, digest, answer and the names of the tools it called:
   all that the gate's numbers are made of. What was done step by step shows when the episode is run
   again: its place and seed are pinned.
3. A verdict on slim records is the one on whole records, to the byte. So what runs are compared by
   is kept: the first runs of both sides where they differ, or stand in different shards, and in a
   deterministic suite the first run and those of its shard that are unlike it.
"""

from collections.abc import Sequence

import msgspec
import zstandard
from msgspec import Struct, structs

from processors.model.step import Step
from processors.model.trace import TraceWarning
from sidecar.replay.record import STEPS_LEFT_OUT, EpisodeRecord, Side
from sidecar.replay.shards.layout import Layout, Place, Shard, kept_whole
from sidecar.replay.shards.model import Order

_LEVEL = 3
_Named = tuple[int, Side, int]
_LEFT_OUT = TraceWarning(code=STEPS_LEFT_OUT, detail="it passed and showed nothing")
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


class Kept(Struct, frozen=True, kw_only=True):
    """What decides how much of a shard's records is kept: nothing of who runs it, or when."""

    order: Order
    layout: Layout
    deterministic: bool

    def left(self, shard: Shard, records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
        """What is kept of a shard's records, in their order."""
        if self.order.keep == "all":
            return list(records)
        run = list(zip(map(self.layout.at, shard.places), records, strict=True))
        held = self._held_against(run)
        return [
            record
            if (place.case, place.side, place.run) in held or kept_whole(number, self.order.seed)
            else slim(record)
            for number, (place, record) in zip(shard.places, run, strict=True)
        ]

    def _held_against(self, run: Sequence[tuple[Place, EpisodeRecord]]) -> set[_Named]:
        """The runs whose steps are held against another's."""
        firsts = {(at.case, at.side): one.digest for at, one in run if at.run == 1}
        parted = {
            (at.case, at.side, at.run)
            for at, one in run
            if self.deterministic and firsts.get((at.case, at.side), one.digest) != one.digest
        }
        unlike = {
            (case, side, 1)
            for case, side in firsts
            if len({firsts.get((case, one)) for one in ("baseline", "candidate")}) > 1
        }
        return parted | unlike | {(case, side, 1) for case, side, _ in parted}


def slim(record: EpisodeRecord) -> EpisodeRecord:
    """The record without its steps, where they showed nothing."""
    trace = record.trace
    if record.conclusion != "passed" or record.void or trace.detections:
        return record
    steps = tuple(
        Step(step_id="", kind="tool_call", name=(one.tool.name if one.tool else None) or one.name)
        for one in trace.steps
        if one.kind == "tool_call"
    )
    return structs.replace(
        record,
        trace=structs.replace(
            trace, steps=steps, evidence=(), warnings=(*trace.warnings, _LEFT_OUT)
        ),
        receipts=(),
        events=(),
        changes=(),
    )
