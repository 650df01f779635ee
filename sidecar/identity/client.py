"""What a caller presents over HTTP: one ``Authorization`` value, and its verified certificate."""

from typing import Any

from aiohttp import web

from processors.model.principal import Presented
from sidecar.identity.keys import Unauthenticated

_KINDS = {"URI": "uri", "DNS": "dns"}


def shown(request: web.BaseRequest) -> Presented:
    """What a request presents. Raises Unauthenticated where it has two credentials."""
    values = request.headers.getall("Authorization", [])
    if len(values) > 1:
        raise Unauthenticated("send one Authorization header")
    return Presented(
        authorization=values[0] if values else None, certificate=certificate_of(request)
    )


def certificate_of(request: web.BaseRequest) -> tuple[str, ...]:
    """The names of the client certificate that the handshake verified; none without one."""
    found: Any = request.get_extra_info("peercert")
    return names_in(found or {})


def names_in(certificate: dict[str, Any]) -> tuple[str, ...]:
    """The URI and DNS names of what ``ssl`` tells of a verified certificate."""
    names = certificate.get("subjectAltName", ())
    return tuple(f"{_KINDS[kind]}:{name}" for kind, name in names if kind in _KINDS)
