"""Ids for calls that were asked for without one, from the history of the call that follows.

Rules
1. Some emitters leave the id out where a model asks and write it where the next call repeats it.
2. A call asked for is the last one that a later history repeats: same service, same calls before,
   same last words of the user, same names and arguments.
3. Each repeated call names one that was asked for, the earliest first: two runs alike in all of
   this pair in order of start.
"""

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from processors.assemble.gather import Node
from processors.model.message import text_of
from processors.model.step import Message, Part
from processors.value import canonical

_Place = tuple[str | None, tuple[str, ...], str | None, tuple[tuple[str | None, str], ...]]


def named(nodes: list[Node]) -> list[Node]:
    """The nodes, calls without id named where a later history tells their id; in order of start."""
    nameless = [node for node in nodes if node.calls and not any(call.id for call in node.calls)]
    if not nameless:
        return nodes
    repeated = _repeated(nodes)
    found: dict[str, Node] = {}
    for node in nameless:
        waiting = repeated.get(_asked(node), [])
        later = bisect_left(waiting, (node.end_ns,))  # in order of start
        if later < len(waiting):
            calls = zip(node.calls, waiting.pop(later)[1], strict=True)
            renamed = tuple(msgspec.structs.replace(call, id=call_id) for call, call_id in calls)
            found[node.key] = msgspec.structs.replace(node, calls=renamed)
    return [found.get(node.key, node) for node in nodes]


def places(nodes: list[Node]) -> Iterator[str]:
    """Digests by which a call without id and the history that repeats it find each other."""
    for node in nodes:
        if node.calls and not any(call.id for call in node.calls):
            yield _digest(_asked(node))
    for place in _repeated(nodes):
        yield _digest(place)


def _digest(place: _Place) -> str:
    return hashlib.sha256(repr(place).encode("utf-8", "surrogatepass")).hexdigest()


def _asked(node: Node) -> _Place:
    shown = node.reading.messages_in or ()
    before = tuple(part.id for part in _calls(shown) if part.id)
    return _place(node, before, shown, node.calls)


def _repeated(nodes: list[Node]) -> dict[_Place, list[tuple[int, tuple[str, ...]]]]:
    """(start, ids) of the last calls that each history repeats, by what was there before."""
    found: dict[_Place, list[tuple[int, tuple[str, ...]]]] = defaultdict(list)
    seen: set[tuple[str, ...]] = set()
    for node in nodes:
        shown = node.reading.messages_in or ()
        if node.reading.kind != "model_call" or not shown:
            continue
        start, last = _last_calls(shown)
        ids = tuple(part.id for part in last if part.id)
        if not ids or len(ids) != len(last) or ids in seen:
            continue
        seen.add(ids)
        before = tuple(part.id for part in _calls(shown[:start]) if part.id)
        found[_place(node, before, shown[:start], last)].append((node.start_ns, ids))
    return found


def _last_calls(shown: tuple[Message, ...]) -> tuple[int, tuple[Part, ...]]:
    """Where the last messages that ask for tools begin, and what they ask for."""
    end = len(shown)
    while end and not any(part.type == "tool_call" for part in shown[end - 1].parts):
        end -= 1
    start = end
    while start and any(part.type == "tool_call" for part in shown[start - 1].parts):
        start -= 1
    return start, tuple(_calls(shown[start:end]))


def _calls(shown: Iterable[Message]) -> Iterator[Part]:
    return (part for message in shown for part in message.parts if part.type == "tool_call")


def _place(
    node: Node, before: tuple[str, ...], shown: tuple[Message, ...], calls: tuple[Part, ...]
) -> _Place:
    words = next((text_of(message) for message in reversed(shown) if message.role == "user"), None)
    asked = tuple((call.name, canonical(call.content)) for call in calls)
    return node.fragment.service.name, before, words, asked
