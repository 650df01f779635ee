"""Redaction of telemetry as it was received, for those it is sent on to.

Rules
1. What leaves has passed the same keeping as what is stored: names, texts, values and attributes
   of spans, events, links, scopes, resources and log records. ``keep`` None keeps all (full).
2. Where a process runs (host, container, cloud) is no captured content: short names under those
   keys of a resource stay with capture off. Everything unlisted goes.
3. ``agenttwin.*`` of an emitter goes, but for its claims: nobody speaks for us downstream either.
4. Ids, times, kinds, severities and status codes stay.
"""

from typing import Any, Final

from msgspec.structs import replace

from processors.model.names import CLAIM_PREFIX, PREFIX
from processors.model.span import Attributes, LogRecord, Scope, Span, SpanEvent, SpanLink
from processors.redact.keeping import Keeping

_PLACES: Final = (
    *("host.", "k8s.", "cloud.", "container.", "deployment.", "os.", "faas.", "telemetry."),
    *("process.pid", "process.runtime.", "process.executable.name"),
)


def keep_span(span: Span, keep: Keeping | None, resource: Attributes, scope: Scope) -> Span:
    """The span as it may leave, below a resource and a scope that were kept before."""
    if keep is None:
        attributes = not_ours(span.attributes)
        return replace(span, attributes=attributes, scope=scope, resource=resource)
    return replace(
        span,
        name=keep.name(span.name),
        status_message=_text(span.status_message, keep),
        trace_state=_unchanged(span.trace_state, keep),
        attributes=keep.attributes(not_ours(span.attributes)),
        events=tuple(_event(event, keep) for event in span.events),
        links=tuple(_link(link, keep) for link in span.links),
        scope=scope,
        resource=resource,
    )


def keep_record(
    record: LogRecord, keep: Keeping | None, resource: Attributes, scope: Scope
) -> LogRecord:
    """The log record as it may leave, below a resource and a scope that were kept before."""
    if keep is None:
        attributes = not_ours(record.attributes)
        return replace(record, attributes=attributes, scope=scope, resource=resource)
    return replace(
        record,
        event_name=keep.name(record.event_name) if record.event_name else "",
        severity_text=_unchanged(record.severity_text, keep),
        body=None if record.body is None else keep.value(record.body),
        attributes=keep.attributes(not_ours(record.attributes)),
        scope=scope,
        resource=resource,
    )


def keep_scope(scope: Scope, keep: Keeping | None) -> Scope:
    """An instrumentation scope as it may leave."""
    if keep is None:
        return replace(scope, attributes=not_ours(scope.attributes))
    return replace(
        scope,
        name=keep.name(scope.name),
        version=keep.name(scope.version),
        attributes=keep.attributes(not_ours(scope.attributes)),
    )


def keep_resource(resource: Attributes, keep: Keeping | None) -> Attributes:
    """A resource's attributes as they may leave."""
    if keep is None:
        return not_ours(resource)
    places: Attributes = {}
    others: Attributes = {}
    for key, value in not_ours(resource).items():
        placed = key.startswith(_PLACES) and isinstance(value, str | int)
        (places if placed else others)[key] = value
    kept = keep.attributes(others)
    for key, value in places.items():
        kept[key] = keep.name(value) if isinstance(value, str) else value
    return kept


def not_ours(attributes: Attributes) -> Attributes:
    """The attributes without what only we may say."""
    if not any(key.startswith(PREFIX) for key in attributes):
        return attributes
    return {
        key: value
        for key, value in attributes.items()
        if not key.startswith(PREFIX) or key.startswith(CLAIM_PREFIX)
    }


def _text(text: str, keep: Keeping) -> str:
    return (keep.text(text) or "") if text else text


def _unchanged(text: str, keep: Keeping) -> str:
    """A text that has a grammar of its own: as it is where it may stay, else nothing."""
    return text if not text or keep.name(text) == text else ""


def _event(event: SpanEvent, keep: Keeping) -> SpanEvent:
    return replace(
        event, name=keep.name(event.name), attributes=keep.attributes(not_ours(event.attributes))
    )


def _link(link: SpanLink, keep: Keeping) -> SpanLink:
    attributes: dict[str, Any] = keep.attributes(not_ours(link.attributes))
    return replace(link, attributes=attributes)
