"""One tool call under two ids: an item id where the model asks, a call id where the answer is shown.

Rules
1. Only an id that is never shown can be another's alias, and only an id that nobody asked for its
   target.
2. The two are one call when name and arguments are equal, the service is the same, the conversation
   opens alike, and the asking call is the last such before the input that first shows the other id.
3. The asked call takes the shown id, so that every later rule joins by id.

Source: OpenAI Responses items (``fc_…`` and ``call_…``), openinference and OpenLLMetry on them.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator

import msgspec

from processors.assemble.gather import Node
from processors.model.step import Part
from processors.value import canonical

_OPENING = 2  # messages that two inputs of one conversation have in common at least


def with_shown_ids(nodes: list[Node]) -> list[Node]:
    """The nodes, with asked calls renamed to the ids under which their answers are shown."""
    asked = {call.id for node in nodes for call in node.calls if call.id}
    foreign = list(_foreign(nodes, asked))
    if not foreign:
        return nodes
    shown = {call.id for node in nodes for call in (*node.shown, *node.answers)}
    mute: dict[Hashable, list[tuple[Node, int]]] = defaultdict(list)
    for node in nodes:
        for index, call in enumerate(node.calls):
            if call.id not in shown:
                mute[_key(node, call)].append((node, index))
    renamed: dict[str, dict[int, str]] = defaultdict(dict)
    for node, call in foreign:
        waiting = mute[_key(node, call)]
        place = next(
            (n for n in range(len(waiting) - 1, -1, -1) if _before(waiting[n][0], node)), None
        )
        if place is not None and call.id:
            asker, index = waiting.pop(place)
            renamed[asker.key][index] = call.id
    return [_renamed(node, renamed[node.key]) if node.key in renamed else node for node in nodes]


def _foreign(nodes: list[Node], asked: set[str]) -> Iterator[tuple[Node, Part]]:
    """Each shown call that nobody asked for under its id, where it is shown first."""
    seen: set[str] = set()
    for node in nodes:
        for call in node.shown:
            if call.id and call.id not in asked and call.id not in seen:
                seen.add(call.id)
                yield node, call


def _key(node: Node, call: Part) -> Hashable:
    return node.fragment.service.name, call.name, canonical(call.content)


def _before(asker: Node, node: Node) -> bool:
    opening = (asker.reading.messages_in or ())[:_OPENING]
    alike = (node.reading.messages_in or ())[: len(opening)] == opening
    return alike and asker.start_ns < node.start_ns and asker.key != node.key


def _renamed(node: Node, ids: dict[int, str]) -> Node:
    calls = tuple(
        msgspec.structs.replace(call, id=ids.get(index, call.id))
        for index, call in enumerate(node.calls)
    )
    return msgspec.structs.replace(node, calls=calls)
