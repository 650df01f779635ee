"""Amounts as text: one grammar, so that no two readers see two amounts.

**Rules**
1. ASCII digits, no leading zeros, one ``.`` with digits on both sides; no sign, exponent, space,
   grouping or line end. What a lenient reader would accept besides is refused.
2. At most 30 digits before the point and 30 after it.
"""

import re
from decimal import Decimal

_AMOUNT = re.compile(r"(?:0|[1-9][0-9]{0,29})(?:\.[0-9]{1,30})?\Z")


def read_amount(text: str) -> Decimal | None:
    """The amount, or None where the text is none."""
    return Decimal(text) if _AMOUNT.match(text) else None
