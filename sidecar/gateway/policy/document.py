"""The document a policy judges: subject, action, resource and context (OpenID AuthZEN), with HTTP
detail.

**Rules**
1. Evaluation is pure: time, counters, budgets and what was called before are in the document, not
   fetched.
2. No secret is in it: no credential, no idempotency key, no approval token.
3. What policy sees is what is hashed and sent: ``http`` and ``arguments`` are the Action's own.
4. What an agent says of itself is no fact: who it is, for whom it acts and where it came from its
   credential, its provider and its connection say; the provenance it adds only makes stricter.
5. What a tool's MCP server claims of it stands under ``annotations_claimed`` and nowhere else.
6. ``normalized`` is a copy of the arguments' text under NFKC and case folding, for deny rules to
   match on; it is never sent.

The schema is policies/schema/input.json; the source gateway.md §2.5.
"""

import unicodedata
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from processors.model.call import Action
from processors.model.names import SideEffectClass
from processors.model.principal import Principal
from sidecar.canonical import sha256

VERSION = 1
"""Of the document: it is raised where a member changes its meaning, not where one is added."""


class Situation(Struct, frozen=True, kw_only=True):
    """What is known beside the action when a decision is asked for.

    ``prior_tools``: names of the tools whose calls in this trace (or session) already had their
    effect, in order. ``budget``: scope -> {limit, used, reserved} as decimal text. ``provenance``:
    labels of what may have reached the agent in this session (``provenance.labels_of``).
    ``counters``: of those the bundle reads; ``resolved_ips`` where the call would go, None where it
    is not read. ``trust`` and ``labels`` are configured for the principal; ``claimed`` is the MCP
    server's word of its tool; ``place`` scheme, host and port of the upstream.
    """

    time_ns: int
    request_id: str
    session_id: str | None = None
    prior_tools: tuple[str, ...] = ()
    key_present: bool = False
    attempt: int = 1
    client_ip: str | None = None
    resolved_ips: tuple[str, ...] | None = None
    budget: dict[str, dict[str, str]] = {}
    counters: dict[str, Any] = {}
    trust: str | None = None
    labels: dict[str, str] = {}
    provenance: tuple[str, ...] = ()
    claimed: dict[str, bool] = {}
    place: tuple[str, str, int] | None = None
    policy_revision: str = ""


class ToolFacts(Struct, frozen=True, kw_only=True):
    """What a visibility question is about: no arguments. ``mcp``: the list it is asked for, and
    what stands there, where that is no tool."""

    name: str
    upstream: str
    class_: SideEffectClass
    tool_digest: str
    mcp: Mapping[str, Any] | None = None


def document(
    action: Action,
    principal: Principal,
    situation: Situation,
    value: Any = None,
    *,
    mcp: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document for ``decide``; ``value`` is the parsed JSON body, None where there is none.

    ``mcp``: method and name (or uri) of a call that is one of MCP's.
    """
    named = {"mcp": dict(mcp)} if mcp else {}
    return {
        **named,
        "subject": _subject(principal, situation),
        "action": {
            "name": mcp["method"] if mcp else f"http.{action.method.lower()}",
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
        "resource": _resource(
            ToolFacts(
                name=action.tool,
                upstream=action.upstream,
                class_=action.class_,
                tool_digest=action.tool_digest,
            ),
            situation,
            path=action.path,
        ),
        "arguments": action.arguments,
        "normalized": {"arguments": _folded(action.arguments)},
        "http": _http(action, value, situation.place),
        "context": _context(situation, principal, action.mode),
    }


def list_document(
    tool: ToolFacts, principal: Principal, situation: Situation, mode: str = "live"
) -> dict[str, Any]:
    """The document for ``list``: may this principal see this tool?"""
    return {
        **({"mcp": dict(tool.mcp)} if tool.mcp else {}),
        "subject": _subject(principal, situation),
        "action": {"name": "tools.list", "properties": {"class": tool.class_}},
        "resource": _resource(tool, situation),
        "context": _context(situation, principal, mode),
    }


def encode(document: dict[str, Any]) -> bytes:
    """The bytes a policy engine gets: sorted keys, so that one document has one encoding."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def part(document: dict[str, Any], members: frozenset[str] | None) -> dict[str, Any]:
    """The document with these members alone; None is all of it."""
    if members is None:
        return document
    return {name: document[name] for name in members if name in document}


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
            "owner": principal.owner,
            "trust": situation.trust,
            "labels": situation.labels,
        },
    }


def _resource(tool: ToolFacts, situation: Situation, path: str | None = None) -> dict[str, Any]:
    place = situation.place
    return {
        "type": "tool",
        "id": tool.name,
        "properties": {
            "server": tool.upstream,
            "registered_class": tool.class_,
            "def_digest": tool.tool_digest,
            "annotations_claimed": situation.claimed,
            "host": place[1] if place else None,
            "path": path,
        },
    }


def _http(action: Action, value: Any, place: tuple[str, str, int] | None) -> dict[str, Any]:
    query: dict[str, list[str]] = {}
    for name, text in action.query:
        query.setdefault(name, []).append(text)
    scheme, host, port = place or (None, None, None)
    return {
        "scheme": scheme,
        "host": host,
        "port": port,
        "method": action.method,
        "path": action.path,
        "path_segments": action.path[1:].split("/"),
        "query": query,
        "headers": dict(action.headers),
        "media_type": action.media_type,
        "body": value,
    }


def _context(situation: Situation, principal: Principal, mode: str) -> dict[str, Any]:
    network: dict[str, Any] = {"client_ip": situation.client_ip}
    if situation.resolved_ips is not None:
        network["resolved_ips"] = list(situation.resolved_ips)
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
        "on_behalf_of": principal.on_behalf_of or None,
        "network": network,
        "gateway": {"version": VERSION, "policy_revision": situation.policy_revision},
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
