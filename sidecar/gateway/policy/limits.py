"""Whether an action keeps within the limits of an allow_with_limits answer.

**Rules**
1. Amounts are compared as decimals, in one currency; another currency, or an unknown cost, exceeds.
2. ``rate``, ``spend`` and ``count`` are holds (``gateway.hold``); ``timeout_ms`` and
   ``max_response_bytes`` are kept while sending.
"""

from decimal import Decimal
from typing import Any

from processors.model.call import Action, Reason
from sidecar.gateway.policy.constraints import beyond


def exceeded(limits: dict[str, Any], action: Action, *, host: str | None = None) -> Reason | None:
    """Why the action, which goes to ``host``, is beyond the limits, or None."""
    if "allowed_hosts" in limits and host not in limits["allowed_hosts"]:
        return Reason(code="limit_host", message=f"calls to {host or 'this tool'} are not allowed")
    found = beyond(limits.get("arguments", ()), action.arguments)
    if found is not None:
        return found
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
