"""Haystack's own tracing: ``haystack.*`` on spans of pipelines, components and agents.

Rules
1. ``haystack.agent.step.llm`` is a model call, ``haystack.agent.step.tool`` a tool call; before
   Haystack 3 both are components: chat generators are model calls, tool invokers glue.
2. A reply's model, usage and finish reason stand in its ``meta``.
3. A tool that failed says so in ``haystack.tool.error`` and gives ``{"error": …}``; no status.
4. The agent's answer is the last message of its output.
5. OpenInference dumps messages as Python reprs; an agent tells of its calls where nobody else does.

Source: deepset-ai/haystack haystack/components/agents/{agent,tool_calling}.py,
haystack/core/pipeline, haystack/dataclasses/chat_message.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from processors.model.exchange import counts
from processors.model.fragment import RANK_DISCRIMINATOR, Reading, Told
from processors.model.message import messages, text_of
from processors.model.names import ContentState, StepKind
from processors.model.reprs import read_repr
from processors.model.span import Span
from processors.model.step import Agent, Message, Model, Tool
from processors.model.transcript import told_calls
from processors.value import name, parse, truth

DIALECT = "haystack"
FAMILIES = frozenset({"haystack"})
EVENTS: frozenset[str] = frozenset()
_LLM, _TOOL, _COMPONENT, _AGENT = (
    "haystack.agent.step.llm",
    "haystack.agent.step.tool",
    "haystack.component",
    "haystack.agent",
)
MAPPED = frozenset(
    {
        *(_LLM + ".input", _LLM + ".output", _TOOL + ".input", _TOOL + ".output"),
        *(_COMPONENT + ".input", _COMPONENT + ".output", _AGENT + ".input", _AGENT + ".output"),
        *("haystack.tool.name", "haystack.tool.error", _COMPONENT + ".name", _AGENT + ".tools"),
    }
)
PREFIXES: tuple[str, ...] = ()
COMPONENTS: dict[str, tuple[StepKind, str | None]] = {
    "ChatGenerator": ("model_call", None),
    "Generator": ("model_call", None),
    "Retriever": ("retrieval", None),
    "Ranker": ("retrieval", "rerank"),
    "Embedder": ("other", "embedding"),
    "Evaluator": ("evaluation", None),
}


def read_span(span: Span) -> Reading | None:
    """What a Haystack span says; None for any other span."""
    attributes = span.attributes
    match span.name:
        case "haystack.agent.step.llm":
            return _model_call(attributes, _LLM)
        case "haystack.agent.step.tool":
            return _tool_call(attributes)
        case "haystack.agent.run":
            return _agent(attributes)
        case "haystack.component.run":
            return _component(attributes)
        case "haystack.pipeline.run" | "haystack.async_pipeline.run":
            return Reading(
                dialect=DIALECT, kind="other", rank=RANK_DISCRIMINATOR, subtype="workflow"
            )
    if "openinference" in span.scope.name:
        return _openinference(span)
    if span.name.startswith(_AGENT + ".") or any(k.startswith("haystack.") for k in attributes):
        return Reading(dialect=DIALECT, kind="other", rank=RANK_DISCRIMINATOR, subtype="step")
    return None


def _component(attributes: Mapping[str, Any]) -> Reading:
    kind_name = name(attributes.get(_COMPONENT + ".type")) or ""
    for suffix, (kind, subtype) in COMPONENTS.items():
        if not kind_name.endswith(suffix):
            continue
        if kind == "model_call":
            return _model_call(attributes, _COMPONENT)
        return Reading(
            dialect=DIALECT,
            kind=kind,
            rank=RANK_DISCRIMINATOR,
            subtype=subtype,
            output=attributes.get(_COMPONENT + ".output"),
        )
    return Reading(
        dialect=DIALECT,
        kind="other",
        rank=RANK_DISCRIMINATOR,
        subtype="step",
        output=attributes.get(_COMPONENT + ".output"),
    )


def _model_call(attributes: Mapping[str, Any], prefix: str) -> Reading:
    state: dict[str, ContentState] = {}
    given = _content(attributes, prefix + ".input", "messages_in", state)
    gave = _content(attributes, prefix + ".output", "messages_out", state)
    replies = gave.get("replies") if isinstance(gave, dict) else None
    meta = _meta(replies, gave)
    reason = name(meta.get("finish_reason"))
    return Reading(
        dialect=DIALECT,
        kind="model_call",
        rank=RANK_DISCRIMINATOR,
        model=Model(
            response_model=name(meta.get("model")),
            response_id=name(meta.get("id")),
            finish_reasons=(reason,) if reason else (),
        ),
        usage=counts(meta.get("usage")),
        messages_in=_shown(given),
        messages_out=messages(replies, "assistant"),
        content_state=state,
    )


def _content(
    attributes: Mapping[str, Any], key: str, field: str, state: dict[str, ContentState]
) -> Any:
    if key not in attributes:
        return None
    value, state[field] = parse(attributes[key])
    return value


def _shown(given: Any) -> tuple[Message, ...] | None:
    if not isinstance(given, dict):
        return None
    prompt = given.get("prompt")
    return messages([prompt] if isinstance(prompt, str) else given.get("messages"))


def _meta(replies: Any, gave: Any) -> Mapping[str, Any]:
    """Of the first reply; generators of plain text list them apart."""
    listed = gave.get("meta") if isinstance(gave, dict) else None
    first = replies[0] if isinstance(replies, list) and replies else None
    meta = first.get("meta", first.get("_meta")) if isinstance(first, dict) else None
    if not isinstance(meta, dict) and isinstance(listed, list) and listed:
        meta = listed[0]
    return meta if isinstance(meta, dict) else {}


def _tool_call(attributes: Mapping[str, Any]) -> Reading:
    state: dict[str, ContentState] = {}
    arguments = _content(attributes, _TOOL + ".input", "arguments", state)
    result = _content(attributes, _TOOL + ".output", "result", state)
    return Reading(
        dialect=DIALECT,
        kind="tool_call",
        rank=RANK_DISCRIMINATOR,
        tool=Tool(
            name=name(attributes.get("haystack.tool.name")), arguments=arguments, result=result
        ),
        status="error" if truth(attributes.get("haystack.tool.error")) else None,
        content_state=state,
    )


def _agent(attributes: Mapping[str, Any]) -> Reading:
    output, _ = parse(attributes.get(_AGENT + ".output"))
    history = messages(output.get("messages"), "assistant") if isinstance(output, dict) else None
    last = history[-1] if history else None
    answer = text_of(last) if last is not None and last.role == "assistant" else None
    agent = name(attributes.get("haystack.agent.name"))
    return Reading(
        dialect=DIALECT,
        kind="agent",
        rank=RANK_DISCRIMINATOR,
        agent=Agent(name=agent) if agent else None,
        output=answer,
    )


def _openinference(span: Span) -> Reading | None:
    """What OpenInference's span of an agent tells; None for its other spans."""
    if span.name not in ("Agent.run", "Agent.run_async"):
        return None
    output, _ = parse(span.attributes.get("output.value"))
    dumped = output.get("messages") if isinstance(output, dict) else None
    if not isinstance(dumped, list):
        return None
    objects = [_message(item) for item in dumped]
    history = messages(objects, "assistant") or ()
    last = history[-1] if history else None
    return Reading(
        dialect=DIALECT,
        kind="agent",
        rank=RANK_DISCRIMINATOR - 1,
        output=text_of(last) if last is not None and last.role == "assistant" else None,
        told=tuple(_with_meta(history, objects, span.start_ns)),
    )


def _message(dumped: Any) -> dict[str, Any]:
    """A dumped message in Haystack's own form: ``role``, ``content``, ``meta``."""
    fields = read_repr(dumped) if isinstance(dumped, str) else dumped
    if not isinstance(fields, dict):
        return {"role": "user", "content": dumped}
    blocks = fields.get("_content", fields.get("content"))
    return {
        "role": fields.get("_role", fields.get("role")),
        "content": [_block(block) for block in blocks] if isinstance(blocks, list) else blocks,
        "meta": fields.get("_meta", fields.get("meta")),
    }


def _block(block: Any) -> Any:
    if isinstance(block, dict) and "tool_name" in block:
        return {"tool_call": block}
    if isinstance(block, dict) and "origin" in block:
        return {"tool_call_result": block}
    return block


def _with_meta(
    history: tuple[Message, ...], objects: list[dict[str, Any]], start_ns: int
) -> Iterator[Told]:
    """The calls of a transcript, each with the model and the tokens its reply's meta names."""
    for told in told_calls(history, dialect=DIALECT, start_ns=start_ns):
        meta = objects[int(told.id)].get("meta")
        facts = meta if isinstance(meta, dict) else {}
        reason = name(facts.get("finish_reason"))
        reading = msgspec.structs.replace(
            told.reading,
            usage=counts(facts.get("usage")),
            model=Model(
                response_model=name(facts.get("model")),
                finish_reasons=(reason,) if reason else (),
            ),
        )
        yield msgspec.structs.replace(told, reading=reading)
