"""Whether an OTLP request decodes, and how many of its items cannot be kept.

Rules
1. What passes here decodes in the pipeline: nothing acknowledged is found undecodable later.
2. A bad item never sinks its batch: it is counted, and told to the sender as partial success.
3. The common case, sound protobuf, is read as far as its ids and no further (``sound``); only what
   seems wrong there is parsed, and then judged item by item.
4. Memory is bounded by the limits: what could take more than its bytes is read item by item.
"""

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import DecodeError
from msgspec import Struct

from sidecar.otlp.decode_json import items_json
from sidecar.otlp.errors import TooMany, Undecodable
from sidecar.otlp.items import KINDS, Items
from sidecar.otlp.limits import LIMITS, Cuts, Limits
from sidecar.otlp.metrics import count_points, read_metrics
from sidecar.otlp.sound import sound_records, sound_spans
from sidecar.otlp.wire import WHOLE_BYTES, Torn
from sidecar.store.journal import Encoding, Signal

_NO_TRACE_ID = bytes(16)
_NO_SPAN_ID = bytes(8)


class Checked(Struct, frozen=True):
    """What a request holds: items kept, and items ``rejected`` for want of usable ids or bytes."""

    accepted: int
    rejected: int


def check(signal: Signal, encoding: Encoding, payload: bytes, limits: Limits = LIMITS) -> Checked:
    """Counts of an uncompressed Export*ServiceRequest. Raises Undecodable and TooMany."""
    if signal == "metrics":
        metrics = read_metrics(encoding, payload, limits.nodes_max)
        return _within(Checked(count_points(metrics.request), metrics.lost), limits)
    if encoding == "json":
        return _json(signal, payload, limits)
    found = check_sound(signal, payload, limits)
    return found if found is not None else check_each(signal, payload, limits)


def check_sound(signal: Signal, payload: bytes, limits: Limits = LIMITS) -> Checked | None:
    """``check`` of protobuf in a fraction of the time, where all is well and of ordinary size.

    None where that cannot be told at once. Raises TooMany.
    """
    if signal == "metrics" or len(payload) > WHOLE_BYTES:
        return None
    look = sound_spans if signal == "traces" else sound_records
    found = look(payload, limits.items_max)
    return Checked(found, 0) if found is not None else None


def check_each(signal: Signal, payload: bytes, limits: Limits = LIMITS) -> Checked:
    """``check`` of traces or logs in protobuf, each item judged by itself."""
    if len(payload) <= WHOLE_BYTES:
        try:
            return _within(_whole(KINDS[signal].request.FromString(payload)), limits)
        except DecodeError:
            pass  # taken apart below, where each item is judged by itself
    items = Items(KINDS[signal], limits, Cuts())
    try:
        found = items.ids(payload)
        counted = _spans(found) if signal == "traces" else Checked(sum(1 for _ in found), 0)
    except Torn as error:
        name = KINDS[signal].request.DESCRIPTOR.name
        raise Undecodable(f"not an OTLP {name}: {error}") from error
    return Checked(counted.accepted, counted.rejected + items.lost)


def _json(signal: Signal, payload: bytes, limits: Limits) -> Checked:
    accepted = rejected = 0
    try:
        for item in items_json(signal, payload, limits, Cuts()):
            if item is None:
                rejected += 1
            else:
                accepted += 1
    except (TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Undecodable(f"not an OTLP request: {error}") from error
    return Checked(accepted, rejected)


def _within(checked: Checked, limits: Limits) -> Checked:
    if checked.accepted + checked.rejected > limits.items_max:
        raise TooMany(f"the request has more than {limits.items_max} items; send smaller ones")
    return checked


def _whole(request: Any) -> Checked:
    if hasattr(request, "resource_spans"):
        return _spans(
            span
            for group in request.resource_spans
            for part in group.scope_spans
            for span in part.spans
        )
    records = (
        len(part.log_records) for group in request.resource_logs for part in group.scope_logs
    )
    return Checked(sum(records), 0)


def _spans(items: Iterable[Any]) -> Checked:
    accepted = rejected = 0
    for span in items:
        trace_id, span_id = span.trace_id, span.span_id
        if (
            len(trace_id) != 16
            or len(span_id) != 8
            or trace_id == _NO_TRACE_ID
            or span_id == _NO_SPAN_ID
        ):
            rejected += 1
        else:
            accepted += 1
    return Checked(accepted, rejected)
