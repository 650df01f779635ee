"""Expressions as the twin format writes them: text is CEL, containers are taken apart.

Rules
1. Text is CEL; numbers, booleans and null are themselves; mappings and lists are walked.
2. All that can be known at load is found at load, with the dotted path: syntax, variables,
   entities.
3. What has no value at run time is ExpressionFailed; the caller decides what that means.
4. A plain path (``arguments.order_id``), plain text (``'"refunded"'``) and what ``plainly.py``
   reads are read without the engine, and the engine is handed only what the expression names: most
   of its cost is taking in bindings.
"""

import re
from collections.abc import Mapping, Set
from typing import Any

from msgspec import Struct

from sidecar.errors import Problem
from sidecar.expression.cel import (
    Expression,
    ExpressionFailed,
    ExpressionInvalid,
    Functions,
    compile_expression,
)
from sidecar.expression.limits import read_shape
from sidecar.twins.names import FUNCTIONS
from sidecar.twins.plainly import ASK, read_plainly
from sidecar.twins.sayable import as_json

_ENTITY_NAMED = re.compile(r"""\b(?:row|rows|count|sum)\(\s*["']([^"']*)["']""")
_PATH = re.compile(r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*\Z")
_TEXT = re.compile(r"""\s*(?:"([^"\\\n]*)"|'([^'\\\n]*)')\s*\Z""")
_WORDS = frozenset({"true", "false", "null"})


class Scope(Struct, frozen=True, kw_only=True):
    """What an expression may name: variables, and the entities of the twin."""

    variables: frozenset[str]
    entities: Set[str]


class Lean:
    """An expression that is handed only the variables and functions it names."""

    def __init__(self, expression: Expression) -> None:
        shape = read_shape(expression.text)
        self._expression = expression
        self._variables = {name.text for name in shape.variables}
        self._functions = {name.text for name in shape.functions} & FUNCTIONS
        self._plain = read_plainly(expression.text)
        path = _PATH.match(expression.text)
        self._path = path[1].split(".") if path and path[1] not in _WORDS else None

    @property
    def text(self) -> str:
        """The expression as it is written."""
        return self._expression.text

    def evaluate(self, bindings: Mapping[str, Any], functions: Functions) -> Any:
        """The value. Raises ExpressionFailed."""
        if self._path is not None:
            return self._walk(bindings)
        if self._plain is not None and (found := self._plain(bindings, functions)) is not ASK:
            return found
        return self._expression.evaluate(*self._needed(bindings, functions))

    def holds(self, bindings: Mapping[str, Any], functions: Functions) -> bool:
        """The value, which must be true or false. Raises ExpressionFailed."""
        if self._plain is not None and type(found := self._plain(bindings, functions)) is bool:
            return found
        return self._expression.holds(*self._needed(bindings, functions))

    def _needed(
        self, bindings: Mapping[str, Any], functions: Functions
    ) -> tuple[dict[str, Any], Functions]:
        return (
            {name: bindings[name] for name in self._variables},
            {name: functions[name] for name in self._functions},
        )

    def _walk(self, value: Any) -> Any:
        assert self._path is not None
        for name in self._path:
            if not isinstance(value, Mapping) or name not in value:
                raise ExpressionFailed(self._expression.text, f"there is no member {name!r}")
            value = value[name]
        return value


class Template:
    """A compiled value; make one with ``template``."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def evaluate(self, bindings: Mapping[str, Any], functions: Functions) -> Any:
        """The value for these bindings. Raises ExpressionFailed."""
        return _filled(self._compiled, bindings, functions)

    def said(self, bindings: Mapping[str, Any], functions: Functions) -> Any:
        """The value as JSON has it, to be kept or sent. Raises ExpressionFailed."""
        value = self.evaluate(bindings, functions)
        try:
            return as_json(value)
        except ValueError as error:
            raise ExpressionFailed(_written(self._compiled), str(error)) from None


class _Constant(Struct, frozen=True):
    text: str


def template(value: Any, scope: Scope, path: str, problems: list[Problem]) -> Template:
    """Compile ``value``; what is wrong goes to ``problems`` with its path."""
    return Template(_compiled(value, scope, path, problems))


def condition(text: str, scope: Scope, path: str, problems: list[Problem]) -> Lean | None:
    """Compile one CEL text; None (and a problem) when it cannot be."""
    for entity in _ENTITY_NAMED.findall(text):
        if entity not in scope.entities:
            problems.append(Problem(path, f"there is no entity {entity!r}"))
    try:
        return Lean(compile_expression(text, variables=scope.variables, functions=FUNCTIONS))
    except ExpressionInvalid as error:
        problems.append(Problem(path, str(error)))
        return None


def _compiled(value: Any, scope: Scope, path: str, problems: list[Problem]) -> Any:
    if isinstance(value, str):
        plain = _TEXT.match(value)
        if plain:
            return _Constant(plain[1] if plain[1] is not None else plain[2])
        return condition(value, scope, path, problems)
    if isinstance(value, Mapping):
        return {
            name: _compiled(item, scope, f"{path}.{name}", problems) for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            _compiled(item, scope, f"{path}.{index}", problems) for index, item in enumerate(value)
        ]
    return value


def _written(compiled: Any) -> str:
    """The first expression in it, to name it by."""
    if isinstance(compiled, Lean):
        return compiled.text
    inside = compiled.values() if isinstance(compiled, dict) else compiled
    return (
        next(filter(None, map(_written, inside)), "") if isinstance(compiled, dict | list) else ""
    )


def _filled(compiled: Any, bindings: Mapping[str, Any], functions: Functions) -> Any:
    if isinstance(compiled, _Constant):
        return compiled.text
    if isinstance(compiled, Lean):
        return compiled.evaluate(bindings, functions)
    if isinstance(compiled, dict):
        return {name: _filled(item, bindings, functions) for name, item in compiled.items()}
    if isinstance(compiled, list):
        return [_filled(item, bindings, functions) for item in compiled]
    return compiled
