"""DSPy: modules, whose model writes its choice of a tool as text.

Rules
1. ``[[ ## next_tool_name ## ]]`` and ``[[ ## next_tool_args ## ]]`` in a completion ask for a tool;
   ``finish`` ends the loop and is no tool.
2. What a later prompt's trajectory shows under ``observation_N`` answers the N-th choice.
3. A ReAct module is the agent; its answer is its last output field.
4. A tool's span is named ``<tool>.__call__``.

Source: stanfordnlp/dspy dspy/predict/react.py, dspy/adapters/chat_adapter.py;
openinference-instrumentation-dspy.
"""

import re
from collections.abc import Mapping
from typing import Any

from processors.model.fragment import RANK_DISCRIMINATOR, RANK_HANDOFF, RANK_NONE, Reading
from processors.model.message import messages
from processors.model.span import Span
from processors.model.step import Agent, Message, Part, Tool
from processors.value import name, parse

DIALECT = "dspy"
FAMILIES: frozenset[str] = frozenset()  # called by scope
EVENTS: frozenset[str] = frozenset()
MAPPED: frozenset[str] = frozenset()
PREFIXES: tuple[str, ...] = ()
_FIELD = re.compile(r"^\[\[ ## (\w+) ## \]\]\s*$", re.M)
_AGENTS = ("ReAct.", "CodeAct.", "ProgramOfThought.", "Avatar.")
_INNER = frozenset({"trajectory", "reasoning", "rationale", "completed"})
_CALLED = ".__call__"
_FINISH = "finish"
_CHOICE = "next_tool_name"


def read_span(span: Span) -> Reading | None:
    """What a DSPy span says beside the dialect it is written in."""
    attributes = span.attributes
    kind = attributes.get("openinference.span.kind")
    if kind == "TOOL" or attributes.get("gen_ai.operation.name") == "execute_tool":
        return _tool(span.name, attributes)
    if kind == "LLM" or attributes.get("gen_ai.operation.name") == "chat":
        return _model_call(attributes)
    if span.name.startswith(_AGENTS) and span.name.endswith((".forward", ".aforward", _CALLED)):
        return _module(span.name, attributes)
    return None


def _tool(span_name: str, attributes: Mapping[str, Any]) -> Reading | None:
    named = name(attributes.get("gen_ai.tool.name")) or name(attributes.get("tool.name"))
    tool = named or span_name.removesuffix(_CALLED).removesuffix(".acall")
    if tool == _FINISH:
        return Reading(dialect=DIALECT, kind="other", rank=RANK_HANDOFF, subtype="final_answer")
    return Reading(dialect=DIALECT, kind="tool_call", rank=RANK_NONE, tool=Tool(name=tool))


def _module(span_name: str, attributes: Mapping[str, Any]) -> Reading:
    output, _ = parse(attributes.get("output.value"))
    fields = output if isinstance(output, dict) else {}
    said = [text for field, text in fields.items() if field not in _INNER]
    return Reading(
        dialect=DIALECT,
        kind="agent",
        rank=RANK_DISCRIMINATOR - 1,
        agent=Agent(name=span_name.partition(".")[0]),
        output=said[-1] if said and isinstance(said[-1], str) else None,
    )


def _model_call(attributes: Mapping[str, Any]) -> Reading | None:
    """Calls and answers that stand in the texts, as messages of the usual form."""
    said = _texts(attributes, "llm.output_messages.0.message.content", "gen_ai.output.messages")
    shown = _texts(attributes, "llm.input_messages.", "gen_ai.input.messages")
    calls = [part for text in said for part in _choices(text)]
    history = [message for text in shown for message in _trajectory(text)]
    if not calls and not history:
        return None
    texts = tuple(Part(type="text", content=text) for text in said)
    prompts = tuple(
        Message(role="user", parts=(Part(type="text", content=text),)) for text in shown
    )
    return Reading(
        dialect=DIALECT,
        rank=RANK_NONE,
        messages_in=(*prompts, *history) if history else None,
        messages_out=(Message(role="assistant", parts=(*texts, *calls)),) if calls else None,
    )


def _texts(attributes: Mapping[str, Any], prefix: str, key: str) -> list[str]:
    found = [
        value
        for name_, value in attributes.items()
        if name_.startswith(prefix) and name_.endswith(".content") and isinstance(value, str)
    ]
    if found:
        return found
    listed = messages(parse(attributes.get(key))[0]) or ()
    return [
        part.content
        for message in listed
        for part in message.parts
        if part.type == "text" and isinstance(part.content, str)
    ]


def _fields(text: str) -> dict[str, str]:
    """The fields of a text in DSPy's chat format, in order."""
    pieces = _FIELD.split(text)
    return {pieces[n]: pieces[n + 1].strip() for n in range(1, len(pieces) - 1, 2)}


def _choices(text: str) -> list[Part]:
    fields = _fields(text)
    tool = name(fields.get(_CHOICE))
    if tool is None or tool == _FINISH:
        return []
    return [Part(type="tool_call", name=tool, content=fields.get("next_tool_args"))]


def _trajectory(text: str) -> list[Message]:
    """The choices that a prompt repeats, each with its observation."""
    fields = _fields(text)
    found: list[Message] = []
    number = 0
    while (tool := name(fields.get(f"tool_name_{number}"))) is not None:
        call_id = f"{_CHOICE}_{number}"
        asked = Part(
            type="tool_call", id=call_id, name=tool, content=fields.get(f"tool_args_{number}")
        )
        seen = fields.get(f"observation_{number}")
        if tool != _FINISH:
            found.append(Message(role="assistant", parts=(asked,)))
            if seen is not None:
                answer = Part(type="tool_call_response", id=call_id, content=seen)
                found.append(Message(role="tool", parts=(answer,)))
        number += 1
    return found
