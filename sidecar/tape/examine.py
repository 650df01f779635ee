"""Reading a tape line by line, and saying what does not hold.

**Rules**
1. A tape that ends before its seal, wherever it was cut, is partial: what stands before is read. A
   line that cannot be read in the middle is a fault, and nothing after it is believed.
2. Nothing is held but digests (some 150 bytes an event), codecs, and recent payloads up to a bound.
   What could not be looked at again is counted (``unchecked``).
3. Content that was never kept is no fault; content that a tape says it has, and has not, is.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from sidecar.canonical import NotCanonical, canonical
from sidecar.tape.codec import Codec, Codecs, Projector, codec_of
from sidecar.tape.faults import Fault, FaultCode, TapeIncomparable, TapeUnreadable
from sidecar.tape.model import NO_COUNTERS, Blob, Event, Header, Record, Seal, Seam, goes_with
from sidecar.tape.record import (
    blob_data,
    check_blob,
    ids_are_digests,
    read_line,
)
from sidecar.tape.seal import Sealer
from sidecar.tape.value import matches, read_payload

FAULTS_MAX: Final = 100
_RECENT_BYTES_MAX: Final = 64 * 1024 * 1024
_MISSING: Final = object()

GetBlob = Callable[[Blob], bytes | None]


class Examination(Struct, frozen=True, kw_only=True):
    """What a tape says and what of it holds.

    ``state``: sealed, or partial. ``cut``: its last line is broken off. ``computed``: the seal as
    it should be, of what was read. ``unchecked``: payloads whose projection was not made again.
    """

    header: Header
    state: str
    cut: bool
    events: int
    terminal: int | None
    faults: tuple[Fault, ...]
    more_faults: int
    unchecked: int
    seal: Seal | None
    computed: Seal

    @property
    def holds(self) -> bool:
        """Sealed, and nothing in it is wrong."""
        return self.state == "sealed" and not self.faults


class Examiner:
    """Fed the lines of one tape; ``get_blob`` finds payloads that are not in it."""

    def __init__(self, get_blob: GetBlob | None = None) -> None:
        self._get_blob = get_blob or (lambda _: None)
        self._sealer: Sealer | None = None
        self.header: Header | None = None
        self._codecs: Codecs | None = None
        self._seal: Seal | None = None
        self._terminal: int | None = None
        self._faults: list[Fault] = []
        self._more_faults = self._unchecked = self._line = 0
        self._cut = self.stopped = False
        self._recent: OrderedDict[str, bytes] = OrderedDict()
        self._recent_bytes = 0

    def feed(self, line: bytes) -> Record | None:
        """One line, its end included where it has one. None where it says nothing to go on with.

        Raises TapeUnreadable where the first line is no header this program can read.
        """
        assert not self.stopped, "a tape that cannot be read further is not fed"
        self._line += 1
        try:
            record, text = read_line(line)
            if not ids_are_digests(record):
                raise ValueError("a digest that is none")
        except TapeIncomparable:
            if self._line == 1:
                raise
            return self._stop("line", f"line {self._line}: a second header")
        except TapeUnreadable:
            raise
        except ValueError as error:
            return self._unreadable(line, error)
        if self._line == 1:
            return self._begin(record, text)
        return self._next(record, text)

    def finish(self) -> Examination:
        """What came of it. Raises TapeUnreadable where there was nothing."""
        if self.header is None or self._sealer is None:
            raise TapeUnreadable("there is nothing in it", do="Give a tape.")
        said = self._seal
        computed = self._sealer.seal(
            said.counters if said else NO_COUNTERS,
            said.leaks if said else None,
            said.more if said else {},
        )
        if self._seal is not None and not self.stopped:
            self._compare(self._seal, computed)
        return Examination(
            header=self.header,
            state="sealed" if self._seal is not None else "partial",
            cut=self._cut,
            events=self._sealer.events,
            terminal=self._terminal,
            faults=tuple(self._faults),
            more_faults=self._more_faults,
            unchecked=self._unchecked,
            seal=self._seal,
            computed=computed,
        )

    def payload(self, event: Event, side: str) -> Any:
        """An event's ``in`` or ``out`` as encoded, where it was fed lately; else ``_MISSING``."""
        if side in event.inl:
            return event.inl[side]
        digest = event.in_ if side == "in" else event.out
        data = self._recent.get(digest or "")
        return _MISSING if data is None else read_payload(data)

    def _begin(self, record: Record, text: bytes) -> Header:
        if not isinstance(record, Header):
            raise TapeUnreadable("its first line is no header", do="Give a tape.")
        self.header = record
        self._sealer = Sealer(record, text)
        return record

    def _unreadable(self, line: bytes, error: ValueError) -> Record | None:
        whole = line.endswith(b"\n")
        if self._line == 1:
            what = "it is no tape" if whole else "it is cut off inside its header, or no tape"
            raise TapeUnreadable(f"{what}: {error}", do="Give a tape.")
        if whole:
            return self._stop("line", f"line {self._line}: {error}")
        self._cut = self.stopped = True
        return None

    def _next(self, record: Record, text: bytes) -> Record | None:
        if self._seal is not None:
            return self._stop("after_seal", f"line {self._line} stands after the seal")
        if isinstance(record, Header):
            return self._stop("line", f"line {self._line}: a second header")
        if isinstance(record, Blob):
            return self._blob(record)
        if isinstance(record, Seal):
            self._seal = record
            return record
        return self._event(record, text)

    def _blob(self, blob: Blob) -> Blob:
        assert self._sealer is not None
        if self._sealer.has_blob(blob.id):
            self._fault("order", f"{blob.id} stands twice")
        try:
            data = blob_data(blob)
            if data is None and (data := self._get_blob(blob)) is not None:
                check_blob(blob, data)
        except ValueError as error:
            self._fault("blob_content", f"{blob.id}: {error}")
        else:
            if data is None:
                self._fault("blob_missing", f"{blob.id} is nowhere to be found")
            else:
                self._remember(blob.id, data)
        self._sealer.add_blob(blob)
        return blob

    def _event(self, event: Event, text: bytes) -> Event | None:
        assert self._sealer is not None
        if event.seq != self._sealer.events:
            return self._stop("order", f"line {self._line}: seq {event.seq} is out of order")
        if any(not 0 <= cause < event.seq for cause in event.cause):
            return self._stop("cause", "its cause is no earlier event", event.seq)
        if not goes_with(event.kind, event.seam):
            self._fault("kind_seam", f"{event.kind} does not enter at {event.seam}", event.seq)
        if self._terminal is not None:
            self._fault("terminal", "it comes after the terminal event", event.seq)
        elif event.kind == "terminal":
            self._terminal = event.seq
        minted = self._projected(event)
        self._sealer.add_event(event, text)
        for where, value in minted:
            self._sealer.behaviour.mint(where, value)
        return event

    def _projected(self, event: Event) -> list[tuple[str, Any]]:
        """Check what is said of an event's payloads; the identifiers its output mints."""
        codecs = self._known_codecs()
        asked = self._side(event, "in", event.in_)
        given = self._side(event, "out", event.out)
        if codecs is None:
            self._unchecked += 1
            return []
        into, out = codecs.input_of(event.seam), codecs.output_of(event.seam)
        minted: list[tuple[str, Any]] = []
        if asked is not _MISSING:
            counted = self._same(event, into, asked, event.in_, event.in_n)
            self._same_behaviour(event, counted)
        if given is not _MISSING:
            counted = self._same(event, out, given, event.out, event.out_n)
            minted = list(out.ids.found(counted))
        return minted

    def _same(
        self, event: Event, projector: Projector, value: Any, raw: str | None, said: str | None
    ) -> Any:
        counted = projector.project(value)
        if projector.changes and not matches(said or raw or "", canonical(counted)):
            self._fault("projection", "its codec makes another digest of it", event.seq)
        return counted

    def _same_behaviour(self, event: Event, counted: Any) -> None:
        assert self._sealer is not None
        after = self._sealer.behaviour.mapped(counted, event.agent, event.cause)
        if after is counted:
            same = event.in_b is None
        else:
            same = matches(event.in_b or event.in_n or event.in_ or "", canonical(after))
        if not same:
            self._fault("projection", "its identifiers come to another digest", event.seq)

    def _side(self, event: Event, side: str, digest: str | None) -> Any:
        """A payload that is at hand and is the one of its digest; else ``_MISSING``."""
        if digest is None:
            if side in event.inl:
                self._fault("payload", f"its {side} has no digest", event.seq)
            return _MISSING
        try:
            value = self.payload(event, side)
            if value is _MISSING:
                self._unchecked += 1
            elif side in event.inl and not matches(digest, canonical(value)):
                self._fault("payload", f"its {side} has another digest", event.seq)
                return _MISSING
        except NotCanonical:
            self._fault("payload", f"its {side} is no JSON a tape may hold", event.seq)
            return _MISSING
        return value

    def _known_codecs(self) -> Codecs | None:
        """The codecs of the header, from the tape's own blobs; None where one is not known."""
        assert self.header is not None
        if self._codecs is None:
            found: dict[Seam, Codec] = {}
            for seam, fingerprint in self.header.codecs.items():
                codec = codec_of(seam, fingerprint, self._recent.get(fingerprint))
                if codec is None:
                    return None
                found[codec.seam] = codec
            self._codecs = Codecs(found)
        return self._codecs

    def _compare(self, seal: Seal, computed: Seal) -> None:
        if seal.events != computed.events:
            self._fault("count", f"{computed.events} events, and the seal says {seal.events}")
        if seal.exact_digest != computed.exact_digest:
            self._fault("exact_digest", f"it comes to {computed.exact_digest}")
        if seal.behavior_digest != computed.behavior_digest:
            self._fault("behavior_digest", f"it comes to {computed.behavior_digest}")
        if seal.blobs != computed.blobs:
            self._fault("blob_root", f"its blobs come to {computed.blobs.root}")
        if seal.chain != computed.chain:
            self._fault("chain", f"it comes to {computed.chain}")
        if self._terminal is None:
            self._fault("terminal", "there is no terminal event")
        if seal.leaks is not None and seal.leaks.found:
            self._fault("leak", f"{seal.leaks.found} redacted values stand in it all the same")

    def _remember(self, digest: str, data: bytes) -> None:
        if digest in self._recent:
            return
        self._recent[digest] = data
        self._recent_bytes += len(data)
        while self._recent_bytes > _RECENT_BYTES_MAX and len(self._recent) > 1:
            _, gone = self._recent.popitem(last=False)
            self._recent_bytes -= len(gone)

    def _stop(self, code: FaultCode, detail: str, seq: int | None = None) -> Event | None:
        self._fault(code, detail, seq)
        self.stopped = True
        return None

    def _fault(self, code: FaultCode, detail: str, seq: int | None = None) -> None:
        if len(self._faults) >= FAULTS_MAX:
            self._more_faults += 1
        else:
            self._faults.append(Fault(code=code, detail=detail, seq=seq))
