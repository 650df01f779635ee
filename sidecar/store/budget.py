"""Budgets as the ledger keeps them: accounts, holds on them, and the movements between their parts.

**Rules**
1. Every movement takes an amount from one part of an account and adds it to another, so that an
   account balances always: free + held + spent + past = 0, counted from an empty account.
2. Amounts are exact: no sum is ever rounded. What cannot be exact raises.
3. A hold is made only where held + spent + amount stays within the limit. What is settled may be
   more than was held: then the account is over its limit, and the next hold finds no room.
4. What is held never leaves its account by time. What is spent leaves a rolling window when it is
   older than the window, and a calendar window with the window.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Clamped, Context, Decimal, Inexact, InvalidOperation, Overflow, Rounded
from typing import Literal

from msgspec import Struct

_EXACT = Context(prec=200, traps=[Inexact, Rounded, InvalidOperation, Overflow, Clamped])
ZERO = Decimal(0)
Movement = tuple[str, str, Decimal]
"""From which part of the account, to which, how much."""


class Hold(Struct, frozen=True, kw_only=True):
    """An amount to reserve with an intent. ``amount`` and ``limit`` are decimal text.

    ``window_ns`` is the start of a calendar window and 0 for a rolling one, whose length is
    ``length_ns``, where 0 is for ever; ``resets_at_ns`` is the calendar window's end. What is not
    ``enforced`` is held though there is no room. What is ``shared`` is of no one project.
    """

    budget: str
    subject: str
    unit: str
    amount: str
    limit: str
    window_ns: int = 0
    length_ns: int = 0
    resets_at_ns: int | None = None
    enforced: bool = True
    shared: bool = False

    def whose(self, project: str) -> str:
        """The project whose account it is of: the call's, or none where several share it."""
        return "" if self.shared else project


class Over(Struct, frozen=True, kw_only=True):
    """Which budget has no room. ``never``: the amount alone is more than its limit.

    ``retry_after_s``: when its window ends, where that is known.
    """

    budget: str
    subject: str
    unit: str
    amount: str
    limit: str
    left: str
    retry_after_s: int | None = None
    never: bool = False


class Spent(Struct, frozen=True, kw_only=True):
    """What a call really took of a unit, as decimal text; None is all that was held of it."""

    unit: str
    amount: str | None


class Standing(Struct, frozen=True, kw_only=True):
    """How an account stands: what is held and spent of a budget, as decimal text."""

    budget: str
    subject: str
    unit: str
    limit: str
    held: str
    spent: str


class Named(Struct, frozen=True, kw_only=True):
    """An account that is there, by its names; ``project`` is empty where projects share it."""

    project: str
    budget: str
    subject: str
    unit: str


class Account(Struct, frozen=True, kw_only=True):
    """An account's row. ``mark_ns`` is the latest moment anything was held of it."""

    account_id: int
    held: Decimal
    spent: Decimal
    mark_ns: int


class Moved(Struct, frozen=True, kw_only=True):
    """What became of one hold, for the audit chain: ``kind`` is the entry it stands in."""

    kind: Literal["budget_hold", "budget_settle", "budget_release"]
    budget: str
    subject: str
    unit: str
    amount: str
    left: str | None = None
    over: str | None = None

    def document(self) -> dict[str, str]:
        """The fields that say something."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name != "kind"}
        return {name: value for name, value in fields.items() if value is not None}


class Ended(Struct, frozen=True, kw_only=True):
    """How one hold ends: what was spent of it, and how that moves its account."""

    state: Literal["settled", "released"]
    actual: Decimal
    movements: list[Movement]
    moved: Moved


def ordered(holds: Iterable[Hold]) -> Sequence[Hold]:
    """Holds in the one order in which accounts are taken, those of nothing left out."""
    wanted = [hold for hold in holds if Decimal(hold.amount) > 0]
    return sorted(wanted, key=lambda each: (each.budget, each.subject, each.unit))


def add(one: Decimal, other: Decimal) -> Decimal:
    """The exact sum."""
    return _EXACT.add(one, other)


def less(one: Decimal, other: Decimal) -> Decimal:
    """The exact difference."""
    return _EXACT.subtract(one, other)


def text(amount: Decimal) -> str:
    """Plain decimal text, without an exponent or trailing zeros after the point."""
    plain = f"{amount:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def fits(account: Account, hold: Hold) -> bool:
    """Whether an account has room for a hold."""
    after = add(add(account.held, account.spent), Decimal(hold.amount))
    return not hold.enforced or after <= Decimal(hold.limit)


def over(account: Account, hold: Hold, now_ns: int) -> Over:
    """Why a hold finds no room."""
    left = less(Decimal(hold.limit), add(account.held, account.spent))
    return Over(
        budget=hold.budget,
        subject=hold.subject,
        unit=hold.unit,
        amount=hold.amount,
        limit=hold.limit,
        left=text(max(left, ZERO)),
        retry_after_s=_seconds_until(hold.resets_at_ns, now_ns),
        never=Decimal(hold.amount) > Decimal(hold.limit),
    )


def _seconds_until(end_ns: int | None, now_ns: int) -> int | None:
    return None if end_ns is None else max(1, -(-(end_ns - now_ns) // 1_000_000_000))


def held(account: Account, hold: Hold) -> Moved:
    """A hold that was made on an account as it was before."""
    taken = add(add(account.held, account.spent), Decimal(hold.amount))
    return Moved(
        kind="budget_hold",
        budget=hold.budget,
        subject=hold.subject,
        unit=hold.unit,
        amount=hold.amount,
        left=text(less(Decimal(hold.limit), taken)),
    )


def documents(moved: Sequence[Moved]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """What goes into the audit chain: each kind of entry with its holds."""
    for kind in ("budget_hold", "budget_settle", "budget_release"):
        said = [each.document() for each in moved if each.kind == kind]
        if said:
            yield kind, said


def end(
    name: tuple[str, str, str],
    amount: Decimal,
    state: Literal["held", "settled", "released"],
    spent: Sequence[Spent],
) -> Ended | None:
    """How a hold of ``amount`` ends (``name``: budget, subject, unit); None where it stays held.

    What is told of its unit counts, whatever ``state`` says of the others.
    """
    told = next((each for each in spent if each.unit == name[2]), None)
    if told is None and state == "held":
        return None
    actual = amount if state == "settled" else ZERO
    if told is not None:
        actual = amount if told.amount is None else Decimal(told.amount)
    settles = state == "settled" or actual > 0
    more = less(actual, amount)
    return Ended(
        state="settled" if settles else "released",
        actual=actual,
        movements=_movements(amount, actual),
        moved=Moved(
            kind="budget_settle" if settles else "budget_release",
            budget=name[0],
            subject=name[1],
            unit=name[2],
            amount=text(actual if settles else amount),
            over=text(more) if more > 0 else None,
        ),
    )


def after(account: Account, movements: Sequence[Movement], at_ns: int) -> Account:
    """The account after some movements."""
    parts = {"held": account.held, "spent": account.spent}
    for source, target, amount in movements:
        if source in parts:
            parts[source] = less(parts[source], amount)
        if target in parts:
            parts[target] = add(parts[target], amount)
    return Account(account_id=account.account_id, mark_ns=max(at_ns, account.mark_ns), **parts)


def _movements(amount: Decimal, actual: Decimal) -> list[Movement]:
    spent = min(amount, actual)
    moved = [
        ("held", "spent", spent),
        ("held", "free", less(amount, spent)),
        ("free", "spent", less(actual, spent)),
    ]
    return [each for each in moved if each[2] > 0]
