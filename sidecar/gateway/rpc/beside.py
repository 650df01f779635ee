"""What an MCP server has beside its tools: resources and prompts, and completions for both.

**Rules**
1. They are registered like tools, by patterns: what no entry is for is neither listed nor read.
2. All of them are reads. Reading is ``POST /resources/read/<entry>``, and so on, with what is asked
   for as the JSON body: the action that is hashed, judged and shown. Completing is a tool of its
   own, ``<entry>/complete``, with the settings of its entry.
3. ``*`` stands for a run of characters without ``/``, ``**`` for any run. A URI with more than one
   reading (dot or empty segments, coded ones, ``\\``) is nobody's, whatever the pattern.
4. What a server says of its resources and prompts is not pinned: only the fields of the protocol
   are passed on.

Source: Model Context Protocol 2025-06-18 to 2026-07-28; gateway.md §4.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from sidecar.gateway.config import Arguments, Match, Tool
from sidecar.gateway.protocol import COMPLETE, GET, READ, Kind, asked_of, kind_of
from sidecar.gateway.rpc.definition import unusable_name

RESOURCES = ("uri", "name", "title", "description", "mimeType", "size", "annotations")
TEMPLATES = ("uriTemplate", "name", "title", "description", "mimeType", "annotations")
PROMPTS = ("name", "title", "description", "arguments")
_URI_CHARS_MAX = 2048
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]*\Z")
_CODED = re.compile(r"%(?:25)*(?:2[ef]|5c|00)", re.IGNORECASE)
_PARTS = re.compile(r"[/:?#;]")
"""Where some reader ends a segment: not all take a URI apart, and some of those but its path."""
_QUERY = re.compile(r"[?#]")
_PLACE = re.compile(r"\{[^{}]*\}")
_SEGMENT, _ANY = r"[A-Za-z0-9._~%!$&'()+,;=:@?{}-]+", r"[A-Za-z0-9._~%!$&'()+,;=:@?{}/*#-]+"
_METHODS: Mapping[Kind, str] = {"resource": READ, "prompt": GET}
_MEMBERS = {READ: "uri", GET: "name"}


class Listing(Struct, frozen=True):
    """A list of the protocol: its method, its member, what an item is known by, what is told."""

    method: str
    member: str
    by: str
    fields: tuple[str, ...]
    kind: Kind


LISTINGS: Mapping[str, Listing] = {
    each.method: each
    for each in (
        Listing("resources/list", "resources", "uri", RESOURCES, "resource"),
        Listing("resources/templates/list", "resourceTemplates", "uriTemplate", TEMPLATES,
                "resource"),
        Listing("prompts/list", "prompts", "name", PROMPTS, "prompt"),
    )
}  # fmt: skip
READINGS = frozenset({READ, GET, COMPLETE})


def entries(tool: Tool, schemas: dict[str, Any]) -> tuple[Tool, Tool]:
    """The two tools of an entry: what reads and what completes. Their schemas are added."""
    kind = kind_of(tool.match)
    assert kind is not None
    return _entry(tool, _METHODS[kind], tool.name, schemas), _entry(
        tool, COMPLETE, f"{tool.name}/complete", schemas
    )


def wrong_entry(tool: Tool) -> str | None:
    """Why an entry for resources or prompts cannot be served, or None."""
    if (why := unusable_name(tool.name)) is not None:
        return why
    if tool.class_ != "read":
        return "resources and prompts are read: say class: read"
    return None


def fits(match: Match, arguments: Mapping[str, Any]) -> bool:
    """Whether what a call asks for is what its entry is for."""
    asked = asked_of(match, arguments)
    if asked is None:
        return False
    text = asked.get("uri", asked.get("name"))
    return isinstance(text, str) and covers(match, text)


def covers(match: Match, text: str) -> bool:
    """Whether an entry is for a resource, a template of resources or a prompt of this name."""
    if match.prompt:
        return unusable_prompt(text) is None and _pattern(match.prompt).fullmatch(text) is not None
    if not match.resource or unusable_uri(text) is not None:
        return False
    return _pattern(match.resource).fullmatch(text) is not None


def unusable_uri(uri: Any) -> str | None:
    """Why a resource's URI (or a template of one) is not passed on, or None."""
    if not isinstance(uri, str) or len(uri) > _URI_CHARS_MAX or not _URI.match(uri):
        return "a URI is scheme:rest, printable ASCII, at most 2048 characters"
    if "\\" in uri or _CODED.search(uri):
        return "a URI has no backslash, coded dot, slash or NUL"
    if any(part in (".", "..") for part in _PARTS.split(unquote(_PLACE.sub("x", uri)))):
        return "a URI has no dot segments"
    if "//" in _QUERY.split(uri.partition(":")[2])[0].removeprefix("//"):
        return "a URI has no empty segments"  # to who joins paths, what follows is one of its own
    return None


def unusable_prompt(name: Any) -> str | None:
    """Why a prompt's name is not passed on, or None."""
    usable = isinstance(name, str) and 0 < len(name) <= 128 and name.isprintable()
    return None if usable else "a prompt's name is 1 to 128 printable characters"


def _entry(tool: Tool, method: str, name: str, schemas: dict[str, Any]) -> Tool:
    match = replace(tool.match, method="POST", path=f"/{method}/{tool.name}")
    if tool.arguments.schema and method != COMPLETE:
        return replace(tool, name=name, match=match)
    schema = f"mcp:{tool.upstream}/{method}/{tool.name}"
    schemas[schema] = _schema(tool.match, method)
    return replace(tool, name=name, match=match, arguments=Arguments(schema=schema))


def _schema(match: Match, method: str) -> dict[str, Any]:
    key, pattern = ("uri", match.resource) if match.resource else ("name", match.prompt)
    wanted = {"type": "string", "pattern": f"^(?:{_expression(pattern)})$"}
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    if method == READ:
        return _object({"uri": wanted}, ("uri",))
    if method == GET:
        return _object({"name": wanted, "arguments": texts}, ("name",))
    kind = {"const": "ref/resource" if match.resource else "ref/prompt"}
    argument = _object({"name": {"type": "string"}, "value": {"type": "string"}}, ("name", "value"))
    ref = _object({"type": kind, key: wanted, "title": {"type": "string"}}, ("type", key))
    context = _object({"arguments": texts}, ())
    properties = {"ref": ref, "argument": argument, "context": context}
    return _object(properties, ("ref", "argument"))


def _object(properties: dict[str, Any], required: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(_expression(text))


def _expression(text: str) -> str:
    """A pattern as a regular expression that both engines read alike."""
    parts = re.split(r"(\*\*|\*)", text)
    places = {"**": _ANY, "*": _SEGMENT}
    return "".join(places.get(part) or re.escape(part) for part in parts)
