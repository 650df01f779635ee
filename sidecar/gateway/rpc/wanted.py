"""What a listener of 2026-07-28 wants to be told of: the filter of ``subscriptions/listen``."""

from typing import Any, Final

from msgspec import Struct

from sidecar.gateway.rpc import message
from sidecar.gateway.rpc.beside import unusable_uri
from sidecar.gateway.rpc.message import RpcRefused

ID_META: Final = "io.modelcontextprotocol/subscriptionId"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
RESOURCES: Final = "resourcesListChanged"
KINDS: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": RESOURCES,
}
_EACH = "resourceSubscriptions"
_URIS_MAX = 100


class Wanted(Struct, frozen=True, kw_only=True):
    """Kinds of lists, and single resources."""

    kinds: frozenset[str] = frozenset()
    resources: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The same as the protocol writes it."""
        each = {_EACH: list(self.resources)} if self.resources else {}
        return {**dict.fromkeys(sorted(self.kinds), True), **each}

    def only(self, value: Any) -> "Wanted":
        """As much of it as a server has agreed to; nothing where it does not say."""
        try:
            theirs = read_wanted(value)
        except RpcRefused:
            return Wanted()
        both = tuple(uri for uri in self.resources if uri in theirs.resources)
        return Wanted(kinds=self.kinds & theirs.kinds, resources=both)


def read_wanted(value: Any) -> Wanted:
    """A filter; what is not known here is not agreed to. Raises RpcRefused."""
    if not isinstance(value, dict):
        raise _malformed("params.notifications must be an object")
    uris = value.get(_EACH, [])
    if not isinstance(uris, list) or len(uris) > _URIS_MAX:
        raise _malformed(f"params.notifications.{_EACH} must be at most {_URIS_MAX} URIs")
    usable = tuple(dict.fromkeys(uri for uri in uris if unusable_uri(uri) is None))
    kinds = frozenset(kind for kind in KINDS.values() if value.get(kind) is True)
    return Wanted(kinds=kinds, resources=usable)


def _malformed(why: str) -> RpcRefused:
    return RpcRefused(message.INVALID_PARAMS, why, status=400)
