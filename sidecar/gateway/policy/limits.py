"""Whether an action keeps within the limits of an allow_with_limits answer.

**Rules**
1. Amounts are compared as decimals, in one currency; another currency, or an unknown cost, exceeds.
2. What this file does not check (``timeout_ms``, ``max_response_bytes``) the driver keeps while
   sending.
"""

from decimal import Decimal
from typing import Any

from processors.model.call import Action, Reason


def exceeded(limits: dict[str, Any], action: Action) -> Reason | None:
    """Why the action is beyond the limits, or None."""
    if "max_amount" not in limits:
        return None
    if action.cost_amount is None or action.cost_currency != limits["currency"]:
        return Reason(
            code="limit_currency", message=f"the cost is not known in {limits['currency']}"
        )
    if Decimal(action.cost_amount) > Decimal(limits["max_amount"]):
        wanted, limit = action.cost_amount, limits["max_amount"]
        return Reason(code="limit_amount", message=f"{wanted} is more than {limit}")
    return None
