"""The room all requests share while they are taken, and where their bodies are looked at.

Rules
1. An entry is made only of bytes that decode, within the limits.
2. Looking at a large body may take a second and a hundred megabytes: one is looked at at a time,
   in a thread, so that neither the loop nor memory bears several at once.
"""

import asyncio

from sidecar.otlp.check import Checked, check
from sidecar.otlp.wire import WHOLE_BYTES
from sidecar.receive.admit import Body, Room, bounds_of, inflating
from sidecar.receive.config import Config
from sidecar.store.journal import Encoding, Signal

# JSON takes about ten times as long.
_AT_ONCE: dict[Encoding, int] = {"protobuf": WHOLE_BYTES, "json": WHOLE_BYTES // 8}


class Admission:
    """One for all the wires of a process."""

    def __init__(self, config: Config) -> None:
        self._limits = config.limits
        self._bounds = bounds_of(config)
        self._room = Room(config.limits.waiting_bytes_max)
        self._turn = asyncio.Lock()

    @property
    def packed_bytes_max(self) -> int:
        """Bytes of a body as it comes."""
        return self._bounds.packed_bytes_max

    def body(self, content_encoding: str) -> Body:
        """A body that is about to arrive in pieces; to be closed. Raises Refused."""
        return Body(content_encoding, self._bounds, self._room)

    def message(self, message: bytes) -> Body:
        """The body for a message that has arrived, packed or not."""
        return inflating(message, self._bounds, self._room)

    async def check(self, signal: Signal, encoding: Encoding, payload: bytes) -> Checked:
        """What of a body can be kept. Raises Undecodable and TooMany."""
        if len(payload) <= _AT_ONCE[encoding]:
            return check(signal, encoding, payload, self._limits)
        async with self._turn:
            return await asyncio.to_thread(check, signal, encoding, payload, self._limits)
