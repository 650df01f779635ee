"""What a call really took of its budgets, read from the tool's answer.

**Rules**
1. A call that may have left counts as one, and took the time it took, whatever came of it.
2. Money and tokens are what the tool's answer says at the declared pointer. An answer that does
   not say it, or says nonsense, changes nothing: what was held is spent.
"""

import json
from decimal import Decimal
from typing import Any

from sidecar.gateway.amount import read_amount
from sidecar.gateway.config import Tool
from sidecar.store.budget import Spent, text

_MISSING = object()
_SECOND_NS = Decimal(1_000_000_000)


def spent(tool: Tool, currency: str | None, body: bytes | None, took_ns: int) -> tuple[Spent, ...]:
    """What a call that may have left took; ``body`` is the tool's answer to a call it did."""
    found = [
        Spent(unit="calls", amount="1"),
        Spent(unit="seconds", amount=text(Decimal(max(took_ns, 1)) / _SECOND_NS)),
    ]
    for unit, pointer in (
        (currency, tool.cost.settle if tool.cost else ""),
        ("tokens", tool.tokens.settle if tool.tokens else ""),
    ):
        amount = _told(body, pointer) if body is not None and pointer and unit else None
        if amount is not None and unit is not None:
            found.append(Spent(unit=unit, amount=amount))
    return tuple(found)


def _told(body: bytes, pointer: str) -> str | None:
    try:
        value = at(json.loads(body, parse_float=Decimal, parse_constant=str), pointer)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    amount = read_amount(value if isinstance(value, str) else f"{value:f}" if value else "0")
    return None if amount is None else text(amount)


def at(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901), a value of no JSON type where there is none."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        else:
            return _MISSING
    return document
