"""What MCP clients are told there is: tools, resources, templates and prompts, each as its caller
may see it.

**Rules**
1. Listed is what could be asked for: what is registered, granted to the credential, and visible to
   policy.
2. A list is one page.
3. What is said of a tool or an entry is said of every call of it, whichever way it comes in.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from sidecar.gateway.action import ToolRequest
from sidecar.gateway.problem import Refusal
from sidecar.gateway.protocol import READ, Kind, kind_of, method_of
from sidecar.gateway.registry import RegisteredTool, Registry
from sidecar.gateway.rpc import message
from sidecar.gateway.rpc.beside import LISTINGS, Listing
from sidecar.gateway.rpc.client import McpUpstreams
from sidecar.gateway.rpc.definition import claims
from sidecar.gateway.rpc.driver import Definitions, standing
from sidecar.gateway.rpc.http import Talk
from sidecar.gateway.rpc.listing import (
    Beside,
    entry_of,
    first_of,
    listed,
    listed_beside,
    offer,
    offer_beside,
)
from sidecar.gateway.rpc.message import RpcRefused
from sidecar.gateway.strict import NotStrict, read_json
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

    async def vouched(self, registry: Registry, request: ToolRequest) -> ToolRequest:
        """A call of a server's that did not come as a message of MCP, with what would be said of
        it, and against it, if it had."""
        tools = [each for each in registry.tools.values() if _is_of(each, request)]
        if not tools:
            return request
        tool = tools[0]
        if tool.config.match.tool:
            try:
                found = await self.definitions(request.upstream)
            except RpcRefused as error:
                what = f"the tool could not be reached: {error.message}"
                unreachable = Refusal(
                    status=502, code="upstream_unreachable", detail=what, next_action="retry"
                )
                return replace(request, refusal=unreachable)
            against = unreviewed(tool, found)
            return replace(request, refusal=against, claimed=claimed_of(tool, found))
        meant = first_of(registry.tools.values(), tool, _said(request))
        if meant is None or meant is tool:  # what no entry is for is refused as such
            return request
        what = f"{tool.name} is not the entry that is for what is asked for"
        return replace(request, refusal=Refusal(status=404, code="no_such_tool", detail=what))

    async def tools(self, talk: Talk) -> dict[str, Any]:
        """The result of ``tools/list``. Raises RpcRefused."""
        _one_page(talk)
        found = await self.definitions(talk.server)
        offered = offer(talk.server, talk.registered, found)
        verdicts = await asyncio.gather(
            *(
                talk.gateway.visible(tool, talk.asked.principal, claimed=claimed_of(tool, found))
                for tool in offered.tools
            )
        )
        seen = [tool for tool, sees in zip(offered.tools, verdicts, strict=True) if sees]
        withheld = {**offered.withheld, **_unseen(verdicts)}
        for reason, count in withheld.items():
            DROPPED.labels("mcp", f"tool_{reason}").inc(count)
        if not seen and found:
            data: dict[str, Any] = {"code": "no_tools", "withheld": withheld}
            if "policy_error" in withheld:
                data["next_action"] = "retry"
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
        withheld = {**({"unlisted": unlisted} if unlisted else {}), **_unseen(verdicts)}
        for reason, count in withheld.items():
            DROPPED.labels("mcp", f"{listing.kind}_{reason}").inc(count)
        return listed_beside(listing, seen, withheld)

    async def sees_resource(self, talk: Talk, uri: str) -> bool:
        """Whether a caller may know of a resource, and so of its changes."""
        entry = entry_of(entries(talk, "resource"), uri)
        if entry is None:
            return False
        item = Beside(name=uri, shown={}, entry=entry)
        return await _sees(talk, LISTINGS["resources/list"], item) is True


def unreviewed(tool: RegisteredTool, found: Definitions) -> Refusal | None:
    """Why a tool's definition lets no call of it pass, or None."""
    stands = standing(tool.config.upstream, tool.config.match.tool, tool.config.definition, found)
    if stands == "pinned":
        return None
    return Refusal(
        status=403,
        code=f"tool_{stands}",
        detail=f"the definition of {tool.name} is not the reviewed one: a person has to look "
        "at it before it is called again",
    )


def claimed_of(tool: RegisteredTool, found: Definitions) -> dict[str, bool]:
    """What a server claims of a tool of its own."""
    return claims(found.get(tool.config.match.tool, {}).get("annotations"))


def _is_of(tool: RegisteredTool, request: ToolRequest) -> bool:
    match = tool.config.match
    return (tool.config.upstream, match.path) == (request.upstream, request.raw_path)


def _said(request: ToolRequest) -> dict[str, Any]:
    try:
        found = read_json(request.body)
    except NotStrict:  # it is refused for that
        return {}
    return found if isinstance(found, dict) else {}


def entries(talk: Talk, kind: Kind) -> list[RegisteredTool]:
    """What is registered for the resources or prompts of a server, without completions."""
    return [
        tool
        for tool in talk.registered
        if kind_of(tool.config.match) == kind
        and method_of(tool.config.match) == (READ if kind == "resource" else "prompts/get")
    ]


def _unseen(verdicts: Sequence[bool | None]) -> dict[str, int]:
    """How many are withheld because policy says so, and because it says nothing."""
    counts = {"denied": verdicts.count(False), "policy_error": verdicts.count(None)}
    return {reason: count for reason, count in counts.items() if count}


async def _sees(talk: Talk, listing: Listing, item: Beside) -> bool | None:
    said = {"method": listing.method, "name" if listing.by == "name" else "uri": item.name}
    return await talk.gateway.visible(item.entry, talk.asked.principal, said)


def _one_page(talk: Talk) -> None:
    if talk.said.params.get("cursor") is not None:
        raise RpcRefused(message.INVALID_PARAMS, "the list is one page", status=400)


def _unreachable(error: UpstreamFailed) -> RpcRefused:
    data = {"code": "server_unreachable", "next_action": "retry"}
    return RpcRefused(message.INTERNAL_ERROR, error.reason, data=data)
