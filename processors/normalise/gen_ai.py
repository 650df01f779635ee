"""OpenTelemetry GenAI conventions as of 1.37: messages on the span, or on one event or log record.

Rules
1. ``gen_ai.operation.name`` decides the kind; a span without it is judged by what else it carries.
2. A request model alone makes no model call, a finish reason never says whether tools were asked
   for.
3. An agent's usage is a sum over its calls (scope ``aggregated``), never added to theirs.
4. Each ``any``-typed attribute may be structured or a JSON string.

Source: semantic-conventions-genai docs/gen-ai/gen-ai-{spans,agent-spans,events}.md; key ladders:
FIELDS.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from processors.model.fragment import (
    RANK_AGENT,
    RANK_HANDOFF,
    RANK_MODEL,
    RANK_NOISE,
    RANK_NONE,
    RANK_OPERATION,
    RANK_TOOL,
    Reading,
)
from processors.model.message import messages, parts
from processors.model.names import ContentState, StepKind
from processors.model.span import LogRecord, Span
from processors.model.step import Agent, Message, Model, StepError, Tool, Usage
from processors.shapes import groups_of
from processors.value import first, first_integer, first_name, name, parse

DIALECT = "gen_ai"
FAMILIES = frozenset({"gen_ai", "error"})
TOOL_NAME = "execute_tool "
DETAILS = "gen_ai.client.inference.operation.details"

OPERATIONS: dict[str, tuple[StepKind, str | None]] = {
    **dict.fromkeys(
        ("chat", "text_completion", "generate_content", "llm", "llm_call", "llm_request"),
        ("model_call", None),
    ),
    **dict.fromkeys(
        ("call_llm", "completion", "generation", "response", "fetch_response"),
        ("model_call", None),
    ),
    **dict.fromkeys(("execute_tool", "tool", "tool_call", "function"), ("tool_call", None)),
    **dict.fromkeys(
        ("invoke_agent", "agent", "agent_call", "invocation", "invoke_swarm", "invoke_graph"),
        ("agent", None),
    ),
    **dict.fromkeys(("invoke_workflow", "workflow"), ("other", "workflow")),
    **dict.fromkeys(
        ("task", "execute_task", "agent_step", "execute_event_loop_cycle", "turn", "plan"),
        ("other", "step"),
    ),
    **dict.fromkeys(("retrieval", "retriever", "vector_db_retrieve"), ("retrieval", None)),
    "rerank": ("retrieval", "rerank"),
    "search_memory": ("retrieval", "memory"),
    **dict.fromkeys(("handoff", "agent_handoff"), ("handoff", None)),
    **dict.fromkeys(("apply_guardrail", "execute_guardrail", "guardrail"), ("guardrail", None)),
    **dict.fromkeys(("evaluator", "evaluation"), ("evaluation", None)),
    "await_human_input": ("human_input", None),
    **dict.fromkeys(("embeddings", "embedding"), ("other", "embedding")),
    "create_agent": ("other", "create_agent"),
}

FIELDS: dict[str, tuple[str, ...]] = {
    "conversation_id": ("gen_ai.conversation.id",),
    "agent.name": ("gen_ai.agent.name",),
    "agent.id": ("gen_ai.agent.id",),
    "agent.version": ("gen_ai.agent.version",),
    "model.provider": ("gen_ai.provider.name",),
    "model.request_model": ("gen_ai.request.model",),
    "model.response_model": ("gen_ai.response.model",),
    "model.response_id": ("gen_ai.response.id",),
    "model.finish_reasons": ("gen_ai.response.finish_reasons",),
    "usage.input": ("gen_ai.usage.input_tokens",),
    "usage.output": ("gen_ai.usage.output_tokens",),
    "usage.cache_read": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.cached_input_tokens",
        "gen_ai.usage.details.cache_read_tokens",
    ),
    "usage.cache_write": (
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_write_input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
    ),
    "usage.reasoning": ("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens"),
    "messages_in": ("gen_ai.input.messages",),
    "messages_out": ("gen_ai.output.messages",),
    "system": ("gen_ai.system_instructions",),
    "tool.name": ("gen_ai.tool.name",),
    "tool.call_id": ("gen_ai.tool.call.id", "gen_ai.tool.call_id"),
    "tool.type": ("gen_ai.tool.type",),
    "tool.arguments": ("gen_ai.tool.call.arguments",),
    "tool.result": ("gen_ai.tool.call.result",),
    "handoff.from": ("gen_ai.handoff.from_agent",),
    "handoff.to": ("gen_ai.handoff.to_agent",),
}
MAPPED = frozenset(key for keys in FIELDS.values() for key in keys) | {
    "gen_ai.operation.name",
    "gen_ai.tool.definitions",
    "error.type",
}
PREFIXES: tuple[str, ...] = ()
EVENTS = frozenset({DETAILS})
_AGGREGATES = {
    "input": ("gen_ai.aggregated_usage.input_tokens",),
    "output": ("gen_ai.aggregated_usage.output_tokens",),
}
_MESSAGES = frozenset({"messages_in", "messages_out", "system"})
_groups = groups_of(
    {**FIELDS, **{f"usage.sum_{field}": keys for field, keys in _AGGREGATES.items()}}
)
_TOOL_TYPES = {"FunctionTool": "function"}
_NOT_TOOLS = frozenset({"(merged tools)"})  # ADK sums up parallel calls in a span of its own
_PLACEHOLDER = ("OpenAI Agent", "agent")  # what the openai-agents instrumentation puts everywhere
_CLIENT = 3


def read_span(span: Span) -> Reading:
    """What the span says in these conventions, its details events included."""
    details = [event.attributes for event in span.events if event.name == DETAILS]
    attributes = span.attributes
    for extra in details:
        attributes = {**extra, **attributes}
    return _read(attributes, span.kind == _CLIENT, span.name)


def read_log(record: LogRecord) -> Reading | None:
    """What a details record says of its span; None for any other record."""
    if record.event_name != DETAILS:
        return None
    found = _read(record.attributes, False, "")
    named = name(record.attributes.get("gen_ai.operation.name"))
    if named is None and found.usage is not None:  # the event is a model call's by its name
        usage = msgspec.structs.replace(found.usage, scope="own")
        return msgspec.structs.replace(
            found, kind="model_call", rank=RANK_MODEL, subtype=None, usage=usage
        )
    return found


def _read(attributes: Mapping[str, Any], client: bool, span_name: str) -> Reading:
    state: dict[str, ContentState] = {}
    said = _groups(attributes)
    kind, rank, subtype = _kind(attributes, client, span_name)
    shown = spoken = None
    loose: dict[str, Any] = {}
    if not said.isdisjoint(_MESSAGES):
        shown, spoken = _messages(attributes, state)
        loose = _broken(attributes, state)
    if "handoff" in said:
        loose.update(_handoff(attributes))
    agent_like = kind == "agent" or subtype in ("workflow", "step")
    return Reading(
        dialect=DIALECT,
        kind=kind,
        rank=rank,
        subtype=subtype,
        agent=_agent(attributes) if "agent" in said else None,
        model=_model(attributes) if "model" in said else None,
        usage=_usage(attributes, agent_like) if "usage" in said else None,
        messages_in=shown,
        messages_out=spoken,
        tool=_tool(attributes, span_name, state) if kind == "tool_call" else None,
        conversation_id=first_name(attributes, FIELDS["conversation_id"])
        if "conversation_id" in said
        else None,
        error=_error(attributes),
        content_state=state,
        attributes=loose,
    )


def _kind(
    attributes: Mapping[str, Any], client: bool, span_name: str
) -> tuple[StepKind | None, int, str | None]:
    if name(attributes.get("gen_ai.tool.name")) in _NOT_TOOLS:
        return "other", RANK_NOISE, "noise"
    operation = name(attributes.get("gen_ai.operation.name"))
    if operation is not None:
        kind, subtype = OPERATIONS.get(operation, (None, None))
        if kind == "handoff":
            return kind, RANK_HANDOFF, None
        if kind is not None:
            return kind, RANK_NOISE if subtype == "create_agent" else RANK_OPERATION, subtype
    if first(attributes, FIELDS["handoff.from"]) or first(attributes, FIELDS["handoff.to"]):
        return "handoff", RANK_HANDOFF, None
    return _kind_by_evidence(attributes, client, span_name)


def _kind_by_evidence(
    attributes: Mapping[str, Any], client: bool, span_name: str
) -> tuple[StepKind | None, int, str | None]:
    call = (*FIELDS["tool.call_id"], *FIELDS["tool.arguments"], *FIELDS["tool.result"])
    named = first_name(attributes, FIELDS["tool.name"])
    if span_name.startswith(TOOL_NAME) or (named and first(attributes, call) is not None):
        return "tool_call", RANK_TOOL, None
    model = first_name(
        attributes, (*FIELDS["model.response_model"], *FIELDS["model.request_model"])
    )
    answered = first(attributes, (*FIELDS["usage.output"], *FIELDS["messages_out"]))
    if model and answered is not None and (client or attributes.get("gen_ai.response.id")):
        return "model_call", RANK_MODEL, None
    if _agent(attributes) is not None:
        return "agent", RANK_AGENT, None
    return None, RANK_NONE, None


def _agent(attributes: Mapping[str, Any]) -> Agent | None:
    found = Agent(
        name=first_name(attributes, FIELDS["agent.name"]),
        id=first_name(attributes, FIELDS["agent.id"]),
        version=first_name(attributes, FIELDS["agent.version"]),
    )
    if (found.name, found.id) == _PLACEHOLDER:
        return None
    return found if found.name or found.id or found.version else None


def _model(attributes: Mapping[str, Any]) -> Model | None:
    found = Model(
        provider=first_name(attributes, FIELDS["model.provider"]),
        request_model=first_name(attributes, FIELDS["model.request_model"]),
        response_model=first_name(attributes, FIELDS["model.response_model"]),
        response_id=first_name(attributes, FIELDS["model.response_id"]),
        finish_reasons=_finish_reasons(first(attributes, FIELDS["model.finish_reasons"])),
    )
    return None if found == Model() else found


def _finish_reasons(value: Any) -> tuple[str, ...]:
    parsed, _ = parse(value)
    listed = parsed if isinstance(parsed, list) else [parsed]
    return tuple(word for word in listed if isinstance(word, str) and word)


def _usage(attributes: Mapping[str, Any], aggregated: bool) -> Usage | None:
    counts = {
        field: first_integer(attributes, FIELDS[f"usage.{field}"])
        for field in ("input", "output", "cache_read", "cache_write", "reasoning")
    }
    if counts["input"] is None and counts["output"] is None:
        totals = {field: first_integer(attributes, keys) for field, keys in _AGGREGATES.items()}
        if totals["input"] is None and totals["output"] is None:
            return None
        return Usage(input=totals["input"], output=totals["output"], scope="aggregated")
    return Usage(**counts, scope="aggregated" if aggregated else "own")


def _messages(
    attributes: Mapping[str, Any], state: dict[str, ContentState]
) -> tuple[tuple[Message, ...] | None, tuple[Message, ...] | None]:
    shown = _message_list(attributes, "messages_in", "user", state)
    said = _message_list(attributes, "messages_out", "assistant", state)
    raw = first(attributes, FIELDS["system"])
    if raw is not None and (shown is not None or "messages_in" not in state):
        parsed, _ = parse(raw)
        shown = (Message(role="system", parts=parts(parsed)), *(shown or ()))
    return shown, said


def _message_list(
    attributes: Mapping[str, Any], field: str, role: str, state: dict[str, ContentState]
) -> tuple[Message, ...] | None:
    raw = first(attributes, FIELDS[field])
    if raw is None:
        return None
    parsed, state[field] = parse(raw)
    return messages(parsed, role)


def _broken(attributes: Mapping[str, Any], state: Mapping[str, ContentState]) -> dict[str, Any]:
    """Messages that are no messages (cut, or of another shape) stay under their own keys."""
    return {
        key: attributes[key]
        for field in ("messages_in", "messages_out")
        if state.get(field) not in (None, "captured", "empty")
        for key in FIELDS[field]
        if key in attributes
    }


def _tool(attributes: Mapping[str, Any], span_name: str, state: dict[str, ContentState]) -> Tool:
    arguments = _content(attributes, "arguments", state)
    result = _content(attributes, "result", state)
    raw_type = first_name(attributes, FIELDS["tool.type"])
    tool_name = first_name(attributes, FIELDS["tool.name"])
    return Tool(
        name=tool_name or name(span_name.removeprefix(TOOL_NAME)),
        call_id=first_name(attributes, FIELDS["tool.call_id"]),
        type=_TOOL_TYPES.get(raw_type, raw_type) if raw_type else None,
        arguments=arguments,
        result=result,
    )


def _content(attributes: Mapping[str, Any], field: str, state: dict[str, ContentState]) -> Any:
    raw = first(attributes, FIELDS[f"tool.{field}"])
    if raw is None:
        return None
    value, state[field] = parse(raw)
    return value


def _error(attributes: Mapping[str, Any]) -> StepError | None:
    kind = attributes.get("error.type")
    return StepError(type=kind) if isinstance(kind, str) and kind.strip() else None


def _handoff(attributes: Mapping[str, Any]) -> dict[str, Any]:
    ends = {end: first_name(attributes, FIELDS[f"handoff.{end}"]) for end in ("from", "to")}
    return {f"handoff.{end}": agent for end, agent in ends.items() if agent}
