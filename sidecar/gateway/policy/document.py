"""The document a policy judges: subject, action, resource and context (OpenID AuthZEN), with HTTP
detail.

**Rules**
1. Evaluation is pure: time, counters, budgets and what was called before are in the document, not
   fetched.
2. No secret is in it: no credential, no idempotency key, no approval token.
3. What policy sees is what is hashed and sent: ``http`` and ``arguments`` are the Action's own.
4. ``normalized`` is a copy of the arguments' text under NFKC and case folding, for deny rules to
   match on; it is never sent.

The schema is policies/schema/input.json; the source gateway.md §2.5.
"""

import unicodedata
from typing import Any

import orjson
from msgspec import Struct

from processors.model.call import Action
from processors.model.names import SideEffectClass
from processors.model.principal import Principal
from sidecar.canonical import sha256

MCP_CALL = "tools/call"


class Situation(Struct, frozen=True, kw_only=True):
    """What is known beside the action when a decision is asked for.

    ``prior_tools``: names of the tools whose calls in this trace (or session) already had their
    effect, in order. ``budget``: scope -> {limit, used, reserved} as decimal text. ``approved``: a
    verified approval of this very action is at hand. ``provenance``: labels of what may have
    reached the agent in this session (``provenance.labels_of``).
    """

    time_ns: int
    request_id: str
    session_id: str | None = None
    prior_tools: tuple[str, ...] = ()
    key_present: bool = False
    attempt: int = 1
    approved: bool = False
    client_ip: str | None = None
    budget: dict[str, dict[str, str]] = {}
    counters: dict[str, int] = {}
    labels: dict[str, str] = {}
    provenance: tuple[str, ...] = ()


class ToolFacts(Struct, frozen=True, kw_only=True):
    """What a visibility question is about: no arguments."""

    name: str
    upstream: str
    class_: SideEffectClass
    tool_digest: str


def document(
    action: Action,
    principal: Principal,
    situation: Situation,
    value: Any = None,
    *,
    mcp_tool: str = "",
) -> dict[str, Any]:
    """The document for ``decide``; ``value`` is the parsed JSON body, None where there is none.

    ``mcp_tool``: the tool's name on its MCP server, for a call that is one of MCP's.
    """
    named = {"mcp": {"method": MCP_CALL, "name": mcp_tool}} if mcp_tool else {}
    return {
        **named,
        "subject": _subject(principal, situation),
        "action": {
            "name": MCP_CALL if mcp_tool else f"http.{action.method.lower()}",
            "properties": {
                "class": action.class_,
                "amount": action.cost_amount,
                "currency": action.cost_currency,
                "idempotency": {
                    "key_present": situation.key_present,
                    "attempt": situation.attempt,
                },
            },
        },
        "resource": _resource(action.tool, action.upstream, action.class_, action.tool_digest),
        "arguments": action.arguments,
        "normalized": {"arguments": _folded(action.arguments)},
        "http": _http(action, value),
        "context": _context(situation, action.mode),
    }


def list_document(
    tool: ToolFacts, principal: Principal, situation: Situation, mode: str = "live"
) -> dict[str, Any]:
    """The document for ``list``: may this principal see this tool?"""
    return {
        "subject": _subject(principal, situation),
        "action": {"name": "tools.list", "properties": {"class": tool.class_}},
        "resource": _resource(tool.name, tool.upstream, tool.class_, tool.tool_digest),
        "context": _context(situation, mode),
    }


def encode(document: dict[str, Any]) -> bytes:
    """The bytes a policy engine gets: sorted keys, so that one document has one encoding."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def input_digest(encoded: bytes) -> str:
    """``sha256:<hex>`` of an encoded document, domain ``agwi/1``."""
    return sha256(b"agwi/1\n" + encoded)


def _subject(principal: Principal, situation: Situation) -> dict[str, Any]:
    return {
        "type": principal.kind,
        "id": principal.id,
        "properties": {
            "tenant": principal.project,
            "name": principal.name,
            "labels": situation.labels,
        },
    }


def _resource(
    tool: str, upstream: str, class_: SideEffectClass, tool_digest: str
) -> dict[str, Any]:
    return {
        "type": "tool",
        "id": tool,
        "properties": {
            "server": upstream,
            "registered_class": class_,
            "def_digest": tool_digest,
        },
    }


def _http(action: Action, value: Any) -> dict[str, Any]:
    query: dict[str, list[str]] = {}
    for name, text in action.query:
        query.setdefault(name, []).append(text)
    return {
        "method": action.method,
        "path": action.path,
        "path_segments": action.path[1:].split("/"),
        "query": query,
        "headers": dict(action.headers),
        "media_type": action.media_type,
        "body": value,
    }


def _context(situation: Situation, mode: str) -> dict[str, Any]:
    return {
        "time_ns": situation.time_ns,
        "request_id": situation.request_id,
        "mode": mode,
        "session": {
            "id": situation.session_id,
            "step": len(situation.prior_tools),
            "prior_tools": list(situation.prior_tools),
        },
        "provenance": {
            "labels": list(situation.provenance),
            "known": situation.session_id is not None,
        },
        "approved": situation.approved,
        "network": {"client_ip": situation.client_ip},
        "budget": situation.budget,
        "counters": situation.counters,
    }


def _folded(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFKC", value).casefold()
    if isinstance(value, dict):
        return {key: _folded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_folded(item) for item in value]
    return value
