"""How budgets stand, for people: limit, used, held, left, and when their windows end.

**Rules**
1. An account is there once something was held of it; one whose budget is no longer configured is
   not shown, and goes on as it was if the budget comes back under its name.
2. A project sees its own accounts and those of the organisations it belongs to.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from msgspec import Struct

from sidecar.gateway.budget import Budget
from sidecar.gateway.window import read_window
from sidecar.store.budget import Hold, Named, Standing, less, text

NO_PROJECT = ""
"""Whose the accounts of organisations are."""


class BudgetStanding(Struct, frozen=True, kw_only=True):
    """One account of a budget. ``subject`` is whose: an agent, tool, session, team or organisation,
    empty for the project. Amounts are decimal text; ``left`` is 0 where it is overdrawn.
    ``window_ends_at_ns`` is null where the window rolls: what was used leaves at its own age."""

    project: str
    name: str
    scope: str
    subject: str
    unit: str
    limit: str
    used: str
    held: str
    left: str
    overdrawn: bool
    window: str
    window_ends_at_ns: str | None


def asked(
    budgets: Sequence[Budget],
    known: Sequence[Named],
    now_ns: int,
    *,
    project: str | None,
    organisations: Mapping[str, Sequence[str]],
) -> list[tuple[Budget, str, Hold]]:
    """The accounts to ask about, each with its budget and project; ``project`` None: all.

    ``organisations`` has the names of those each project belongs to.
    """
    by_name = {budget.known_as: budget for budget in budgets}
    found = []
    for account in known:
        budget = by_name.get(account.budget)
        if budget is None or account.unit != budget.measured:
            continue
        elsewhere = project is not None and account.subject not in organisations.get(project, ())
        if account.project == NO_PROJECT and elsewhere:
            continue
        window = read_window(budget.window, budget.zone, now_ns)
        hold = Hold(
            budget=account.budget,
            subject=account.subject,
            unit=account.unit,
            amount="0",
            limit=budget.limit,
            window_ns=window.start_ns,
            length_ns=window.length_ns,
            resets_at_ns=window.end_ns,
            shared=account.project == NO_PROJECT,
        )
        found.append((budget, account.project, hold))
    return found


def shown(budget: Budget, project: str, hold: Hold, stands: Standing) -> BudgetStanding:
    """One account as people see it."""
    taken = Decimal(stands.spent) + Decimal(stands.held)
    left = less(Decimal(budget.limit), taken)
    return BudgetStanding(
        project=project,
        name=budget.known_as,
        scope=budget.scope,
        subject=hold.subject,
        unit=hold.unit,
        limit=budget.limit,
        used=stands.spent,
        held=stands.held,
        left=text(max(left, Decimal(0))),
        overdrawn=left < 0,
        window=budget.window,
        window_ends_at_ns=None if hold.resets_at_ns is None else str(hold.resets_at_ns),
    )
