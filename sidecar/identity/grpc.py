"""What a caller presents over gRPC: one ``authorization`` metadata value, and its verified
certificate."""

from typing import Any

from processors.model.principal import Presented
from sidecar.identity.keys import Unauthenticated

# gRPC's own names of a verified peer's alternative names, told apart by kind.
_KINDS = {"peer_uri": "uri", "peer_dns": "dns"}


def shown(context: Any) -> Presented:
    """What a call presents. Raises Unauthenticated where it has two credentials."""
    metadata = context.invocation_metadata() or ()
    values = [str(value) for key, value in metadata if key == "authorization"]
    if len(values) > 1:
        raise Unauthenticated("send one authorization")
    return Presented(
        authorization=values[0] if values else None, certificate=_names(context.auth_context())
    )


def _names(peer: dict[str, Any]) -> tuple[str, ...]:
    return tuple(
        f"{kind}:{value.decode('utf-8', 'replace')}"
        for key, kind in _KINDS.items()
        for value in peer.get(key, ())
    )
