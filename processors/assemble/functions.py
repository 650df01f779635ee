"""Functions of the agent's own code that a model asked for are tool calls.

Rules
1. Some tracers record any function; whether it is a tool only the model's requests tell. Such a
   span is kind ``other`` and holds what it was given and gave back.
2. It becomes a tool call where a model asked before for a tool of that name with those arguments,
   and no tool call of that name and arguments is there for it.
3. Positional arguments are compared by value.
"""

from collections import defaultdict, deque
from collections.abc import Iterable

import msgspec

from processors.assemble.gather import Node
from processors.assemble.tree import Tree
from processors.model.step import Tool
from processors.value import canonical, parse

_Place = tuple[str | None, str]


class _Request:
    """A call that a model asked for at ``start_ns``; ``taken`` once something carried it out."""

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.taken = False


def promote(tree: Tree) -> None:
    """Make tool calls of the functions that rule 2 names; the tree is changed."""
    if not any(node.reading.kind == "other" and node.reading.tool for node in tree.nodes.values()):
        return
    nodes = sorted(tree.nodes.values(), key=lambda node: (node.start_ns, node.key))
    asked = _asked(nodes)
    for kind in ("tool_call", "other"):
        for node in nodes:
            if node.reading.kind != kind or node.reading.tool is None:
                continue
            request = _next(asked, node.reading.tool, node.start_ns)
            if request is not None:
                request.taken = True
                tree.nodes[node.key] = _tool_call(node)


def _asked(nodes: Iterable[Node]) -> dict[_Place, deque[_Request]]:
    """The calls asked for, by name and arguments and by name and the values of these."""
    found: dict[_Place, deque[_Request]] = defaultdict(deque)
    for node in nodes:
        for call in node.calls:
            request = _Request(node.start_ns)
            arguments, _ = parse(call.content)
            found[call.name, canonical(arguments)].append(request)
            if isinstance(arguments, dict):
                found[call.name, _values(list(arguments.values()))].append(request)
    return found


def _next(asked: dict[_Place, deque[_Request]], tool: Tool, start_ns: int) -> _Request | None:
    """The first request before ``start_ns`` that a call of the tool would carry out."""
    for place in _places(tool):
        waiting = asked.get(place)
        while waiting and waiting[0].taken:
            waiting.popleft()
        if waiting and waiting[0].start_ns <= start_ns:
            return waiting[0]
    return None


def _places(tool: Tool) -> Iterable[_Place]:
    yield tool.name, canonical(tool.arguments)
    if not isinstance(tool.arguments, dict):
        listed = tool.arguments if isinstance(tool.arguments, list) else [tool.arguments]
        yield tool.name, _values(listed)


def _values(listed: list[object]) -> str:
    return f"values {canonical(listed)}"


def _tool_call(node: Node) -> Node:
    if node.reading.kind == "tool_call":
        return node
    reading = msgspec.structs.replace(node.reading, kind="tool_call", subtype=None, output=None)
    fragment = msgspec.structs.replace(node.fragment, reading=reading)
    return msgspec.structs.replace(node, fragment=fragment)
