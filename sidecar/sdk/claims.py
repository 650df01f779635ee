"""Claims: what an agent says of an effect, as attributes that the sidecar reads.

**Rules**
1. A claim proves nothing and can only lower an outcome: what the sidecar sees for itself decides.
2. An amount is exact: text, a whole number or a Decimal, never a float.

How claims are read: ``docs/specs/claims.md``. Who puts one on a span: ``client``.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, Literal

Status = Literal["success", "failure", "unknown"]
EVENT: Final = "agenttwin.claim"
_STATUSES: Final = ("success", "failure", "unknown")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_AMOUNT: Final = re.compile(r"-?[0-9]{1,39}(?:\.[0-9]{1,39})?")

Attributes = dict[str, str | float | list[str]]


def claim(
    subject: str,
    status: Status,
    *,
    action: str | None = None,
    objects: Sequence[str] = (),
    amount: str | int | Decimal | None = None,
    currency: str | None = None,
    confidence: float | None = None,
    text: str | None = None,
) -> Attributes:
    """What to put on a span, or on an event of it that is named ``EVENT``.

    ``subject`` is a tool's or an effect's name, ``objects`` what it was done to. Raises ValueError.
    """
    if not subject:
        raise ValueError("a claim has a subject: a tool's or an effect's name")
    if isinstance(objects, str):
        raise ValueError("a claim's objects are a list of texts, not one text")
    if status not in _STATUSES:
        raise ValueError(f"a claim's status is one of {', '.join(_STATUSES)}")
    if confidence is not None and not 0 <= confidence <= 1:
        raise ValueError("a claim's confidence is between 0 and 1")
    if currency is not None and (amount is None or not _CURRENCY.fullmatch(currency)):
        raise ValueError("a currency is three capital letters, beside an amount")
    said: dict[str, str | float | list[str] | None] = {
        "subject": subject,
        "status": status,
        "action": action,
        "object": list(objects) or None,
        "amount": None if amount is None else _exact(amount),
        "currency": currency,
        "confidence": confidence,
        "text": text,
    }
    return {f"{EVENT}.{name}": value for name, value in said.items() if value is not None}


def _exact(amount: str | int | Decimal) -> str:
    if isinstance(amount, bool | float):
        raise ValueError("an amount is text, a whole number or a Decimal: floats are not exact")
    found = f"{amount:f}" if isinstance(amount, Decimal) else str(amount)
    if not _AMOUNT.fullmatch(found):
        raise ValueError("an amount is a plain decimal number")
    return found
