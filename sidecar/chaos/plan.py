"""What a crash proof does: at which steps a gateway is killed, before which upstreams, how often;
and what the ledger may say afterwards.

**Rules**
1. Every step is tried with every upstream and class before any is tried twice; the seed decides
   only the order and the moments of the step ``anywhere``.
2. What is documented here is what ``docs/specs/gateway.md`` says of a killed call; nothing else
   passes.
3. One play of a case, one key, one order: whatever the upstream counts for it beyond one is a
   duplicate.
"""

from collections.abc import Mapping, MutableSequence, Sequence
from itertools import cycle, islice, product
from typing import Any, Literal, Protocol, get_args

from msgspec import Struct, structs

from processors.model.names import SideEffectClass
from sidecar.store.ledger import ClaimState

Upstream = Literal["plain", "keyed", "recipe"]
Step = Literal[
    "before_claim",
    "after_claim",
    "after_intent",
    "mid_send",
    "after_send",
    "after_response",
    "before_outcome",
    "after_outcome",
    "anywhere",
]
State = ClaimState | None

UPSTREAMS: Mapping[Upstream, str] = {
    "plain": "no idempotency of its own",
    "keyed": "idempotency of its own",
    "recipe": "no idempotency, asked by a reconcile recipe",
}
STEPS: tuple[Step, ...] = get_args(Step)
CLASSES: tuple[SideEffectClass, ...] = ("irreversible", "write", "read")
ANYWHERE_SECONDS_MAX = 0.04
_UNCLAIMED: frozenset[Step] = frozenset({"before_claim", "after_claim", "after_intent"})
"""Steps that a read does not take."""

_SENT: frozenset[State] = frozenset({"sent"})
LEFT: Mapping[Step, frozenset[State]] = {
    "before_claim": frozenset({None}),
    "after_claim": frozenset({"claimed"}),
    "after_intent": _SENT,
    "mid_send": _SENT,
    "after_send": _SENT,
    "after_response": _SENT,
    "before_outcome": _SENT,
    "after_outcome": frozenset({"completed"}),
    "anywhere": frozenset({None, "claimed", "sent", "completed"}),
}
"""The claim a killed gateway leaves, by the step it was killed at."""

TAKEN: Mapping[State, frozenset[State]] = {
    "claimed": frozenset({"failed_safe"}),
    "sent": frozenset({"unknown", "resolved_done", "resolved_not_done"}),
}
"""What another gateway on the same ledger makes of a claim that was left so, before it is seen."""

_DONE: frozenset[State] = frozenset({"completed"})
ENDS: Mapping[Upstream, frozenset[State]] = {
    "plain": frozenset({"unknown"}),
    "keyed": _DONE,
    "recipe": frozenset({"completed", "resolved_done"}),
}
"""What becomes of a claim that was left ``sent``, once the next life has been asked again."""


class Case(Struct, frozen=True, kw_only=True):
    """One kill. ``after_seconds`` is the moment of the step ``anywhere``; ``whole``: what is killed
    is all that ``sidecar serve`` is; ``turn`` counts plays of a case whose kill was not made.
    ``shared``: other gateways live on its ledger.
    """

    number: int
    upstream: Upstream
    step: Step
    class_: SideEffectClass
    after_seconds: float = 0.0
    whole: bool = False
    turn: int = 0
    shared: bool = False

    @property
    def order(self) -> str:
        """The order the call is about, and its key."""
        return f"{self.upstream}-{self.number}-{self.turn}"

    @property
    def trace_id(self) -> str:
        """The trace its calls are found by."""
        place = 1 + list(UPSTREAMS).index(self.upstream)
        return f"{place:08x}{self.turn:08x}{self.number:016x}"


class Dice(Protocol):
    """A generator made of the proof's seed."""

    def shuffle(self, x: MutableSequence[Any], /) -> None:
        """Put in another order."""
        ...

    def uniform(self, a: float, b: float, /) -> float:
        """A number between the two."""
        ...

    def sample(self, population: Sequence[Any], k: int, /) -> list[Any]:
        """So many of them, each once."""
        ...


def cases(iterations: int, dice: Dice, *, whole: int = 0) -> tuple[Case, ...]:
    """The kills of a proof, in order; ``whole`` of them are of whole sidecars."""
    cells = [cell for cell in product(UPSTREAMS, STEPS, CLASSES) if _is_cell(*cell)]
    dice.shuffle(cells)
    planned = tuple(
        Case(
            number=number,
            upstream=upstream,
            step=step,
            class_=class_,
            after_seconds=dice.uniform(0, ANYWHERE_SECONDS_MAX) if step == "anywhere" else 0.0,
        )
        for number, (upstream, step, class_) in enumerate(islice(cycle(cells), iterations), 1)
    )
    chosen = set(dice.sample(range(1, iterations + 1), min(whole, iterations)))
    return tuple(structs.replace(each, whole=each.number in chosen) for each in planned)


def may_leave(case: Case, state: State) -> bool:
    """Whether a killed gateway may leave this claim."""
    if case.class_ == "read":
        return state is None
    left = LEFT[case.step]
    return state in left or (case.shared and any(state in TAKEN.get(each, ()) for each in left))


def may_end(case: Case, left: State, state: State) -> bool:
    """Whether a claim left so may end so."""
    if case.class_ == "read":
        return state is None
    if left == "resolved_done":
        return state == left
    return state in (ENDS[case.upstream] if left in ("sent", "unknown") else _DONE)


def effects_of(state: State) -> tuple[int, int]:
    """The least and most effects a call may have had whose claim says this."""
    if state in ("completed", "resolved_done"):
        return 1, 1
    return (0, 1) if state in ("unknown", "sent") else (0, 0)


def _is_cell(upstream: Upstream, step: Step, class_: SideEffectClass) -> bool:
    """A read takes fewer steps, and is the same to all upstreams."""
    return class_ != "read" or (upstream == "plain" and step not in _UNCLAIMED)
