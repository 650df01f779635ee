"""A registry as a draft: entries of ``gateway.tools`` for a person to read and correct.

**Rules**
1. A draft never makes a call laxer than it would be without it: what is not plainly a read is
   irreversible, whatever the source claims.
2. What a person should look at is a comment beside the entry, in words of the source where it has
   any; no comment breaks the line it is on or holds what does not show.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from processors.model.names import SideEffectClass
from sidecar.plain import plain

READ_METHODS = frozenset({"GET", "HEAD"})


class DraftTool(Struct, frozen=True, kw_only=True):
    """One entry. ``match`` as in configuration; ``schema`` of the arguments, None where unknown."""

    name: str
    upstream: str
    match: dict[str, str]
    class_: SideEffectClass
    schema: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


class Draft(Struct, frozen=True, kw_only=True):
    """Entries, and what could not be made one of them, each with its reason."""

    tools: tuple[DraftTool, ...]
    left_out: tuple[str, ...] = ()


def class_of(method: str) -> SideEffectClass:
    """The class of a request by its method alone."""
    return "read" if method.upper() in READ_METHODS else "irreversible"


def name_of(text: str) -> str:
    """A text as a name in snake case."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")[:64] or "tool"


def unique(tools: Sequence[DraftTool]) -> tuple[DraftTool, ...]:
    """The same entries, names that stand twice numbered."""
    seen: dict[str, int] = {}
    found = []
    for tool in tools:
        number = seen[tool.name] = seen.get(tool.name, 0) + 1
        fields = {name: getattr(tool, name) for name in tool.__struct_fields__}
        name = tool.name if number == 1 else f"{tool.name}_{number}"
        found.append(DraftTool(**{**fields, "name": name}))
    return tuple(found)


def as_yaml(draft: Draft, schema_files: Mapping[str, str]) -> str:
    """The entries as YAML for ``gateway.tools``; ``schema_files``: the file of a tool's schema."""
    lines = ["tools:"]
    for tool in draft.tools:
        lines += [f"  # {_line(note)}" for note in tool.notes]
        match = ", ".join(f"{key}: {json.dumps(value)}" for key, value in tool.match.items())
        lines += [
            f"  - name: {json.dumps(tool.name)}",
            f"    upstream: {json.dumps(tool.upstream)}",
            f"    match: {{{match}}}",
            f"    class: {tool.class_}",
        ]
        if tool.name in schema_files:
            lines.append(f"    arguments: {{schema: {json.dumps(schema_files[tool.name])}}}")
    lines += [f"# left out: {_line(each)}" for each in draft.left_out]
    return "\n".join(lines)


def _line(text: str) -> str:
    return plain(" ".join(text.split()))[:300]
