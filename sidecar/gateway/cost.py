"""What a call costs: the tool's CEL cost model over its arguments, as decimal text.

**Rules**
1. An amount is decimal text (``"12.50"``) in the grammar of ``amount``, never a double: a double
   counts only where its shortest text has at most 15 significant digits, so that arithmetic noise
   such as 0.30000000000000004 is refused.
2. Negative, infinite and non-numeric amounts are refused; so is a currency that is not ISO 4217 in
   form.
3. A cost that has no value (an absent argument) is unknown, which is None, though its currency may
   be known: policy decides on that, and ``hold``.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from sidecar.expression.cel import Expression, ExpressionFailed
from sidecar.gateway.amount import read_amount
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import CostModel

_CURRENCY = re.compile(r"[A-Z]{3}\Z")
_DIGITS_MAX = 15
_NONE = object()


class Price(Struct, frozen=True):
    """Decimal text and ISO 4217 code; None where unknown or not declared."""

    amount: str | None = None
    currency: str | None = None


def price(model: CostModel | None, arguments: Mapping[str, Any]) -> Price:
    """The price of a call. Raises Refused 400 where the amount or currency is nonsense."""
    if model is None:
        return Price()
    currency = _value(model.currency, arguments) if model.currency else None
    amount = _value(model.amount, arguments)
    if amount is _NONE or currency is _NONE:
        return Price(None, None if currency is _NONE else _currency(currency))
    return Price(_amount(amount), _currency(currency))


def _value(expression: Expression, arguments: Mapping[str, Any]) -> Any:
    try:
        return expression.evaluate({"arguments": arguments})
    except ExpressionFailed:
        return _NONE


def _amount(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _refused(f"the amount is a {type(value).__name__}")
    number = read_amount(value) if isinstance(value, str) else Decimal(repr(value))
    if number is None:
        raise _refused("the amount is not a plain decimal number such as 12.50")
    if not number.is_finite() or number < 0:
        raise _refused("the amount is negative or not finite")
    digits = len(number.normalize().as_tuple().digits)
    if isinstance(value, float) and digits > _DIGITS_MAX:
        raise _refused("the amount is not exact; let cost.amount yield text or minor units")
    if abs(number.adjusted()) > 30:
        raise _refused("the amount is beyond 30 digits")
    if isinstance(value, float) and value.is_integer():
        number = Decimal(int(value))  # 500, 500.0 and 5e2 are one number, and so one action
    return f"{number:f}"


def _currency(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and _CURRENCY.match(value)):
        return value
    raise _refused("the currency is not three capital letters (ISO 4217)")


def _refused(why: str) -> Refused:
    return Refused(400, "cost_invalid", f"{why}; the call's cost cannot be known")
