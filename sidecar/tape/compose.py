"""The writing side, pure: facts in, records out, in the order in which they must be written.

**Rules**
1. A payload is encoded, redacted and only then hashed. One of at most 2 KiB stands in its event
   (``inl``), a larger one is a blob that comes before it.
2. ``seq`` counts from 0 without gaps; ``ord`` per agent, site and kind, so that a result has its
   call's; ``lam`` is one more than the greatest among the causes and the agent's last.
3. Without content only digests are kept. A payload that is too large, or that no tape can hold, is
   counted as truncated, never guessed at.
4. Exactly one terminal event, the last; what comes later is counted and left out.
5. Here lives no lock and no file: who calls serialises, and writes what is returned before the
   next call (``files``).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from sidecar.canonical import NotCanonical, canonical
from sidecar.tape.codec import DEFAULT, Codecs, Projector
from sidecar.tape.model import (
    SEQ_MAX,
    Blob,
    Counters,
    Event,
    EventError,
    Header,
    Kind,
    LeakScan,
    Seal,
    Seam,
    Status,
    goes_with,
)
from sidecar.tape.moment import nanoseconds
from sidecar.tape.record import BLOB_BYTES_MAX, as_dict
from sidecar.tape.redaction import Redactor, Redacts
from sidecar.tape.seal import Sealer
from sidecar.tape.value import address, encoded

INLINE_BYTES_MAX: Final = 2048
SEEN_MAX: Final = 1000
WORDS_MAX: Final = 1000
NOTHING: Final = object()

Put = Callable[[str, bytes], None]


class Fact(Struct, frozen=True, kw_only=True):
    """What a recorder or an importer says of one event; the rest follows from the tape.

    ``input``, ``output``: any JSON-like Python value, bytes too; left out = there is none.
    ``chunks``: digests that ``Composer.put`` gave. ``site``: see ``site``.
    """

    kind: Kind
    seam: Seam | None = None
    agent: str = ""
    name: str = ""
    site: str = ""
    input: Any = NOTHING
    output: Any = NOTHING
    status: Status = "unset"
    error: tuple[str, str | None] | None = None
    cause: tuple[int, ...] = ()
    chunks: tuple[str, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)


class _Payload(Struct, frozen=True):
    digest: str | None = None
    normal: str | None = None
    inline: Any = NOTHING
    value: Any = NOTHING


def site(module: str, qualname: str, seam: str, label: str = "") -> str:
    """Where a call is made, never by line: ``s:<16 hex>`` of module, name, seam and label."""
    return "s:" + address(canonical([module, qualname, seam, label]))[7:23]


class Composer:
    """One tape being written. ``put_blob(digest, bytes)`` keeps a payload before its event.

    ``line`` is the last event's, its end included.
    """

    def __init__(
        self,
        header: Header,
        put_blob: Put,
        *,
        redactor: Redacts | None = None,
        codecs: Codecs | None = None,
        content: bool = True,
        blob_bytes_max: int = BLOB_BYTES_MAX,
    ) -> None:
        self._redactor: Redacts = redactor or Redactor()
        self._codecs = codecs or Codecs(DEFAULT)
        self._put, self._content, self._blob_max = put_blob, content, blob_bytes_max
        self.seen: set[str] = set()
        self._words: dict[str, str] = {}
        self.line = b""
        self._captured_ns = nanoseconds(header.captured_at)
        self.header = self._redacted_header(header)
        self._sealer = Sealer(self.header)
        self._ords: dict[tuple[str, str, str], int] = {}
        self._lamports: dict[str, int] = {}
        self._lams: list[int] = []
        self._dropped = self._truncated = self._late = 0
        self._ended = False

    def begin(self) -> Header:
        """The first record; the codecs' definitions are put as blobs."""
        return self.header

    def put_codecs(self) -> None:
        """Keep the codecs' definitions: after the header, before the first event."""
        for one in self._codecs.by_seam.values():
            self._keep(one.fingerprint(), one.definition())

    def put(self, value: Any) -> str | None:
        """Keep a payload now, a chunk of a stream; its digest, or None where it has none."""
        found = self._payload(value, None)
        if found.digest is not None and found.inline is not NOTHING and self._content:
            self._keep(found.digest, canonical(found.inline))
        return found.digest

    def event(self, fact: Fact) -> Event | None:
        """The record of one more event; None where it came after the terminal one."""
        if self._ended:
            self._late += 1
            return None
        seq = self._sealer.events
        if not goes_with(fact.kind, fact.seam):
            raise ValueError(f"{fact.kind} does not enter at {fact.seam}")
        if any(not 0 <= one < seq for one in fact.cause):
            raise ValueError("a cause is an earlier event")
        agent, name = self._word(fact.agent), self._word(fact.name)
        cause = tuple(sorted(set(fact.cause)))
        asked = self._payload(fact.input, self._codecs.input_of(fact.seam))
        given = self._payload(fact.output, self._codecs.output_of(fact.seam))
        place = (agent, fact.site or name, fact.kind)
        event = Event(
            seq=seq,
            kind=fact.kind,
            seam=fact.seam,
            site=fact.site,
            ord=self._ords.get(place, 0),
            agent=agent,
            cause=cause,
            lam=self._lamport(agent, cause),
            name=name,
            in_=asked.digest,
            out=given.digest,
            in_n=asked.normal,
            out_n=given.normal,
            in_b=self._mapped(asked, agent, cause),
            chunks=fact.chunks,
            st=fact.status,
            err=self._error(fact.error),
            inl=_inline(asked, given) if self._content else {},
            t=self._times(fact),
            use={key: item for key, item in fact.usage.items() if 0 <= item <= SEQ_MAX},
            attr=self._attributes(fact.attributes),
        )
        text = canonical(as_dict(event))
        self.line = text + b"\n"
        self._ords[place] = event.ord + 1
        self._lamports[agent] = event.lam
        self._lams.append(event.lam)
        self._sealer.add_event(event, text)
        if given.value is not NOTHING:
            for where, value in self._codecs.output_of(fact.seam).ids.found(given.value):
                self._sealer.behaviour.mint(where, value)
        self._ended = fact.kind == "terminal"
        return event

    def drop(self, count: int = 1) -> None:
        """Count events that could not be written."""
        self._dropped += count

    @property
    def ended(self) -> bool:
        """Whether the terminal event was written."""
        return self._ended

    def seal(self, leaks: LeakScan | None = None) -> Seal:
        """The last record. Raises ValueError where no terminal event came before."""
        if not self._ended:
            raise ValueError("a tape is sealed after its terminal event")
        counters = Counters(
            dropped=self._dropped, truncated=self._truncated, after_terminal=self._late
        )
        return self._sealer.seal(counters, leaks, {})

    def _payload(self, value: Any, projector: Projector | None) -> _Payload:
        if value is NOTHING:
            return _Payload()
        try:
            redacted = self._redactor.value(encoded(value), self._noted())
            data = canonical(redacted)
        except NotCanonical:
            self._truncated += 1
            return _Payload()
        digest = address(data)
        normal, counted = None, redacted
        if projector is not None and projector.changes:
            counted = projector.project(redacted)
            projected = address(canonical(counted))
            normal = projected if projected != digest else None
        if len(data) <= INLINE_BYTES_MAX:
            return _Payload(digest, normal, redacted, counted)
        if self._content:
            if len(data) > self._blob_max:
                self._truncated += 1
            else:
                self._keep(digest, data)
        return _Payload(digest, normal, NOTHING, counted)

    def _noted(self) -> set[str] | None:
        return self.seen if len(self.seen) < SEEN_MAX else None

    def _mapped(self, asked: _Payload, agent: str, cause: tuple[int, ...]) -> str | None:
        if asked.value is NOTHING:
            return None
        after = self._sealer.behaviour.mapped(asked.value, agent, cause)
        if after is asked.value:
            return None
        found = address(canonical(after))
        return found if found != (asked.normal or asked.digest) else None

    def _error(self, error: tuple[str, str | None] | None) -> EventError | None:
        if error is None:
            return None
        kind, message = error
        found = self._payload(message, None) if message is not None else _Payload()
        if found.digest is not None and found.inline is not NOTHING and self._content:
            self._keep(found.digest, canonical(found.inline))
        return EventError(type=self._word(kind), message=found.digest)

    def _word(self, text: str) -> str:
        """A name redacted (they come again and again); what no UTF-8 has is a question mark."""
        found = self._words.get(text)
        if found is None:
            plain = text.encode(errors="replace").decode()
            found = str(self._redactor.value(plain, self._noted())) if plain else plain
            if len(self._words) < WORDS_MAX:
                self._words[text] = found
        return found

    def _attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        if not attributes:
            return {}
        try:
            found = self._redactor.value(encoded(dict(attributes)), self.seen)
            canonical(found)
        except NotCanonical:
            self._truncated += 1
            return {}
        return dict(found)

    def _times(self, fact: Fact) -> dict[str, int]:
        said = {"start": fact.start_ns, "end": fact.end_ns}
        after = {key: ns - self._captured_ns for key, ns in said.items() if ns is not None}
        return {key: ns for key, ns in after.items() if abs(ns) <= SEQ_MAX}

    def _lamport(self, agent: str, cause: tuple[int, ...]) -> int:
        before = max((self._lams[one] for one in cause), default=-1)
        return 1 + max(before, self._lamports.get(agent, -1))

    def _keep(self, digest: str, data: bytes) -> None:
        if self._sealer.has_blob(digest):
            return
        self._put(digest, data)
        self._sealer.add_blob(Blob(id=digest, size=len(data)))

    def _redacted_header(self, header: Header) -> Header:
        def told(value: Any) -> Any:
            return self._redactor.value(encoded(value), self.seen)

        agent = header.agent
        return replace(
            header,
            redactor=self._redactor.identity,
            codecs=self._codecs.fingerprints(),
            argv=self._argv(header.argv),
            labels=told(header.labels),
            agent=agent and replace(agent, name=told(agent.name), version=told(agent.version)),
            models=tuple(told(list(header.models))),
            run_id=told(header.run_id),
            more=told(header.more),
        )

    def _argv(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Arguments redacted, each also as the value of the option before it."""
        found: list[str] = []
        option = ""
        for text in argv:
            name, equals, value = text.partition("=")
            if equals and name.startswith("-"):
                found.append(f"{name}={self._optional(name, value)}")
            else:
                found.append(self._optional(option, text))
            option = text if text.startswith("-") and not equals else ""
        return tuple(found)

    def _optional(self, option: str, text: str) -> str:
        told = self._redactor.value({option.lstrip("-"): text}, self.seen)
        return str(next(iter(told.values())))


def _inline(asked: _Payload, given: _Payload) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if asked.inline is not NOTHING:
        found["in"] = asked.inline
    if given.inline is not NOTHING:
        found["out"] = given.inline
    return found
