"""Every tool there is to know: what ``gateway.tools`` names, and what MCP servers define.

**Rules**
1. Nothing is compiled here: whoever only asks for classes and costs loads no engine for it.
2. A tool of an MCP server is known by its name in the registry, and by its plain name there where
   no other tool has that: an agent's own telemetry knows no other. Of two servers' tools with one
   plain name the stricter counts.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from processors.model.names import SideEffectClass
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.gateway.budget import Priced
from sidecar.gateway.config import Tool
from sidecar.gateway.rpc.pins import Pinned, pinned

_ORDER: tuple[SideEffectClass, ...] = ("read", "write", "irreversible")


def known_tools(loaded: Loaded) -> Pinned:
    """The tools of both kinds, those of MCP servers as reviewed. Raises SidecarError."""
    config = loaded.config.gateway
    return pinned(config.mcp, config.tools, open_definitions(loaded))


def classes(tools: Iterable[Tool]) -> dict[str, SideEffectClass]:
    """The class of each tool, by every name a trace may know it by."""
    found: dict[str, SideEffectClass] = {}
    plain: dict[str, SideEffectClass] = {}
    for tool in tools:
        found[tool.name] = tool.class_
        name = tool.match.tool
        if name:
            plain[name] = max(plain.get(name, "read"), tool.class_, key=_ORDER.index)
    return {**plain, **found}


def priced(tools: Iterable[Tool]) -> tuple[Priced, ...]:
    """What budgets need to know of tools."""
    return tuple(
        Priced(name=tool.name, class_=tool.class_, costs=tool.cost is not None) for tool in tools
    )


def open_definitions(loaded: Loaded) -> dict[str, Any]:
    """The reviewed definitions of each MCP server that has them. Raises SidecarError."""
    return {
        server.name: read_json_file(
            loaded, server.definitions, "an MCP server's definitions", "definitions in gateway.mcp"
        )
        for server in loaded.config.gateway.mcp
        if server.definitions
    }


def read_json_file(loaded: Loaded, name: str, what: str, key: str) -> Any:
    """The content of a JSON file that the configuration names. Raises SidecarError."""
    path = loaded.path(name)
    try:
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise SidecarError(
            f"{what} cannot be read: {error.strerror}", where=str(path), do=f"Check {key}."
        ) from None
    except msgspec.DecodeError as error:
        raise SidecarError(f"{what} is not JSON: {error}", where=str(path)) from None
