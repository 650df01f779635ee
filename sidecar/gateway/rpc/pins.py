"""The tools of MCP servers as the registry has them: reviewed definitions and what is configured.

**Rules**
1. What is not reviewed is no tool of ours: it is neither listed nor called.
2. A reviewed tool that is not configured is irreversible. Configuration names it by ``match.tool``.
3. Resources and prompts are there where entries are for them (``beside``).
4. A call is ``POST /tools/call/<name>`` with the arguments as its JSON body: the action that is
   hashed, judged and approved.
5. A call without a key is taken once within the tool's ``duplicate_window``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sidecar.errors import Problem
from sidecar.gateway.config import Arguments, Match, McpServer, Tool
from sidecar.gateway.protocol import kind_of
from sidecar.gateway.rpc.beside import entries, wrong_entry
from sidecar.gateway.rpc.definition import (
    confusable,
    definition_digest,
    stricter,
    unusable_name,
)

CALL = "/tools/call/"
DUPLICATE_WINDOW = "60s"


class Pinned(Struct, frozen=True, kw_only=True):
    """The registry's tools, their schemas by name, what is wrong, and where each entry came from.

    ``places``: for each tool its configuration key.
    """

    tools: tuple[Tool, ...]
    schemas: dict[str, Any]
    problems: tuple[Problem, ...]


def pinned(
    servers: Sequence[McpServer], tools: Sequence[Tool], definitions: Mapping[str, Any]
) -> Pinned:
    """All tools of the configuration, those of MCP servers as the registry needs them.

    ``definitions``: the content of each server's file, by server.
    """
    problems: list[Problem] = []
    schemas: dict[str, Any] = {}
    names = {server.name for server in servers}
    reviewed = {
        server.name: _reviewed(server.name, f"gateway.mcp.{index}", definitions, problems)
        for index, server in enumerate(servers)
    }
    made: list[Tool] = []
    for index, tool in enumerate(tools):
        where = f"gateway.tools.{index}"
        if tool.upstream not in names:
            made.append(tool)
        elif kind_of(tool.match) is not None:
            made += _beside(tool, where, schemas, problems)
        else:
            made.append(_configured(tool, where, reviewed[tool.upstream], schemas, problems))
    configured = {(tool.upstream, tool.match.tool) for tool in tools}
    for server in servers:
        for name, definition in reviewed[server.name].items():
            if (server.name, name) not in configured:
                plain = Tool(
                    name=f"{server.name}/{name}", upstream=server.name, match=Match(tool=name)
                )
                made.append(_with(plain, definition, schemas))
    return Pinned(tools=tuple(made), schemas=schemas, problems=tuple(problems))


def path_of(name: str) -> str:
    """The path of a tool's calls."""
    return CALL + name


def _reviewed(
    server: str, where: str, definitions: Mapping[str, Any], problems: list[Problem]
) -> dict[str, dict[str, Any]]:
    content = definitions.get(server)
    listed = content.get("tools") if isinstance(content, dict) else content
    if listed is None:
        return {}
    if not isinstance(listed, list):
        problems.append(Problem(f"{where}.definitions", "has no list of tools"))
        return {}
    found: dict[str, dict[str, Any]] = {}
    for each in listed:
        name = each.get("name") if isinstance(each, dict) else None
        why = unusable_name(name)
        if why is None and name in found:
            why = f"{name!r} is defined twice"
        if why is None and definition_digest(server, each) is None:
            why = f"{name!r} has no canonical form"
        if why is not None:
            problems.append(Problem(f"{where}.definitions", why))
        else:
            found[str(name)] = each
    for name, other in confusable(found).items():
        problems.append(Problem(f"{where}.definitions", f"{name!r} looks like {other!r}"))
    return found


def _beside(
    tool: Tool, where: str, schemas: dict[str, Any], problems: list[Problem]
) -> tuple[Tool, ...]:
    """The tools of an entry for resources or prompts."""
    why = wrong_entry(tool)
    if why is None:
        return entries(tool, schemas)
    problems.append(Problem(where, why))
    return ()


def _configured(
    tool: Tool,
    where: str,
    reviewed: Mapping[str, dict[str, Any]],
    schemas: dict[str, Any],
    problems: list[Problem],
) -> Tool:
    name = tool.match.tool
    if (why := unusable_name(name)) is not None:
        problems.append(Problem(f"{where}.match.tool", why))
        return replace(tool, match=Match(method="POST", path=CALL))
    definition = reviewed.get(name)
    if definition is not None:
        return _with(tool, definition, schemas)
    if not tool.definition:
        text = f"{name!r} is not in its server's definitions, and no definition is pinned here"
        problems.append(Problem(where, text))
    return _routed(tool)


def _with(tool: Tool, definition: Mapping[str, Any], schemas: dict[str, Any]) -> Tool:
    """The tool with what its definition says."""
    routed = _routed(tool)
    schema = definition.get("inputSchema")
    if not tool.arguments.schema and isinstance(schema, dict):
        name = f"mcp:{tool.upstream}/{tool.match.tool}"
        schemas[name] = schema
        routed = replace(routed, arguments=Arguments(schema=name))
    return replace(
        routed,
        class_=stricter(tool.class_, definition),
        definition=definition_digest(tool.upstream, definition) or "",
    )


def _routed(tool: Tool) -> Tool:
    name, keys = tool.match.tool, tool.idempotency
    if not keys.duplicate_window:  # the protocol has no keys, and its clients try again
        keys = replace(keys, duplicate_window=DUPLICATE_WINDOW)
    return replace(
        tool, match=Match(method="POST", path=path_of(name), tool=name), idempotency=keys
    )
