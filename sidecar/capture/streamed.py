"""Streamed answers of models put together: the answer as it would have been without a stream.

**Rules**
1. Known: chat completions and completions, responses, messages; the events of another protocol make
   nothing. The pieces on the tape are what is replayed; this is what is read, compared and shown.
2. A stream that was cut makes the answer as far as it came. ``ended`` says whether its own last
   event came: a client that stops reading after that one stopped for nothing.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from sidecar.capture.pieces import fields_of

_LAST: Final = frozenset(
    ("message_stop", "response.completed", "response.failed", "response.incomplete", "error")
)
_JOINED: Final = frozenset(("content", "refusal", "arguments", "text", "reasoning_content", "data"))
_ITEMS_MAX: Final = 10_000


def pieces_of(answer: Any) -> list[dict[str, str]] | None:
    """A whole answer as the events of a stream, for one that was changed; None of no protocol."""
    if not isinstance(answer, dict):
        return None
    if isinstance(answer.get("choices"), list):
        return [*_chunks(answer), {"data": "[DONE]"}]
    if answer.get("object") == "response":
        return [_event({"type": "response.completed", "response": answer, "sequence_number": 0})]
    if answer.get("type") == "message" and isinstance(answer.get("content"), list):
        return [_event(one) for one in _message_events(answer)]
    return None


class Answer:
    """One streamed answer, event by event."""

    def __init__(self) -> None:
        self.ended = False
        self.value: dict[str, Any] | None = None
        self._json: dict[int, str] = {}

    def add(self, payload: Any) -> None:
        """One more piece, as ``pieces.payload_of`` gives it."""
        fields = payload if isinstance(payload, dict) else fields_of(str(payload))
        data = fields.get("data")
        if not isinstance(data, str):
            return
        if data.strip() == "[DONE]":
            self.ended = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict):
            return
        kind = str(event.get("type") or fields.get("event") or "")
        self.ended = self.ended or kind in _LAST
        with suppress(TypeError, AttributeError, KeyError, IndexError, ValueError):
            self._add(kind, event)  # one that is not of its protocol's shape adds nothing

    def _add(self, kind: str, event: dict[str, Any]) -> None:
        if "choices" in event:
            self._completion(event)
        elif isinstance(event.get("response"), dict):
            self.value = event["response"]
        elif kind == "error" and self.value is None:
            self.value = event
        elif kind.startswith("response.") and self.value is not None:
            self._response(kind, self.value.setdefault("output", []), event)
        elif kind.startswith(("message", "content_block")):
            self._message(kind, event)

    def _completion(self, event: dict[str, Any]) -> None:
        whole = self.value
        if whole is None:
            whole = self.value = {"choices": []}
        for key, item in event.items():
            if key == "object":
                whole[key] = str(item).removesuffix(".chunk")
            elif key != "choices" and (item is not None or key not in whole):
                whole[key] = item
        for choice in event["choices"]:
            mine = _at(whole["choices"], int(choice.get("index", 0)))
            for key, item in choice.items():
                if key == "delta":
                    _merged(mine.setdefault("message", {}), item or {})
                elif key == "text":
                    mine[key] = mine.get(key, "") + item
                elif item is not None or key not in mine:
                    mine[key] = item

    def _response(self, kind: str, output: list[Any], event: dict[str, Any]) -> None:
        """What a response's events say of its output before the whole of it comes."""
        item = _at(output, int(event["output_index"]))
        if kind.startswith("response.output_item."):
            output[int(event["output_index"])] = event["item"]
        elif kind == "response.content_part.added":
            _at(item.setdefault("content", []), int(event["content_index"])).update(event["part"])
        elif kind in ("response.output_text.delta", "response.refusal.delta"):
            part = _at(item.setdefault("content", []), int(event["content_index"]))
            key = "text" if "text" in kind else "refusal"
            part[key] = part.get(key, "") + event["delta"]
        elif kind == "response.function_call_arguments.delta":
            item["arguments"] = item.get("arguments", "") + event["delta"]

    def _message(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "message_start":
            self.value = dict(event["message"])
            self.value["content"] = list(self.value.get("content") or ())
            return
        if self.value is None:
            return
        if kind == "message_delta":
            self.value.update(event.get("delta") or {})
            self.value["usage"] = {**(self.value.get("usage") or {}), **(event.get("usage") or {})}
        elif kind == "content_block_start":
            place = int(event["index"])
            block = _at(self.value["content"], place)
            block.update(event["content_block"])
        elif kind == "content_block_delta":
            self._block(int(event["index"]), event["delta"])
        elif kind == "content_block_stop" and int(event["index"]) in self._json:
            text = self._json.pop(int(event["index"]))
            self.value["content"][int(event["index"])]["input"] = json.loads(text or "{}")

    def _block(self, place: int, delta: dict[str, Any]) -> None:
        block = (self.value or {})["content"][place]
        if delta.get("type") == "input_json_delta":
            self._json[place] = self._json.get(place, "") + delta["partial_json"]
            return
        for key, item in delta.items():
            if key == "citation":
                block.setdefault("citations", []).append(item)
            elif key != "type":
                joins = isinstance(item, str) and isinstance(block.get(key), str)
                block[key] = block[key] + item if joins and key != "signature" else item


def _merged(whole: dict[str, Any], delta: dict[str, Any]) -> None:
    for key, item in delta.items():
        before = whole.get(key)
        if isinstance(item, list) and all(isinstance(one, dict) for one in item):
            mine = whole.setdefault(key, [])
            for number, one in enumerate(item):
                target = _at(mine, int(one.get("index", number)))
                _merged(target, {name: value for name, value in one.items() if name != "index"})
        elif isinstance(item, dict) and isinstance(before, dict):
            _merged(before, item)
        elif isinstance(item, str) and isinstance(before, str) and key in _JOINED:
            whole[key] = before + item
        elif item is not None or key not in whole:
            whole[key] = dict(item) if isinstance(item, dict) else item


def _at(items: list[dict[str, Any]], place: int) -> dict[str, Any]:
    if not 0 <= place < _ITEMS_MAX:
        raise ValueError("too many")
    while len(items) <= place:
        items.append({})
    return items[place]


def _chunks(answer: dict[str, Any]) -> Iterator[dict[str, str]]:
    head = {key: item for key, item in answer.items() if key not in ("choices", "usage")}
    if head.get("object") == "chat.completion":
        head["object"] = "chat.completion.chunk"
    for place, choice in enumerate(answer["choices"]):
        told = {key: item for key, item in choice.items() if key not in ("message", "index")}
        said = choice.get("message")
        if isinstance(said, dict):
            calls = said.get("tool_calls")
            if isinstance(calls, list):
                numbered = [{"index": n, **call} for n, call in enumerate(calls)]
                said = {**said, "tool_calls": numbered}
            told["delta"] = said
        yield _data({**head, "choices": [{"index": choice.get("index", place), **told}]})
    if answer.get("usage") is not None:
        yield _data({**head, "choices": [], "usage": answer["usage"]})


def _message_events(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    start = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(answer["content"]):
        if block.get("type") == "text":
            begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        elif "input" in block:
            text = json.dumps(block["input"])
            begun, delta = (
                {**block, "input": {}},
                {"type": "input_json_delta", "partial_json": text},
            )
        else:
            begun, delta = block, None
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        if delta is not None:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {key: answer.get(key) for key in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": ended, "usage": answer.get("usage") or {}}
    yield {"type": "message_stop"}


def _event(event: dict[str, Any]) -> dict[str, str]:
    return {"event": str(event["type"]), **_data(event)}


def _data(event: dict[str, Any]) -> dict[str, str]:
    return {"data": json.dumps(event, ensure_ascii=False, separators=(",", ":"))}
