"""Python object reprs, as frameworks dump their messages: ``Message(role=<Role.USER: 'user'>)``.

Rules
1. An object becomes its named fields, an enum member its value, a literal itself; an object that
   shows nothing of itself (``<Context at 0x…>``) is None.
2. Text is parsed, never run; more than 256 KiB, or anything that is no expression, is None.
"""

import ast
import re
import warnings
from typing import Any

_BYTES_MAX = 262_144
_QUOTED = r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\""
_PIECE = re.compile(rf"({_QUOTED})|<[\w.]+: ({_QUOTED}|-?[\w.]+)>|<[^<>'\"]*>")


def read_repr(text: Any) -> Any:
    """The value behind a repr: dicts, lists and scalars; None where it cannot be read."""
    if not isinstance(text, str) or len(text) > _BYTES_MAX:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(_PIECE.sub(_literal, text.strip()), mode="eval")
        return _value(tree.body)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _literal(piece: re.Match[str]) -> str:
    if piece[1] is not None:
        return piece[1]
    return piece[2] if piece[2] is not None else "None"


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value if isinstance(value, str | int | float | bool | None) else None
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return {str(_value(key)): _value(value) for key, value in pairs if key is not None}
        case ast.Call(keywords=fields):
            return {field.arg: _value(field.value) for field in fields if field.arg}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return -value if isinstance(value, int | float) else None
    return None
