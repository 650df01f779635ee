"""What a call reserves with its intent: of its budgets, and of its decision's limits.

**Rules**
1. Amounts are decimal text, never computed with doubles.
2. A cost that is not known takes the tool's declared ``cost.max``. Where there is none, an
   irreversible call is refused, and another as its budget says; never all there is left.
3. A cost in another currency than a budget's is not of that budget. One that policy limits must be
   in the limit's currency, or the call is refused.
4. A session is what the agent says (its trace): calls that name none share one of their agent.
5. An organisation's budget is of all its projects together; a project in none falls under none.
6. A tool without a cost model that is not irreversible costs nothing.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from processors.model.call import Action, Decision
from sidecar.gateway.budget import Budget
from sidecar.gateway.problem import Refusal
from sidecar.gateway.registry import RegisteredTool
from sidecar.gateway.window import read_window
from sidecar.store.budget import Hold, text
from sidecar.store.ledger import OpenedCall

_SECOND_NS = Decimal(1_000_000_000)


class Costs(Struct, frozen=True, kw_only=True):
    """What a call can take of each kind of budget, before it is made."""

    call: OpenedCall
    amount: str | None
    currency: str | None
    most: str | None
    priced: bool
    tokens: str | None
    seconds: str
    team: str = ""
    organisations: tuple[str, ...] = ()

    @property
    def session(self) -> str:
        """The session, or the one of all the agent's calls without."""
        return self.call.trace_id or f"none of {self.call.principal}"


class NoRoom(Exception):
    """A call that no budget needs to be asked about: it is refused as it stands."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.code)


def costs(
    call: OpenedCall,
    action: Action,
    tool: RegisteredTool,
    *,
    team: str = "",
    organisations: Sequence[str] = (),
) -> Costs:
    """What is known of a call's costs. ``action`` has its price; ``team`` and ``organisations`` say
    whose else it is."""
    declared = tool.config.cost
    tokens = tool.config.tokens
    return Costs(
        call=call,
        amount=action.cost_amount if action.cost_currency else None,
        currency=action.cost_currency,
        most=(declared.max or None) if declared else None,
        priced=declared is not None,
        tokens=tokens.max if tokens else None,
        seconds=text(Decimal(tool.timeout_ns) / _SECOND_NS),
        team=team,
        organisations=tuple(organisations),
    )


def holds(
    budgets: Sequence[Budget], known: Costs, decision: Decision | None, now_ns: int
) -> tuple[Hold, ...]:
    """What the call reserves. Raises NoRoom."""
    return (*_budgeted(budgets, known, now_ns), *_limited(decision, known))


def accounts(budgets: Sequence[Budget], known: Costs, now_ns: int) -> tuple[Hold, ...]:
    """The accounts of all budgets a call falls under, as holds of nothing."""
    return tuple(
        hold
        for budget in budgets
        if _covers(budget, known)
        for hold in _each(budget, known, "0", now_ns)
    )


def _budgeted(budgets: Sequence[Budget], known: Costs, now_ns: int) -> Iterator[Hold]:
    for budget in budgets:
        if not _covers(budget, known):
            continue
        amount = _amount(budget, known)
        if amount is None:
            continue
        if budget.call_max and Decimal(amount) > Decimal(budget.call_max):
            raise NoRoom(_too_much(budget, amount))
        yield from _each(budget, known, amount, now_ns)


def _covers(budget: Budget, known: Costs) -> bool:
    call = known.call
    if budget.scope == "organisation" and not known.organisations:
        return False
    return budget.covers(project=call.project, tool=call.tool, agent=call.principal)


def _each(budget: Budget, known: Costs, amount: str, now_ns: int) -> Iterator[Hold]:
    """One hold, or one for each organisation."""
    window = read_window(budget.window, budget.zone, now_ns)
    shared = budget.scope == "organisation"
    for subject in known.organisations if shared else (_subject(budget.scope, known),):
        yield Hold(
            budget=budget.known_as,
            subject=subject,
            unit=budget.measured,
            amount=amount,
            limit=budget.limit,
            window_ns=window.start_ns,
            length_ns=window.length_ns,
            resets_at_ns=window.end_ns,
            shared=shared,
        )


def _amount(budget: Budget, known: Costs) -> str | None:
    """What the call takes of a budget; None where it is not of that budget at all."""
    if budget.unit == "calls":
        return "1"
    if budget.unit == "seconds":
        return known.seconds
    if budget.unit == "tokens":
        return known.tokens
    if known.amount is not None:
        return known.amount if known.currency == budget.currency else None
    if known.currency not in (None, budget.currency):
        return None
    return _unknown(budget, known)


def _unknown(budget: Budget, known: Costs) -> str | None:
    if known.most is not None:
        return known.most
    if known.call.class_ == "irreversible":
        raise NoRoom(_cost_unknown(budget))
    if not known.priced:
        return None
    if budget.unpriced == "deny":
        raise NoRoom(_cost_unknown(budget))
    return budget.flat


def _limited(decision: Decision | None, known: Costs) -> Iterator[Hold]:
    limited = decision is not None and decision.effect == "allow_with_limits"
    limits: dict[str, Any] = decision.limits if decision and limited else {}
    for rate in limits.get("rate", ()):
        yield _limit("rate", rate, known, unit="calls", amount="1", limit=str(rate["n"]))
    if "count" in limits:
        count = {"key": "session", "window_s": 0}
        yield _limit(
            f"count {known.call.tool}", count, known,
            unit="calls", amount="1", limit=str(limits["count"]),
        )  # fmt: skip
    for spend in limits.get("spend", ()):
        if known.amount is None or known.currency != limits["currency"]:
            raise NoRoom(_other_currency(limits["currency"]))
        yield _limit(
            "spend", spend, known,
            unit=limits["currency"], amount=known.amount, limit=spend["limit"],
        )  # fmt: skip


def _limit(
    kind: str, said: dict[str, Any], known: Costs, *, unit: str, amount: str, limit: str
) -> Hold:
    window_s = said["window_s"]
    return Hold(
        budget=f"policy {kind} {said['key']} {window_s}s",
        subject=_subject(said["key"], known),
        unit=unit,
        amount=amount,
        limit=limit,
        length_ns=window_s * 1_000_000_000,
    )


def _subject(scope: str, known: Costs) -> str:
    call = known.call
    subjects = {
        "project": "",
        "team": known.team,
        "agent": call.principal,
        "tool": call.tool,
        "session": known.session,
        "agent_tool": f"{call.principal} {call.tool}",
    }
    return subjects[scope]


def _too_much(budget: Budget, amount: str) -> Refusal:
    return Refusal(
        status=403,
        code="limit_amount",
        detail=f"{amount} {budget.measured} is more than one call may take of the budget "
        f"{budget.known_as!r}: {budget.call_max}",
    )


def _cost_unknown(budget: Budget) -> Refusal:
    return Refusal(
        status=403,
        code="cost_unknown",
        detail=f"the call falls under the budget {budget.known_as!r} and what it costs is not "
        "known; give the amount, or declare cost.max for the tool",
        next_action="request",
    )


def _other_currency(currency: str) -> Refusal:
    return Refusal(
        status=403,
        code="limit_currency",
        detail=f"policy limits what is spent in {currency}, and the cost is not known in it",
    )
