"""An OTLP request, protobuf or JSON, becomes plain telemetry (``model.span.Batch``).

Rules
1. One bad item never loses the others: it is counted in ``Batch.rejected`` and the rest is kept.
2. What exceeds the limits gives way and is counted; ids, names, times and status never do.
3. The common case, a request of ordinary size, is parsed once and whole.

``items`` takes large or unsound protobuf apart; ``plain`` says what messages become;
``decode_json`` reads the JSON encoding.
"""

from collections.abc import Callable
from typing import Any, Literal

from google.protobuf.message import DecodeError
from msgspec import Struct
from msgspec.structs import replace

from processors.model.span import Attributes, Batch, LogRecord, Scope, Span
from sidecar.otlp.decode_json import decode_json
from sidecar.otlp.errors import Undecodable
from sidecar.otlp.frames import Frames
from sidecar.otlp.items import KINDS, Items
from sidecar.otlp.limits import LIMITS, NO_MAX, Cuts, Limits, fit_attributes
from sidecar.otlp.plain import attributes_of, record_of, scope_of, span_of
from sidecar.otlp.wire import WHOLE_BYTES, Torn

Signal = Literal["traces", "logs"]
Encoding = Literal["protobuf", "json"]

__all__ = ["Decoded", "Encoding", "Signal", "Undecodable", "decode", "decode_within"]


class Decoded(Struct, frozen=True):
    """A request's telemetry, and what of it gave way."""

    batch: Batch
    cuts: Cuts


def decode(signal: Signal, encoding: Encoding, payload: bytes) -> Batch:
    """The spans or log records of one Export*ServiceRequest, within the default limits.

    ``payload`` is the uncompressed body. Raises Undecodable when it is no such request at all.
    """
    return decode_within(signal, encoding, payload, LIMITS).batch


def decode_within(signal: Signal, encoding: Encoding, payload: bytes, limits: Limits) -> Decoded:
    """The same within limits of items; how many a request may hold was decided on receipt.

    Raises Undecodable.
    """
    cuts: Cuts = Cuts()
    limits = replace(limits, items_max=NO_MAX)
    if encoding == "json":
        limits = replace(limits, nodes_max=NO_MAX)
        return Decoded(decode_json(signal, payload, limits, cuts), cuts)
    kept = _Kept(signal)
    items = Items(KINDS[signal], limits, cuts)
    whole = _whole(signal, payload)
    if whole is not None:
        fitted = items.fitted_long if _holds_long(payload, limits) else items.fitted
        _read_whole(whole, fitted, kept, lambda group: _resource(group, limits, cuts))
        return Decoded(kept.batch(0), cuts)
    try:
        for group in items.groups(payload):
            resource = _resource(group, limits, cuts)
            scope = scope_of(group.scope)
            for item in group.items:
                items.charge(kept.add(item, scope, resource))
    except Torn as error:
        name = KINDS[signal].request.DESCRIPTOR.name
        raise Undecodable(f"not an OTLP {name}: {error}") from error
    return Decoded(kept.batch(items.lost), cuts)


class _Kept:
    """What has been read so far."""

    def __init__(self, signal: Signal) -> None:
        self._convert: Any = span_of if signal == "traces" else record_of
        self._signal = signal
        self._rejected = 0
        self._found: list[Any] = []

    def add(self, item: Any, scope: Scope, resource: Attributes) -> Span | LogRecord | None:
        """Convert an item; one without usable ids is rejected."""
        plain: Span | LogRecord | None = self._convert(item, scope, resource)
        if plain is None:
            self._rejected += 1
        else:
            self._found.append(plain)
        return plain

    def batch(self, lost: int) -> Batch:
        """All of it."""
        found, rejected = tuple(self._found), self._rejected + lost
        if self._signal == "traces":
            return Batch(spans=found, rejected=rejected)
        return Batch(logs=found, rejected=rejected)


def _whole(signal: Signal, payload: bytes) -> Any:
    """The request as one message; None where it must be taken apart."""
    if len(payload) > WHOLE_BYTES:
        return None
    try:
        return KINDS[signal].request.FromString(payload)
    except DecodeError:
        return None


def _holds_long(payload: bytes, limits: Limits) -> bool:
    """Whether any item is long enough to hold a value that is too large; parsed it is no longer."""
    limit = min(limits.value_bytes_max, limits.item_bytes_max)
    if len(payload) <= limit:
        return False
    frames = Frames(payload, NO_MAX)
    return any(stop - start > limit for frame in frames for start, stop in frame.items)


def _resource(group: Any, limits: Limits, cuts: Cuts) -> Attributes:
    plain = attributes_of(group.resource.attributes)
    over = len(plain) > limits.attributes_max or group.resource.ByteSize() > limits.value_bytes_max
    return fit_attributes(plain, limits, cuts) if over else plain


def _read_whole(
    request: Any,
    fitted: Callable[[Any], Any],
    kept: _Kept,
    resource_of: Callable[[Any], Attributes],
) -> None:
    traces = hasattr(request, "resource_spans")
    for group in request.resource_spans if traces else request.resource_logs:
        resource = resource_of(group)
        for part in group.scope_spans if traces else group.scope_logs:
            scope = scope_of(part.scope)
            for item in part.spans if traces else part.log_records:
                kept.add(fitted(item), scope, resource)
