"""How large a CEL expression may be, and the names it uses: read from its tokens, before it is
compiled.

**Rules**
1. CEL is not total in practice: macros nest into polynomials and deep brackets exhaust parsers. So
   text, nesting, macros and macro depth are bounded here, at load, whatever the engine would bear.
2. A macro's variable is visible inside its macro only; every other free name must be declared.
3. Nothing here evaluates anything.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

TEXT_CHARS_MAX = 4096
NESTING_MAX = 32
UNARY_RUN_MAX = 16
MACROS_MAX = 8
MACRO_DEPTH_MAX = 3
WORK_MAX = 250_000
"""How many innermost macro bodies one evaluation may run, at worst."""

_MACROS = frozenset({"all", "exists", "exists_one", "map", "filter"})
_WORDS = frozenset({"true", "false", "null", "in"})
_TYPES = frozenset(
    {"int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"}
)
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      |(?P<text>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''
                |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
      |(?P<number>\.?\d(?:[\w.]|[eE][+-])*)
      |(?P<name>[A-Za-z_]\w*)
      |(?P<mark>&&|\|\||[<>=!]=|.)""",
    re.VERBOSE | re.DOTALL,
)


class TooMuch(ValueError):
    """The expression is beyond a limit; ``position`` is the character it shows at."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.position = position
        super().__init__(text)


class Name(Struct, frozen=True):
    """A free name and where it stands."""

    text: str
    position: int


class Shape(Struct, frozen=True, kw_only=True):
    """What the tokens of an expression say: its free variables, the functions it calls, its macro
    depth.
    """

    variables: tuple[Name, ...]
    functions: tuple[Name, ...]
    macro_depth: int


class _Token(Struct, frozen=True):
    kind: str
    text: str
    position: int


class _Bracket(Struct):
    bound: str | None = None


def read_shape(text: str) -> Shape:
    """The shape of an expression within the limits. Raises TooMuch."""
    if len(text) > TEXT_CHARS_MAX:
        raise TooMuch(f"is {len(text)} characters long, more than {TEXT_CHARS_MAX}")
    tokens = _tokens(text)
    reader = _Reader(tokens)
    for index in range(len(tokens)):
        reader.take(index)
    return Shape(
        variables=tuple(reader.variables),
        functions=tuple(reader.functions),
        macro_depth=reader.macro_depth,
    )


def _tokens(text: str) -> list[_Token]:
    return [
        _Token(match.lastgroup or "", match[0], match.start())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "space"
    ]


class _Reader:
    """One walk over the tokens with a stack of open brackets and the macro variable each binds."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self.tokens = tokens
        self.open: list[_Bracket] = []
        self.variables: list[Name] = []
        self.functions: list[Name] = []
        self.macro_depth = 0
        self.macros = 0
        self.unary = 0

    def take(self, index: int) -> None:
        token = self.tokens[index]
        self._count_unary(token)
        if token.text in ("(", "[", "{") and token.kind == "mark":
            self._enter(index)
        elif token.text in (")", "]", "}") and token.kind == "mark":
            if self.open:
                self.open.pop()
        elif token.kind == "name":
            self._name(index)

    def _count_unary(self, token: _Token) -> None:
        self.unary = self.unary + 1 if token.text in ("-", "!", "?") and token.kind == "mark" else 0
        if self.unary > UNARY_RUN_MAX:
            raise TooMuch(f"has more than {UNARY_RUN_MAX} operators in a row", token.position)

    def _enter(self, index: int) -> None:
        position = self.tokens[index].position
        self.open.append(_Bracket(self._macro_variable(index)))
        if len(self.open) > NESTING_MAX:
            raise TooMuch(f"nests deeper than {NESTING_MAX} brackets", position)
        depth = sum(1 for bracket in self.open if bracket.bound is not None)
        self.macro_depth = max(self.macro_depth, depth)
        if depth > MACRO_DEPTH_MAX:
            raise TooMuch(f"nests macros deeper than {MACRO_DEPTH_MAX}", position)
        if self.macros > MACROS_MAX:
            raise TooMuch(f"uses more than {MACROS_MAX} macros", position)

    def _macro_variable(self, index: int) -> str | None:
        is_macro = (
            self._text(index) == "("
            and self._text(index - 1) in _MACROS
            and self._text(index - 2) == "."
            and self._text(index + 2) == ","
        )
        if not is_macro:
            return None
        self.macros += 1
        return self._text(index + 1)

    def _name(self, index: int) -> None:
        token = self.tokens[index]
        is_member = self._text(index - 1) == "."
        if self._text(index + 1) == "(":
            if not (is_member and token.text in _MACROS) and token.text != "has":
                self.functions.append(Name(token.text, token.position))
            return
        bound = {bracket.bound for bracket in self.open}
        if is_member and index >= 2 and self._is_operand(index - 2):
            return
        if token.text not in bound and token.text not in _WORDS and token.text not in _TYPES:
            self.variables.append(Name(token.text, token.position))

    def _is_operand(self, index: int) -> bool:
        token = self.tokens[index]
        return token.kind != "mark" or token.text in (")", "]", "}")

    def _text(self, index: int) -> str:
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""


def work_bound(bindings: Mapping[str, Any], macro_depth: int) -> int:
    """The most innermost macro bodies an evaluation can run: the longest collection to the power of
    depth.
    """
    longest = max((_longest(value) for value in bindings.values()), default=0)
    return int(longest**macro_depth)


def _longest(value: Any) -> int:
    found, stack = 0, [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            found = max(found, len(item))
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            found = max(found, len(item))
            stack.extend(item)
    return found
