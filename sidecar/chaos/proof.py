"""What a crash proof found, and whether it holds.

**Rules**
1. It holds only when nothing was counted against it and every case's kill was made. A play whose
   kill was not made proves nothing and is counted apart; a case with no other play is a fault.
2. A receipt is lost when an attempt was authorised and no outcome of it was ever recorded, or when
   the upstream counted an effect that no attempt was authorised for.
3. Duplicates and lost receipts are looked for in every play, killed or not.
"""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from sidecar.chaos.plan import UPSTREAMS, Case, State, effects_of, may_end, may_leave

_SHOWN_MAX = 20
_DECIDED = frozenset({"completed", "resolved_done"})


class Attempt(Struct, frozen=True, kw_only=True):
    """One call of a case as the ledger has it: the phases of its receipts, in order."""

    call_id: str
    phases: tuple[str, ...]


class Found(Struct, frozen=True, kw_only=True):
    """One case as it went. ``left`` is the claim after the kill, ``state`` the one in the end;
    ``answered`` the status of the last answer. ``killed`` false: the process was not killed by us.
    ``orphans``: processes of the killed one that did not end with it.
    """

    case: Case
    killed: bool
    left: State
    state: State
    effects: int
    answered: int
    attempts: tuple[Attempt, ...]
    orphans: int = 0


class Store(Struct, frozen=True, kw_only=True):
    """One ledger in the end: its chain's length, and what is wrong with it."""

    where: str
    entries: int
    fault: str | None = None


class Row(Struct, frozen=True, kw_only=True):
    """One kind of upstream in numbers; ``recovered`` without a person."""

    upstream: str
    kills: int
    recovered: int
    duplicate_effects: int
    lost_receipts: int
    undocumented: int


class Proof(Struct, frozen=True, kw_only=True):
    """The whole of it, for people and for machines. ``whole`` of the ``kills`` were of whole
    sidecars; ``not_made`` kills were not made and their cases played again."""

    holds: bool
    kills: int
    whole: int
    not_made: int
    seed: int
    recovered: int
    recovery_rate: float
    duplicate_effects: int
    lost_receipts: int
    documented_rate: float
    upstreams: tuple[Row, ...]
    states: dict[str, int]
    steps: dict[str, int]
    stores: tuple[Store, ...]
    faults: tuple[str, ...]


def conclude(found: Iterable[Found], stores: Iterable[Store], *, seed: int) -> Proof:
    """The proof of all cases."""
    each, chains = tuple(found), tuple(stores)
    made = [one for one in each if one.killed]
    killed = {one.case.number for one in made}
    faults = [fault for one in each for fault in faults_of(one)]
    faults += [
        f"{_where(one.case)}: the process was not killed at this step, however often it was tried"
        for one in {one.case.number: one for one in each}.values()
        if one.case.number not in killed
    ]
    faults += [f"{chain.where}: {chain.fault}" for chain in chains if chain.fault]
    rows = tuple(
        _row(f"{name} ({what})", [one for one in each if one.case.upstream == name])
        for name, what in UPSTREAMS.items()
    )
    recovered = sum(row.recovered for row in rows)
    undocumented = sum(row.undocumented for row in rows)
    return Proof(
        holds=bool(each) and not faults,
        kills=len(made),
        whole=sum(one.case.whole for one in made),
        not_made=len(each) - len(made),
        seed=seed,
        recovered=recovered,
        recovery_rate=_rate(recovered, len(made)),
        duplicate_effects=sum(row.duplicate_effects for row in rows),
        lost_receipts=sum(row.lost_receipts for row in rows),
        documented_rate=_rate(len(made) - undocumented, len(made)),
        upstreams=rows,
        states=_count(one.state for one in made if one.case.class_ != "read"),
        steps=_count(one.case.step for one in made),
        stores=chains,
        faults=tuple(faults),
    )


def faults_of(found: Found) -> list[str]:
    """What one play says against the proof."""
    said = []
    if duplicates(found):
        said.append(f"{found.effects} effects of one call")
    said += [f"call {call_id} has no receipt of its outcome" for call_id in lost(found)]
    if found.orphans:
        said.append(f"{found.orphans} processes of the killed one did not end")
    if found.killed and not documented(found):
        said.append(
            f"left {found.left or 'no claim'}, ended {found.state or 'no claim'} with "
            f"{found.effects} effects and the answer {found.answered}"
        )
    return [f"{_where(found.case)}: {each}" for each in said]


def _where(case: Case) -> str:
    return f"{case.upstream} {case.class_} {case.step} #{case.number}"


def duplicates(found: Found) -> int:
    """Effects beyond the first."""
    return max(0, found.effects - 1)


def lost(found: Found) -> list[str]:
    """Calls whose outcome no receipt tells; ``none`` for an effect nobody was authorised for."""
    authorised = [each for each in found.attempts if "authorised" in each.phases]
    gone = [each.call_id for each in authorised if "executed" not in each.phases]
    return gone if authorised or not found.effects else ["none"]


def documented(found: Found) -> bool:
    """Whether what was left, what became of it, the effect and the answer are as documented."""
    case, (least, most) = found.case, effects_of(found.state)
    if case.class_ == "read":
        return found.left is None and found.state is None and found.answered == 200
    answers = {409} if found.state == "unknown" else {200, 201}
    return (
        may_leave(case, found.left)
        and may_end(case, found.left, found.state)
        and least <= found.effects <= max(most, 1)
        and found.answered in answers
    )


def recovered(found: Found) -> bool:
    """Whether the caller knows how its call ended, without a person."""
    if found.case.class_ == "read":
        return found.answered == 200
    return found.state in _DECIDED and found.answered in (200, 201)


def lines(proof: Proof) -> str:
    """The proof as text."""
    titles = (
        ("kills", 7),
        ("recovered", 11),
        ("duplicates", 12),
        ("lost", 6),
        ("undocumented", 14),
    )
    head = f"{'upstream':54}" + "".join(f"{title:>{width}}" for title, width in titles)
    rows = [
        f"{row.upstream:54}{row.kills:>7}{_percent(row.recovered, row.kills):>11}"
        f"{row.duplicate_effects:>12}{row.lost_receipts:>6}{row.undocumented:>14}"
        for row in proof.upstreams
    ]
    states = ", ".join(f"{name} {count}" for name, count in proof.states.items())
    chains = ", ".join(f"{each.entries} entries" for each in proof.stores)
    more = len(proof.faults) - _SHOWN_MAX
    return "\n".join(
        [
            head,
            *rows,
            f"claims in the end: {states or 'none'}",
            f"audit chains: {chains or 'none'}",
            f"of whole sidecars: {proof.whole} kills; not made and tried again: {proof.not_made}",
            *(f"fault: {each}" for each in proof.faults[:_SHOWN_MAX]),
            *([f"and {more} faults more"] if more > 0 else []),
            f"{'holds' if proof.holds else 'DOES NOT HOLD'}: {proof.kills} kills, "
            f"recovery {proof.recovery_rate:.1%}, duplicate effects {proof.duplicate_effects}, "
            f"lost receipts {proof.lost_receipts}, documented {proof.documented_rate:.1%}",
        ]
    )


def _row(name: str, found: list[Found]) -> Row:
    made = [each for each in found if each.killed]
    return Row(
        upstream=name,
        kills=len(made),
        recovered=sum(map(recovered, made)),
        duplicate_effects=sum(map(duplicates, found)),
        lost_receipts=sum(len(lost(each)) for each in found),
        undocumented=sum(not documented(each) for each in made),
    )


def _count(names: Iterable[str | None]) -> dict[str, int]:
    counted = Counter(name or "no claim" for name in names)
    return dict(sorted(counted.items()))


def _rate(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
