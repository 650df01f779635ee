"""A tape in memory: its records, and its payloads by digest.

**Rules**
1. What was read is what stands here; nothing is made up for what is missing.
2. A payload is the encoded value (``value.decoded`` gives Python's); what was not kept is
   ``MISSING``, which is not null.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from sidecar.canonical import canonical
from sidecar.tape.examine import Examination
from sidecar.tape.model import Event, Header, Seal
from sidecar.tape.value import read_payload

MISSING: Final = object()


class Tape(Struct, frozen=True, kw_only=True):
    """One tape. ``get`` gives the checked bytes of a digest of ``blobs``; None for any other, and
    where they are not those of their digest, which is among the faults."""

    header: Header
    events: tuple[Event, ...]
    seal: Seal | None
    examination: Examination
    blobs: frozenset[str]
    get: Callable[[str], bytes | None]

    def payload(self, event: Event, side: str) -> Any:
        """An event's ``in`` or ``out``, encoded; MISSING where there is none or it was not kept."""
        if side in event.inl:
            return event.inl[side]
        return self.blob(event.in_ if side == "in" else event.out)

    def blob(self, digest: str | None) -> Any:
        """A payload by its digest, encoded; MISSING where it was not kept."""
        data = self.get(digest) if digest is not None else None
        return MISSING if data is None else read_payload(data)

    def chunks(self, event: Event) -> list[Any]:
        """A streamed answer's pieces in order, encoded."""
        return [self.blob(digest) for digest in event.chunks]

    def payload_bytes(self, event: Event, side: str) -> bytes | None:
        """The canonical bytes of an event's ``in`` or ``out``; None where it was not kept."""
        if side in event.inl:
            return canonical(event.inl[side])
        digest = event.in_ if side == "in" else event.out
        return self.get(digest) if digest is not None else None
