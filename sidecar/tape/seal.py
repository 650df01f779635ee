"""What a seal holds: digests over all records of a tape, made as they come.

**Rules**
1. Nothing here depends on how the tape is packaged: blobs count by digest and size.
2. The exact digest folds what events are, in order, from the codecs' fingerprints; the schema's
   version is not in it. Where a codec projects, the projection counts.
3. The chain folds the header, every event, what is no identity included, and the seal itself.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from sidecar.canonical import canonical
from sidecar.tape.behaviour import Behaviour
from sidecar.tape.model import Blob, Blobs, Counters, Event, Header, LeakScan, Seal
from sidecar.tape.record import as_dict

_EXACT: Final = b"agenttwin-tape-exact/1\n"
_CHAIN: Final = b"agenttwin-tape-chain/1\n"
_BLOBS: Final = b"agenttwin-tape-blobs/1\n"


def identity(event: Event) -> list[Any]:
    """What an event is, as the exact digest folds it."""
    err = None if event.err is None else [event.err.type, event.err.message]
    return [
        event.seq,
        event.kind,
        event.seam,
        event.site,
        event.ord,
        event.agent,
        list(event.cause),
        event.lam,
        event.name,
        event.in_n or event.in_,
        event.out_n or event.out,
        list(event.chunks),
        event.st,
        err,
    ]


def exact_start(codecs: Mapping[str, str]) -> bytes:
    """The exact digest of a tape with these codecs before its first event."""
    return hashlib.sha256(_EXACT + canonical(dict(codecs))).digest()


class Sealer:
    """Fed the records of a tape in order; ``text`` is a record's canonical form."""

    def __init__(self, header: Header, text: bytes | None = None) -> None:
        self.events = 0
        self.behaviour = Behaviour(header.codecs)
        self._exact = exact_start(header.codecs)
        self._chain = hashlib.sha256(_CHAIN + (text or canonical(as_dict(header)))).digest()
        self._blobs: dict[str, int] = {}

    def add_event(self, event: Event, text: bytes) -> None:
        """One more event, and its canonical form."""
        self._exact = hashlib.sha256(self._exact + canonical(identity(event))).digest()
        self._chain = hashlib.sha256(self._chain + text).digest()
        self.behaviour.add(event)
        self.events += 1

    def add_blob(self, blob: Blob) -> None:
        """One more blob, or one again."""
        self._blobs[blob.id] = blob.size

    def has_blob(self, digest: str) -> bool:
        """Whether a blob is one of the tape's."""
        return digest in self._blobs

    def exact_digest(self) -> str:
        """Of what was fed so far."""
        return f"sha256:{self._exact.hex()}"

    def seal(self, counters: Counters, leaks: LeakScan | None, more: dict[str, Any]) -> Seal:
        """The seal of what was fed so far."""
        listed = sorted([name, size] for name, size in self._blobs.items())
        root = hashlib.sha256(_BLOBS + canonical(listed)).hexdigest()
        seal = Seal(
            events=self.events,
            exact_digest=self.exact_digest(),
            behavior_digest=self.behaviour.digest(),
            blobs=Blobs(n=len(listed), bytes=sum(self._blobs.values()), root=f"sha256:{root}"),
            chain="",
            counters=counters,
            leaks=leaks,
            more=more,
        )
        told = as_dict(seal)
        del told["chain"]
        chain = hashlib.sha256(self._chain + canonical(told)).hexdigest()
        return replace(seal, chain=f"sha256:{chain}")
