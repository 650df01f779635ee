"""What an approver was shown, read back as arguments: a scripted approver decides by nothing else.

Rules
1. The lines are those of ``sidecar.gateway.shown``: a JSON pointer, `` = ``, a JSON value.
2. A value shortened or spelt out on screen is not there: nobody can decide by it.
3. Members named 0, 1, 2 … and no others are a list: on screen the two look the same.
"""

import json
from typing import Any

_DECODER = json.JSONDecoder()


def shown_arguments(summary: str) -> dict[str, Any]:
    """The arguments of a summary, as far as it shows them whole."""
    tree: dict[str, Any] = {}
    for line in summary.split("\n"):
        leaf = _leaf(line)
        if leaf is not None:
            _put(tree, *leaf)
    return {name: _listed(value) for name, value in tree.items()}


def _leaf(line: str) -> tuple[list[str], Any] | None:
    try:
        if line.startswith('"'):
            pointer, end = _DECODER.raw_decode(line)
        else:
            pointer, end = line.partition(" = ")[0], line.find(" = ")
        if not pointer.startswith("/") or line[end : end + 3] != " = ":
            return None
        value = json.loads(line[end + 3 :])
    except (ValueError, RecursionError):
        return None
    names = [one.replace("~1", "/").replace("~0", "~") for one in pointer[1:].split("/")]
    return names, _Leaf(value)


class _Leaf:
    """A value of the screen, told apart from the members that were put together here."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _put(tree: dict[str, Any], names: list[str], leaf: _Leaf) -> None:
    for name in names[:-1]:
        below = tree.setdefault(name, {})
        if not isinstance(below, dict):
            return
        tree = below
    tree.setdefault(names[-1], leaf)


def _listed(node: Any) -> Any:
    if isinstance(node, _Leaf):
        return node.value
    values = {name: _listed(value) for name, value in node.items()}
    if list(values) == [str(place) for place in range(len(values))]:
        return list(values.values())
    return values
