"""Messages to and from models, read from every JSON shape they are written in.

Rules
1. One vocabulary out: text, tool_call, tool_call_response, reasoning, else generic with the whole
   object.
2. A part's arguments and response stay as written (a JSON string stays a string): who needs them
   parses.
3. A value that is no list of messages is None, so that it can be kept elsewhere and is never lost.
4. A message that holds only tool responses has the role ``tool``, whatever the emitter wrote.

Shapes: GenAI semantic conventions (``parts``), OpenAI chat and Responses items, Anthropic and
Bedrock content blocks, LangChain dumps (``{"type": "ai", "data"}`` and ``{"lc": 1, "kwargs"}``).
"""

from typing import Any

from processors.model.step import Message, Part

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "HumanMessage": "user",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "model": "assistant",
    "developer": "system",
    "function": "tool",
}
_TEXTS = {"text", "input_text", "output_text", "refusal"}
_CALLS = {
    *("tool_call", "tool_use", "function_call", "toolUse", "tool-call"),
    *("functionCall", "toolRequest"),
}
_RESPONSES = {
    *(
        "tool_call_response",
        "tool_result",
        "function_call_output",
        "toolResult",
        "function_response",
        "tool-result",
        "functionResponse",
        "toolResponse",
        "tool_call_result",
    ),
}
# Blocks that hold what they are under a key that names it.
_KEYED = (
    *("toolUse", "toolResult", "function_call", "functionCall", "function_response"),
    *("functionResponse", "toolRequest", "toolResponse", "tool_call", "tool_call_result"),
)
_SERVER_CALLS = {"server_tool_call", "server_tool_use"}
_SERVER_RESPONSES = {"server_tool_call_response", "mcp_tool_result"}
# Items of OpenAI Responses that OpenAI carried out itself: call and answer in one.
_SERVER_ITEMS = {
    *("mcp_call", "web_search_call", "file_search_call", "code_interpreter_call"),
    *("image_generation_call",),
}
_REASONING = {"reasoning", "thinking", "redacted_thinking"}
_ITEMS = _CALLS | _RESPONSES | _REASONING | _SERVER_CALLS | _SERVER_RESPONSES | _SERVER_ITEMS
_OUTPUTS = {"text", "json", "error-text", "error-json", "content", "execution-denied"}
Node = dict[str, Any]


def messages(value: Any, role: str = "user") -> tuple[Message, ...] | None:
    """The messages of a parsed JSON value, a list of objects or one; None if it is neither.

    ``role`` is that of a message which names none.
    """
    if isinstance(value, dict):
        inner = value.get("messages")
        if isinstance(inner, list) and "role" not in value:
            return messages(inner, role)
        value = [value]
    if not isinstance(value, list):
        return None
    if len(value) == 1 and isinstance(value[0], list):
        value = value[0]  # LangChain batches: a list of lists
    found = [_message(item, role) for item in value if item is not None]
    return None if None in found else tuple(item for item in found if item is not None)


def reply(value: Any) -> tuple[Message, ...] | None:
    """The messages inside a provider's whole response object, or a list of one such; else None.

    OpenAI chat (``choices``) and Responses (``output``), Anthropic (``content``), LangChain
    (``generations``).
    """
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("choices"), list):
        inner = [choice.get("message") for choice in value["choices"] if isinstance(choice, dict)]
        return messages([message for message in inner if message], "assistant")
    if isinstance(value.get("output"), list):
        return messages(value["output"], "assistant")
    if isinstance(value.get("generations"), list):
        return reply(value["generations"])
    return messages(value, "assistant")


def text_of(message: Message) -> str | None:
    """The text parts of a message, joined; None without any."""
    texts = [part.content for part in message.parts if part.type == "text"]
    joined = "".join(text for text in texts if isinstance(text, str))
    return joined or None


def parts(value: Any) -> tuple[Part, ...]:
    """The parts of a message's content: text, one block, or a list of blocks."""
    if value is None or value == "":
        return ()
    if isinstance(value, list):
        return tuple([part for item in value if item is not None for part in _blocks(item)])
    return _blocks(value)


def call_part(call: Any) -> Part:
    """A requested tool call from an entry of ``tool_calls`` in any spelling."""
    if not isinstance(call, dict):
        return Part(type="generic", content=call)
    function = call.get("function")
    inner = function if isinstance(function, dict) else call
    return Part(
        type="tool_call",
        id=_id(call, "id", "call_id", "toolUseId", "tool_call_id", "toolCallId", "ref"),
        name=_text(inner.get("name") or inner.get("toolName") or inner.get("tool_name")),
        content=_present(inner, "arguments", "args", "input"),
    )


def tool_message(value: Any) -> tuple[Any, str | None, bool] | None:
    """(content, call id, failed) of a tool's answer dumped as a message; None for anything else."""
    if not isinstance(value, dict):
        return None
    node, _ = _unwrapped(value)
    if "content" not in node or "tool_call_id" not in node:
        return None
    return only_block(node["content"]), _id(node, "tool_call_id"), node.get("status") == "error"


def _message(item: Any, role: str) -> Message | None:
    if isinstance(item, str):
        return Message(role=role, parts=(Part(type="text", content=item),))
    if not isinstance(item, dict):
        return None
    item, said = _unwrapped(item)
    said = _text(item.get("role")) or said
    body = _body(item)
    if body is None:
        return None
    if body and all(part.type == "tool_call_response" for part in body):
        said = "tool"
    return Message(
        role=_ROLES.get(said or role, said or role),
        parts=body,
        name=_text(item.get("name")) if "parts" in item or "content" in item else None,
        finish_reason=_text(item.get("finish_reason")),
    )


def _unwrapped(item: Node) -> tuple[Node, str | None]:
    """The message inside a LangChain dump, with its role; anything else as it is."""
    data, kwargs, kind = item.get("data"), item.get("kwargs"), _text(item.get("type"))
    if isinstance(data, dict) and kind:
        return data, kind
    if isinstance(kwargs, dict) and isinstance(item.get("id"), list) and item["id"]:
        return kwargs, str(item["id"][-1])
    message = item.get("message")
    if isinstance(message, dict) and "role" not in item and "content" not in item:
        return _unwrapped(message)
    return item, kind if kind in _ROLES else None


def _body(item: Node) -> tuple[Part, ...] | None:
    """All parts of a message object, or None when it is no message."""
    if isinstance(item.get("parts"), list):
        return _body_of_parts(item)
    kind = _text(item.get("type"))
    if kind in _ITEMS and "role" not in item:
        return _blocks(item)
    if "tool_call_id" in item and item.get("tool_call_id"):
        return (_response(item),)
    if not item.keys() & {"role", "content", "tool_calls", "function_call", "text"}:
        return None
    return (*parts(item.get("content", item.get("text"))), *_calls(item))


def _body_of_parts(item: Node) -> tuple[Part, ...]:
    """The parts, with what LiteLLM leaves beside them: calls asked for, the id a text answers."""
    found = parts(item["parts"])
    if "tool_calls" in item:
        return (*found, *_calls(item))
    if item.get("tool_call_id") and not any(part.type == "tool_call_response" for part in found):
        text = "".join(part.content for part in found if isinstance(part.content, str))
        return (_response({**item, "content": text}),)
    return found


def _calls(item: Node) -> tuple[Part, ...]:
    listed = item.get("tool_calls")
    found = tuple(call_part(call) for call in listed if call) if isinstance(listed, list) else ()
    old = item.get("function_call")
    return (*found, call_part(old)) if isinstance(old, dict) and not found else found


def _blocks(item: Any) -> tuple[Part, ...]:
    """The part or parts of one content block."""
    if not isinstance(item, dict):
        return (Part(type="text", content=item if isinstance(item, str) else str(item)),)
    kind = _text(item.get("type")) or _bedrock_kind(item)
    if kind == "text":  # the commonest kind first
        return (Part(type="text", content=_present(item, "content", "text", "refusal")),)
    if kind in _SERVER_ITEMS:
        return _served(item, kind)
    inner = item.get(kind) if kind in _KEYED else item
    node = inner if isinstance(inner, dict) else item
    if kind in _TEXTS:
        return (Part(type="text", content=_present(node, "content", "text", "refusal")),)
    if kind in _CALLS:
        return (
            (call_part(node),)
            if node.get("providerExecuted") is not True
            else (_served_call(node),)
        )
    if kind in _RESPONSES:
        return (_response(node),)
    if kind in _SERVER_CALLS:
        return (_served_call(node),)
    if kind in _SERVER_RESPONSES or (kind and kind.endswith("_tool_result")):
        return (_served_answer(node),)
    if kind in _REASONING:
        return (
            Part(
                type="reasoning", content=_present(node, "content", "thinking", "text", "summary")
            ),
        )
    return (Part(type="generic", content=item),)


def _served_call(node: Node) -> Part:
    """A tool call that the provider carries out itself."""
    call = call_part(node)
    content = node.get("server_tool_call", call.content)
    return Part(type="server_tool_call", id=call.id, name=call.name, content=content)


def _served_answer(node: Node) -> Part:
    content = node.get("server_tool_call_response", node.get("content"))
    return Part(
        type="server_tool_call_response", id=_id(node, "id", "tool_use_id"), content=content
    )


def _served(item: Node, kind: str) -> tuple[Part, ...]:
    """Call and answer of one Responses item; the tool is its own name or the kind of the item."""
    tool, call_id = _text(item.get("name")) or kind.removesuffix("_call"), _id(item, "id")
    asked = _present(item, "arguments", "action", "queries", "code")
    given = _present(item, "output", "error", "results", "outputs", "result")
    call = Part(type="server_tool_call", id=call_id, name=tool, content=asked)
    if given is None and item.get("status") != "completed":
        return (call,)
    failed = item.get("error") is not None
    answer = Part(type="server_tool_call_response", id=call_id, content=given, failed=failed)
    return (call, answer)


def _bedrock_kind(item: Node) -> str | None:
    """Bedrock, Gemini, Genkit and Haystack blocks name their kind by their only key."""
    for key in _KEYED:
        if isinstance(item.get(key), dict):
            return key
    return "text" if "text" in item else None


def _response(node: Node) -> Part:
    origin = node.get("origin")
    if isinstance(origin, dict):  # Haystack: the call that is answered, whole
        node = {"id": origin.get("id"), "name": origin.get("tool_name"), **node}
    ids = ("id", "tool_call_id", "tool_use_id", "toolUseId", "toolCallId", "call_id", "ref")
    content = only_block(_present(node, "response", "result", "output", "content"))
    content, failed = _vercel_output(content)
    return Part(
        type="tool_call_response",
        id=_id(node, *ids) if "tool_call_id" not in node else _id(node, "tool_call_id"),
        name=_text(node.get("name") or node.get("toolName")),
        content=content,
        failed=failed or _says_failed(node),
    )


def _says_failed(node: Node) -> bool:
    """Anthropic's, LangChain's, Bedrock's and Vercel's way of saying that a tool failed."""
    return (
        node.get("is_error") is True
        or node.get("isError") is True
        or node.get("error") is True
        or node.get("status") in ("error", "failed")
    )


def _vercel_output(content: Any) -> tuple[Any, bool]:
    """What a tool output of the AI SDK (5 and newer) holds, and whether it is an error."""
    if not isinstance(content, dict) or content.get("type") not in _OUTPUTS:
        return content, False
    if content["type"] == "execution-denied" and content.keys() <= {"type", "reason"}:
        return {"denied": True, "reason": content.get("reason")}, False
    if content.keys() != {"type", "value"}:
        return content, False
    return only_block(content["value"]), content["type"].startswith("error-")


def only_block(content: Any) -> Any:
    """One text block alone is its text; anything else stays as it is."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        block = content[0]
        if block.keys() <= {"type", "text", "annotations", "id"} and isinstance(
            block.get("text"), str
        ):
            return block["text"]
        if block.keys() == {"json"}:
            return block["json"]
    return content


def _present(node: Node, *keys: str) -> Any:
    for key in keys:
        value = node.get(key)
        if value is not None:
            return value
    return None


def _id(node: Node, *keys: str) -> str | None:
    for key in keys:
        value = node.get(key)
        if isinstance(value, str) and value.strip() not in ("", "unknown", "<not specified>"):
            return value.strip()
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
