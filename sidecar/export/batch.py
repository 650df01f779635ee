"""Which of the waiting items make one request.

Rules
1. A request is of one signal; the items in it keep their order.
2. Items are joined by joining their bytes: concatenated OTLP requests are one request.
3. An item that an exporter does not want is passed over; one whose seal is broken is given up and
   counted. Both are behind the cursor afterwards.
4. A refused request of several items is halved, so that one bad item sinks no other.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from sidecar.store.journal import Signal
from sidecar.store.outbox import DAMAGED, Tally, Waiting


class Wanted(Struct, frozen=True, kw_only=True):
    """What an exporter sends: signals, and projects (all where none is named)."""

    signals: frozenset[Signal]
    projects: frozenset[str]
    bytes_max: int

    def wants(self, item: Waiting) -> bool:
        """Whether the item is for this exporter."""
        return item.signal in self.signals and (not self.projects or item.project in self.projects)


class Request(Struct, frozen=True, kw_only=True):
    """Items that are sent together."""

    signal: Signal
    parts: tuple[Waiting, ...]

    @property
    def items(self) -> int:
        """How many spans, log records or data points it holds."""
        return sum(part.items for part in self.parts)

    @property
    def payload(self) -> bytes:
        """The OTLP request."""
        return b"".join(part.payload or b"" for part in self.parts)

    @property
    def seqs(self) -> frozenset[int]:
        """The places of its items."""
        return frozenset(part.seq for part in self.parts)


class Planned(Struct, frozen=True, kw_only=True):
    """What to send of some waiting items, and what is given up."""

    requests: tuple[Request, ...]
    tallies: tuple[Tally, ...]


def planned(waiting: Sequence[Waiting], wanted: Wanted, done: Collection[int]) -> Planned:
    """The requests that some waiting items make; ``done`` are places that need none any more."""
    requests: list[Request] = []
    tallies: list[Tally] = []
    open_parts: dict[Signal, list[Waiting]] = {}
    sizes: dict[Signal, int] = {}
    for item in waiting:
        if item.seq in done or not wanted.wants(item):
            continue
        if item.payload is None:
            tallies.append(Tally(signal=item.signal, fate=DAMAGED, items=item.items))
            continue
        parts = open_parts.setdefault(item.signal, [])
        if parts and sizes[item.signal] + len(item.payload) > wanted.bytes_max:
            requests.append(Request(signal=item.signal, parts=tuple(parts)))
            parts.clear()
        sizes[item.signal] = len(item.payload) + (sizes[item.signal] if parts else 0)
        parts.append(item)
    for signal, parts in open_parts.items():
        if parts:
            requests.append(Request(signal=signal, parts=tuple(parts)))
    return Planned(requests=tuple(requests), tallies=tuple(tallies))


def halves(request: Request) -> tuple[Request, ...]:
    """The request in two; empty when it is a single item."""
    if len(request.parts) < 2:
        return ()
    middle = len(request.parts) // 2
    return (
        Request(signal=request.signal, parts=request.parts[:middle]),
        Request(signal=request.signal, parts=request.parts[middle:]),
    )
