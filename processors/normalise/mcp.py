"""Model Context Protocol: client and server spans of ``mcp.method.name``, gateways between them.

Rules
1. ``tools/call`` is a tool call, on either side; the two sides and a gateway's hop are one call
   (merged in assemble), every other method is glue.
2. A tool that answers ``isError`` has failed although the protocol succeeded.
3. OpenLLMetry's instrumentation wraps name and arguments, and the result, in objects of its own.
4. ``elicitation/create`` asks a person. ``mcp.session.id`` is a connection, never a conversation.

Source: semantic-conventions-genai docs/gen-ai/mcp.md; modelcontextprotocol/python-sdk
src/mcp/server/_otel.py; openllmetry packages/opentelemetry-instrumentation-mcp; agentgateway
``mcp.tool.*``.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.fragment import RANK_DISCRIMINATOR, RANK_NONE, RANK_OPERATION, Reading
from processors.model.message import only_block
from processors.model.names import ContentState, StepKind, StepStatus
from processors.model.span import Span
from processors.model.step import StepError, Tool
from processors.value import first_name, name, parse, truth

DIALECT = "mcp"
FAMILIES = frozenset({"mcp"})
EVENTS: frozenset[str] = frozenset()
FIELDS: dict[str, tuple[str, ...]] = {
    "tool.name": ("gen_ai.tool.name", "mcp.tool.name", "mcp.tool"),
    "tool.namespace": ("mcp.target", "mcp.server.name", "mcp.tool.target"),
    "tool.arguments": ("gen_ai.tool.call.arguments", "mcp.tool.arguments"),
    "tool.result": ("gen_ai.tool.call.result", "mcp.tool.result"),
}
MAPPED = frozenset({"mcp.method.name", "mcp.tool.name", "mcp.tool.arguments", "mcp.tool.result"})
PREFIXES: tuple[str, ...] = ()
METHODS: dict[str, tuple[StepKind, str | None]] = {
    "tools/call": ("tool_call", None),
    "elicitation/create": ("human_input", None),
    "sampling/createMessage": ("other", "sampling"),
    "resources/read": ("retrieval", "resource"),
}
_CALL = "tools/call "
_NOISE = ("ResponseStreamWriter", "RequestStreamWriter")


def read_span(span: Span) -> Reading | None:
    """What an MCP span says; None for any other span."""
    attributes = span.attributes
    method = name(attributes.get("mcp.method.name"))
    traced = "instrumentation.mcp" in span.scope.name
    if span.name in _NOISE or span.name.endswith(".mcp"):
        return _reading("other", RANK_DISCRIMINATOR, "mcp") if traced else None
    if traced and attributes.get("traceloop.span.kind") == "tool":
        return _wrapped(attributes)
    if method is None and _CALL not in span.name and "mcp.tool.name" not in attributes:
        return _reading(None, RANK_NONE, None) if traced else None
    kind, subtype = METHODS.get(method or "tools/call", ("other", "mcp"))
    if kind != "tool_call":
        return _reading(kind, RANK_OPERATION, subtype)
    return _call(span, attributes)


def _reading(kind: StepKind | None, rank: int, subtype: str | None) -> Reading | None:
    return Reading(dialect=DIALECT, kind=kind, rank=rank, subtype=subtype) if kind else None


def _call(span: Span, attributes: Mapping[str, Any]) -> Reading:
    state: dict[str, ContentState] = {}
    result, failed = _unpacked(_content(attributes, "result", state))
    named = first_name(attributes, FIELDS["tool.name"])
    said = attributes.get("mcp.tool.error")
    wrong = isinstance(said, str) and bool(name(said)) and truth(said) is not False
    return Reading(
        dialect=DIALECT,
        kind="tool_call",
        rank=RANK_OPERATION,
        tool=Tool(
            name=named or name(span.name.rpartition(_CALL)[2]),
            namespace=first_name(attributes, FIELDS["tool.namespace"]),
            arguments=_content(attributes, "arguments", state),
            result=result,
        ),
        status="error" if failed or wrong or truth(said) else None,
        error=StepError(message=said) if wrong and isinstance(said, str) else None,
        content_state=state,
    )


def _content(attributes: Mapping[str, Any], field: str, state: dict[str, ContentState]) -> Any:
    for key in FIELDS[f"tool.{field}"]:
        if attributes.get(key) is not None:
            value, state[field] = parse(attributes[key])
            return value
    return None


def _unpacked(result: Any) -> tuple[Any, bool]:
    """The content of a CallToolResult, and whether it says that the tool failed."""
    if not isinstance(result, dict) or "content" not in result or "isError" not in result:
        return result, False
    structured = result.get("structuredContent")
    whole = only_block(result["content"])
    value = structured if isinstance(structured, dict) else parse(whole)[0]
    return value, result["isError"] is True


def _wrapped(attributes: Mapping[str, Any]) -> Reading:
    """OpenLLMetry's tool span: ``{"tool_name", "arguments"}`` and ``{"result": text}``."""
    state: dict[str, ContentState] = {}
    given, gave = (
        attributes.get("traceloop.entity.input"),
        attributes.get("traceloop.entity.output"),
    )
    arguments, state_in = parse(given)
    result, state_out = parse(gave)
    if isinstance(arguments, dict) and "arguments" in arguments:
        arguments = arguments["arguments"]
    if isinstance(result, dict) and result.keys() == {"result"}:
        result = parse(result["result"])[0]
    result, failed = _unpacked(result)
    if given is not None:
        state["arguments"] = state_in
    if gave is not None:
        state["result"] = state_out
    status: StepStatus | None = "error" if failed else None
    return Reading(
        dialect=DIALECT,
        kind="tool_call",
        rank=RANK_DISCRIMINATOR,
        tool=Tool(
            name=first_name(attributes, ("traceloop.entity.name",)),
            arguments=arguments,
            result=result,
        ),
        status=status,
        content_state=state,
    )
