"""Where tool calls go: HTTP upstreams, and MCP servers with the wire that agents reach them by."""

import grpc
from msgspec import Struct

from processors.value import duration_ns
from sidecar.app.approving import approval_rules
from sidecar.config import Config
from sidecar.egress.client import Egress
from sidecar.gateway.authz.grpc import ExtAuthz
from sidecar.gateway.authz.http import Authzen
from sidecar.gateway.client import HttpUpstreams, RoutedUpstreams
from sidecar.gateway.driver import Gateway
from sidecar.gateway.registry import Registry
from sidecar.gateway.rpc.client import McpUpstreams
from sidecar.gateway.rpc.mcp import McpWire
from sidecar.gateway.upstream import Addresses, Upstreams
from sidecar.identity.driver import Authenticate


def open_authz(
    config: Config, gateway: Gateway, who: Authenticate
) -> tuple[grpc.GenericRpcHandler, ...]:
    """The service that answers Envoy, where it is asked for."""
    wanted = config.gateway.ext_authz
    if not wanted.on:
        return ()
    resource = config.gateway.resource
    made = ExtAuthz(gateway, who, irreversible=wanted.irreversible, resource=resource)
    return (made.handlers,)


def open_authzen(config: Config, gateway: Gateway) -> Authzen | None:
    """The decisions on the gateway's port, where they are asked for."""
    wanted = config.gateway.authzen
    return Authzen(gateway, irreversible=wanted.irreversible) if wanted.on else None


class WaysOut(Struct, frozen=True, kw_only=True):
    """The port of all upstreams, where they would be dialled, and the wire of MCP servers where
    there are any."""

    upstreams: Upstreams
    addresses: Addresses
    mcp: McpWire | None


def open_upstreams(config: Config, registry: Registry, egress: Egress) -> WaysOut:
    """The upstreams of a configuration, none of them dialled yet."""
    otherwise = HttpUpstreams(registry, egress)
    if not config.gateway.mcp:
        return WaysOut(upstreams=otherwise, addresses=otherwise.addresses, mcp=None)
    refresh_ns = {server.name: duration_ns(server.refresh) for server in config.gateway.mcp}
    servers = McpUpstreams(registry, egress, refresh_ns)
    return WaysOut(
        upstreams=RoutedUpstreams(otherwise, dict.fromkeys(refresh_ns, servers)),
        addresses=otherwise.addresses,
        mcp=McpWire(servers, _page(config)),
    )


def _page(config: Config) -> str:
    """The address of the page a person approves on, with ``{id}`` in it."""
    scheme = "https" if config.control.tls.on else "http"
    pages = approval_rules(config).pages or f"{scheme}://{config.control.listen}"
    return f"{pages.rstrip('/')}/approvals/{{id}}"
