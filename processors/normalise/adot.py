"""ADOT and Bedrock AgentCore: content moved off the span to a record with the span's ids.

Rules
1. The record's body is ``{"input": {"messages"}, "output": {"messages"}}``; which span it belongs
   to, its ids say; it may come minutes before or after.
2. A message's content may be a framework's whole dump as JSON text: it is opened.
3. A span that says nothing of its kind is what its content is: a tool's answer, a model's reply.
4. On a tool's span the input is what the tool was given and the output what it gave back.

Source: aws-observability/aws-otel-python-instrumentation, LLO handler.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.exchange import prompt, said
from processors.model.fragment import Reading
from processors.model.message import messages, tool_message
from processors.model.names import ContentState, StepKind
from processors.model.span import LogRecord
from processors.model.step import Message, Tool
from processors.value import name, parse

DIALECT = "adot"
_DUMPS = frozenset({"generations", "messages", "choices", "contents", "kwargs", "lc"})


def read_log(record: LogRecord) -> Reading | None:
    """The content that a record holds for its span; None for any other record."""
    body, _ = parse(record.body)
    if not isinstance(body, dict) or not body.keys() & {"input", "output"}:
        return None
    given, gave = _listed(body.get("input")), _listed(body.get("output"))
    if given is None and gave is None:
        return None
    state: dict[str, ContentState] = {}
    tool, failed = _tool(given or [], gave or [], state)
    return Reading(
        dialect=DIALECT,
        kind=_kind(gave or []),
        status="error" if failed else None,
        messages_in=_opened(given or [], shown=True),
        messages_out=_opened(gave or [], shown=False),
        tool=tool,
        content_state=state,
    )


def _listed(side: Any) -> list[Any] | None:
    listed = side.get("messages") if isinstance(side, dict) else None
    return listed if isinstance(listed, list) else None


def _content(item: Any) -> Any:
    content = item.get("content") if isinstance(item, dict) else item
    while isinstance(content, dict) and content.keys() <= {"content", "message"} and content:
        content = content.get("content", content.get("message"))
    return parse(content)[0]


def _opened(listed: list[Any], *, shown: bool) -> tuple[Message, ...] | None:
    found: list[Message] = []
    for item in listed:
        content = _content(item)
        whole = None
        if isinstance(content, dict) and content.keys() & _DUMPS:
            whole = prompt(content) if shown else said(content)
        plain = {**item, "content": content} if isinstance(item, dict) else item
        role = "user" if shown else "assistant"
        found.extend(whole or messages([_named(plain, role)], role) or ())
    return tuple(found) or None


def _named(item: Any, role: str) -> Any:
    """The message; a role that stands for "none known" is that of its side."""
    if isinstance(item, Mapping) and item.get("role") in ("unknown", "", None):
        return {**item, "role": role}
    return item


def _kind(gave: list[Any]) -> StepKind | None:
    """What only the content tells, where the span does not: a tool's answer, a model's reply."""
    content = _content(gave[0]) if len(gave) == 1 else None
    if tool_message(content) is not None:
        return "tool_call"
    return "model_call" if isinstance(content, dict) and "generations" in content else None


def _tool(
    given: list[Any], gave: list[Any], state: dict[str, ContentState]
) -> tuple[Tool | None, bool]:
    """What a tool's span would say with this content, and whether it says that the tool failed."""
    arguments = _content(given[0]) if len(given) == 1 else None
    result = _content(gave[0]) if len(gave) == 1 else None
    tool, call_id, failed = None, None, False
    dumped = tool_message(result)
    if dumped is not None:
        tool = name(result.get("name")) if isinstance(result, dict) else None
        result, call_id, failed = parse(dumped[0])[0], dumped[1], dumped[2]
    if arguments is None and result is None:
        return None, False
    if arguments is not None:
        state["arguments"] = "captured"
    if result is not None:
        state["result"] = "captured"
    return Tool(name=tool, call_id=call_id, arguments=arguments, result=result), failed
