"""How much a YAML document may hold, checked while it is composed, before anything is built.

Rules
1. Depth, nodes and the length of a scalar are bounded; what stands behind an alias counts each time
   it is named, so that a short text cannot unfold into a large value.
2. An alias of what it stands in is refused: such a value has no end.
3. A number that no reader of ours could hold is refused where it stands: integers beyond 2**53 - 1,
   and what is no finite number.
4. Text is Unicode: escaped surrogate pairs are one character, a surrogate alone is refused.
"""

import math
from typing import Any, cast

import yaml
from msgspec import Struct

DEPTH_MAX = 100
NODES_MAX = 250_000
SCALAR_CHARS_MAX = 1024**2
TEXT_CHARS_MAX = 8 * 1024**2
INTEGER_MAX = 2**53 - 1
_CHARS_A_NODE = 100
_NUMBER_CHARS_MAX = 400
_INTEGER, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"


class Beyond(yaml.MarkedYAMLError):
    """The document holds more, or other things, than is taken; the mark says where."""


class _Extent(Struct, frozen=True):
    """What an anchor stands for: how many nodes, and how many levels of them."""

    size: int
    height: int


class BoundedLoader(yaml.SafeLoader):
    """SafeLoader that stops at the bounds above. Raises Beyond."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._deepest = self._size = 0
        self._extents: dict[str, _Extent] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node, counted before it is composed."""
        event = cast(Any, self).peek_event()
        if isinstance(event, yaml.AliasEvent):
            self._count_alias(event)
            return super().compose_node(parent, index)
        before, deepest = self._size, self._deepest
        self._depth += 1
        self._deepest = self._depth
        self._count(1, self._depth, event)
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode):
            self._check(node)
        if event.anchor is not None:
            height = self._deepest - self._depth + 1
            self._extents[event.anchor] = _Extent(self._size - before, height)
        self._depth -= 1
        self._deepest = max(deepest, self._deepest)
        return node

    def _count_alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            return  # the composer says so
        extent = self._extents.get(event.anchor or "")
        if extent is None:
            raise beyond(f"the alias *{event.anchor} stands in what it names", event)
        self._deepest = max(self._deepest, self._depth + extent.height)
        self._count(extent.size, self._depth + extent.height, event)

    def _count(self, size: int, depth: int, at: yaml.Event | yaml.Node) -> None:
        self._size += size
        if depth > DEPTH_MAX:
            raise beyond(f"it nests deeper than {DEPTH_MAX} levels", at)
        if self._size > NODES_MAX:
            raise beyond(f"it holds more than {NODES_MAX} values, aliases counted each time", at)

    def _check(self, node: yaml.ScalarNode) -> None:
        if len(node.value) > SCALAR_CHARS_MAX:
            raise beyond(f"a text is longer than {SCALAR_CHARS_MAX} characters", node)
        self._count(len(node.value) // _CHARS_A_NODE, self._depth, node)
        if node.tag in (_INTEGER, _FLOAT):
            problem = _wrong_number(node.tag, node.value)
            if problem is not None:
                raise beyond(problem, node)
        try:
            node.value = _whole(node.value)
        except UnicodeError:
            raise beyond("a text holds half of a surrogate pair", node) from None


def beyond(problem: str, at: Any) -> Beyond:
    """The refusal of a node or event, with where it starts."""
    return Beyond(problem=problem, problem_mark=at.start_mark)


def _wrong_number(tag: str, text: str) -> str | None:
    if len(text) > _NUMBER_CHARS_MAX:
        return f"a number has more than {_NUMBER_CHARS_MAX} characters; quote it if it is text"
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        return None  # another spelling, such as 0x1f; the constructor reads it or says why not
    if not math.isfinite(number) and "inf" not in text.lower() and "nan" not in text.lower():
        return f"{text} is no finite number"
    if tag == _INTEGER and abs(int(text.replace("_", ""))) > INTEGER_MAX:
        return f"{text} is beyond ±{INTEGER_MAX}, the integers JSON holds exactly; quote it as text"
    return None


def _whole(text: str) -> str:
    """The text with surrogate pairs joined. Raises UnicodeError where one stands alone."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
