"""What a call reserves with its intent, and gives back or spends with its outcome.

**Rules**
1. An amount whose currency is not known reserves nothing; policy has judged that already.
2. Amounts are decimal text as the action says them, never computed with doubles.
"""

from processors.model.call import Action
from sidecar.store.ledger import Hold


def holds(action: Action) -> tuple[Hold, ...]:
    """What the action's cost reserves of the project's budget, where it is known."""
    if action.cost_amount is None or action.cost_currency is None:
        return ()
    return (Hold(scope="project", amount=action.cost_amount, currency=action.cost_currency),)
