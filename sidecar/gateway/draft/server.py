"""A registry drafted from the tools of an MCP server, and how they stand to what was reviewed.

**Rules**
1. What a server claims of a tool is said beside the entry and decides nothing.
2. The definitions are written as they came: what is reviewed is what is pinned.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from sidecar.gateway.config import Tool
from sidecar.gateway.draft.tool import Draft, DraftTool, name_of, unique
from sidecar.gateway.rpc.definition import (
    Standing,
    changed,
    definition_digest,
    suspicious,
    unusable_name,
    visible,
)

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class Stands(Struct, frozen=True, kw_only=True):
    """How a tool stands: reviewed and unchanged, drifted (in which parts), new or gone."""

    server: str
    tool: str
    standing: Standing
    changed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def draft_server(server: str, definitions: Sequence[Any]) -> Draft:
    """The entries for a server's tools."""
    tools, left_out = [], []
    names = [each.get("name") for each in definitions if isinstance(each, dict)]
    for each in definitions:
        name = each.get("name") if isinstance(each, dict) else None
        why = unusable_name(name)
        if why is None and definition_digest(server, each) is None:
            why = "its definition has no canonical form"
        if why is not None:
            left_out.append(f"{str(name)[:60]!r}: {why}")
            continue
        notes = [visible(str(each.get("description", "")))]
        claims = each.get("annotations")
        if isinstance(claims, Mapping):
            said = [f"{hint}: {claims[hint]}" for hint in _HINTS if hint in claims]
            notes += [f"the server claims {', '.join(said)}"] if said else []
        notes += [f"look twice: {what}" for what in suspicious(each, map(str, names))]
        tools.append(
            DraftTool(
                name=name_of(str(name)),
                upstream=server,
                match={"tool": str(name)},
                class_="irreversible",
                notes=tuple(note for note in notes if note.strip()),
            )
        )
    return Draft(tools=unique(tools), left_out=tuple(left_out))


def standings(
    server: str,
    tools: Sequence[Tool],
    reviewed: Mapping[str, Mapping[str, Any]],
    found: Mapping[str, Mapping[str, Any]],
) -> tuple[Stands, ...]:
    """How every tool of a server stands, by name; ``found``: what it defines now."""
    pinned = {
        tool.match.tool: tool.definition
        for tool in tools
        if tool.upstream == server and tool.match.tool
    }
    result = []
    for name in sorted(pinned.keys() | found.keys()):
        now, before = found.get(name), reviewed.get(name)
        standing: Standing
        if name not in pinned:
            standing = "new"
        elif now is None:
            standing = "gone"
        else:
            same = definition_digest(server, now) == pinned[name]
            standing = "pinned" if same else "drifted"
        parts = changed(before, now) if standing == "drifted" and before and now else ()
        notes = suspicious(now, found) if now is not None else ()
        result.append(
            Stands(server=server, tool=name, standing=standing, changed=parts, notes=notes)
        )
    return tuple(result)
