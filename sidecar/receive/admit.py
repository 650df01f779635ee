"""What is accepted: media types, content encodings, sizes, permission, and the entry that is kept.

Rules
1. The credential comes first: no body is read or inflated for a caller who may not send it.
2. Inflation is bounded while it runs: a body that outgrows the limit is refused, not inflated on
   (how it is inflated: ``inflate``).
3. The tenant is the credential's project.
4. What all requests together hold in memory is bounded; beyond that they are told to come back.
"""

from collections.abc import Iterator

from msgspec import Struct

from processors.model.principal import Principal
from sidecar.identity.roles import require
from sidecar.receive.config import Config
from sidecar.receive.inflate import GZIP_MAGIC, inflater
from sidecar.receive.status import Refused
from sidecar.store.journal import Encoding, JournalEntry, Signal

MEDIA_TYPES: dict[str, Encoding] = {
    "application/x-protobuf": "protobuf",
    "application/protobuf": "protobuf",
    "application/json": "json",
}
# Bytes that any request may inflate to, whatever the ratio: a small one of zeros harms nobody.
_FREE_BYTES = 1024**2
_BUSY_RETRY_S = 1


class Bounds(Struct, frozen=True, kw_only=True):
    """Bytes of a body inflated and as it comes, and how many times the one may be the other."""

    bytes_max: int
    packed_bytes_max: int
    ratio_max: int


def bounds_of(config: Config) -> Bounds:
    """The bounds of a receiver's bodies."""
    return Bounds(
        bytes_max=config.request_bytes_max,
        packed_bytes_max=min(config.limits.compressed_bytes_max, config.request_bytes_max),
        ratio_max=config.limits.ratio_max,
    )


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


class Room:
    """The bytes of all requests that are being taken, on one wire, against ``bytes_max``."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._taken = 0

    def take(self, size: int) -> None:
        """Claim bytes. Raises Refused while others have them; one request alone always may."""
        if self._taken and self._taken + size > self._bytes_max:
            raise Refused("busy", "too much is being received at once; try again", _BUSY_RETRY_S)
        self._taken += size

    def give_back(self, size: int) -> None:
        """The end of a claim."""
        self._taken -= size


class Body:
    """A request body that arrives in pieces, inflated as it comes, never beyond its bounds.

    ``ratio_max``: inflated over packed bytes, once more than ``_FREE_BYTES`` are inflated. What is
    held is claimed from ``room``; ``close`` gives it back.
    """

    def __init__(self, content_encoding: str, bounds: Bounds, room: Room) -> None:
        self._bounds = bounds
        self._room = room
        self._pieces: list[bytes] = []
        self._size = self._packed = 0
        self._inflater = inflater(content_encoding)
        self._weight = self._inflater.weight if self._inflater is not None else 1

    def feed(self, piece: bytes) -> None:
        """Take the next piece. Raises Refused when the body is too large or not what it says."""
        for _ in self.steps(piece):
            pass

    def steps(self, piece: bytes) -> Iterator[None]:
        """The same, a step for each piece that an inflater gives."""
        self._packed += len(piece)
        if self._packed > self._bounds.packed_bytes_max:
            limit = self._bounds.packed_bytes_max
            raise Refused("too_large", f"the body exceeds {limit} bytes as it comes")
        if self._inflater is None:
            self._keep(piece)
            return
        for inflated in self._inflater.inflate(piece):
            if inflated:
                self._keep(inflated)
            yield

    def whole(self) -> bytes:
        """All of it. Raises Refused when the compressed stream stops short."""
        if self._inflater is not None and self._packed and not self._inflater.whole:
            raise Refused("undecodable", f"the {self._inflater.name} body stops short")
        return b"".join(self._pieces)

    def close(self) -> None:
        """Give back what is held."""
        self._room.give_back(self._size * self._weight)
        self._pieces, self._size = [], 0

    def _keep(self, piece: bytes) -> None:
        limit, size = self._bounds.bytes_max, self._size + len(piece)
        if size > limit:
            raise Refused("too_large", f"the body exceeds {limit} bytes inflated")
        if size > _FREE_BYTES and size > self._packed * self._bounds.ratio_max:
            limit = self._bounds.ratio_max
            raise Refused("too_large", f"the body inflates more than {limit} times")
        self._room.take(len(piece) * self._weight)
        self._size = size
        self._pieces.append(piece)


def inflating(message: bytes, bounds: Bounds, room: Room) -> Body:
    """The body for a gRPC message, which shows by its first bytes whether it is packed.

    No Export request begins so: 0x1f has a wire type that does not exist, and a zlib header would
    be field 15, which neither request has.
    """
    packed = message[:2] == GZIP_MAGIC or _is_zlib(message)
    return Body("gzip" if packed else "", bounds, room)


def _is_zlib(message: bytes) -> bool:
    return len(message) > 2 and message[0] == 0x78 and int.from_bytes(message[:2], "big") % 31 == 0


def entry(
    principal: Principal, signal: Signal, encoding: Encoding, payload: bytes, now_ns: int
) -> JournalEntry:
    """What to keep of a request."""
    return JournalEntry(
        project=principal.project,
        principal=principal.id,
        signal=signal,
        encoding=encoding,
        payload=payload,
        received_ns=now_ns,
    )


def headers(refusal: Refused) -> Iterator[tuple[str, str]]:
    """The HTTP headers that go with a refusal."""
    if refusal.reason == "unauthenticated":
        yield "WWW-Authenticate", "Bearer"
    if refusal.reason == "method":
        yield "Allow", "POST"
    if refusal.retry_after_s is not None:
        yield "Retry-After", str(refusal.retry_after_s)
