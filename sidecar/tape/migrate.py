"""A tape written anew in this version's terms: digests, codecs, schema.

**Rules**
1. Explicit, never on the way: the result is another tape, ``derived_from`` the old one.
2. Content is not redacted again and not guessed. Where a new codec needs a payload that was not
   kept, the tape is not migrated.
3. ``b2b:`` digests become ``sha256:`` wherever the payload is there; elsewhere they stay.
4. A tape that needs nothing is left as it is (``needed``).
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from sidecar.canonical import canonical
from sidecar.tape.codec import Codecs, Projector
from sidecar.tape.faults import TapeIncomparable
from sidecar.tape.model import SCHEMA, Blob, Event, EventError, Header, Origin, Seal
from sidecar.tape.record import as_dict
from sidecar.tape.seal import Sealer
from sidecar.tape.tape import MISSING
from sidecar.tape.value import address

Put = Callable[[str, bytes], None]


def needed(header: Header, codecs: Codecs, *, alias: bool) -> list[str]:
    """What of a tape is not in this version's terms; ``alias``: it has digests by another name."""
    found = []
    if header.schema != SCHEMA:
        found.append(f"schema {header.schema}")
    if header.codecs != codecs.fingerprints():
        found.append("codecs")
    return [*found, "b2b digests"] if alias else found


class Migration:
    """One tape being written anew; fed as the old one is read."""

    def __init__(self, header: Header, codecs: Codecs, put: Put, *, tape_id: str, of: Origin):
        self._codecs, self._put, self._renamed = codecs, put, dict[str, str]()
        self._same = header.codecs == codecs.fingerprints()
        self.header = replace(
            header,
            schema=SCHEMA,
            tape_id=tape_id,
            derived_from=of,
            codecs=codecs.fingerprints(),
        )
        self._sealer = Sealer(self.header)

    def put_codecs(self) -> None:
        """Keep the codecs' definitions: after the header, before everything else."""
        if not self._same:
            for one in self._codecs.by_seam.values():
                self._keep(one.fingerprint(), one.definition())

    def blob(self, blob: Blob, data: bytes) -> None:
        """A payload, under this version's name of it."""
        self._renamed[blob.id] = address(data)
        self._keep(address(data), data)

    def event(self, event: Event, asked: Any, given: Any) -> Event:
        """An event with its payloads where they are there. Raises TapeIncomparable."""
        into, out = self._codecs.input_of(event.seam), self._codecs.output_of(event.seam)
        in_, in_n = self._side(event, into, asked, event.in_, event.in_n)
        out_, out_n = self._side(event, out, given, event.out, event.out_n)
        after = replace(
            event,
            in_=in_,
            out=out_,
            in_n=in_n,
            out_n=out_n,
            in_b=self._behaviour(event, into, asked, in_n or in_),
            chunks=tuple(self._renamed.get(one, one) for one in event.chunks),
            err=self._error(event.err),
        )
        self._sealer.add_event(after, canonical(as_dict(after)))
        if given is not MISSING:
            for where, value in out.ids.found(out.project(given)):
                self._sealer.behaviour.mint(where, value)
        return after

    def seal(self, seal: Seal) -> Seal:
        """The new tape's seal, with the old one's counters and leak scan."""
        return self._sealer.seal(seal.counters, seal.leaks, seal.more)

    def _side(
        self, event: Event, projector: Projector, value: Any, raw: str | None, normal: str | None
    ) -> tuple[str | None, str | None]:
        if raw is None:
            return None, None
        if value is MISSING:
            if not self._same:
                raise TapeIncomparable(
                    f"event {event.seq} has no content to apply other codecs to",
                    do="Record it again, or migrate without --codecs current.",
                )
            return self._renamed.get(raw, raw), normal
        name = address(canonical(value))
        if not projector.changes:
            return name, None
        projected = address(canonical(projector.project(value)))
        return name, projected if projected != name else None

    def _behaviour(
        self, event: Event, projector: Projector, value: Any, plain: str | None
    ) -> str | None:
        if value is MISSING:
            return event.in_b
        counted = projector.project(value)
        after = self._sealer.behaviour.mapped(counted, event.agent, event.cause)
        if after is counted:
            return None
        found = address(canonical(after))
        return found if found != plain else None

    def _error(self, error: EventError | None) -> EventError | None:
        if error is None or error.message is None:
            return error
        return replace(error, message=self._renamed.get(error.message, error.message))

    def _keep(self, digest: str, data: bytes) -> None:
        if not self._sealer.has_blob(digest):
            self._put(digest, data)
            self._sealer.add_blob(Blob(id=digest, size=len(data)))
