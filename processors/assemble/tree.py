"""Where each node hangs, and which nodes are one and the same thing reported twice.

Rules
1. A parent is the span named as such; through a merged node it is what that node became. Cycles are
   cut.
2. A model call with the response id of another that overlaps it is that call; so is one right
   inside another when their models and token counts do not disagree.
3. A model call around several model calls, or around one it disagrees with, is a wrapper, kind
   ``other``.
4. Tool calls of one call id that overlap are one; so is one inside another of the same name whose
   id and arguments do not disagree. The outermost gives the place, failures bubble up.
5. Fields of merged nodes come from the provider's own SDK first, which counts its tokens itself,
   then from the newest dialect.

Source: "Joining and merging" of docs/specs/trace.md.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from processors.assemble.gather import Node
from processors.assemble.twice import models_agree, overlap, same_calls
from processors.model.fragment import Fragment, Reading, union
from processors.model.step import Model, Tool
from processors.value import canonical

_PROVIDERS_OWN = ("com.anthropic.",)
_PRECEDENCE = ("gen_ai", "gen_ai_legacy", "openinference", "openllmetry")


class Tree:
    """The nodes of one run by key, with parents; merging changes both.

    ``merged`` maps each key that was absorbed to the key that lives on.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes: dict[str, Node] = {node.key: node for node in nodes}
        self.merged: dict[str, str] = {}
        self.parents: dict[str, str | None] = {}
        self.orphans: set[str] = set()
        self._agents: dict[str, str | None] = {}  # below a node: the agent that is nearest
        for node in nodes:
            self.parents[node.key] = self._raw_parent(node)
        self._cut_cycles()

    def _raw_parent(self, node: Node) -> str | None:
        fragment = node.fragment
        if fragment.parent_span_id is None:
            if node.log_only:
                self.orphans.add(node.key)
            return None
        key = f"{fragment.trace_id}:{fragment.parent_span_id}"
        if key in self.nodes and key != node.key:
            return key
        if not fragment.remote_parent:
            self.orphans.add(node.key)
        return None

    def _cut_cycles(self) -> None:
        done: set[str] = set()
        for start in self.nodes:
            path: dict[str, None] = {}
            key: str | None = start
            while key is not None and key not in done:
                if key in path:
                    ring = list(path)[list(path).index(key) :]
                    self.parents[min(ring)] = None
                    break
                path[key] = None
                key = self.parents[key]
            done.update(path)

    def alive(self, key: str) -> str:
        """The key that stands for this one after all merging."""
        merged = self.merged
        while key in merged:
            above = merged[key]
            merged[key] = merged.get(above, above)  # the next look is shorter
            key = above
        return key

    def parent(self, key: str) -> str | None:
        """The key of the node above a living one."""
        above = self.parents[key]
        while above is not None and (above in self.merged or above == key):
            alive = self.alive(above)
            if alive != key:
                return alive
            above = self.parents[above]
        return above

    def ancestors(self, key: str) -> Iterator[Node]:
        """The nodes above, nearest first."""
        above = self.parent(key)
        while above is not None:
            yield self.nodes[above]
            above = self.parent(above)

    def agent_above(self, key: str) -> str | None:
        """The key of the nearest agent above a node; only once all merging is done."""
        path: list[str] = []
        above = self.parent(key)
        while above is not None and above not in self._agents:
            path.append(above)
            if self.nodes[above].reading.kind == "agent":
                break
            above = self.parent(above)
        if above is not None and self.nodes[above].reading.kind != "agent":
            above = self._agents[above]
        for passed in path:
            self._agents[passed] = above
        return above

    def merge(self, keys: list[str], *, outermost: str | None = None) -> str:
        """Several nodes become one: the outermost's place, the newest dialect's fields."""
        nodes = [self.nodes[key] for key in keys]
        outer = self.nodes[outermost] if outermost is not None else self._outermost(nodes)
        self.nodes[outer.key] = _union(outer, sorted(nodes, key=_precedence))
        for key in keys:
            if key != outer.key:
                self.merged[key] = outer.key
                del self.nodes[key]
                self.orphans.discard(key)
        return outer.key

    def _outermost(self, nodes: list[Node]) -> Node:
        """The ancestor of the others, else one that hangs below something, else the earliest."""
        group = {node.key for node in nodes}

        def place(node: Node) -> tuple[bool, bool, int, int, str]:
            inside = any(above.key in group for above in self.ancestors(node.key))
            loose = self.parent(node.key) is None
            return (inside, loose, node.start_ns, -node.end_ns, node.key)

        return min(nodes, key=place)


def build_tree(nodes: list[Node]) -> Tree:
    """The tree of a run, with everything that was reported twice merged."""
    tree = Tree(nodes)
    _merge_same_calls(tree)
    _merge_nested_models(tree)
    _merge_tools(tree)
    return tree


def _merge_same_calls(tree: Tree) -> None:
    for left, right in same_calls(_ordered(tree.nodes.values())):
        keys = {tree.alive(left.key), tree.alive(right.key)}
        if len(keys) == 2:
            tree.merge(sorted(keys))


def _ordered(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: (node.start_ns, node.key))


def _merge_nested_models(tree: Tree) -> None:
    inside: dict[str, list[Node]] = defaultdict(list)
    seen: dict[str, str | None] = {}
    for node in list(tree.nodes.values()):
        if node.reading.kind == "model_call":
            outer = _around(tree, node, "model_call", seen)
            if outer is not None:
                inside[outer.key].append(node)
    for outer_key in sorted(inside, key=lambda key: (tree.nodes[key].start_ns, key), reverse=True):
        inner = [tree.nodes[node.key] for node in inside[outer_key] if node.key in tree.nodes]
        outer = tree.nodes[outer_key]
        if len(inner) == 1 and _agree(outer.reading, inner[0].reading):
            tree.merge([outer_key, inner[0].key], outermost=outer_key)
        elif inner:
            tree.nodes[outer_key] = _wrapper(outer)


def _around(tree: Tree, node: Node, kind: str, seen: dict[str, str | None]) -> Node | None:
    """The nearest node of the kind above, with nothing but ``other`` between.

    ``seen``: what is nearest above each ``other`` that was passed; for callers that change none.
    """
    passed: list[str] = []
    above = tree.parent(node.key)
    while above is not None and tree.nodes[above].reading.kind == "other":
        if above in seen:
            known = seen[above]
            above = tree.alive(known) if known is not None else None
            break
        passed.append(above)
        above = tree.parent(above)
    seen.update(dict.fromkeys(passed, above))
    if above is None or above == node.key or tree.nodes[above].reading.kind != kind:
        return None
    return tree.nodes[above]


def _agree(outer: Reading, inner: Reading) -> bool:
    if outer.usage and inner.usage:
        pairs = ((outer.usage.input, inner.usage.input), (outer.usage.output, inner.usage.output))
        if any(None not in pair and pair[0] != pair[1] for pair in pairs):
            return False
    left, right = outer.model or Model(), inner.model or Model()
    ids = left.response_id, right.response_id
    if None not in ids and ids[0] != ids[1]:
        return False
    return models_agree(left, right)


def _wrapper(node: Node) -> Node:
    reading = node.reading
    usage = reading.usage and msgspec.structs.replace(reading.usage, scope="aggregated")
    changed = msgspec.structs.replace(reading, kind="other", subtype="wrapper", usage=usage)
    fragment = msgspec.structs.replace(node.fragment, reading=changed)
    return msgspec.structs.replace(node, fragment=fragment, calls=(), answers=())


def _merge_tools(tree: Tree) -> None:
    by_id: dict[str, list[Node]] = defaultdict(list)
    for node in tree.nodes.values():
        if node.reading.kind == "tool_call" and node.reading.tool and node.reading.tool.call_id:
            by_id[node.reading.tool.call_id].append(node)
    for same in by_id.values():
        group = [node for node in same if overlap(same[0], node)]
        if len(group) > 1:
            tree.merge([node.key for node in group])
    seen: dict[str, str | None] = {}
    calls = [node for node in tree.nodes.values() if node.reading.kind == "tool_call"]
    for node in sorted(calls, key=lambda node: (-node.start_ns, node.key)):
        if node.key in tree.nodes:
            outer = _around(tree, node, "tool_call", seen)
            if outer is not None and _same_tool(
                outer.reading.tool, tree.nodes[node.key].reading.tool
            ):
                tree.merge([outer.key, node.key], outermost=outer.key)


def _same_tool(outer: Tool | None, inner: Tool | None) -> bool:
    if outer is None or inner is None or outer.name != inner.name:
        return False
    if outer.call_id and inner.call_id:
        return outer.call_id == inner.call_id
    if outer.arguments is None or inner.arguments is None:
        return True
    return canonical(outer.arguments) == canonical(inner.arguments)


def _precedence(node: Node) -> tuple[bool, int, int, str]:
    dialect = node.reading.dialect
    rank = _PRECEDENCE.index(dialect) if dialect in _PRECEDENCE else len(_PRECEDENCE)
    foreign = not node.fragment.scope.startswith(_PROVIDERS_OWN)
    return foreign, rank, node.start_ns, node.key


def _union(outer: Node, ranked: list[Node]) -> Node:
    reading = union(node.reading for node in ranked)
    failed = next((node.reading for node in ranked if node.reading.status == "error"), None)
    if failed is not None:
        reading = msgspec.structs.replace(reading, status="error", error=failed.error)
    said = max(ranked, key=lambda node: (bool(node.calls), any(call.id for call in node.calls)))
    shown = max(ranked, key=lambda node: len(node.answers))
    fragment: Fragment = msgspec.structs.replace(
        outer.fragment,
        reading=reading,
        start_ns=min(node.start_ns for node in ranked),
        end_ns=max(node.end_ns for node in ranked),
        links=tuple(chain.from_iterable(node.fragment.links for node in ranked)),
    )
    return msgspec.structs.replace(
        outer,
        fragment=fragment,
        sources=tuple(chain(outer.sources, *(n.sources for n in ranked if n is not outer))),
        calls=said.calls,
        answers=shown.answers,
        log_only=all(node.log_only for node in ranked),
    )
