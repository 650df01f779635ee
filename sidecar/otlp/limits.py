"""How much one request, span or log record may hold, and what gives way where it holds more.

Rules
1. What goes first is the largest content; ids, names, times and status never go.
2. Each thing that gives way is counted under one reason of ``Cut``.
3. A text is cut at its end and says so; a structure that is too large becomes a text that says so.
4. Nothing is allocated by a number that the sender wrote.
"""

import heapq
from collections import Counter
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from processors.model.span import Attributes, LogRecord, Span, SpanEvent
from sidecar.errors import Problem

Cut = Literal[
    "attributes_over_limit",
    "events_over_limit",
    "links_over_limit",
    "value_over_limit",
    "item_over_limit",
    "request_over_limit",
    "unreadable_part",
]
Cuts = Counter[Cut]

# What a plain value costs beside its text: so that a million empty ones are not free.
_VALUE_BYTES = 8


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of what is received; an item is a span, a log record or a data point.

    ``items_max`` and ``nodes_max`` (messages of a protobuf request, objects and lists of a JSON
    one) are of a request; ``ratio_max`` is inflated over compressed bytes, beyond the first MiB;
    ``waiting_bytes_max`` is of all requests that are being taken. The others are of one item, its
    resource or its scope.
    """

    compressed_bytes_max: int = 20 * 1024**2
    ratio_max: int = 500
    waiting_bytes_max: int = 128 * 1024**2
    items_max: int = 50_000
    nodes_max: int = 500_000
    item_bytes_max: int = 4 * 1024**2
    attributes_max: int = 4096
    events_max: int = 1024
    links_max: int = 1024
    value_bytes_max: int = 1024**2

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``receive.limits``."""
        found = [
            Problem(name, f"must be at least {least}")
            for name, least in _LEAST.items()
            if getattr(self, name) < least
        ]
        if self.value_bytes_max > self.item_bytes_max:
            found.append(Problem("value_bytes_max", "must be at most item_bytes_max"))
        return found


_LEAST = {
    "compressed_bytes_max": 1024,
    "ratio_max": 20,
    "waiting_bytes_max": 1024**2,
    "items_max": 1,
    "nodes_max": 1000,
    "item_bytes_max": 1024,
    "attributes_max": 16,
    "events_max": 1,
    "links_max": 1,
    "value_bytes_max": 256,
}


LIMITS = Limits()
NO_MAX = 2**63 - 1


def over(count: int, maximum: int, reason: Cut, cuts: Cuts) -> bool:
    """Whether there are too many; what is too much is counted."""
    if count <= maximum:
        return False
    cuts[reason] += count - maximum
    return True


def fit_span(span: Span, limits: Limits, cuts: Cuts) -> Span:
    """The span within the limits."""
    events, links = span.events, span.links
    if over(len(events), limits.events_max, "events_over_limit", cuts):
        events = tuple(_smallest(events, limits.events_max, event_bytes))
    if over(len(links), limits.links_max, "links_over_limit", cuts):
        links = links[: limits.links_max]
    before = len(span.attributes)
    attributes = fit_attributes(span.attributes, limits, cuts)
    events = tuple(
        replace(event, attributes=fit_attributes(event.attributes, limits, cuts))
        for event in events
    )
    size = sum(event_bytes(event) for event in events)
    attributes, size = _fit_size(attributes, size, limits, cuts)
    if size > limits.item_bytes_max:
        events = _fit_events(events, size, limits, cuts)
    return replace(
        span,
        attributes=attributes,
        events=events,
        links=links,
        dropped_attributes=span.dropped_attributes + before - len(attributes),
    )


def fit_record(record: LogRecord, limits: Limits, cuts: Cuts) -> LogRecord:
    """The log record within the limits."""
    body = _fit_value(record.body, limits, cuts)
    attributes = fit_attributes(record.attributes, limits, cuts)
    attributes, size = _fit_size(attributes, value_bytes(body), limits, cuts)
    if size > limits.item_bytes_max:
        cuts["item_over_limit"] += 1
        body = marker(value_bytes(body))
    return replace(record, body=body, attributes=attributes)


def fit_attributes(attributes: Attributes, limits: Limits, cuts: Cuts) -> Attributes:
    """At most ``attributes_max`` of them, the smallest, each value within ``value_bytes_max``."""
    kept = attributes
    if over(len(kept), limits.attributes_max, "attributes_over_limit", cuts):
        smallest = _smallest(kept.items(), limits.attributes_max, lambda pair: value_bytes(pair[1]))
        kept = dict(smallest)
    return {key: _fit_value(value, limits, cuts) for key, value in kept.items()}


def marker(size: int) -> str:
    """What stands in place of what was too large; readers know it as truncated."""
    return f"...[TRUNCATED: original length {size}]"


def cut_text(text: bytes, limit: int) -> bytes:
    """UTF-8 text cut to about ``limit`` bytes, and said so."""
    return text[:limit].decode("utf-8", "ignore").encode() + marker(len(text)).encode()


def event_bytes(event: SpanEvent) -> int:
    """The size of an event's content."""
    return len(event.name) + value_bytes(event.attributes)


def value_bytes(value: Any) -> int:
    """About the bytes of a plain value; not recursive, for it may nest as deep as it likes."""
    total, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        total += _VALUE_BYTES
        if isinstance(item, str):
            total += len(item) if item.isascii() else len(item.encode("utf-8", "replace"))
        elif isinstance(item, dict):
            total += sum(map(len, item))
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return total


def _fit_value(value: Any, limits: Limits, cuts: Cuts) -> Any:
    limit = limits.value_bytes_max
    if isinstance(value, str):
        if len(value) * 4 <= limit or len(raw := value.encode("utf-8", "replace")) <= limit:
            return value
        cuts["value_over_limit"] += 1
        return cut_text(raw, limit).decode()
    if isinstance(value, dict | list):
        size = value_bytes(value)
        if size > limit:
            cuts["value_over_limit"] += 1
            return marker(size)
    return value


def _fit_size(
    attributes: Attributes, size: int, limits: Limits, cuts: Cuts
) -> tuple[Attributes, int]:
    """Attributes whose largest values give way until all fits; and the size that is left."""
    sizes = {key: value_bytes(value) for key, value in attributes.items()}
    size += sum(sizes.values())
    if size <= limits.item_bytes_max:
        return attributes, size
    fitted = dict(attributes)
    for key in sorted(sizes, key=lambda key: (-sizes[key], key)):
        said = marker(sizes[key])
        if size <= limits.item_bytes_max or sizes[key] <= len(said) + _VALUE_BYTES:
            break
        cuts["item_over_limit"] += 1
        fitted[key] = said
        size -= sizes[key] - len(said) - _VALUE_BYTES
    return fitted, size


def _fit_events(
    events: tuple[SpanEvent, ...], size: int, limits: Limits, cuts: Cuts
) -> tuple[SpanEvent, ...]:
    """Events of which the largest lose their attributes until all fits."""
    fitted = list(events)
    for place in sorted(range(len(fitted)), key=lambda place: -event_bytes(fitted[place])):
        if size <= limits.item_bytes_max:
            break
        cuts["item_over_limit"] += 1
        size -= event_bytes(fitted[place])
        fitted[place] = replace(fitted[place], attributes={})
    return tuple(fitted)


def _smallest(items: Any, count: int, size: Any) -> list[Any]:
    """The ``count`` smallest, in the order in which they came."""
    numbered = heapq.nsmallest(count, enumerate(items), key=lambda pair: (size(pair[1]), pair[0]))
    return [item for _, item in sorted(numbered, key=lambda pair: pair[0])]
