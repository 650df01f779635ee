"""Which traces are one run: an agent's work may be spread over several trace ids.

Rules
1. Only traces of one service are stitched; a single trace is always one run.
2. A span link between two traces makes them one run.
3. A tool-call id that a trace asked for and a later trace is shown answered makes them one run,
   unless the later trace asked for that id itself. Ids too short to be unique say nothing.
4. One model call reported from two traces (``twice``) makes them one run.

Left to the next step: conversation ids within the idle window, log-only sources.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from processors.assemble.gather import Node
from processors.assemble.twice import ID_MIN, same_calls


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


def _edges(nodes: list[Node]) -> Iterator[tuple[str, str]]:
    services: dict[str, str | None] = {}
    for node in nodes:
        services[node.fragment.trace_id] = (
            services.get(node.fragment.trace_id) or node.fragment.service.name
        )
    for left, right in (*_links(nodes, services.keys()), *_shown(nodes), *_seen_twice(nodes)):
        if left != right and services[left] == services[right]:
            yield left, right


def _links(nodes: list[Node], known: Iterable[str]) -> Iterator[tuple[str, str]]:
    traces = set(known)
    for node in nodes:
        for link in node.fragment.links:
            if link.trace_id in traces:
                yield node.fragment.trace_id, link.trace_id


def _shown(nodes: list[Node]) -> Iterator[tuple[str, str]]:
    """(trace that asked last, trace that is shown the answer) by tool-call id."""
    asked: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for call in node.calls:
            if call.id and len(call.id) >= ID_MIN:
                asked[call.id].append(node)
    for node in nodes:
        for answer in node.answers:
            askers = asked.get(answer.id or "", ())
            here = node.fragment.trace_id
            if any(asker.fragment.trace_id == here for asker in askers):
                continue
            before = [asker for asker in askers if asker.start_ns <= node.start_ns]
            if before:
                yield before[-1].fragment.trace_id, here


def _seen_twice(nodes: list[Node]) -> Iterator[tuple[str, str]]:
    for left, right in same_calls(nodes):
        yield left.fragment.trace_id, right.fragment.trace_id


def _find(parent: dict[str, str], trace: str) -> str:
    while parent[trace] != trace:
        parent[trace] = parent[parent[trace]]
        trace = parent[trace]
    return trace


def _join(parent: dict[str, str], left: str, right: str) -> None:
    left, right = sorted((_find(parent, left), _find(parent, right)))
    parent[right] = left
