"""A WHERE clause of those conditions that are asked, so that each list has the plan it needs.

**Rules**
1. Only fixed texts become SQL; what is asked travels as values.
"""

from collections.abc import Mapping
from typing import Any


def where(asked: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Clause and values. Keys are conditions with ``{}`` for a value, or two for a pair of them;
    those whose value is None are left out. The next free mark is ``$`` and the number of values
    plus one."""
    texts: list[str] = []
    values: list[Any] = []
    for text, value in asked.items():
        if value is None:
            continue
        given = value if isinstance(value, tuple) else (value,)
        marks = range(len(values) + 1, len(values) + len(given) + 1)
        texts.append(text.format(*(f"${mark}" for mark in marks)))
        values += given
    return (f"WHERE {' AND '.join(texts)}" if texts else ""), values
