"""What is accepted: media types, content encodings, sizes, permission, and the entry that is kept.

Rules
1. The credential comes first: no body is read or inflated for a caller who may not send it.
2. Inflation is bounded while it runs: a body that outgrows the limit is refused, not inflated on.
3. The tenant is the credential's project.
4. An entry is made only of bytes that decode.
"""

import zlib
from collections.abc import Iterator

from processors.model.principal import Principal
from sidecar.identity.roles import require
from sidecar.otlp.check import Checked, check
from sidecar.receive.status import Refused
from sidecar.store.journal import Encoding, JournalEntry, Signal

MEDIA_TYPES: dict[str, Encoding] = {
    "application/x-protobuf": "protobuf",
    "application/protobuf": "protobuf",
    "application/json": "json",
}
_GZIP_MAGIC = b"\x1f\x8b"
_ANY_WRAPPER = 47  # zlib: gzip or zlib header, found by itself
_PIECE = 65536


def sender(principal: Principal) -> Principal:
    """The principal, if it may send telemetry. Raises Forbidden."""
    require(principal, "telemetry.write")
    return principal


def encoding_of(content_type: str) -> Encoding:
    """The OTLP encoding of a Content-Type value. Raises Refused."""
    media_type = content_type.partition(";")[0].strip().lower()
    try:
        return MEDIA_TYPES[media_type]
    except KeyError:
        raise Refused("media_type", "send application/x-protobuf or application/json") from None


class Body:
    """A request body that arrives in pieces, inflated as it comes, never beyond ``bytes_max``."""

    def __init__(self, content_encoding: str, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._pieces: list[bytes] = []
        self._size = 0
        coding = content_encoding.strip().lower()
        if coding in ("", "identity"):
            self._inflater = None
        elif coding in ("gzip", "x-gzip", "deflate"):
            self._inflater = zlib.decompressobj(_ANY_WRAPPER)
        else:
            raise Refused("content_encoding", "send the body as it is, or gzip it")

    def feed(self, piece: bytes) -> None:
        """Take the next piece. Raises Refused when the body is too large or not what it says."""
        if self._inflater is None:
            self._keep(piece)
            return
        try:
            while piece:
                self._keep(self._inflater.decompress(piece, _PIECE))
                piece = self._inflater.unconsumed_tail or self._next_member()
        except zlib.error as error:
            raise Refused("undecodable", f"the body is not gzip: {error}") from None

    def whole(self) -> bytes:
        """All of it. Raises Refused when the compressed stream stops short."""
        if self._inflater is not None and self._size and not self._inflater.eof:
            raise Refused("undecodable", "the gzip body stops short")
        return b"".join(self._pieces)

    def _next_member(self) -> bytes:
        """What follows a finished gzip member: another one (RFC 1952 §2.2)."""
        assert self._inflater is not None
        rest = self._inflater.unused_data
        if rest:
            self._inflater = zlib.decompressobj(_ANY_WRAPPER)
        return rest

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._bytes_max:
            raise Refused("too_large", f"the body exceeds {self._bytes_max} bytes inflated")
        self._pieces.append(piece)


def inflated(message: bytes, bytes_max: int) -> bytes:
    """A gRPC message freed from gzip or deflate, which it shows by its first bytes.

    No Export request begins so: 0x1f has a wire type that does not exist, and a zlib header would
    be field 15, which neither request has.
    """
    packed = message[:2] == _GZIP_MAGIC or _is_zlib(message)
    body = Body("gzip" if packed else "", bytes_max)
    body.feed(message)
    return body.whole()


def _is_zlib(message: bytes) -> bool:
    return len(message) > 2 and message[0] == 0x78 and int.from_bytes(message[:2], "big") % 31 == 0


def entry(
    principal: Principal, signal: Signal, encoding: Encoding, payload: bytes, now_ns: int
) -> tuple[JournalEntry, Checked]:
    """What to keep of a request, and what of it can be kept. Raises Undecodable."""
    checked = check(signal, encoding, payload)
    kept = JournalEntry(
        project=principal.project,
        principal=principal.id,
        signal=signal,
        encoding=encoding,
        payload=payload,
        received_ns=now_ns,
    )
    return kept, checked


def headers(refusal: Refused) -> Iterator[tuple[str, str]]:
    """The HTTP headers that go with a refusal."""
    if refusal.reason == "unauthenticated":
        yield "WWW-Authenticate", "Bearer"
    if refusal.reason == "method":
        yield "Allow", "POST"
    if refusal.retry_after_s is not None:
        yield "Retry-After", str(refusal.retry_after_s)
