"""Key ``budgets``: how much may be spent, by whom, on what, in which window.

**Rules**
1. Every budget a call falls under must have room; one without is enough to refuse.
2. A budget is known by its name: a new limit goes on with what was spent, a new name begins anew.
   The name says scope, unit and window where none is given.
3. Money is in one currency. What has no known cost is not let through for nothing (``hold``).
"""

import re
from decimal import Decimal
from typing import Literal
from zoneinfo import ZoneInfo

from msgspec import Struct

from processors.model.names import SideEffectClass
from processors.value import TIMEOUT_LEAST_NS
from sidecar.errors import Problem
from sidecar.gateway.amount import read_amount
from sidecar.gateway.window import is_calendar, read_window

BudgetScope = Literal["organisation", "project", "team", "agent", "tool", "session"]
Unit = Literal["money", "calls", "tokens", "seconds"]
_CURRENCY = re.compile(r"[A-Z]{3}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_. -]{0,79}\Z")


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One budget; each organisation, project, team, agent (its key), tool or session (its trace)
    has one of its own. A team is the agents that one owner answers for.

    ``window`` is a duration (rolling) or ``day``, ``week``, ``month`` of ``zone``. ``projects``,
    ``tools`` and ``agents`` narrow it down. ``call_max`` is the most one call may take.
    ``unpriced`` says what a read or write whose cost is not known takes: nothing is let through
    (``deny``), or it takes ``flat``.
    """

    scope: BudgetScope
    limit: str
    unit: Unit = "money"
    currency: str = ""
    window: str = "24h"
    zone: str = "UTC"
    name: str = ""
    projects: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    call_max: str = ""
    unpriced: Literal["deny", "flat"] = "deny"
    flat: str = ""

    @property
    def known_as(self) -> str:
        """The budget's name."""
        return self.name or f"{self.scope} {self.currency or self.unit} {self.window}"

    @property
    def measured(self) -> str:
        """What is counted: an ISO 4217 code, or ``calls``, ``tokens``, ``seconds``."""
        return self.currency if self.unit == "money" else self.unit

    def covers(self, *, project: str, tool: str, agent: str) -> bool:
        """Whether a call falls under it."""
        pairs = ((self.projects, project), (self.tools, tool), (self.agents, agent))
        return all(not names or name in names for names, name in pairs)


class Priced(Struct, frozen=True, kw_only=True):
    """What is known of a tool beforehand: ``currencies`` None where its cost may be any."""

    name: str
    class_: SideEffectClass
    costs: bool


def problems(budgets: tuple[Budget, ...], tools: tuple[Priced, ...]) -> list[Problem]:
    """What is wrong with the values, dotted below ``budgets``."""
    found, seen = [], set()
    for index, budget in enumerate(budgets):
        found += [Problem(f"{index}.{each.path}", each.text) for each in _wrong(budget)]
        if budget.known_as in seen:
            text = f"{budget.known_as!r} is there twice; give one of them a name"
            found.append(Problem(f"{index}.name", text))
        seen.add(budget.known_as)
        found += [Problem(f"{index}.tools", each) for each in _unpriced(budget, tools)]
    return found


def _wrong(budget: Budget) -> list[Problem]:
    found = []
    money = budget.unit == "money"
    if money and not _CURRENCY.match(budget.currency):
        text = "a budget of money needs three capital letters (ISO 4217)"
        found.append(Problem("currency", text))
    if not money and budget.currency:
        found.append(Problem("currency", f"a budget of {budget.unit} has none"))
    if budget.name and not _NAME.match(budget.name):
        found.append(Problem("name", f"{budget.name!r:.90} cannot be a budget's name"))
    amounts = [("limit", budget.limit)]
    amounts += [(key, getattr(budget, key)) for key in ("call_max", "flat") if getattr(budget, key)]
    for key, text in amounts:
        if read_amount(text) is None:
            found.append(Problem(key, "must be plain decimal text such as 1000.00"))
    if (budget.unpriced == "flat") != bool(budget.flat):
        found.append(Problem("flat", "goes with unpriced: flat, and it with this"))
    return [*found, *_window_problems(budget)]


def _window_problems(budget: Budget) -> list[Problem]:
    if budget.zone != "UTC":
        if not is_calendar(budget.window):
            return [Problem("zone", "is for a window of day, week or month")]
        try:
            ZoneInfo(budget.zone)
        except (ValueError, OSError, KeyError):
            text = f"there is no time zone {budget.zone!r:.60} on this machine"
            return [Problem("zone", text)]
    try:
        read_window(budget.window, budget.zone, TIMEOUT_LEAST_NS)
    except ValueError as error:
        return [Problem("window", f"{error}; or day, week, month")]
    return []


def _unpriced(budget: Budget, tools: tuple[Priced, ...]) -> list[str]:
    """Irreversible tools that every call of would be refused: better told now than then."""
    if budget.unit != "money" or read_amount(budget.limit) == Decimal(0):
        return []
    return [
        f"the irreversible tool {tool.name} falls under this budget and has no cost, so it would "
        "always be refused; give it cost.amount ('\"0\"' where it is free)"
        for tool in tools
        if tool.class_ == "irreversible"
        and not tool.costs
        and (not budget.tools or tool.name in budget.tools)
    ]
