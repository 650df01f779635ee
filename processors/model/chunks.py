"""A streamed reply put together again from the chunks that a provider sent.

Rules
1. Chunks come in the order they were sent; one that is not understood is passed over.
2. Text and arguments are joined as they are: what broke off stays broken off.

Shapes: OpenAI chat deltas, OpenAI Responses events, Anthropic message events.
"""

from collections.abc import Iterable
from typing import Any

from processors.model.message import messages, parts
from processors.model.step import Message, Part

Node = dict[str, Any]


class _Stream:
    """What has come so far: text, the calls by their place, whole Responses items."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.calls: dict[object, Node] = {}
        self.items: list[Node] = []
        self.reason: str | None = None

    def call(self, place: object) -> Node:
        return self.calls.setdefault(place, {"id": None, "name": None, "arguments": []})


def streamed(chunks: Iterable[Any]) -> tuple[Message, ...] | None:
    """The reply that the chunks carried, as one message; None when they carried none."""
    stream = _Stream()
    for chunk in chunks:
        if isinstance(chunk, dict):
            _take(stream, chunk)
    if stream.items:
        return messages(stream.items, "assistant")
    said = (*parts("".join(stream.text)), *map(_call, stream.calls.values()))
    if not said:
        return None
    return (Message(role="assistant", parts=said, finish_reason=stream.reason),)


def _take(stream: _Stream, chunk: Node) -> None:
    if isinstance(chunk.get("choices"), list):
        for choice in chunk["choices"]:
            if isinstance(choice, dict):
                _take_choice(stream, choice)
        return
    kind = chunk.get("type")
    if kind == "response.output_item.done" and isinstance(chunk.get("item"), dict):
        stream.items.append(chunk["item"])
    elif kind == "content_block_start":
        _take_block(stream, chunk)
    elif kind == "content_block_delta":
        _take_block_delta(stream, chunk)
    elif kind == "message_delta" and isinstance(chunk.get("delta"), dict):
        stream.reason = chunk["delta"].get("stop_reason") or stream.reason


def _take_choice(stream: _Stream, choice: Node) -> None:
    delta = choice.get("delta")
    stream.reason = choice.get("finish_reason") or stream.reason
    if not isinstance(delta, dict):
        return
    _text(stream, delta.get("content"))
    for call in delta.get("tool_calls") or ():
        if not isinstance(call, dict):
            continue
        known = stream.call((choice.get("index"), call.get("index")))
        function = call.get("function")
        inner = function if isinstance(function, dict) else {}
        known["id"] = known["id"] or call.get("id")
        known["name"] = known["name"] or inner.get("name")
        known["arguments"].append(inner.get("arguments") or "")


def _take_block(stream: _Stream, chunk: Node) -> None:
    block = chunk.get("content_block")
    if not isinstance(block, dict):
        return
    if block.get("type") == "tool_use":
        known = stream.call(chunk.get("index"))
        known["id"], known["name"] = block.get("id"), block.get("name")
    else:
        _text(stream, block.get("text"))


def _take_block_delta(stream: _Stream, chunk: Node) -> None:
    delta = chunk.get("delta")
    if not isinstance(delta, dict):
        return
    _text(stream, delta.get("text"))
    if delta.get("partial_json"):
        stream.call(chunk.get("index"))["arguments"].append(str(delta["partial_json"]))


def _text(stream: _Stream, text: Any) -> None:
    if isinstance(text, str):
        stream.text.append(text)


def _call(known: Node) -> Part:
    arguments = "".join(known["arguments"])
    return Part(type="tool_call", id=known["id"], name=known["name"], content=arguments or None)
