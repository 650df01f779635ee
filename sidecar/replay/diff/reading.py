"""What of an event counts when two tapes are compared.

**Rules**
1. Inputs and outputs count as the codecs leave them; identifiers in an input by where they were
   minted, and where they were minted not at all.
2. What a clock or dice gave is noise: it differs between any two live runs.
3. Only digests are compared; content is read to explain.
"""

from collections.abc import Sequence
from typing import Any, Final

from sidecar.canonical import NotCanonical, canonical
from sidecar.tape.codec import Codecs
from sidecar.tape.model import Event
from sidecar.tape.paths import REMOVED
from sidecar.tape.tape import MISSING, Tape
from sidecar.tape.value import address

_NOISE: Final = ("clock", "entropy")


class Reading:
    """Two tapes of the same codecs, read for comparison; ``codecs`` None: as digests stand."""

    def __init__(self, left: Tape, right: Tape, codecs: Codecs | None, *, structure: bool) -> None:
        self._codecs, self._structure = codecs, structure
        self._tapes = (left, right)
        self._stripped: dict[tuple[str, str], str | None] = {}
        self._inline = _inline(self._tapes) if self._mints() else {}

    def label(self, event: Event) -> list[Any]:
        """Everything that counts of an event by itself."""
        return [*self.identity(event), self.given(event), *self.status(event), self.gave(event)]

    def identity(self, event: Event) -> list[Any]:
        """What it is, whatever went in and came out."""
        return [event.kind, event.seam, event.name or event.site]

    def given(self, event: Event) -> str | None:
        """The input's digest."""
        return None if self._structure else event.in_b or event.in_n or event.in_

    def gave(self, event: Event) -> list[Any]:
        """The output's digest, and that of an error's message."""
        if self._structure or event.seam in _NOISE:
            return [None, None]
        message = event.err.message if event.err is not None else None
        return [self._minted(event), message]

    def status(self, event: Event) -> list[Any]:
        """How it ended."""
        return [event.st, event.err.type if event.err is not None else None]

    def counted(self, tape: Tape, event: Event, side: str) -> Any:
        """The payload as far as it counts; MISSING where it was not kept."""
        try:
            value = tape.payload(event, side)
        except NotCanonical:  # its digest holds, and it is no JSON
            return MISSING
        if value is MISSING or self._codecs is None:
            return value
        if side == "in":
            return self._codecs.input_of(event.seam).project(value)
        out = self._codecs.output_of(event.seam)
        return out.ids.edit(out.project(value), lambda *_: REMOVED)

    def _mints(self) -> bool:
        codecs = self._codecs
        return codecs is not None and any(one.output.ids for one in codecs.by_seam.values())

    def _minted(self, event: Event) -> str | None:
        plain = event.out_n or event.out
        if event.out is None or self._codecs is None or event.seam is None:
            return plain
        out = self._codecs.output_of(event.seam)
        if not out.ids:
            return plain
        key = (event.seam, event.out)
        if key not in self._stripped:
            value = self._content(event.out)
            self._stripped[key] = None
            if value is not MISSING:
                kept = out.ids.edit(out.project(value), lambda *_: REMOVED)
                self._stripped[key] = address(canonical(kept))
        return self._stripped[key] or plain

    def _content(self, digest: str) -> Any:
        if digest in self._inline:
            return self._inline[digest]
        for tape in self._tapes:
            try:
                value = tape.blob(digest)
            except NotCanonical:
                continue
            if value is not MISSING:
                return value
        return MISSING


def _inline(tapes: Sequence[Tape]) -> dict[str, Any]:
    return {
        event.out: event.inl["out"]
        for tape in tapes
        for event in tape.events
        if event.out is not None and "out" in event.inl
    }
