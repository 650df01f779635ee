"""CEL and names as a draft writes them: paths, literals, and what a table is called.

Rules
1. A path over names that CEL reads as such is written with dots, any other with brackets.
2. What is no plain short text is never put into an expression: it stands in a row, and the
   expression names the row.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import"),
        *("in", "let", "loop", "null", "namespace", "package", "return", "true", "var", "void"),
        *("while", "has", "size", "type", "dyn"),
    }
)
_PLAIN = re.compile(r'[^"\\\n\x00-\x1f\x7f-\x9f\ud800-\udfff]{0,200}\Z')
_ENTITY = re.compile(r"[^A-Za-z0-9_]")


def path(variable: str, names: Sequence[str]) -> str:
    """``arguments.order_id``, or with brackets where a name is none of CEL's."""
    return variable + "".join(
        f".{name}" if is_word(name) else f"[{literal(name)}]" for name in names
    )


def is_word(name: str) -> bool:
    """Whether CEL reads the name as one."""
    return _WORD.match(name) is not None and name not in _RESERVED


def argument(name: str, *, optional: bool) -> str:
    """An argument's value; null where it may be missing and is."""
    found = path("arguments", [name])
    return f"{literal(name)} in arguments ? {found} : null" if optional else found


def literal(value: Any) -> str:
    """A scalar as a CEL literal."""
    return json.dumps(value, ensure_ascii=False)


def is_plain(value: Any) -> bool:
    """Whether a constant may stand in a template as it is."""
    if isinstance(value, str):
        return _PLAIN.match(value) is not None
    return value is None or isinstance(value, bool | int | float)


def constant(value: Any) -> Any:
    """A plain constant as a template: text in quotes, anything else itself."""
    return f'"{value}"' if isinstance(value, str) else value


def table(name: str) -> str:
    """A name that an entity may have."""
    safe = _ENTITY.sub("_", name)[:56] or "rows"
    return safe if not safe[0].isdigit() else f"_{safe}"


def plural(key: str) -> str:
    """The table of a key's name: ``order_id`` and ``orderId`` name ``orders``."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()
    for end in ("_id", "_number", "_no", "_key", "_code"):
        snake = snake.removesuffix(end)
    if snake in ("", "id"):
        return ""
    return table(snake if snake.endswith("s") else f"{snake}s")
