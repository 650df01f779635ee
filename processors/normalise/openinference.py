"""OpenInference: ``openinference.span.kind`` and flattened message lists.

Rules
1. ``input.value`` holds a tool's arguments; ``tool.parameters`` only where it is no JSON schema.
2. A TOOL span named "handoff to X" is a handoff: input is the agent that gives, output the one that
   takes.
3. A CHAIN is glue, unless its own metadata names it as the agent.
4. A tool result dumped as a message is unwrapped; the call id inside it is the tool call's.
5. The response id stands only in ``output.value``: read from there, never guessed.

Source: Arize-ai/openinference spec/semantic_conventions.md, python/instrumentation/*.
"""

import re
from collections.abc import Mapping
from typing import Any

from processors.model.fragment import RANK_DISCRIMINATOR, RANK_HANDOFF, RANK_NONE, Reading
from processors.model.message import messages, reply, tool_message
from processors.model.names import ContentState, StepKind, StepStatus
from processors.model.span import Span
from processors.model.step import Agent, Message, Model, Part, Tool, Usage
from processors.shapes import groups_of
from processors.value import first_integer, first_name, looks_like_schema, name, parse, slots

DIALECT = "openinference"
FAMILIES = frozenset({"openinference", "llm", "input", "output", "session"})
EVENTS: frozenset[str] = frozenset()

KINDS: dict[str, tuple[StepKind, str | None]] = {
    "LLM": ("model_call", None),
    "TOOL": ("tool_call", None),
    "AGENT": ("agent", None),
    "CHAIN": ("other", "step"),
    "TASK": ("other", "step"),
    "RETRIEVER": ("retrieval", None),
    "RERANKER": ("retrieval", "rerank"),
    "EMBEDDING": ("other", "embedding"),
    "GUARDRAIL": ("guardrail", None),
    "EVALUATOR": ("evaluation", None),
    "PROMPT": ("other", "prompt"),
}

FIELDS: dict[str, tuple[str, ...]] = {
    "conversation_id": ("session.id",),
    "agent.name": ("agent.name",),
    "model.provider": ("llm.provider", "llm.system"),
    "model.request_model": ("llm.request.model_name", "llm.model_name"),
    "model.response_model": ("llm.response.model_name",),
    "model.finish_reasons": ("llm.finish_reason", "llm.finish_reasons"),
    "usage.input": ("llm.token_count.prompt",),
    "usage.output": ("llm.token_count.completion",),
    "usage.cache_read": ("llm.token_count.prompt_details.cache_read",),
    "usage.cache_write": ("llm.token_count.prompt_details.cache_write",),
    "usage.reasoning": ("llm.token_count.completion_details.reasoning",),
    "tool.name": ("tool.name", "tool_call.function.name"),
    "tool.call_id": ("tool_call.id",),
    "tool.arguments": ("tool_call.function.arguments",),
}
IN, OUT = "llm.input_messages.", "llm.output_messages."
MAPPED = frozenset(key for keys in FIELDS.values() for key in keys) | {
    *("openinference.span.kind", "input.value", "output.value", "input.mime_type"),
    *("output.mime_type", "tool.parameters", "tool.id", "metadata", "llm.token_count.total"),
    *("graph.node.id", "graph.node.parent_id"),
}
PREFIXES: tuple[str, ...] = (IN, OUT, "llm.tools.")
_groups = groups_of(FIELDS)
_HANDOFF = "handoff to "
_FIRST_ID = re.compile(r'\s*\{\s*"id"\s*:\s*"([^"\\]+)"\s*,')  # whole although the rest is cut


def read_span(span: Span) -> Reading | None:
    """What the span says in OpenInference; None when it carries nothing of it."""
    attributes = span.attributes
    raw_kind = name(attributes.get("openinference.span.kind"))
    kind, subtype = KINDS.get(raw_kind.upper(), (None, None)) if raw_kind else (None, None)
    if kind is None and not _speaks(attributes):
        return None
    state: dict[str, ContentState] = {}
    metadata = _object(attributes.get("metadata"))
    if kind == "tool_call" and span.name.startswith(_HANDOFF):
        return _handoff(span, attributes)
    if kind == "other" and _is_agent(span.name, metadata):
        kind, subtype = "agent", None
    tool, status = _tool(span.name, attributes, state) if kind == "tool_call" else (None, None)
    model_call = kind == "model_call"
    return Reading(
        dialect=DIALECT,
        kind=kind,
        rank=RANK_DISCRIMINATOR if kind else RANK_NONE,
        subtype=subtype,
        agent=_agent(span.name, attributes, kind),
        model=_model(attributes) if model_call else None,
        usage=_usage(attributes) if "usage" in _groups(attributes) else None,
        messages_in=_shown(attributes) if model_call else None,
        messages_out=_said(attributes) if model_call else None,
        output=None if kind in ("model_call", "tool_call") else attributes.get("output.value"),
        tool=tool,
        conversation_id=_conversation(attributes, metadata),
        status=status,
        content_state=state,
    )


def _speaks(attributes: Mapping[str, Any]) -> bool:
    return any(
        key in attributes for key in ("llm.model_name", "llm.token_count.prompt", "session.id")
    )


def _object(raw: Any) -> dict[str, Any]:
    parsed, _ = parse(raw)
    return parsed if isinstance(parsed, dict) else {}


def _is_agent(span_name: str, metadata: Mapping[str, Any]) -> bool:
    """LangGraph roots are CHAINs; their metadata names the agent that they are."""
    return bool(span_name) and metadata.get("lc_agent_name") == span_name


def _handoff(span: Span, attributes: Mapping[str, Any]) -> Reading:
    ends = {
        "handoff.from": name(attributes.get("input.value")),
        "handoff.to": name(attributes.get("output.value")) or span.name.removeprefix(_HANDOFF),
    }
    return Reading(
        dialect=DIALECT,
        kind="handoff",
        rank=RANK_HANDOFF,
        conversation_id=first_name(attributes, FIELDS["conversation_id"]),
        attributes={key: end for key, end in ends.items() if end},
    )


def _agent(span_name: str, attributes: Mapping[str, Any], kind: StepKind | None) -> Agent | None:
    named = first_name(attributes, FIELDS["agent.name"])
    if named is None and kind == "agent":
        named = name(attributes.get("graph.node.id")) or name(span_name)
    return Agent(name=named) if named else None


def _conversation(attributes: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    found = first_name(attributes, FIELDS["conversation_id"])
    return found or first_name(metadata, ("session_id", "thread_id", "conversation_id"))


def _model(attributes: Mapping[str, Any]) -> Model:
    reasons, _ = parse(
        next((attributes[k] for k in FIELDS["model.finish_reasons"] if k in attributes), None)
    )
    listed = reasons if isinstance(reasons, list) else [reasons]
    return Model(
        provider=first_name(attributes, FIELDS["model.provider"]),
        request_model=first_name(attributes, FIELDS["model.request_model"]),
        response_model=first_name(attributes, FIELDS["model.response_model"]),
        response_id=_response_id(attributes.get("output.value")),
        finish_reasons=tuple(word for word in listed if isinstance(word, str) and word),
    )


def _response_id(raw: Any) -> str | None:
    """The provider's id: of a response object itself, or of the one inside a LangChain result."""
    body, state = parse(raw)
    if state == "truncated" and (whole := _FIRST_ID.match(raw)):
        return name(whole[1])
    if not isinstance(body, dict):
        return None
    if name(body.get("id")):
        return name(body["id"])
    output = body.get("llm_output")
    if isinstance(output, dict) and name(output.get("id")):
        return name(output["id"])
    generation = body.get("generations")
    while isinstance(generation, list) and generation:
        generation = generation[0]
    message = generation.get("message") if isinstance(generation, dict) else None
    inner = message.get("kwargs", message.get("data")) if isinstance(message, dict) else None
    metadata = inner.get("response_metadata") if isinstance(inner, dict) else None
    return name(metadata.get("id")) if isinstance(metadata, dict) else None


def _usage(attributes: Mapping[str, Any]) -> Usage | None:
    counts = {
        field: first_integer(attributes, FIELDS[f"usage.{field}"])
        for field in ("input", "output", "cache_read", "cache_write", "reasoning")
    }
    return (
        None
        if counts["input"] is None and counts["output"] is None
        else Usage(**counts, scope="own")
    )


def _shown(attributes: Mapping[str, Any]) -> tuple[Message, ...] | None:
    found = _messages(attributes, IN, "user")
    return found or messages(parse(attributes.get("input.value"))[0])


def _said(attributes: Mapping[str, Any]) -> tuple[Message, ...] | None:
    found = _messages(attributes, OUT, "assistant")
    return found or reply(parse(attributes.get("output.value"))[0])


def _messages(attributes: Mapping[str, Any], prefix: str, role: str) -> tuple[Message, ...] | None:
    found = [_message(slot, role) for slot in slots(attributes, prefix)]
    return tuple(found) or None


def _message(slot: Mapping[str, Any], role: str) -> Message:
    contents = _contents(slot)
    calls = _calls(slot)
    call_id = name(slot.get("message.tool_call_id"))
    content = slot.get("message.content")
    said = name(slot.get("message.role")) or role
    tool_name = name(slot.get("message.name"))
    if call_id or said == "tool":
        answer = content if content is not None else "".join(str(p.content) for p in contents)
        part = Part(type="tool_call_response", id=call_id, name=tool_name, content=answer)
        return Message(role="tool", parts=(part,))
    if not contents and content not in (None, ""):
        contents = (Part(type="text", content=content),)
    if any(part.type == "tool_call" for part in calls):
        contents = tuple(part for part in contents if part.type != "tool_call")
    return Message(role=said, parts=(*contents, *calls), name=tool_name)


def _contents(slot: Mapping[str, Any]) -> tuple[Part, ...]:
    found: list[Part] = []
    for block in slots(slot, "message.contents."):
        text = block.get("message_content.text")
        kind = block.get("message_content.type")
        if "tool_call.function.name" in block:
            found.append(_call(block))
        elif text is not None:
            found.append(Part(type="reasoning" if kind == "reasoning" else "text", content=text))
        else:
            found.append(Part(type="generic", content=dict(block)))
    return tuple(found)


def _calls(slot: Mapping[str, Any]) -> tuple[Part, ...]:
    found = tuple(_call(block) for block in slots(slot, "message.tool_calls."))
    if not found and name(slot.get("message.function_call_name")):
        arguments = slot.get("message.function_call_arguments_json")
        call = Part(
            type="tool_call", name=name(slot["message.function_call_name"]), content=arguments
        )
        return (call,)
    return found


def _call(block: Mapping[str, Any]) -> Part:
    return Part(
        type="tool_call",
        id=name(block.get("tool_call.id")),
        name=name(block.get("tool_call.function.name")),
        content=block.get("tool_call.function.arguments"),
    )


def _tool(
    span_name: str, attributes: Mapping[str, Any], state: dict[str, ContentState]
) -> tuple[Tool, StepStatus | None]:
    result, call_id, failed = _result(attributes, state)
    tool = Tool(
        name=first_name(attributes, FIELDS["tool.name"]) or name(span_name),
        call_id=first_name(attributes, FIELDS["tool.call_id"])
        or call_id
        or name(attributes.get("tool.id")),
        arguments=_arguments(attributes, state),
        result=result,
    )
    return tool, "error" if failed else None


def _arguments(attributes: Mapping[str, Any], state: dict[str, ContentState]) -> Any:
    raw = attributes.get("tool_call.function.arguments")
    if raw is None:
        raw = attributes.get("input.value")
    given, given_state = parse(raw)
    if raw is not None:
        state["arguments"] = given_state
    if raw is not None and not (given == {} or given_state == "empty"):
        return _unwrapped(given)
    declared, declared_state = parse(attributes.get("tool.parameters"))
    if isinstance(declared, dict) and declared and not looks_like_schema(declared):
        state["arguments"] = declared_state
        return declared
    return given


def _unwrapped(arguments: Any) -> Any:
    """``{"args": [], "kwargs": {…}}`` and ``{"kwargs": {…}}`` are how a Python call was dumped."""
    if not isinstance(arguments, dict) or not isinstance(arguments.get("kwargs"), dict):
        return arguments
    if arguments.keys() <= {"args", "kwargs", "sanitize_inputs_outputs"} and not arguments.get(
        "args"
    ):
        return arguments["kwargs"]
    return arguments


def _result(
    attributes: Mapping[str, Any], state: dict[str, ContentState]
) -> tuple[Any, str | None, bool]:
    raw = attributes.get("output.value")
    if raw is None:
        return None, None, False
    value, state["result"] = parse(raw)
    dumped = tool_message(value)
    if dumped is None:
        return value, None, False
    inner, state["result"] = parse(dumped[0])
    return inner, dumped[1], dumped[2]
