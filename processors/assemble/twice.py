"""Model calls that two instrumentations report, wherever their spans hang.

Rules
1. Only calls that overlap in time can be one.
2. The same response id makes one; so does the same tool call asked for (ids long enough to be
   unique).
3. A record of a stream's reply (subtype ``streamed``) is the last call before it, of the same
   instrumentation and under the same parent, that has no reply.
4. Without either: two instrumentations, one call inside the other's time, models that do not
   disagree, and equal token counts or failures. Each call has at most one such partner: parallel
   equal calls stay apart.

Ids are not global: another service may reuse a response id, so callers compare within one service.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from processors.assemble.gather import Node
from processors.model.step import Model

ID_MIN = 12  # call_0, lookup_order_1 and the like restart with every turn
Pair = tuple[Node, Node]


def overlap(left: Node, right: Node) -> bool:
    """Whether the two were going on at the same time."""
    return left.start_ns <= right.end_ns and right.start_ns <= left.end_ns


def same_calls(nodes: Iterable[Node]) -> list[Pair]:
    """Pairs of model calls that are one; ``nodes`` in order of start."""
    calls = [node for node in nodes if node.reading.kind == "model_call"]
    pairs = [*_by_ids(calls), *_by_reply(calls)]
    paired = {node.key for pair in pairs for node in pair}
    return [*pairs, *_by_time([node for node in calls if node.key not in paired])]


def models_agree(left: Model | None, right: Model | None) -> bool:
    """Whether two reports may speak of one model: versions extend names, nothing said agrees."""
    names = [
        [name for name in (model.request_model, model.response_model) if name]
        for model in (left or Model(), right or Model())
    ]
    if not names[0] or not names[1]:
        return True
    return any(a.startswith(b) or b.startswith(a) for a in names[0] for b in names[1])


def _by_ids(calls: list[Node]) -> Iterator[Pair]:
    last: dict[tuple[str, str], Node] = {}
    for node in calls:
        for place in _ids(node):
            other = last.get(place)
            if other is not None and other.key != node.key and overlap(other, node):
                yield other, node
            if other is None or other.end_ns <= node.end_ns:
                last[place] = node


def _ids(node: Node) -> Iterator[tuple[str, str]]:
    model = node.reading.model
    if model and model.response_id:
        yield "response", model.response_id
    for call in node.calls:
        if call.id and len(call.id) >= ID_MIN:
            yield "call", call.id


def _by_reply(calls: list[Node]) -> Iterator[Pair]:
    open_calls: dict[tuple[str, str | None, str], list[Node]] = defaultdict(list)
    for node in calls:
        fragment = node.fragment
        place = (fragment.trace_id, fragment.parent_span_id, fragment.scope)
        if node.reading.subtype != "streamed":
            if node.reading.messages_out is None:
                open_calls[place].append(node)
        elif open_calls[place]:
            yield open_calls[place].pop(), node


def _by_time(calls: list[Node]) -> Iterator[Pair]:
    going: list[Node] = []
    taken: set[str] = set()
    for node in calls:
        going = [other for other in going if other.end_ns >= node.start_ns]
        for other in reversed(going):
            if other.key not in taken and _alike(other, node):
                taken.update((other.key, node.key))
                yield other, node
                break
        going.append(node)


def _alike(outer: Node, inner: Node) -> bool:
    if outer.fragment.scope == inner.fragment.scope or inner.end_ns > outer.end_ns:
        return False
    if not models_agree(outer.reading.model, inner.reading.model):
        return False
    if outer.reading.status == inner.reading.status == "error":
        return outer.reading.model is not None and inner.reading.model is not None
    left, right = outer.reading.usage, inner.reading.usage
    if left is None or right is None or None in (left.input, left.output):
        return False
    return (left.input, left.output) == (right.input, right.output)
