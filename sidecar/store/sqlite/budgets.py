"""Budget accounts in ledger.db: statements that run inside the writer's transaction.

**Rules**
1. An account is made with its first hold, in the hold's transaction: nobody passes unseen.
2. An account is read, judged and changed in one transaction, of which there is one at a time.
3. The clock of an account never runs backwards: a clock set back opens no earlier window.
"""

import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sidecar.store import budget
from sidecar.store.budget import Account, Hold, Moved, Named, Over, Spent, Standing
from sidecar.store.ledger import HoldState

_PAST_MAX = 1000


def reserve(
    connection: sqlite3.Connection, call_id: str, project: str, holds: Sequence[Hold], now_ns: int
) -> list[Moved] | Over:
    """Hold all, or say which budget has no room; then the caller's transaction must not stand."""
    made = []
    for hold in budget.ordered(holds):
        account = _account(connection, hold.whose(project), hold, now_ns)
        at_ns = max(now_ns, account.mark_ns)
        while not budget.fits(account, hold):
            roomier = _roll(connection, account, hold, at_ns)
            if roomier is None:
                return budget.over(account, hold, now_ns)
            account = roomier
        _move(connection, account, call_id, at_ns, [("free", "held", Decimal(hold.amount))])
        connection.execute(
            "INSERT INTO budget_hold (call_id, account_id, amount, state, at_ns)"
            " VALUES (?, ?, ?, 'held', ?)",
            (call_id, account.account_id, hold.amount, at_ns),
        )
        made.append(budget.held(account, hold))
    return made


def end(
    connection: sqlite3.Connection,
    call_id: str,
    state: HoldState,
    spent: Sequence[Spent],
    now_ns: int,
) -> list[Moved]:
    """Settle or release what a call holds; what came of each (``budget.end``)."""
    if state == "held" and not spent:
        return []
    rows = connection.execute(
        "SELECT account_id, budget_account.held, spent, mark_ns, budget, subject, unit, amount"
        " FROM budget_hold JOIN budget_account USING (account_id)"
        " WHERE call_id = ? AND state = 'held' ORDER BY budget, subject, unit",
        (call_id,),
    ).fetchall()
    moved = []
    for row in rows:
        account = _read(row[:4])
        ended = budget.end(row[4:7], Decimal(row[7]), state, spent)
        if ended is None:
            continue
        _move(connection, account, call_id, now_ns, ended.movements)
        connection.execute(
            "UPDATE budget_hold SET state = ?, actual = ? WHERE call_id = ? AND account_id = ?",
            (ended.state, budget.text(ended.actual), call_id, account.account_id),
        )
        moved.append(ended.moved)
    return moved


def standings(
    connection: sqlite3.Connection, project: str, holds: Sequence[Hold], now_ns: int
) -> list[Standing]:
    """How the accounts of these holds stand now, whether or not they were ever used."""
    return [_standing(connection, project, hold, now_ns) for hold in holds]


def names(connection: sqlite3.Connection, project: str | None, limit: int) -> list[Named]:
    """The accounts of a project and those that projects share, or all; in the order of names."""
    rows = connection.execute(
        "SELECT DISTINCT project, budget, subject, unit FROM budget_account"
        " WHERE ?1 IS NULL OR project IN (?1, '') ORDER BY budget, project, subject, unit LIMIT ?2",
        (project, limit),
    )
    return [Named(**dict(zip(Named.__struct_fields__, row, strict=True))) for row in rows]


def _standing(connection: sqlite3.Connection, project: str, hold: Hold, now_ns: int) -> Standing:
    account = _find(connection, hold.whose(project), hold) or Account(
        account_id=0, held=budget.ZERO, spent=budget.ZERO, mark_ns=0
    )
    spent = account.spent
    for (actual,) in _settled(connection, account, hold, max(now_ns, account.mark_ns), -1):
        spent = budget.less(spent, Decimal(actual))
    return Standing(
        budget=hold.budget,
        subject=hold.subject,
        unit=hold.unit,
        limit=hold.limit,
        held=budget.text(account.held),
        spent=budget.text(spent),
    )


def _find(connection: sqlite3.Connection, project: str, hold: Hold) -> Account | None:
    row = connection.execute(
        "SELECT account_id, held, spent, mark_ns FROM budget_account WHERE project = ?"
        " AND budget = ? AND subject = ? AND unit = ? AND window_ns >= ?"
        " ORDER BY window_ns DESC LIMIT 1",
        (project, hold.budget, hold.subject, hold.unit, hold.window_ns),
    ).fetchone()
    return _read(row) if row else None


def _account(connection: sqlite3.Connection, project: str, hold: Hold, now_ns: int) -> Account:
    found = _find(connection, project, hold)
    if found is not None:
        return found
    cursor = connection.execute(
        "INSERT INTO budget_account (project, budget, subject, unit, window_ns, mark_ns)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (project, hold.budget, hold.subject, hold.unit, hold.window_ns, now_ns),
    )
    assert cursor.lastrowid is not None
    return Account(account_id=cursor.lastrowid, held=budget.ZERO, spent=budget.ZERO, mark_ns=now_ns)


def _settled(
    connection: sqlite3.Connection, account: Account, hold: Hold, at_ns: int, limit: int
) -> list[tuple[str]]:
    """What was spent before a rolling window began and still counts, oldest first."""
    if hold.length_ns == 0:
        return []
    return connection.execute(
        "SELECT actual FROM budget_hold WHERE account_id = ? AND state = 'settled' AND past = 0"
        " AND at_ns <= ? ORDER BY at_ns, call_id LIMIT ?",
        (account.account_id, at_ns - hold.length_ns, limit),
    ).fetchall()


def _roll(
    connection: sqlite3.Connection, account: Account, hold: Hold, at_ns: int
) -> Account | None:
    """The account without some of what its window has left behind; None if there is nothing."""
    actuals = _settled(connection, account, hold, at_ns, _PAST_MAX)
    if not actuals:
        return None
    connection.execute(
        "UPDATE budget_hold SET past = 1 WHERE account_id = ?1 AND call_id IN"
        " (SELECT call_id FROM budget_hold WHERE account_id = ?1 AND state = 'settled'"
        " AND past = 0 AND at_ns <= ?2 ORDER BY at_ns, call_id LIMIT ?3)",
        (account.account_id, at_ns - hold.length_ns, _PAST_MAX),
    )
    gone = budget.ZERO
    for (actual,) in actuals:
        gone = budget.add(gone, Decimal(actual))
    return _move(connection, account, "", at_ns, [("spent", "past", gone)])


def _move(
    connection: sqlite3.Connection,
    account: Account,
    call_id: str,
    at_ns: int,
    movements: Sequence[budget.Movement],
) -> Account:
    """Post the movements; the account after them."""
    connection.executemany(
        "INSERT INTO budget_posting (account_id, call_id, at_ns, source, target, amount)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (account.account_id, call_id, at_ns, source, target, budget.text(amount))
            for source, target, amount in movements
        ],
    )
    after = budget.after(account, movements, at_ns)
    connection.execute(
        "UPDATE budget_account SET held = ?, spent = ?, mark_ns = ? WHERE account_id = ?",
        (budget.text(after.held), budget.text(after.spent), after.mark_ns, after.account_id),
    )
    return after


def _read(row: tuple[Any, ...]) -> Account:
    return Account(account_id=row[0], held=Decimal(row[1]), spent=Decimal(row[2]), mark_ns=row[3])
