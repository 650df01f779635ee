"""CEL expressions, compiled once and evaluated over plain JSON-like bindings.

**Rules**
1. What can be known at load is refused at load: syntax, an undeclared variable, an unknown
   function, size.
2. An evaluation yields a value or ExpressionFailed; a panic of the engine is an ExpressionFailed
   too.
3. There is no clock, no dice and no I/O in an expression; a caller's functions are its own affair.
4. Numbers: ints are exact in 64 bits, decimals are doubles (``12.5 == 12.50``); int and double
   compare but do not add. Money that must not pass through a double is handed in as text.

The engine is the ``cel`` module of ``common-expression-language``; its macros are bounded by
``limits``.
"""

import importlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from sidecar.expression.limits import WORK_MAX, TooMuch, read_shape, work_bound

if TYPE_CHECKING:
    import cel

Functions = Mapping[str, Callable[..., Any]]

BUILTIN_FUNCTIONS = frozenset(
    {
        *("size", "contains", "startsWith", "endsWith", "matches", "type", "dyn"),
        *("int", "uint", "double", "string", "bytes", "timestamp", "duration"),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    }
)
_POSITION = re.compile(r"<input>:(\d+):(\d+): (.*)")


class ExpressionInvalid(ValueError):
    """The text cannot become an expression; ``line`` and ``column`` count from 1 where they are
    known.
    """

    def __init__(
        self, text: str, why: str, *, line: int | None = None, column: int | None = None
    ) -> None:
        self.text = text
        self.why = why
        self.line = line
        self.column = column
        where = f" at {line}:{column}" if line is not None else ""
        super().__init__(f"CEL expression {_short(text)}{where}: {why}")


class ExpressionFailed(ValueError):
    """The expression has no value for these bindings: a missing key, a wrong type, an overflow."""

    def __init__(self, text: str, why: str) -> None:
        self.text = text
        self.why = why
        super().__init__(f"CEL expression {_short(text)} has no value: {why}")


class Expression:
    """A compiled expression; make one with ``compile_expression``."""

    def __init__(self, text: str, program: "cel.Program", macro_depth: int) -> None:
        self.text = text
        self._program = program
        self._macro_depth = macro_depth

    def evaluate(self, bindings: Mapping[str, Any], functions: Functions | None = None) -> Any:
        """The value for ``bindings``: dicts, lists, text, numbers. Raises ExpressionFailed."""
        if self._macro_depth and work_bound(bindings, self._macro_depth) > WORK_MAX:
            raise ExpressionFailed(self.text, f"it would visit more than {WORK_MAX} elements")
        try:
            return self._program.execute(
                _engine().Context(variables=dict(bindings), functions=dict(functions or {}))
            )
        except KeyError as error:
            raise ExpressionFailed(self.text, f"there is no member {error}") from error
        except BaseException as error:  # the engine's panics derive from BaseException alone
            if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
            raise ExpressionFailed(self.text, _first_sentence(str(error))) from error

    def holds(self, bindings: Mapping[str, Any], functions: Functions | None = None) -> bool:
        """The value, which must be true or false. Raises ExpressionFailed."""
        value = self.evaluate(bindings, functions)
        if not isinstance(value, bool):
            raise ExpressionFailed(
                self.text, f"true or false is wanted, not {type(value).__name__}"
            )
        return value


def compile_expression(
    text: str, *, variables: frozenset[str], functions: frozenset[str] = frozenset()
) -> Expression:
    """Compile ``text``, which may use ``variables``, and ``functions`` beside CEL's own.

    Raises ExpressionInvalid with the position where one is known.
    """
    try:
        shape = read_shape(text)
    except TooMuch as error:
        _refuse(text, error.position, str(error))
    program = _parse(text)
    for name in shape.variables:
        if name.text not in variables:
            known = ", ".join(sorted(variables)) or "none"
            _refuse(text, name.position, f"there is no variable {name.text!r}; known here: {known}")
    for name in shape.functions:
        if name.text not in BUILTIN_FUNCTIONS | functions:
            _refuse(text, name.position, f"there is no function {name.text!r}")
    return Expression(text, program, shape.macro_depth)


@cache
def _engine() -> Any:
    """The module, loaded by whoever has an expression: its own command line comes with it."""
    return importlib.import_module("cel")


def _parse(text: str) -> "cel.Program":
    engine = _engine()
    try:
        program: cel.Program = engine.compile(text)
        return program
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
            raise
        match = _POSITION.search(str(error))
        if match is None:
            raise ExpressionInvalid(text, _first_sentence(str(error))) from error
        raise ExpressionInvalid(text, match[3], line=int(match[1]), column=int(match[2])) from error


def _refuse(text: str, position: int, why: str) -> NoReturn:
    before = text[:position]
    line = before.count("\n") + 1
    column = position - (before.rfind("\n") + 1) + 1
    raise ExpressionInvalid(text, why, line=line, column=column)


def _first_sentence(text: str) -> str:
    return text.splitlines()[0].split(". ")[0][:300] if text else "the engine gave no reason"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "…")
