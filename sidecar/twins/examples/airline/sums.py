"""Sums as the airline's calculator does them: arithmetic on numbers, rounded to two places."""

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

_ALLOWED: Final = frozenset("0123456789+-*/(). ")
_TEXT_MAX: Final = 2_000
_POWER_MAX: Final = 1_000
_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def calculated(expression: str) -> str:
    """The value as text with at most two places. Raises ValueError, ZeroDivisionError."""
    if not all(one in _ALLOWED for one in expression):
        raise ValueError("invalid characters in expression")
    if len(expression) > _TEXT_MAX:
        raise ValueError("the expression is too long")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("invalid syntax") from error
    return str(round(float(_value(tree.body)), 2))


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.BinOp):
        return _chain(node)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand))
    raise ValueError("invalid syntax")


def _chain(node: ast.expr) -> Any:
    """The value of ``a + b + c …``, which the parser nests to the left as deep as it is long."""
    rest: list[tuple[ast.operator, ast.expr]] = []
    while isinstance(node, ast.BinOp):
        rest.append((node.op, node.right))
        node = node.left
    value = _value(node)
    for op, right in reversed(rest):
        value = _applied(op, value, _value(right))
    return value


def _applied(op: ast.operator, left: Any, right: Any) -> Any:
    if type(op) not in _BINARY:
        raise ValueError("invalid syntax")
    if isinstance(op, ast.Pow) and (abs(left) > _POWER_MAX or abs(right) > _POWER_MAX):
        raise ValueError("the power is too large")
    return _BINARY[type(op)](left, right)
