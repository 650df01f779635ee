"""LlamaIndex: what OpenInference and OpenLLMetry spans of it mean.

Rules
1. A dumped ToolOutput holds the tool's name, what it was given and what it gave back; it makes a
   tool call of whatever span carries it.
2. Preparing a request (``_prepare_chat_with_tools``) is no model call although marked as one.
3. ``…Agent.run`` and ``….workflow`` are the agent's run; its answer is in the output's blocks.

Source: openinference-instrumentation-llama-index; opentelemetry-instrumentation-llamaindex;
llama_index/core/tools/types.py, core/agent/workflow.
"""

import re
from collections.abc import Mapping
from typing import Any

from processors.model.fragment import RANK_DISCRIMINATOR, RANK_HANDOFF, Reading
from processors.model.names import ContentState
from processors.model.span import Span
from processors.model.step import Agent, Tool
from processors.value import name, parse

DIALECT = "llama_index"
FAMILIES: frozenset[str] = frozenset()  # called by scope
EVENTS: frozenset[str] = frozenset()
MAPPED: frozenset[str] = frozenset()
PREFIXES: tuple[str, ...] = ()
_AGENT_RUN = re.compile(r"^(\w*Agent\w*)\.(?:run|workflow)$")
_PREPARING = ("._prepare_chat_with_tools", "._prepare_chat")


def read_span(span: Span) -> Reading | None:
    """What a LlamaIndex span says beside the dialect it is written in."""
    attributes = span.attributes
    if span.name.endswith(_PREPARING):
        return Reading(dialect=DIALECT, kind="other", rank=RANK_HANDOFF, subtype="step")
    output, _ = parse(attributes.get("output.value", attributes.get("traceloop.entity.output")))
    if isinstance(output, dict):
        if "tool_id" in output and isinstance(output.get("tool_output"), dict):
            return _tool(output["tool_output"], output.get("tool_kwargs"), output["tool_id"])
        if "tool_name" in output and "raw_output" in output:
            return _tool(output, None, None)
    if _AGENT_RUN.match(span.name):
        return _run(span.name, output)
    return None


def _tool(output: Mapping[str, Any], given: Any, call_id: Any) -> Reading:
    raw = output.get("raw_input")
    arguments = given if given is not None else _arguments(raw)
    state: dict[str, ContentState] = {"result": "captured"}
    if arguments is not None:
        state["arguments"] = "captured"
    failed = output.get("is_error") is True
    return Reading(
        dialect=DIALECT,
        kind="tool_call",
        rank=RANK_DISCRIMINATOR - 1,
        tool=Tool(
            name=name(output.get("tool_name")),
            call_id=name(call_id),
            arguments=arguments,
            result=_result(output, failed),
        ),
        status="error" if failed else None,
        content_state=state,
    )


def _arguments(raw: Any) -> Any:
    """``{"args": [], "kwargs": {…}}`` is how the call was made."""
    if isinstance(raw, dict) and isinstance(raw.get("kwargs"), dict):
        return raw["kwargs"] if not raw.get("args") else raw
    return raw


def _result(output: Mapping[str, Any], failed: bool) -> Any:
    """What the function gave back; of a failure the words that the model is shown."""
    raw = output.get("raw_output")
    if raw is not None and not failed:
        return parse(raw)[0]
    return parse(_text(output.get("blocks")) or output.get("content") or raw)[0]


def _text(blocks: Any) -> str | None:
    if not isinstance(blocks, list):
        return None
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "".join(text for text in texts if isinstance(text, str)) or None


def _run(span_name: str, output: Any) -> Reading:
    found = _AGENT_RUN.match(span_name)
    result = output.get("result") if isinstance(output, dict) else None
    body = result if isinstance(result, dict) else {}
    agent = name(body.get("current_agent_name")) or (found[1] if found else None)
    response = body.get("response")
    answer = _text(response.get("blocks")) if isinstance(response, dict) else None
    return Reading(
        dialect=DIALECT,
        kind="agent",
        rank=RANK_DISCRIMINATOR - 1,
        agent=Agent(name=agent) if agent else None,
        output=answer,
    )
