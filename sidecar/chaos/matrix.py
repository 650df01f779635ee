"""The fail matrix as data: what is broken, and what each class of call gets then.

**Rules**
1. The answers are those of ``docs/specs/gateway.md``, "What fails closed"; all else is a fault.
2. Where nothing may have been sent there is no effect; elsewhere at most one a call.
3. A gateway that must not start says why and serves nothing.
"""

from typing import Literal

from msgspec import Struct

from processors.model.names import SideEffectClass

Answer = tuple[int, str]
"""Status and code; the code is empty where the tool's own answer is passed on."""
Break = Literal[
    "policy_hangs",
    "ledger_locked",
    "disk_full",
    "ledger_lost_after_sending",
    "tool_away",
    "tool_hangs",
    "tool_breaks_off",
    "tool_speaks_nonsense",
    "tool_fails",
    "address_refused",
    "chain_tampered",
    "wrong_seal_key",
    "bad_policy_bundle",
]
CLASSES: tuple[SideEffectClass, ...] = ("read", "write", "irreversible")
_CLOSED: Answer = (503, "fail_closed")
_AWAY: Answer = (502, "upstream_unreachable")
_UNKNOWN: Answer = (409, "outcome_unknown")


class Row(Struct, frozen=True, kw_only=True):
    """One failure. ``answers`` are by class, empty where the gateway must not start; ``effects`` is
    the most that one call may have had."""

    name: Break
    what: str
    answers: tuple[Answer, ...] = ()
    effects: int = 0

    @property
    def starts(self) -> bool:
        """Whether a gateway is there to be asked."""
        return bool(self.answers)


ROWS: tuple[Row, ...] = (
    Row(
        name="policy_hangs",
        what="every policy process is stopped",
        answers=((503, "policy_error"),) * 3,
    ),
    Row(
        name="ledger_locked",
        what="another process holds the ledger's write lock",
        answers=(_CLOSED,) * 3,
    ),
    Row(
        name="disk_full",
        what="the gateway's files may not grow",
        answers=(_CLOSED,) * 3,
    ),
    Row(
        name="ledger_lost_after_sending",
        what="the ledger is locked between the effect and its outcome",
        answers=(_CLOSED, _UNKNOWN, _UNKNOWN),
        effects=1,
    ),
    Row(name="tool_away", what="nobody listens at the tool's address", answers=(_AWAY,) * 3),
    Row(
        name="tool_hangs",
        what="the tool makes the effect and does not answer",
        answers=((504, "upstream_timeout"), _UNKNOWN, _UNKNOWN),
        effects=1,
    ),
    Row(
        name="tool_breaks_off",
        what="the tool makes the effect and breaks off in its answer",
        answers=((502, "upstream_broken"), _UNKNOWN, _UNKNOWN),
        effects=1,
    ),
    Row(
        name="tool_speaks_nonsense",
        what="the tool answers with what is not HTTP",
        answers=((502, "upstream_broken"), _UNKNOWN, _UNKNOWN),
        effects=1,
    ),
    Row(
        name="tool_fails",
        what="the tool makes the effect and answers 503",
        answers=((503, ""), _UNKNOWN, _UNKNOWN),
        effects=1,
    ),
    Row(
        name="address_refused",
        what="the tool's name leads to an address that is not allowed",
        answers=(_AWAY,) * 3,
    ),
    Row(name="chain_tampered", what="the last entry of the audit chain was taken away"),
    Row(name="wrong_seal_key", what="the seal key is another one"),
    Row(name="bad_policy_bundle", what="the policy bundle does not compile"),
)


class Seen(Struct, frozen=True, kw_only=True):
    """What a broken gateway did: whether it started, its answers and effects by class."""

    started: bool
    answers: tuple[Answer, ...] = ()
    effects: tuple[int, ...] = ()


class Judged(Struct, frozen=True, kw_only=True):
    """One row as it went; ``faults`` say what was not as documented."""

    row: Row
    seen: Seen
    faults: tuple[str, ...]


class Matrix(Struct, frozen=True, kw_only=True):
    """All rows that were tried."""

    holds: bool
    rows: tuple[Judged, ...]


def judge(row: Row, seen: Seen) -> Judged:
    """The row with what is wrong with it."""
    said = []
    if seen.started != row.starts:
        said.append("it started" if seen.started else "it did not start")
    for class_, wanted, got in zip(CLASSES, row.answers, seen.answers, strict=False):
        if got != wanted:
            said.append(f"{class_}: {_told(got)}, not {_told(wanted)}")
    for class_, effects in zip(CLASSES, seen.effects, strict=False):
        if effects > row.effects:
            said.append(f"{class_}: {effects} effects, not {row.effects} at most")
    return Judged(row=row, seen=seen, faults=tuple(said))


def conclude(rows: tuple[Judged, ...]) -> Matrix:
    """All of it. No row, no proof."""
    return Matrix(holds=bool(rows) and not any(row.faults for row in rows), rows=rows)


def lines(matrix: Matrix) -> str:
    """The matrix as text, one failure a line."""
    width = max((len(each.row.name) for each in matrix.rows), default=0)
    found = []
    for each in matrix.rows:
        answers = [_told(answer) for answer in each.seen.answers] or ["does not start"]
        mark = "FAULT" if each.faults else "ok"
        found.append(f"{mark:6}{each.row.name:{width + 2}}{' | '.join(answers)}")
        found += [f"      {fault}" for fault in each.faults]
    count = sum(not each.faults for each in matrix.rows)
    told = "holds" if matrix.holds else "DOES NOT HOLD"
    head = f"      {'failure':{width + 2}}read | write | irreversible"
    return "\n".join([head, *found, f"{told}: {count} of {len(matrix.rows)} rows as documented"])


def _told(answer: Answer) -> str:
    return f"{answer[0]} {answer[1]}".rstrip()
