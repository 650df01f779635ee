"""What MCP clients are told there is: tools, resources, templates and prompts, each as its caller
may see it.

**Rules**
1. Listed is what could be asked for: what is registered, granted to the credential, and visible to
   policy.
2. A list is one page.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from sidecar.gateway.protocol import READ, Kind, kind_of, method_of
from sidecar.gateway.registry import RegisteredTool
from sidecar.gateway.rpc import message
from sidecar.gateway.rpc.beside import LISTINGS, Listing
from sidecar.gateway.rpc.client import McpUpstreams
from sidecar.gateway.rpc.http import Talk
from sidecar.gateway.rpc.listing import (
    Beside,
    entry_of,
    listed,
    listed_beside,
    offer,
    offer_beside,
)
from sidecar.gateway.rpc.message import RpcRefused
from sidecar.gateway.upstream import UpstreamFailed
from sidecar.telemetry import DROPPED


class Lists:
    """The lists of the MCP servers of one gateway."""

    def __init__(self, upstreams: McpUpstreams) -> None:
        self._upstreams = upstreams

    async def definitions(self, server: str) -> Mapping[str, dict[str, Any]]:
        """The tools a server defines now, by name. Raises RpcRefused."""
        try:
            return await self._upstreams.catalogue.definitions(server)
        except UpstreamFailed as error:
            raise _unreachable(error) from error

    async def tools(self, talk: Talk) -> dict[str, Any]:
        """The result of ``tools/list``. Raises RpcRefused."""
        _one_page(talk)
        found = await self.definitions(talk.server)
        offered = offer(talk.server, talk.registered, found)
        verdicts = await asyncio.gather(
            *(talk.gateway.sees(tool, talk.asked.principal) for tool in offered.tools)
        )
        seen = [tool for tool, sees in zip(offered.tools, verdicts, strict=True) if sees]
        withheld = dict(offered.withheld)
        if denied := len(offered.tools) - len(seen):
            withheld["denied"] = denied
        for reason, count in withheld.items():
            DROPPED.labels("mcp", f"tool_{reason}").inc(count)
        if not seen and found:
            data = {"code": "no_tools", "withheld": withheld}
            what = "this server has tools, and none of them may be shown to you"
            raise RpcRefused(message.DENIED, what, data=data)
        return listed(seen, found, withheld)

    async def beside(self, talk: Talk, listing: Listing) -> dict[str, Any]:
        """The result of one of the other lists. Raises RpcRefused."""
        _one_page(talk)
        try:
            found = await self._upstreams.listed(talk.server, listing)
        except UpstreamFailed as error:
            raise _unreachable(error) from error
        offered, unlisted = offer_beside(listing, entries(talk, listing.kind), found)
        verdicts = await asyncio.gather(*(_sees(talk, listing, each) for each in offered))
        seen = [each for each, sees in zip(offered, verdicts, strict=True) if sees]
        counts = {"unlisted": unlisted, "denied": len(offered) - len(seen)}
        withheld = {reason: count for reason, count in counts.items() if count}
        for reason, count in withheld.items():
            DROPPED.labels("mcp", f"{listing.kind}_{reason}").inc(count)
        return listed_beside(listing, seen, withheld)

    async def sees_resource(self, talk: Talk, uri: str) -> bool:
        """Whether a caller may know of a resource, and so of its changes."""
        entry = entry_of(entries(talk, "resource"), uri)
        if entry is None:
            return False
        item = Beside(name=uri, shown={}, entry=entry)
        return await _sees(talk, LISTINGS["resources/list"], item)


def entries(talk: Talk, kind: Kind) -> list[RegisteredTool]:
    """What is registered for the resources or prompts of a server, without completions."""
    return [
        tool
        for tool in talk.registered
        if kind_of(tool.config.match) == kind
        and method_of(tool.config.match) == (READ if kind == "resource" else "prompts/get")
    ]


async def _sees(talk: Talk, listing: Listing, item: Beside) -> bool:
    said = {"method": listing.method, "name" if listing.by == "name" else "uri": item.name}
    return await talk.gateway.sees(item.entry, talk.asked.principal, said)


def _one_page(talk: Talk) -> None:
    if talk.said.params.get("cursor") is not None:
        raise RpcRefused(message.INVALID_PARAMS, "the list is one page", status=400)


def _unreachable(error: UpstreamFailed) -> RpcRefused:
    data = {"code": "server_unreachable", "next_action": "retry"}
    return RpcRefused(message.INTERNAL_ERROR, error.reason, data=data)
