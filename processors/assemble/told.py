"""Steps that a span tells of (transcripts, messages between agents) beside those with own spans.

Rules
1. In a run that has a span for a model call, what others tell of model calls is left out: it is
   the same calls at second hand.
2. The same call told by several is one: the first teller's.
"""

from collections.abc import Iterable

from processors.assemble.gather import Node


def first_hand(nodes: list[Node]) -> list[Node]:
    """The nodes of a run without what is told twice; the order is kept."""
    told = [node for node in nodes if _is_told(node)]
    if not told:
        return nodes
    if any(node.reading.kind == "model_call" and not _is_told(node) for node in nodes):
        dropped = {node.key for node in told if node.reading.kind == "model_call"}
    else:
        dropped = _repeated(told)
    return [node for node in nodes if node.key not in dropped]


def _is_told(node: Node) -> bool:
    return node.fragment.source == "span" and node.fragment.told_by is not None


def _repeated(told: Iterable[Node]) -> set[str]:
    """Keys of told calls that ask for what another told call asked for already."""
    seen: set[tuple[str, ...]] = set()
    found: set[str] = set()
    for node in told:
        ids = tuple(call.id for call in node.calls if call.id)
        if ids and ids in seen:
            found.add(node.key)
        seen.add(ids)
    return found
