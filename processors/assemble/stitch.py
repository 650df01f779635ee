"""Which traces are one run: an agent's work may be spread over several trace ids.

Rules
1. Only traces of one service are stitched; a single trace is always one run.
2. A span link between two traces makes them one run.
3. A tool-call id that a trace asked for and a later trace is shown answered *afresh* (nothing was
   said since) makes them one run, unless the later trace asked for that id itself. An answer in
   the history of a later turn says nothing. Ids too short to be unique say nothing.
4. One model call reported from two traces (``twice``) makes them one run.
5. Traces without an agent, of one conversation, one within a minute of the other, are one run.

``clues`` are the words two traces must share to be stitched by rules 2, 3, 5 or by a response id
(or by what ``ids`` names a call by):
who holds traces apart finds by them which to look at together. Sharing one proves nothing yet.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

from processors.assemble.gather import Node
from processors.assemble.ids import places
from processors.assemble.twice import ID_MIN, same_calls

_CONVERSATION_NS = 60_000_000_000


def runs(nodes: list[Node]) -> list[list[Node]]:
    """The nodes of each run, runs in order of start, nodes in the order given."""
    traces = {node.fragment.trace_id for node in nodes}
    parent = {trace: trace for trace in traces}
    if len(traces) > 1:
        for left, right in _edges(nodes):
            _join(parent, left, right)
    grouped: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        grouped[_find(parent, node.fragment.trace_id)].append(node)
    return list(grouped.values())


def clues(nodes: list[Node]) -> frozenset[str]:
    """The words by which traces that may belong together find each other.

    A call that a trace both asks for and is shown answered is its own affair.
    """
    asked: set[tuple[str, str]] = set()
    shown: set[tuple[str, str]] = set()
    found = {f"trace {trace}" for trace in {node.fragment.trace_id for node in nodes}}
    found.update(f"trace {link.trace_id}" for node in nodes for link in node.fragment.links)
    agents = {node.fragment.trace_id for node in nodes if node.reading.kind == "agent"}
    for node in nodes:
        reading, fragment = node.reading, node.fragment
        if reading.kind != "model_call":
            continue  # only these ask and are shown
        trace, service = fragment.trace_id, fragment.service.name
        asked.update(
            (trace, f"call {service} {call.id}") for call in node.calls if _unique(call.id)
        )
        shown.update((trace, f"call {service} {one}") for one in node.fresh if _unique(one))
        if reading.model and reading.model.response_id:
            found.add(response_clue(service, reading.model.response_id))
        if reading.conversation_id and trace not in agents:
            found.add(f"conversation {service} {reading.conversation_id}")
    bare = [node for node in nodes if node.fragment.trace_id not in agents]
    found.update(f"asked {place}" for place in places(bare))
    return frozenset(found | {word for _, word in asked ^ shown})


def response_clue(service: str | None, response_id: str) -> str:
    """The word by which two reports of one model call find each other."""
    return f"response {service} {response_id}"


def _unique(call_id: str | None) -> bool:
    return call_id is not None and len(call_id) >= ID_MIN


def _edges(nodes: list[Node]) -> Iterator[tuple[str, str]]:
    services: dict[str, str | None] = {}
    for node in nodes:
        services[node.fragment.trace_id] = (
            services.get(node.fragment.trace_id) or node.fragment.service.name
        )
    found = (
        *_links(nodes, services.keys()),
        *_shown(nodes),
        *_seen_twice(nodes),
        *_talking(nodes),
    )
    for left, right in found:
        if left != right and services[left] == services[right]:
            yield left, right


def _links(nodes: list[Node], known: Iterable[str]) -> Iterator[tuple[str, str]]:
    traces = set(known)
    for node in nodes:
        for link in node.fragment.links:
            if link.trace_id in traces:
                yield node.fragment.trace_id, link.trace_id


def _shown(nodes: list[Node]) -> Iterator[tuple[str, str]]:
    """(trace that asked last, trace that is shown the answer afresh) by tool-call id."""
    asked: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for call in node.calls:
            if call.id and _unique(call.id):
                asked[call.id].append(node)
    own = {(call_id, node.fragment.trace_id) for call_id, some in asked.items() for node in some}
    for node in nodes:
        here = node.fragment.trace_id
        for call_id in sorted(node.fresh):
            askers = asked.get(call_id)
            if askers is None or (call_id, here) in own:
                continue
            before = bisect_right(askers, node.start_ns, key=_start)  # nodes in order of start
            if before:
                yield askers[before - 1].fragment.trace_id, here


def _start(node: Node) -> int:
    return node.start_ns


def _seen_twice(nodes: list[Node]) -> Iterator[tuple[str, str]]:
    for left, right in same_calls(nodes):
        yield left.fragment.trace_id, right.fragment.trace_id


def _talking(nodes: list[Node]) -> Iterator[tuple[str, str]]:
    """Neighbours in time among the traces of a conversation that have no agent (rule 5)."""
    agents = {node.fragment.trace_id for node in nodes if node.reading.kind == "agent"}
    last: dict[tuple[str | None, str], Node] = {}
    for node in nodes:  # in order of start
        conversation = node.reading.conversation_id
        if not conversation or node.fragment.trace_id in agents:
            continue
        place = (node.fragment.service.name, conversation)
        before = last.get(place)
        if before is not None and node.start_ns - before.end_ns <= _CONVERSATION_NS:
            yield before.fragment.trace_id, node.fragment.trace_id
        if before is None or node.end_ns >= before.end_ns:
            last[place] = node


def _find(parent: dict[str, str], trace: str) -> str:
    while parent[trace] != trace:
        parent[trace] = parent[parent[trace]]
        trace = parent[trace]
    return trace


def _join(parent: dict[str, str], left: str, right: str) -> None:
    left, right = sorted((_find(parent, left), _find(parent, right)))
    parent[right] = left
