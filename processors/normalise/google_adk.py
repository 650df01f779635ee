"""Google's Agent Development Kit: ``gcp.vertex.agent.*`` on spans of its own names.

Rules
1. A 1.x ``call_llm`` holds a model call's content as Gemini JSON; ``generate_content`` below it is
   the same call (merged in assemble).
2. An ``invoke_agent`` span stays the agent's although instrumentations overwrite its operation.
3. ``{}`` in place of a request, a response, or of arguments without a result: not captured.
4. A result under the only key ``result`` is that result. Failures say so in ``error`` or status.
5. ``transfer_to_agent`` hands the run over; ``(merged tools)`` sums up and is no call.

Source: google/adk-python src/google/adk/telemetry/tracing.py, flows/llm_flows/functions.py.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.exchange import prompt
from processors.model.fragment import RANK_DISCRIMINATOR, RANK_HANDOFF, RANK_NONE, Reading
from processors.model.message import messages, text_of
from processors.model.names import ContentState, StepKind, StepStatus
from processors.model.span import Span
from processors.model.step import Agent, Message, Model, Part, StepError, Tool, Usage
from processors.value import first_integer, first_name, name, parse

DIALECT = "google_adk"
_OWN = "gcp.vertex.agent."
FAMILIES = frozenset({"gcp.vertex.agent"})
EVENTS: frozenset[str] = frozenset()
FIELDS: dict[str, tuple[str, ...]] = {
    "conversation_id": (_OWN + "session_id",),
    "messages_in": (_OWN + "llm_request",),
    "messages_out": (_OWN + "llm_response",),
    "tool.arguments": (_OWN + "tool_call_args",),
    "tool.result": (_OWN + "tool_response",),
}
MAPPED = frozenset(key for keys in FIELDS.values() for key in keys)
PREFIXES: tuple[str, ...] = ()
USAGE = {
    "input": ("prompt_token_count",),
    "cache_read": ("cached_content_token_count",),
    "reasoning": ("thoughts_token_count",),
}
TRANSFER = "transfer_to_agent"
_NOT_TOOLS = ("(merged)", "(merged tools)")
_AGENTS = ("invoke_agent ", "agent_run [")
_ABSENT = ("{}", "N/A", "<not serializable>", None)


def read_span(span: Span) -> Reading | None:
    """What an ADK span says in its own keys and names; None where it says nothing."""
    attributes = span.attributes
    kind, rank, subtype = _kind(span)
    tool = _tool(span, attributes) if kind == "tool_call" else None
    called = kind == "model_call"
    request = _body(attributes, "messages_in") if called else None
    reply = _body(attributes, "messages_out") if called else None
    states = _states(attributes, tool) if kind == "tool_call" else {}
    found = Reading(
        dialect=DIALECT,
        kind=kind,
        rank=rank,
        subtype=subtype,
        agent=_agent(span.name) if kind == "agent" else None,
        model=_model(reply) if reply else None,
        usage=_usage(attributes, reply) if reply else None,
        messages_in=_shown(request) if request else None,
        messages_out=messages(reply.get("content"), "assistant") if reply else None,
        output=_answer(attributes) if kind == "agent" else None,
        tool=tool,
        conversation_id=first_name(attributes, FIELDS["conversation_id"]),
        status=_status(reply, tool),
        error=_error(reply),
        content_state=states,
        attributes=_handoff(attributes) if kind == "handoff" else {},
    )
    return None if found == Reading(dialect=DIALECT) else found


def _kind(span: Span) -> tuple[StepKind | None, int, str | None]:
    if span.name == "call_llm":
        return "model_call", RANK_DISCRIMINATOR, None
    if span.name.startswith(_AGENTS):  # rule 2: stronger than the operation
        return "agent", RANK_HANDOFF, None
    if span.name == "invocation":
        return "other", RANK_DISCRIMINATOR, "workflow"
    if not span.name.startswith("execute_tool") or span.name.endswith(_NOT_TOOLS):
        return None, RANK_NONE, None
    if _tool_name(span) == TRANSFER:
        return "handoff", RANK_HANDOFF, None
    return "tool_call", RANK_DISCRIMINATOR, None


def _agent(span_name: str) -> Agent | None:
    for prefix in _AGENTS:
        if span_name.startswith(prefix):
            found = name(span_name.removeprefix(prefix).rstrip("]"))
            return Agent(name=found) if found else None
    return None


def _answer(attributes: Mapping[str, Any]) -> str | None:
    """The text of the last event that OpenInference dumps as an agent's output."""
    event, _ = parse(attributes.get("output.value"))
    content = event.get("content") if isinstance(event, dict) else None
    said = messages(content, "assistant")
    return text_of(said[-1]) if said else None


def _tool_name(span: Span) -> str | None:
    named = name(span.attributes.get("gen_ai.tool.name"))
    return named or name(span.name.removeprefix("execute_tool "))


def _tool(span: Span, attributes: Mapping[str, Any]) -> Tool:
    arguments, _ = parse(attributes.get(FIELDS["tool.arguments"][0]))
    result = _result(attributes)
    if arguments == {} and result in ({}, None):
        arguments = result = None
    return Tool(
        name=_tool_name(span),
        arguments=None if arguments in _ABSENT else arguments,
        result=None if result in _ABSENT else result,
    )


def _result(attributes: Mapping[str, Any]) -> Any:
    """The tool's own result: without ADK's wrapping, and Gemini's around it."""
    raw = attributes.get(FIELDS["tool.result"][0])
    value, _ = parse(raw if raw is not None else attributes.get("output.value"))
    if isinstance(value, dict) and value.keys() == {"id", "name", "response"}:
        value = value["response"]
    if isinstance(value, dict) and value.keys() == {"result"}:
        return parse(value["result"])[0]
    return value


def _states(attributes: Mapping[str, Any], tool: Tool | None) -> dict[str, ContentState]:
    """The states of what is there under our keys; absent placeholders say nothing."""
    states: dict[str, ContentState] = {}
    for field in ("arguments", "result"):
        raw = attributes.get(FIELDS[f"tool.{field}"][0])
        if raw is not None:
            _, state = parse(raw)
            states[field] = state if getattr(tool, field) is not None else "absent"
            if state not in ("captured", "repr"):
                states[field] = state
    if "result" not in states and tool and tool.result is not None:
        states["result"] = "captured"
    return states


def _body(attributes: Mapping[str, Any], field: str) -> dict[str, Any] | None:
    """The Gemini request or response; None for placeholders and what is broken."""
    value, _ = parse(attributes.get(FIELDS[field][0]))
    return value if isinstance(value, dict) and value else None


def _shown(request: Mapping[str, Any]) -> tuple[Message, ...] | None:
    shown = prompt(request.get("contents")) or ()
    config = request.get("config")
    told = config.get("system_instruction") if isinstance(config, dict) else None
    if isinstance(told, str) and told:
        return (Message(role="system", parts=(Part(type="text", content=told),)), *shown)
    return shown or None


def _model(reply: Mapping[str, Any]) -> Model:
    reason = name(reply.get("finish_reason"))
    return Model(
        response_model=name(reply.get("model_version")),
        finish_reasons=(reason,) if reason else (),
    )


def _usage(attributes: Mapping[str, Any], reply: Mapping[str, Any]) -> Usage | None:
    """The reply's own counts, only where the conventions' keys hold none."""
    counted = reply.get("usage_metadata")
    if "gen_ai.usage.input_tokens" in attributes or not isinstance(counted, dict):
        return None
    counts = {field: first_integer(counted, keys) for field, keys in USAGE.items()}
    said = first_integer(counted, ("candidates_token_count",))
    if said is not None:
        said += counts["reasoning"] or 0
    return Usage(**counts, output=said, scope="own")


def _error(reply: Mapping[str, Any] | None) -> StepError | None:
    code = name(str(reply.get("error_code") or "")) if reply else None
    return (
        StepError(type=code, message=name(reply.get("error_message"))) if reply and code else None
    )


def _status(reply: Mapping[str, Any] | None, tool: Tool | None) -> StepStatus | None:
    if _error(reply):
        return "error"
    result = tool.result if tool else None
    failed = isinstance(result, dict) and result.get("status") == "error"
    return "error" if failed and "error_message" in (result or {}) else None


def _handoff(attributes: Mapping[str, Any]) -> dict[str, Any]:
    arguments, _ = parse(attributes.get(FIELDS["tool.arguments"][0]))
    to = name(arguments.get("agent_name")) if isinstance(arguments, dict) else None
    return {"handoff.to": to} if to else {}
