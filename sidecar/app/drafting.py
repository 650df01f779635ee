"""What a command about tools needs: the tools as registered, and what MCP servers define now."""

import asyncio
from typing import Any

from processors.value import duration_ns
from sidecar.app.known import known_tools, open_definitions
from sidecar.app.tools import resolved
from sidecar.app.trust import upstream_tls
from sidecar.config import Loaded
from sidecar.egress.client import Egress
from sidecar.errors import SidecarError
from sidecar.gateway.config import McpServer
from sidecar.gateway.draft.server import Stands, standings
from sidecar.gateway.registry import Registry
from sidecar.gateway.rpc.client import McpUpstreams
from sidecar.gateway.upstream import UpstreamFailed


def defined_now(loaded: Loaded, server: McpServer) -> list[Any]:
    """All tools a server defines now. Raises SidecarError."""

    async def ask() -> list[Any]:
        egress = Egress(tls_of=upstream_tls(loaded))
        upstream = resolved(loaded, server.upstream)
        registry = Registry((), {server.name: upstream})
        try:
            refresh_ns = {server.name: duration_ns(server.refresh)}
            return await McpUpstreams(registry, egress, refresh_ns).fetch(server.name)
        except UpstreamFailed as error:
            raise SidecarError(
                f"the MCP server does not list its tools: {error.reason}",
                where=server.url,
                do="Check its address, allow_cidrs and credential.",
            ) from None
        finally:
            await egress.close()

    return asyncio.run(ask())


def standings_now(loaded: Loaded) -> tuple[Stands, ...]:
    """How the tools of every MCP server stand to what was reviewed. Raises SidecarError."""
    config = loaded.config.gateway
    definitions = open_definitions(loaded)
    made = known_tools(loaded)
    found: list[Stands] = []
    for server in config.mcp:
        content = definitions.get(server.name, {})
        listed = content.get("tools", ()) if isinstance(content, dict) else content
        found += standings(
            server.name, made.tools, _by_name(listed), _by_name(defined_now(loaded, server))
        )
    return tuple(found)


def _by_name(listed: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(listed, list):
        return {}
    return {str(each.get("name")): each for each in listed if isinstance(each, dict)}
