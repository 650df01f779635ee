"""From raw request to Action: what is hashed, judged, approved and sent is made here, once.

**Rules**
1. Canonical path and query are what policy judges and what is sent; the original body bytes are
   sent, since nothing in them is ambiguous any more. Body bytes and their RFC 8785 form are both
   hashed.
2. ``arguments`` = path parameters + query or form values + members of a JSON object body. A name in
   two places is refused; a repeated name is a list; path, query and form values are text.
3. A tool with effects, or with a schema, takes no body that policy cannot read.
4. ``action_hash`` covers the whole Action and never the idempotency key (gateway.md §0.2). Tracing
   headers are forwarded and are no part of the action.
5. Equality is decided by meaning, not by spelling (§0.6): for a JSON body the hash covers its RFC
   8785 digest and media type, for a form its pairs or parts, not its bytes or the header that names
   its type; deciding headers count by what they mean (``spelling``), and ``accept-language`` never.
   What was sent is in the receipt's ``request_digest``.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from processors.model.call import Action
from processors.model.principal import Principal
from sidecar.canonical import digest
from sidecar.gateway.content import ACTION_HEADERS, Body, Headers, Uploaded, read_body, read_headers
from sidecar.gateway.cost import price
from sidecar.gateway.native import check_body
from sidecar.gateway.problem import Refusal, Refused
from sidecar.gateway.registry import Matched, RegisteredTool, Registry
from sidecar.gateway.spelling import meant
from sidecar.gateway.target import (
    NotCanonicalTarget,
    Pairs,
    canonical_path,
    read_pairs,
    write_pairs,
)

Mode = Literal["live", "twin"]
METHOD_OVERRIDE = "_method"


class ToolRequest(Struct, frozen=True, kw_only=True):
    """A request as it came: ``raw_path`` is the undecoded target below the upstream, with its
    query. ``refusal``: why its way in does not let it pass, whatever else is said of it;
    ``client_ip`` the address it came from; ``claimed`` what an MCP server says of its tool.
    """

    upstream: str
    method: str
    raw_path: str
    headers: Headers = ()
    body: bytes = b""
    upload: Uploaded | None = None
    refusal: Refusal | None = None
    client_ip: str | None = None
    claimed: dict[str, bool] = {}


class Prepared(Struct, frozen=True, kw_only=True):
    """A request ready to be judged and sent; ``path``, ``query_raw``, ``headers``, ``body`` are the
    wire.

    ``value`` is the parsed JSON body, None where there is none, ``form`` a form's pairs or parts;
    ``upload`` the body where it is too large for memory.
    """

    tool: RegisteredTool
    action: Action
    action_hash: str
    query_raw: str
    headers: Headers
    body: bytes
    upload: Uploaded | None = None
    value: Any = None
    form: tuple[tuple[str, Any], ...] | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """What the tool is asked with, as policy sees it."""
        return self.action.arguments

    @property
    def path(self) -> str:
        """The canonical path: judged, hashed and sent."""
        return self.action.path


class _Parts(Struct, frozen=True, kw_only=True):
    """The strict readings of one request's parts."""

    path: str
    query: Pairs
    headers: Headers
    body: Body
    matched: Matched


def prepare(
    request: ToolRequest,
    principal: Principal,
    registry: Registry,
    *,
    mode: Mode = "live",
    body_bytes_max: int = 1024**2,
) -> Prepared:
    """The action a request is. Raises Refused with 400, 404, 413 or 415."""
    parts = _read(request, registry, body_bytes_max)
    arguments = _arguments(parts)
    _check_schema(parts.matched.tool, arguments)
    action = _action(request, principal, parts, arguments, mode)
    return Prepared(
        tool=parts.matched.tool,
        action=action,
        action_hash=action_hash(action),
        query_raw=write_pairs(parts.query),
        headers=parts.headers,
        body=request.body,
        upload=request.upload,
        value=parts.body.value,
        form=parts.body.form,
    )


def action_hash(action: Action) -> str:
    """``sha256:<hex>`` of the action, domain ``agwa/1``: what makes two requests the same."""
    return digest({"v": 1, **_counted(action)}, domain="agwa/1")


def counted(action: Action) -> dict[str, Any]:
    """What of an action counts, by field: its meaning, without what is spelling."""
    found: dict[str, Any] = msgspec.to_builtins(_counted(action))
    return found


def _counted(action: Action) -> dict[str, Any]:
    """The same, its values as they stand in the action."""
    found = msgspec.structs.asdict(action)
    by_meaning = action.body_jcs_digest is not None
    if by_meaning:
        found["body_digest"] = None
    found["headers"] = [
        pair
        for pair in meant(action.headers)
        if pair[0] != "accept-language" and not (by_meaning and pair[0] == "content-type")
    ]
    if action.on_behalf_of is None:  # whose tokens name nobody: as it always was
        del found["on_behalf_of"]
    return found


def _read(request: ToolRequest, registry: Registry, body_bytes_max: int) -> _Parts:
    path, query = _target(request.raw_path)
    matched = registry.match(request.upstream, request.method, path)
    asked = matched.tool.config.headers
    headers = read_headers(request.headers, asked)
    kind = dict(headers).get("content-type", "")
    body = read_body(request.body, kind, body_bytes_max, request.upload)
    _check_readable(matched.tool, body)
    if matched.tool.config.class_ != "read":  # a read takes no key
        check_body(matched.tool.config.idempotency, body.value)
    if body.media_type is None:  # a type without a body says nothing
        headers = tuple(pair for pair in headers if pair[0] != "content-type")
    return _Parts(path=path, query=query, headers=headers, body=body, matched=matched)


def _target(raw: str) -> tuple[str, Pairs]:
    raw_path, _, raw_query = raw.partition("?")
    try:
        return canonical_path(raw_path), read_pairs(raw_query)
    except NotCanonicalTarget as error:
        raise Refused(400, "target_malformed", str(error)) from error


def _check_readable(tool: RegisteredTool, body: Body) -> None:
    if body.readable or (tool.config.class_ == "read" and tool.schema is None):
        return
    raise Refused(
        415,
        "media_type_unreadable",
        f"{tool.name} takes JSON or a form, so that policy sees what is sent; "
        f"this body is {body.media_type}",
    )


def _arguments(parts: _Parts) -> dict[str, Any]:
    value = parts.body.value
    found: dict[str, Any] = {}
    for place, members in (
        ("path", parts.matched.path_arguments),
        ("query", _lists(parts.query)),
        ("form", _lists(parts.body.form or ())),
        ("body", value if isinstance(value, dict) else {}),
    ):
        _merge(found, members, place)
    return found


def _merge(found: dict[str, Any], members: dict[str, Any], place: str) -> None:
    if not members:
        return
    for name in members:
        if name == METHOD_OVERRIDE:
            raise Refused(
                400, "method_override", f"{METHOD_OVERRIDE} in the {place} is not sent on"
            )
        if name in found:
            raise Refused(
                400,
                "argument_ambiguous",
                f"the argument {name!a} of the {place} stands elsewhere too",
            )
    found.update(members)


def _lists(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found


def _check_schema(tool: RegisteredTool, arguments: dict[str, Any]) -> None:
    if tool.schema is None:
        return
    for error in tool.schema.iter_errors(arguments):
        pointer = "".join(f"/{part}" for part in error.instance_path) or "the top"
        raise Refused(
            400,
            "arguments_invalid",
            f"the arguments of {tool.name} do not fit its schema at {pointer}: {error.message}",
            next_action="request",
        )


def _action(
    request: ToolRequest,
    principal: Principal,
    parts: _Parts,
    arguments: dict[str, Any],
    mode: Mode,
) -> Action:
    tool = parts.matched.tool
    cost = price(tool.cost, arguments)
    return Action(
        tenant=principal.project,
        agent=principal.id,
        tool=tool.name,
        upstream=request.upstream,
        class_=tool.config.class_,
        method=request.method,
        path=parts.path,
        query=parts.query,
        headers=tuple(
            pair
            for pair in parts.headers
            if pair[0] in ACTION_HEADERS or pair[0] in tool.config.headers
        ),
        media_type=parts.body.media_type,
        body_digest=parts.body.digest,
        body_jcs_digest=parts.body.jcs_digest,
        arguments=arguments,
        cost_amount=cost.amount,
        cost_currency=cost.currency,
        tool_digest=tool.tool_digest,
        mode=mode,
        on_behalf_of=principal.on_behalf_of or None,
    )
