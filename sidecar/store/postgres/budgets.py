"""Budget accounts on Postgres: statements that run in the writer's turn.

**Rules**
1. An account is made with its first hold, in the hold's transaction: nobody passes unseen.
2. An account is read, judged and changed in one turn, of which there is one at a time, in whichever
   sidecar.
3. The clock of an account never runs backwards: a clock set back opens no earlier window.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sidecar.store import budget
from sidecar.store.budget import Account, Hold, Moved, Named, Over, Spent, Standing
from sidecar.store.ledger import HoldState
from sidecar.store.postgres.connection import Connection

_PAST_MAX = 1000
_OLD = (
    "FROM budget_hold WHERE account_id = $1 AND state = 'settled' AND NOT past AND at_ns <= $2"
    " ORDER BY at_ns, call_id LIMIT $3"
)


async def reserve(
    connection: Connection, call_id: str, project: str, holds: Sequence[Hold], now_ns: int
) -> list[Moved] | Over:
    """Hold all, or say which budget has no room; then the caller's transaction must not stand."""
    made = []
    for hold in budget.ordered(holds):
        account = await _account(connection, hold.whose(project), hold, now_ns)
        at_ns = max(now_ns, account.mark_ns)
        while not budget.fits(account, hold):
            roomier = await _roll(connection, account, hold, at_ns)
            if roomier is None:
                return budget.over(account, hold, now_ns)
            account = roomier
        await _move(connection, account, call_id, at_ns, [("free", "held", Decimal(hold.amount))])
        await connection.execute(
            "INSERT INTO budget_hold (call_id, account_id, amount, state, at_ns)"
            " VALUES ($1, $2, $3, 'held', $4)",
            *(call_id, account.account_id, Decimal(hold.amount), at_ns),
        )
        made.append(budget.held(account, hold))
    return made


async def end(
    connection: Connection, call_id: str, state: HoldState, spent: Sequence[Spent], now_ns: int
) -> list[Moved]:
    """Settle or release what a call holds; what came of each (``budget.end``)."""
    if state == "held" and not spent:
        return []
    rows = await connection.fetch(
        "SELECT account_id, account.held, spent, mark_ns, budget, subject, unit, amount"
        " FROM budget_hold JOIN budget_account account USING (account_id)"
        " WHERE call_id = $1 AND state = 'held' ORDER BY budget, subject, unit",
        call_id,
    )
    moved = []
    for row in rows:
        name = (row["budget"], row["subject"], row["unit"])
        ended = budget.end(name, row["amount"], state, spent)
        if ended is None:
            continue
        await _move(connection, _read(row), call_id, now_ns, ended.movements)
        await connection.execute(
            "UPDATE budget_hold SET state = $1, actual = $2 WHERE call_id = $3 AND account_id = $4",
            *(ended.state, ended.actual, call_id, row["account_id"]),
        )
        moved.append(ended.moved)
    return moved


async def standings(
    connection: Connection, project: str, holds: Sequence[Hold], now_ns: int
) -> list[Standing]:
    """How the accounts of these holds stand now, whether or not they were ever used."""
    return [await _standing(connection, project, hold, now_ns) for hold in holds]


async def names(connection: Connection, project: str | None, limit: int) -> list[Named]:
    """The accounts of a project and those that projects share, or all; in the order of names."""
    rows = await connection.fetch(
        "SELECT DISTINCT project, budget, subject, unit FROM budget_account"
        " WHERE $1::text IS NULL OR project IN ($1, '')"
        " ORDER BY budget, project, subject, unit LIMIT $2",
        *(project, limit),
    )
    return [Named(**dict(row)) for row in rows]


async def _standing(connection: Connection, project: str, hold: Hold, now_ns: int) -> Standing:
    account = await _find(connection, hold.whose(project), hold) or Account(
        account_id=0, held=budget.ZERO, spent=budget.ZERO, mark_ns=0
    )
    gone = budget.ZERO
    if hold.length_ns:
        before_ns = max(now_ns, account.mark_ns) - hold.length_ns
        gone = await connection.fetchval(
            "SELECT coalesce(sum(actual), 0) FROM budget_hold WHERE account_id = $1"
            " AND state = 'settled' AND NOT past AND at_ns <= $2",
            *(account.account_id, before_ns),
        )
    return Standing(
        budget=hold.budget,
        subject=hold.subject,
        unit=hold.unit,
        limit=hold.limit,
        held=budget.text(account.held),
        spent=budget.text(budget.less(account.spent, gone)),
    )


async def _find(connection: Connection, project: str, hold: Hold) -> Account | None:
    row = await connection.fetchrow(
        "SELECT account_id, held, spent, mark_ns FROM budget_account WHERE project = $1"
        " AND budget = $2 AND subject = $3 AND unit = $4 AND window_ns >= $5"
        " ORDER BY window_ns DESC LIMIT 1",
        *(project, hold.budget, hold.subject, hold.unit, hold.window_ns),
    )
    return _read(row) if row else None


async def _account(connection: Connection, project: str, hold: Hold, now_ns: int) -> Account:
    found = await _find(connection, project, hold)
    if found is not None:
        return found
    account_id: int = await connection.fetchval(
        "INSERT INTO budget_account (project, budget, subject, unit, window_ns, mark_ns)"
        " VALUES ($1, $2, $3, $4, $5, $6) RETURNING account_id",
        *(project, hold.budget, hold.subject, hold.unit, hold.window_ns, now_ns),
    )
    return Account(account_id=account_id, held=budget.ZERO, spent=budget.ZERO, mark_ns=now_ns)


async def _roll(connection: Connection, account: Account, hold: Hold, at_ns: int) -> Account | None:
    """The account without some of what its window has left behind; None if there is nothing."""
    if hold.length_ns == 0:
        return None
    row = await connection.fetchrow(
        f"WITH old AS (SELECT call_id {_OLD}), gone AS (UPDATE budget_hold SET past = true"  # noqa: S608
        " FROM old WHERE budget_hold.call_id = old.call_id AND account_id = $1 RETURNING actual)"
        " SELECT count(*) AS calls, coalesce(sum(actual), 0) AS amount FROM gone",
        *(account.account_id, at_ns - hold.length_ns, _PAST_MAX),
    )
    assert row is not None, "the query always has one row"
    if row["calls"] == 0:
        return None
    return await _move(connection, account, "", at_ns, [("spent", "past", row["amount"])])


async def _move(
    connection: Connection,
    account: Account,
    call_id: str,
    at_ns: int,
    movements: Sequence[budget.Movement],
) -> Account:
    """Post the movements; the account after them."""
    for source, target, amount in movements:
        await connection.execute(
            "INSERT INTO budget_posting (account_id, call_id, at_ns, source, target, amount)"
            " VALUES ($1, $2, $3, $4, $5, $6)",
            *(account.account_id, call_id, at_ns, source, target, amount),
        )
    after = budget.after(account, movements, at_ns)
    await connection.execute(
        "UPDATE budget_account SET held = $1, spent = $2, mark_ns = $3 WHERE account_id = $4",
        *(after.held, after.spent, after.mark_ns, after.account_id),
    )
    return after


def _read(row: Any) -> Account:
    return Account(**{name: row[name] for name in Account.__struct_fields__})
