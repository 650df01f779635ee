"""What the policy can say, and whether it said so, and was silent, in a suite's runs.

**Rules**
1. Each reason that a live rule can give is two items: it was given, and it was not. The strictest
   set speaks alone, so a rule's silence shows only where no stricter set spoke.
2. What the bundle's data makes inert is no item, and is named in a note.
3. Runs that were decided by another revision of the policy tell nothing of this one.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from processors.model.names import Effect
from sidecar.analyse.coverage.given import Given, by_key
from sidecar.analyse.coverage.surface import Item, Surface, cases_of, surface
from sidecar.gateway.policy.sayings import Saying

_STRICT: Final = ("deny", "require_approval", "allow")
SAID, SILENT = "said", "silent"
_WHY: Final = {SAID: "no call makes it speak", SILENT: "no call shows it silent"}


def policy_surface(given: Given) -> Surface:
    """Every reason that the policy can give, both ways."""
    if given.policy_unknown:
        return surface("policy", (), unknown=given.policy_unknown)
    live = [one for one in given.sayings if one.live and one.code]
    found = by_key(
        (key, run.case)
        for run in given.runs
        for receipt in run.receipts
        for key in _shown(live, receipt.decision_effect, receipt.reasons)
    )
    counted = _counted(given, live)
    items = [
        Item(
            group=f"{one.set}: {one.code}",
            name=way,
            by=cases_of(found.get(_key(one, way), ())),
            production=None if counted is None or way == SILENT else counted[_key(one, way)],
            missing=f"{_WHY[way]} ({', '.join(one.places)})",
        )
        for one in live
        for way in (SAID, SILENT)
    ]
    return surface("policy", items, notes=_notes(given))


def _shown(live: list[Saying], effect: Effect, reasons: tuple[str, ...]) -> Iterator[str]:
    """What a decision shows of each rule."""
    spoke = "allow" if effect == "allow_with_limits" else effect
    for one in live:
        if one.set == spoke and one.code in reasons:
            yield _key(one, SAID)
        elif _STRICT.index(one.set) <= _STRICT.index(spoke):
            yield _key(one, SILENT)


def _key(one: Saying, way: str) -> str:
    return f"{one.set}|{one.code}|{way}"


def _counted(given: Given, live: list[Saying]) -> Counter[str] | None:
    if given.traffic is None:
        return None
    return Counter(
        key
        for trace in given.traffic
        for step in trace.steps
        if step.decision is not None
        and step.decision.source == "gateway"
        and step.decision.effect != "unknown"
        for key in _shown(live, step.decision.effect, step.decision.reasons)
    )


def _notes(given: Given) -> Iterator[str]:
    inert = [f"{one.set} {one.code}" for one in given.sayings if one.code and not one.live]
    if inert:
        yield f"the bundle's data keeps these silent, so they are no items: {', '.join(inert)}"
    computed = [place for one in given.sayings if not one.code for place in one.places]
    if computed:
        yield f"a reason's code is computed, so nobody can count it: {', '.join(computed)}"
