"""How the budgets of a store stand, for commands."""

from sidecar.app.opening import open_ledger
from sidecar.config import Loaded
from sidecar.gateway.allowance import BudgetStanding, asked, shown


def standings(loaded: Loaded, project: str | None, now_ns: int) -> list[BudgetStanding]:
    """Every account of a configured budget, of one project or of all. Raises StoreUnavailable."""
    config = loaded.config
    with open_ledger(loaded) as ledger:
        wanted = asked(
            config.budgets,
            ledger.budget_names(project),
            now_ns,
            project=project,
            organisations=config.organisations_of,
        )
        return [
            shown(budget, whose, hold, ledger.standings(whose, [hold], now_ns)[0])
            for budget, whose, hold in wanted
        ]
