"""Limits on single arguments: what each may be, read from an answer and held against a call.

**Rules**
1. A constrained argument must be there and be readable: what cannot be compared is beyond.
2. Values are equal as JSON: ``1``, ``1.0`` and ``true`` are told apart from texts and each other as
   their canonical forms are.
3. Amounts are compared as decimals: decimal text, or a number by its text.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from processors.model.call import Reason
from sidecar.canonical import NotCanonical, canonical
from sidecar.gateway.amount import read_amount

KEYS = frozenset({"name", "one_of", "min", "max"})
_ITEMS_MAX = 100


def wrong(item: Mapping[str, Any]) -> str | None:
    """What is wrong with one constraint, or None. Its keys are known."""
    if not isinstance(item.get("name"), str) or not item["name"]:
        return "names no argument"
    if not item.keys() & {"one_of", "min", "max"}:
        return "has neither one_of, min nor max"
    if "one_of" in item:
        values = item["one_of"]
        if not isinstance(values, list) or not 0 < len(values) <= _ITEMS_MAX:
            return f"one_of has not 1 to {_ITEMS_MAX} values"
    for bound in ("min", "max"):
        if bound in item and _bound(item[bound]) is None:
            return f"{bound} is neither plain decimal text nor a whole number"
    return None


def beyond(constraints: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> Reason | None:
    """Why the arguments are beyond the constraints, or None; no value is told."""
    for each in constraints:
        name = each["name"]
        if name not in arguments:
            return _reason(f"the argument {name} is limited, and missing")
        value = arguments[name]
        if "one_of" in each and not any(_same(value, one) for one in each["one_of"]):
            return _reason(f"the argument {name} is not one of those allowed")
        if "max" in each and not _within(_bound(each["max"]), _amount(value), most=True):
            return _reason(f"the argument {name} is more than {each['max']}, or no amount")
        if "min" in each and not _within(_bound(each["min"]), _amount(value), most=False):
            return _reason(f"the argument {name} is less than {each['min']}, or no amount")
    return None


def _reason(text: str) -> Reason:
    return Reason(code="limit_argument", message=text)


def _within(bound: Decimal | None, amount: Decimal | None, *, most: bool) -> bool:
    if bound is None or amount is None:
        return False
    return amount <= bound if most else amount >= bound


def _bound(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return read_amount(str(value))


def _amount(value: Any) -> Decimal | None:
    if isinstance(value, str):
        return read_amount(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(str(value))


def _same(one: Any, other: Any) -> bool:
    try:
        return canonical(one) == canonical(other)
    except NotCanonical:
        return False
