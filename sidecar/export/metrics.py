"""Metrics on their way through: redacted and marked, otherwise as they came.

Rules
1. The same keeping as for spans decides what leaves. Where it takes or masks an attribute's value,
   a keyed digest of the value stands beside the mask: two series never become one, and equal
   values stay equal within a project and a key.
2. Metrics that have passed this sidecar before are left out: they have no ids by which a loop would
   show.
"""

import hashlib
from typing import Any, Final

from msgspec import Struct

from processors.model.span import Attributes
from processors.redact.keeping import REDACTED
from processors.redact.telemetry import keep_resource, not_ours
from sidecar.export.outgoing import Mark, came_back, marked_resource
from sidecar.otlp.metrics import Edits, count_points, edit, read_metrics
from sidecar.store.codec import encode
from sidecar.store.journal import JournalEntry
from sidecar.store.outbox import Outgoing

_TOKEN_BYTES: Final = 6


class Passing(Struct, frozen=True, kw_only=True):
    """What of a request passes, and how many data points were left out as come back."""

    items: tuple[Outgoing, ...]
    looped: int = 0


def passing(entry: JournalEntry, mark: Mark, key: bytes) -> Passing:
    """A received metrics request as it is sent on; ``key`` is for the digests of what is masked.

    Raises Undecodable.
    """
    request = read_metrics(entry.encoding, entry.payload).request
    looped = edit(request, _edits(mark, key))
    count = count_points(request)
    if not count:
        return Passing(items=(), looped=looped)
    payload = bytes(request.SerializeToString())
    item = Outgoing(project=mark.project, signal="metrics", items=count, payload=payload)
    return Passing(items=(item,), looped=looped)


def _edits(mark: Mark, key: bytes) -> Edits:
    keep = mark.keep

    def resource(attributes: Attributes) -> Attributes | None:
        if came_back(attributes, mark.sidecar_id):
            return None
        return marked_resource(attributes, keep_resource(attributes, keep), mark)

    def attributes(given: Attributes) -> Attributes:
        ours = not_ours(given)
        return ours if keep is None else _distinct(ours, keep.attributes(ours), key)

    def text(given: str) -> str:
        return given if keep is None or not given else keep.text(given) or ""

    def name(given: str) -> str:
        return given if keep is None else keep.name(given)

    return Edits(resource=resource, attributes=attributes, name=name, text=text)


def _distinct(given: Attributes, kept: Attributes, key: bytes) -> Attributes:
    """The kept attributes, with a digest wherever a value was changed or a whole member went."""
    found: Attributes = {}
    for name, value in given.items():
        if name not in kept:
            found[f"redacted.{_token(name, key)}"] = f"{REDACTED} {_token(value, key)}"
        elif kept[name] != value:
            mask = kept[name] if isinstance(kept[name], str) else REDACTED
            found[name] = f"{mask} {_token(value, key)}"
        else:
            found[name] = value
    return found


def _token(value: Any, key: bytes) -> str:
    return hashlib.blake2b(encode(value), key=key, digest_size=_TOKEN_BYTES).hexdigest()
