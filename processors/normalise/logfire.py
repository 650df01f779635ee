"""Logfire: templates for names, bare attributes for arguments, the reply of a stream in a log span.

Rules
1. A function it instruments is a tool call where its template calls it a tool by its name, else
   ``other``, and still a tool call where a model asked for just that.
2. ``logfire.json_schema`` says which string attributes are JSON; an attribute without an entry
   there is none of the function's arguments.
3. The span of a streamed call ends before its reply: a log span without duration follows with
   reply and tokens, subtype ``streamed``, to be joined with it.
4. Versions before 4 keep request and reply in ``request_data`` and ``response_data``.

Source: pydantic/logfire logfire/_internal/{constants,json_schema,integrations/llm_providers}.
"""

import re
from collections.abc import Mapping
from typing import Any

from processors.model.exchange import counts, prompt, said
from processors.model.fragment import RANK_MODEL, RANK_NONE, RANK_TOOL, Reading
from processors.model.names import ContentState
from processors.model.span import Span
from processors.model.step import Message, Part, Tool
from processors.value import name, parse

DIALECT = "logfire"
FAMILIES = frozenset({"logfire"})
EVENTS: frozenset[str] = frozenset()
MAPPED = frozenset({"logfire.json_schema", "logfire.msg_template", "logfire.span_type"})
PREFIXES: tuple[str, ...] = ()
RETURN = "return"
_TOOL = re.compile(r"\btool\b", re.IGNORECASE)


def read_span(span: Span) -> Reading | None:
    """What Logfire itself says of a span; None where other conventions say it all."""
    attributes = span.attributes
    if "gen_ai.request.model" in attributes or "request_data" in attributes:
        return _model_call(attributes)
    if "code.function" not in attributes or any(key.startswith("gen_ai.") for key in attributes):
        return None
    schema = _properties(attributes)
    given = {key for key in schema if key != RETURN and key in attributes}
    if not given and RETURN not in attributes:
        return None
    state: dict[str, ContentState] = {"arguments": "captured"}
    result = None
    if RETURN in attributes:
        result, state["result"] = parse(attributes[RETURN])
    function = _function(attributes)
    named = bool(_TOOL.search(span.name)) and function is not None and function in span.name
    return Reading(
        dialect=DIALECT,
        kind="tool_call" if named else "other",
        rank=RANK_TOOL if named else RANK_NONE,
        subtype=None if named else "function",
        tool=Tool(
            name=function,
            arguments={
                key: _argument(attributes[key], schema[key]) for key in schema if key in given
            },
            result=result,
        ),
        content_state=state,
    )


def _properties(attributes: Mapping[str, Any]) -> dict[str, Any]:
    schema, _ = parse(attributes.get("logfire.json_schema"))
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _function(attributes: Mapping[str, Any]) -> str | None:
    """The bare name of ``module.Class.method`` or ``outer.<locals>.method``."""
    qualified = name(attributes.get("code.function"))
    return qualified.rpartition(".")[2] if qualified else None


def _argument(value: Any, schema: Any) -> Any:
    """An argument that its schema calls an object or array is JSON; any other string is itself."""
    return parse(value)[0] if isinstance(value, str) and schema else value


def _model_call(attributes: Mapping[str, Any]) -> Reading | None:
    streamed = attributes.get("logfire.span_type") == "log"
    request = _object(attributes.get("request_data"))
    reply = _object(attributes.get("response_data"))
    shown = prompt(request) if request.keys() & {"messages", "input", "prompt"} else None
    spoken = _spoken(reply)
    if shown is None and spoken is None and not streamed:
        return None
    return Reading(
        dialect=DIALECT,
        kind="model_call",
        rank=RANK_MODEL,
        subtype="streamed" if streamed else None,
        messages_in=shown,
        messages_out=spoken,
        usage=counts(reply.get("usage")),
    )


def _spoken(reply: Mapping[str, Any]) -> tuple[Message, ...] | None:
    if isinstance(reply.get("message"), dict):
        return said(reply["message"])
    text = reply.get("combined_chunk_content")
    if isinstance(text, str) and text:
        return (Message(role="assistant", parts=(Part(type="text", content=text),)),)
    return None


def _object(raw: Any) -> dict[str, Any]:
    value, _ = parse(raw)
    return value if isinstance(value, dict) else {}
