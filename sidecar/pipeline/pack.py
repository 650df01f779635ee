"""Telemetry of one open trace as bytes, and back.

Rules
1. ``unpack(pack(batch)) == batch``, but for ``rejected``, which was told when it was received.
2. A resource and a scope are written once however many spans share them.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from processors.model.span import Attributes, Batch, LogRecord, Scope, Span
from sidecar.store.codec import Codec

_NO_SCOPE = Scope()


class _Packed(Struct, frozen=True, array_like=True):
    resources: list[Attributes]
    scopes: list[Scope]
    spans: list[tuple[int, int, Span]]
    logs: list[tuple[int, int, LogRecord]]


_codec = Codec(_Packed)


def pack(batch: Batch) -> bytes:
    """A batch as bytes."""
    resources: dict[int, int] = {}
    scopes: dict[int, int] = {}
    kept_resources: list[Attributes] = []
    kept_scopes: list[Scope] = []

    # The decoder shares one object among the items of a group, so identity finds the repeats.
    def places(item: Span | LogRecord) -> tuple[int, int]:
        resource = resources.setdefault(id(item.resource), len(kept_resources))
        if resource == len(kept_resources):
            kept_resources.append(item.resource)
        scope = scopes.setdefault(id(item.scope), len(kept_scopes))
        if scope == len(kept_scopes):
            kept_scopes.append(item.scope)
        return resource, scope

    spans = [(*places(span), replace(span, resource={}, scope=_NO_SCOPE)) for span in batch.spans]
    logs = [(*places(log), replace(log, resource={}, scope=_NO_SCOPE)) for log in batch.logs]
    return _codec.encode(_Packed(kept_resources, kept_scopes, spans, logs))


def unpack(packed: bytes) -> Batch:
    """The batch of ``pack``."""
    held = _codec.decode(packed)
    # Nobody else has them yet: to set two fields costs less than to copy a whole item.
    for items in (held.spans, held.logs):
        for resource, scope, item in items:
            force_setattr(item, "resource", held.resources[resource])
            force_setattr(item, "scope", held.scopes[scope])
    return Batch(
        spans=tuple([span for _, _, span in held.spans]),
        logs=tuple([log for _, _, log in held.logs]),
    )


def join(batches: list[Batch]) -> Batch:
    """One batch of several, in order."""
    spans: list[Any] = []
    logs: list[Any] = []
    for batch in batches:
        spans += batch.spans
        logs += batch.logs
    return Batch(spans=tuple(spans), logs=tuple(logs))
