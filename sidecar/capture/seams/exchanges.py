"""HTTP exchanges at a session, for every client library: entered, recorded as they pass, played.

**Rules**
1. A library's seam says what is sent and touches the real thing; what stands on the tape is decided
   here and in ``exchange``, once for all of them.
2. What passes is passed on as it came, before anything else is waited for. A body beyond
   ``BODY_BYTES_MAX`` passes too, and is not kept: its answer cannot be played.
3. Played, pieces come one by one; then what had ended the answer: its end, its error, or, where the
   agent had stopped reading, a drift for one that reads on.
4. What libraries tell their makers (traces, metrics, errors) is no conduct of the agent: recorded
   it passes unseen, and where nothing may be sent it is swallowed: an empty 200, counted.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final
from weakref import WeakSet

from sidecar.capture import bodies, exchange, pieces
from sidecar.capture.encodings import Decoder, Known, encoder
from sidecar.capture.exchange import Reply, Request
from sidecar.capture.seams.crossing import Crossing, class_name, is_cancellation, text_of
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.told import LOST
from sidecar.capture.streamed import Answer, pieces_of
from sidecar.tape.compose import NOTHING
from sidecar.tape.model import Seam

_EVENTS_MAX: Final = 100_000
_TELEMETRY: Final = (
    "opentelemetry.",
    "agents.tracing",
    "langsmith",
    "logfire",
    "sentry_sdk",
    "ddtrace",
    "posthog",
    "langfuse",
    "newrelic",
    "elasticapm",
)


_open: WeakSet["Recording"] = WeakSet()  # live answers that are still being read


def close_at_end(session: Session) -> None:
    """See that answers which are still being read when a session ends stand on its tape."""

    def close() -> None:
        for recording in list(_open):
            recording.closed()

    session.on_end(close)


def enter(
    session: Session, request: Request, *, awaited: bool = False, decoded: bool = False
) -> "Crossing | Unsent | None":
    """Enter the session with a request: a crossing to be recorded, or the answer to be played.

    None where it is not the agent's and passes unseen. ``decoded``: the client reads no encoding.
    Raises what ``Session.enter`` raises.
    """
    try:
        call = exchange.call_of(request)
    except Exception:  # a fault of ours, or a URL that is none: it is the client's to say so
        call = exchange.unread(request)
    if _is_telemetry(session, sys._getframe(1)):
        if session.live(call.seam):
            return None
        session.refused += 1
        return Unsent()
    x = session.enter(
        kind=call.kind,
        seam=call.seam,
        name=call.name,
        given=call.given,
        attributes=call.attributes,
        awaited=awaited,
        piecemeal=True,
    )
    return Playing(x, decoded=decoded) if x.played else x


def _is_telemetry(session: Session, frame: FrameType | None) -> bool:
    """Whether a library that tells its makers is on the stack; a module of the agent's is none."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(_TELEMETRY) and session.sites.own(frame.f_code) is None:
            return True
        frame = frame.f_back
    return False


def failed_sending(x: Crossing, error: BaseException) -> None:
    """A live request could not be sent: its answer was not waited for."""
    if is_cancellation(error):
        x.failed(error)
        return
    told = (class_name(error), text_of(error))
    x.done(status="error", error=told, attributes={"http": {"sending": True}})


class Recording:
    """A live answer as its client reads it. ``known``: decoders of the client's library."""

    def __init__(
        self,
        x: Crossing,
        status: int,
        reason: str,
        headers: exchange.Headers,
        known: Known | None = None,
        *,
        decoded: bool = False,
    ) -> None:
        self._x, self._status, self._reason, self._headers = x, status, reason, headers
        named = exchange.dict_of(headers)
        self._cut = pieces.cut_of(named)
        encodings = "" if decoded else str(named.get("content-encoding", ""))
        self._decoder = Decoder(encodings, known)
        self._cutter = pieces.Cutter(self._cut) if self._cut else None
        self._answer = Answer() if self._cut == "event" else None
        self._whole: list[bytes] = []
        self._bytes = self._pieces = 0
        self._kept, self.over = True, False
        self.waiting = False  # whether the client gave up while it waited for more
        _open.add(self)

    def __del__(self) -> None:
        self.closed()

    def feed(self, data: bytes) -> None:
        """A piece as it passes, in the answer's encoding."""
        self.waiting = False
        if data and not self.over:
            self._guarded(lambda: self._take(self._decoder.feed(bytes(data))))

    def end(self, *, early: bool = False) -> None:
        """The whole answer has come; ``early``: before anybody read it."""
        if not self.over:
            self._guarded(self._finish)
            self._close("ok", None, {"early": True} if early else None)

    def closed(self) -> None:
        """The client reads no further."""
        if self.over:
            return
        if self._answer is not None and self._answer.ended:
            self._guarded(self._finish)
            self._close("ok", None)
        else:
            self._guarded(self._finish)
            more = {"unread": True, **({"waiting": True} if self.waiting else {})}
            self._close("cancelled" if self._cut or self.waiting else "ok", None, more)

    def failed(self, error: BaseException) -> None:
        """The answer broke off."""
        if self.over:
            return
        if is_cancellation(error):
            self.waiting = type(error).__name__ == "CancelledError"
            self.closed()
            return
        self._guarded(self._finish)
        self._close("error", (class_name(error), text_of(error)), {"broke": True})

    def short(self) -> None:
        """The connection ended before the answer did."""
        if not self.over:
            self._guarded(self._finish)
            error = ("http.client.IncompleteRead", "the answer ended before its length")
            self._close("error", error, {"short": True})

    def _guarded(self, record: Callable[[], None]) -> None:
        """A fault of ours costs the answer on the tape, never the agent's."""
        try:
            record()
        except Exception:
            self._kept = False

    def _take(self, data: bytes) -> None:
        if not data:
            return
        self._bytes += len(data)
        if self._bytes > exchange.BODY_BYTES_MAX:
            self._kept = False
            self._whole.clear()
            return
        if self._cutter is None:
            self._whole.append(data)
            return
        for piece in self._cutter.feed(data):
            self._put(piece)

    def _put(self, piece: bytes) -> None:
        assert self._cut is not None
        self._pieces += 1
        if self._pieces > _EVENTS_MAX:
            self._kept = False
            return
        payload = pieces.payload_of(piece, self._cut)
        self._x.chunk(payload)
        if self._answer is not None:
            self._answer.add(payload)

    def _finish(self) -> None:
        self._take(self._decoder.end())
        if self._cutter is not None and self._kept:
            for piece in self._cutter.end():
                self._put(piece)

    def _close(
        self, status: Any, error: tuple[str, str | None] | None, more: dict[str, Any] | None = None
    ) -> None:
        self.over = True
        _open.discard(self)
        try:
            self._tell(status, error, more)
        except Exception:
            self._x.done(LOST, status="error", error=error, attributes={"http": {"lost": True}})

    def _tell(
        self, status: Any, error: tuple[str, str | None] | None, more: dict[str, Any] | None
    ) -> None:
        body, hint = bodies.answered(b"".join(self._whole))
        if self._decoder.unknown:
            hint = {**hint, "encoded": True}
        reply = Reply(
            status=self._status,
            reason=self._reason,
            headers=self._headers,
            body=body,
            hint={**hint, **(more or {})} if self._kept else {"lost": True},
        )
        if status == "ok":
            status, error = exchange.error_of(reply)
        seam = seam_of(self._x)
        streamed = self._answer.value if self._answer is not None else None
        out, attributes = exchange.out_of(seam, reply, streamed=streamed)
        if not self._kept:
            out = LOST
        self._x.done(
            NOTHING if out is None else out,
            exchange.usage_of(out) if seam == "provider" else None,
            status,
            error=error,
            attributes=attributes,
        )


class Unsent:
    """The answer to what is not sent: 200, and nothing."""

    has_head = whole = True
    sending = False
    error: tuple[str, str | None] | None = None
    reply = Reply(status=200, reason="OK", headers=[("content-length", "0")])

    def headers(self) -> list[tuple[str, str]]:
        """The answer's headers, true of the body that is played."""
        return list(self.reply.headers)

    def pieces(self) -> Iterator[bytes]:
        """The body, piece by piece, as it is sent."""
        return iter(())

    async def begin(self) -> None:
        """Wait until it is the turn of an answer that was over when it began."""

    async def arrive(self) -> None:
        """The last piece was handed on: wait until it is the turn of its end."""

    def after(self) -> None:
        """Nothing is left: a drift where the agent had not read so far."""

    def closed(self) -> None:
        """The client reads no further."""


class Playing(Unsent):
    """An answer from the tape. ``has_head`` says whether one came at all."""

    def __init__(self, x: Crossing, *, decoded: bool = False) -> None:
        self._x = x
        seam = seam_of(x)
        self._wire = x.attributes.get("http") or {}
        self.sending = bool(self._wire.get("sending"))
        self.has_head = "status" in self._wire if seam == "provider" else x.out is not None
        failure = exchange.failure_of(x.error) if x.error and not self.has_head else None
        self.has_head = self.has_head or failure is not None
        absent = not self.has_head and x.error is None and x.status != "cancelled"
        if absent or self._wire.get("lost"):
            x.beyond()
        self.reply = failure or exchange.reply_of(seam, x.out, x.attributes)
        named = exchange.dict_of(self.reply.headers)
        encoding = str(named.get("content-encoding", ""))
        left = bool(self._wire.get("encoded"))  # as it was recorded: nobody could decode it
        self._encoder = None if decoded or left else encoder(encoding)
        self.encoded = self._encoder is not None or left or decoded
        self._keeps_length = bool(encoding) and (left or decoded)
        # Whether its end is played, too; and what ended it, where that was no answer.
        self.whole = not any(self._wire.get(why) for why in ("unread", "broke", "short"))
        self.error = x.error if self._wire.get("broke") or not self.has_head else None
        self._cut = pieces.cut_of(named)
        if x.chunks is not None:
            self._parts = list(map(pieces.bytes_of, x.chunks))
        elif self._cut == "event":
            self._parts = self._streamed()
        else:
            self._parts = [bodies.written(self.reply.body, self.reply.hint)]

    def headers(self) -> list[tuple[str, str]]:
        """The answer's headers, true of the body that is played."""
        found = list(self.reply.headers)
        if not self.encoded:
            found = [pair for pair in found if pair[0] != "content-encoding"]
        changes = self.whole and not self._keeps_length and self._x.chunks is None
        if changes and self.reply.body is not None:
            length = str(sum(map(len, self._sent())))
            found = [(name, length if name == "content-length" else value) for name, value in found]
        return found

    def pieces(self) -> Iterator[bytes]:
        """The body, piece by piece, as it is sent."""
        return iter(self._sent())

    def _sent(self) -> list[bytes]:
        if self._encoder is not None:
            packed = [self._encoder.feed(part) for part in self._parts if part]
            self._parts = [*packed, self._encoder.end()] if packed and self.whole else packed
            self._encoder = None
        return [part for part in self._parts if part]

    def _streamed(self) -> list[bytes]:
        """An answer without pieces that is a stream: empty, or changed as a whole."""
        body = self.reply.body
        if body is None:
            return []
        made = pieces_of(body) if seam_of(self._x) == "provider" else None
        if made is None:
            text = bodies.written(body, {}).decode(errors="replace")
            made = [{"data": text}]
        return list(map(pieces.bytes_of, made))

    async def begin(self) -> None:
        """Wait until it is the turn of an answer that was over when it began."""
        if not self.has_head or self._wire.get("early"):
            await self._x.arrive()

    async def arrive(self) -> None:
        """The last piece was handed on: wait until it is the turn of its end.

        Who waited in vain for more waits in vain again.
        """
        if self._wire.get("waiting") or not self._wire.get("unread"):
            await self._x.arrive()

    def after(self) -> None:
        """Nothing is left: a drift where the agent had not read so far."""
        if self._wire.get("unread"):
            self._x.beyond()
        self._x.done()

    def closed(self) -> None:
        """The client reads no further."""
        self._x.done()


def seam_of(x: Crossing) -> Seam:
    """PROVIDER or HTTP."""
    return "provider" if x.kind == "llm_call" else "http"
