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

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

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
    return _agree(_names(left), _names(right))


def _names(model: Model | None) -> tuple[str, ...]:
    if model is None:
        return ()
    return tuple(name for name in (model.request_model, model.response_model) if name)


def _agree(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    if not left or not right:
        return True
    return any(a.startswith(b) or b.startswith(a) for a in left for b in right)


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


class _Line:
    """Calls that are alike, in order of start; who ends late enough is found in logarithmic time.

    A place is a call's number among all calls.
    """

    def __init__(self, size: int) -> None:
        self._width = 1 << (size - 1).bit_length()
        self._latest = [-1] * (2 * self._width)  # shaped as a heap: each the latest end below it
        self._places: list[int] = []

    def add(self, place: int, end_ns: int) -> None:
        """One more call, which started last."""
        self._set(len(self._places), end_ns)
        self._places.append(place)

    def take(self, place: int) -> None:
        """A call is found no more."""
        self._set(bisect_left(self._places, place), -1)

    def last(self, end_ns: int) -> int:
        """The place of the last call that ends then or later, -1 where there is none."""
        latest, at = self._latest, 1
        if latest[1] < end_ns:
            return -1
        while at < self._width:
            at = 2 * at + 1 if latest[2 * at + 1] >= end_ns else 2 * at
        return self._places[at - self._width]

    def _set(self, number: int, end_ns: int) -> None:
        latest, at = self._latest, number + self._width
        latest[at] = end_ns
        while at > 1:
            at >>= 1
            latest[at] = max(latest[2 * at], latest[2 * at + 1])


class _Kind(Struct, frozen=True):
    """What decides beside time whether calls may be one; ``sign`` must be the same on both.

    It is the token counts, or None for what failed: two failures are compared by nothing else.
    """

    sign: tuple[int, int] | None
    scope: str
    models: tuple[str, ...]
    failed: bool

    def pairs(self, other: "_Kind") -> bool:
        """Whether calls of the two kinds, whose signs are equal, may be one."""
        if self.scope == other.scope or (self.sign and self.failed and other.failed):
            return False
        return _agree(self.models, other.models)


def _by_time(calls: list[Node]) -> Iterator[Pair]:
    """The last call that goes on around a call and is of such a kind; each has one partner."""
    if len({call.fragment.scope for call in calls}) < 2:
        return
    kinds = [_kinds(call) for call in calls]
    sizes = Counter(kind for some in kinds for kind in some)
    lines: dict[object, dict[_Kind, _Line]] = defaultdict(dict)  # by sign
    for place, node in enumerate(calls):
        end_ns = max(node.start_ns, node.end_ns)
        outer = max(
            (
                line.last(end_ns)
                for kind in kinds[place]
                for other, line in lines[kind.sign].items()
                if kind.pairs(other)
            ),
            default=-1,
        )
        if outer >= 0:
            for kind in kinds[outer]:
                lines[kind.sign][kind].take(outer)
            yield calls[outer], node
            continue
        for kind in kinds[place]:
            lines[kind.sign].setdefault(kind, _Line(sizes[kind])).add(place, node.end_ns)


def _kinds(node: Node) -> list[_Kind]:
    reading = node.reading
    failed = reading.status == "error"
    scope, models = node.fragment.scope, _names(reading.model)
    signs: list[tuple[int, int] | None] = [None] if failed and reading.model is not None else []
    usage = reading.usage
    if usage is not None and usage.input is not None and usage.output is not None:
        signs.append((usage.input, usage.output))
    return [_Kind(sign, scope, models, failed) for sign in signs]
