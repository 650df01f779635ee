"""What MCP servers define now: their lists of tools, asked for again when they are old.

**Rules**
1. A list is used no longer than its server's ``refresh``; without a fresh one nothing is known, and
   whoever asked is told so.
2. One question at a time to each server, whoever waits for the answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sidecar import clock
from sidecar.gateway.rpc.definition import Standing, definition_digest, unusable_name

Definitions = Mapping[str, dict[str, Any]]
Fetch = Callable[[str], Awaitable[list[Any]]]


class Catalogue:
    """The current definitions of every server. ``fetch`` asks one for all its tools."""

    def __init__(self, fetch: Fetch, refresh_ns: Mapping[str, int]) -> None:
        self._fetch = fetch
        self._refresh_ns = refresh_ns
        self._known: dict[str, tuple[int, Definitions]] = {}
        self._locks = {server: asyncio.Lock() for server in refresh_ns}

    async def definitions(self, server: str) -> Definitions:
        """What a server defines now, by name. Raises what ``fetch`` raises."""
        async with self._locks[server]:
            known = self._known.get(server)
            if known is not None and known[0] + self._refresh_ns[server] > clock.monotonic_ns():
                return known[1]
            asked_ns = clock.monotonic_ns()
            found = _by_name(await self._fetch(server))
            self._known[server] = (asked_ns, found)
            return found

    def expire(self, server: str) -> None:
        """The server has said that its tools are others now."""
        self._known.pop(server, None)


def standing(server: str, name: str, pinned: str, found: Definitions) -> Standing:
    """How a tool that was reviewed with a digest stands to what its server defines now."""
    definition = found.get(name)
    if definition is None:
        return "gone"
    return "pinned" if definition_digest(server, definition) == pinned else "drifted"


def _by_name(listed: list[Any]) -> Definitions:
    """The definitions that can be told apart: a name twice is no tool at all."""
    found: dict[str, dict[str, Any]] = {}
    twice = set()
    for each in listed:
        name = each.get("name") if isinstance(each, dict) else None
        if unusable_name(name) is not None:
            continue
        if name in found:
            twice.add(str(name))
        found[str(name)] = each
    return {name: each for name, each in found.items() if name not in twice}
