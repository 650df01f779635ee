"""Expressions so plain that they need no engine: read once, and evaluated as CEL would.

Rules
1. What is read: a call of ``row``, ``rows``, ``count`` or ``next_id`` with an entity's or a
   prefix's name, and comparisons joined by ``&&``. Their operands are paths, texts without escapes,
   whole numbers, ``true``, ``false``, ``null`` and the ``size`` of a path.
2. Wherever the engine may come to something else (a missing member, numbers of two kinds, a number
   beyond 64 bits, a text that is not ASCII and its size), what is read says ``ASK``, and the engine
   is asked. So the two never differ; most of the engine's cost is taking in bindings.
3. Nothing that is read has had an effect when it says ``ASK``.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Bindings = Mapping[str, Any]
Functions = Mapping[str, Callable[..., Any]]
Read = Callable[[Bindings, Functions], Any]
ASK: Final[Any] = object()
"""The engine is to be asked."""

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"\\\n]*"|'[^'\\\n]*')|(?P<number>\d+)(?![\w.])
      |(?P<path>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|(?P<mark>&&|[=!<>]=|[<>(),]))""",
    re.VERBOSE,
)
_WORDS: Final = {"null": None, "true": True, "false": False}
_LARGEST: Final = 2**63
_CALLED: Final = frozenset({"row", "rows", "count", "next_id"})
_ORDERED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def read_plainly(text: str) -> Read | None:
    """How to evaluate an expression without the engine; None where that takes one."""
    tokens = _tokens(text)
    if not tokens:
        return None
    try:
        if tokens[0][1] in _CALLED and tokens[1:2] == [("mark", "(")]:
            return _call(tokens)
        return _conditions(tokens)
    except (_NotPlain, IndexError):
        return None


class _NotPlain(Exception):
    """It takes an engine."""


_Token = tuple[str, str]


def _tokens(text: str) -> list[_Token]:
    found, at, text = [], 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return []
        kind = match.lastgroup or ""
        found.append((kind, match[kind]))
        at = match.end()
    return found


def _call(tokens: list[_Token]) -> Read:
    name, inner = tokens[0][1], tokens[2:-1]
    if tokens[-1] != ("mark", ")") or not inner or inner[0][0] != "text":
        raise _NotPlain
    named, more = inner[0][1][1:-1], inner[1:]
    if more and (name != "row" or more[0] != ("mark", ",") or len(more) != 2):
        raise _NotPlain
    if not more:
        if name == "row":
            raise _NotPlain
        return lambda _, functions: _passed(functions[name](named))
    key = _operand(more[1:])

    def row(bindings: Bindings, functions: Functions) -> Any:
        found = key(bindings, functions)
        if type(found) is not str and not (type(found) is int and -_LARGEST <= found < _LARGEST):
            return ASK
        return _passed(functions["row"](named, found))

    return row


def _conditions(tokens: list[_Token]) -> Read:
    terms: list[list[_Token]] = [[]]
    for one in tokens:
        if one == ("mark", "&&"):
            terms.append([])
        else:
            terms[-1].append(one)
    conditions = [_condition(term) for term in terms]
    if len(conditions) == 1:
        return conditions[0]

    def both(bindings: Bindings, functions: Functions) -> Any:
        # One that is false makes all of it false, whatever the others come to.
        held = True
        for one in conditions:
            found = one(bindings, functions)
            if found is False:
                return False
            held = held and found is True
        return True if held else ASK

    return both


def _condition(term: list[_Token]) -> Read:
    at = next((n for n, one in enumerate(term) if one[0] == "mark" and one[1] not in "()"), -1)
    if at < 1:
        raise _NotPlain
    left, operator, right = _operand(term[:at]), term[at][1], _operand(term[at + 1 :])
    if operator in _ORDERED:
        compare = _ORDERED[operator]
        return lambda bindings, functions: _ordered(
            compare, left(bindings, functions), right(bindings, functions)
        )
    if operator not in ("==", "!="):
        raise _NotPlain
    wanted = operator == "=="
    return lambda bindings, functions: _equal(
        left(bindings, functions), right(bindings, functions), wanted
    )


def _operand(tokens: list[_Token]) -> Read:
    if len(tokens) == 4 and tokens[0] == ("path", "size"):
        if tokens[1] != ("mark", "(") or tokens[3] != ("mark", ")"):
            raise _NotPlain
        of = _operand([tokens[2]])
        return lambda bindings, functions: _size(of(bindings, functions))
    if len(tokens) != 1:
        raise _NotPlain
    kind, text = tokens[0]
    if kind == "path" and text not in _WORDS:
        names = text.split(".")
        return lambda bindings, _: _walked(bindings, names)
    if kind == "mark" or (kind == "number" and int(text) >= _LARGEST):
        raise _NotPlain
    value = _WORDS[text] if kind == "path" else int(text) if kind == "number" else text[1:-1]
    return lambda _, __: value


def _walked(value: Any, names: list[str]) -> Any:
    for name in names:
        if type(value) is not dict or name not in value:
            return ASK
        value = value[name]
    return value


def _equal(left: Any, right: Any, wanted: bool) -> Any:
    if left is ASK or right is ASK:
        return ASK
    if left is None or right is None:
        return (left is right) is wanted
    kind = type(left)
    if kind is not type(right) or kind not in (str, int, bool) or _beyond(left, right):
        return ASK
    return (left == right) is wanted


def _ordered(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> Any:
    if type(left) is not int or type(right) is not int or _beyond(left, right):
        return ASK
    return compare(left, right)


def _beyond(*values: Any) -> bool:
    return any(type(one) is int and not -_LARGEST <= one < _LARGEST for one in values)


def _size(value: Any) -> Any:
    kind = type(value)
    if kind is list or kind is dict or (kind is str and value.isascii()):
        return len(value)
    return ASK


def _passed(value: Any) -> Any:
    """What a function answered, where the engine would hand it on as it is."""
    return value if _goes_through(value) else ASK


def _goes_through(value: Any) -> bool:
    kind = type(value)
    if kind is str or kind is bool or kind is float or value is None:
        return True
    if kind is int:
        return bool(-_LARGEST <= value < _LARGEST)
    if kind is dict:
        return all(type(name) is str and _goes_through(one) for name, one in value.items())
    return kind is list and all(map(_goes_through, value))
