"""The room all requests share while they are taken, and where their bodies are looked at.

Rules
1. An entry is made only of bytes that decode, within the limits.
2. Nothing large is parsed on the event loop, where tool calls are answered: a process of its own
   does that (``client``), one body at a time. Whether all is well with protobuf of up to 2 MiB is
   asked before: a millisecond for what agents send, some 80 for nothing but empty items.
3. Large bodies of one principal wait in a line of their own, which holds a quarter of the room at
   most: however many it sends, another's waits for one of them.
4. A body is inflated a piece at a time, and others get their turn between the pieces.
"""

import asyncio
from collections import Counter

from sidecar.otlp.check import Checked, check, check_sound
from sidecar.otlp.wire import WHOLE_BYTES
from sidecar.receive.admit import Body, Room, bounds_of, inflating
from sidecar.receive.client import Checker
from sidecar.receive.config import Config
from sidecar.receive.status import Refused
from sidecar.store.journal import Encoding, Signal

# What takes the loop some ten milliseconds at most; JSON takes the longest for its bytes.
_AT_ONCE: dict[Encoding, int] = {"protobuf": WHOLE_BYTES // 2, "json": 64 * 1024}
_LINE_SHARE = 4
_BUSY_RETRY_S = 1
_STEPS_AT_ONCE = 16


class Admission:
    """One for all the wires of a process."""

    def __init__(self, config: Config) -> None:
        self._limits = config.limits
        self._bounds = bounds_of(config)
        self._room = Room(config.limits.waiting_bytes_max)
        self._checker = Checker()
        self._lines: dict[str, asyncio.Lock] = {}
        self._lined: Counter[str] = Counter()
        self._line_bytes_max = config.limits.waiting_bytes_max // _LINE_SHARE

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

    async def feed(self, body: Body, piece: bytes) -> None:
        """Give a body its next piece. Raises Refused."""
        for number, _ in enumerate(body.steps(piece)):
            if number % _STEPS_AT_ONCE == _STEPS_AT_ONCE - 1:
                await asyncio.sleep(0)

    async def check(
        self, signal: Signal, encoding: Encoding, payload: bytes, principal: str
    ) -> Checked:
        """What of a body can be kept. Raises Undecodable, TooMany and Refused."""
        if len(payload) <= _AT_ONCE[encoding]:
            return check(signal, encoding, payload, self._limits)
        if encoding == "protobuf":
            found = check_sound(signal, payload, self._limits)
            if found is not None:
                return found
        waiting = self._lined[principal]
        if waiting and waiting + len(payload) > self._line_bytes_max:
            raise Refused("busy", "too many large bodies at once; try again", _BUSY_RETRY_S)
        self._lined[principal] += len(payload)
        try:
            async with self._lines.setdefault(principal, asyncio.Lock()):
                return await self._checker.check(signal, encoding, payload, self._limits)
        finally:
            self._lined[principal] -= len(payload)
            if not self._lined[principal]:
                del self._lined[principal]
                self._lines.pop(principal, None)

    async def stop(self) -> None:
        """End what looks at large bodies. Safe without use and twice."""
        await self._checker.close()
