"""Which faults struck which tools, and when in the call.

**Rules**
1. An item is a tool, a fault that can tell on it, and the phase it strikes in. A fault of effects
   tells on tools with effects alone, one of what is read on reads alone.
2. It is covered where it fired in a run, not where a scenario merely declares it.
3. Production weighs it by the calls of the tool: nobody counts which faults production had.
"""

from collections.abc import Iterator
from typing import Final, Literal

from processors.model.names import SideEffectClass
from sidecar.analyse.coverage.given import Given, by_key
from sidecar.analyse.coverage.surface import Item, Surface, cases_of, surface
from sidecar.analyse.coverage.tools import called_in
from sidecar.replay.record import EpisodeRecord
from sidecar.twins.declaration import Fault
from sidecar.twins.faults import named
from sidecar.twins.hooks import AFTER, CRASH, WIRE
from sidecar.twins.rules import KINDS

Phase = Literal["before", "during", "after", "wire"]
_DURING: Final = frozenset(
    {"lie_success", "partial_write", "reorder", "duplicate_delivery", "stale_read"}
    | {"cross_tenant_row"}
)
_EFFECTS: Final = frozenset(
    {*AFTER, CRASH, "lie_success", "partial_write", "reorder", "duplicate_delivery"}
)
_READS: Final = frozenset({"stale_read", "cross_tenant_row"})
_EITHER: Final = ("hang", "dropped_connection")
_WIRE: Final = frozenset({*WIRE, "slow", "repeated_answer"})


def fault_surface(given: Given) -> Surface:
    """Tools, the faults that can strike them, and phases."""
    if not given.twin_tools:
        return surface("fault", (), unknown="no twin took part, and nothing else can fail on order")
    struck = by_key(pair for run in given.runs for pair in _fired(run, given))
    counted = called_in(given.traffic)
    items = [
        Item(
            group=tool,
            name=f"{kind} ({phase})",
            by=cases_of(struck.get(f"{tool}|{kind}|{phase}", ())),
            grade=grade,
            production=None if counted is None else counted[tool],
            missing="it fires in no run",
        )
        for tool, grade in given.twin_tools.items()
        for kind, phase in faults_of(grade)
    ]
    return surface("fault", items, weighs="calls")


def faults_of(grade: SideEffectClass) -> Iterator[tuple[str, Phase]]:
    """What can strike a tool of this class, each with its phase."""
    for kind in KINDS:
        if kind in (_EFFECTS if grade == "read" else _READS):
            continue
        if kind in _EITHER:
            yield kind, "before"
            if grade != "read":
                yield kind, "after"
        else:
            yield kind, _phase(kind)


def _phase(kind: str) -> Phase:
    if kind in _DURING:
        return "during"
    if kind in AFTER or kind == CRASH:
        return "after"
    return "wire" if kind in _WIRE else "before"


def _fired(run: EpisodeRecord, given: Given) -> Iterator[tuple[str, str]]:
    rules = _rules(run, given)
    for event in run.events:
        if event.kind == "fault_fired" and event.fault is not None:
            rule = rules.get(event.rule or "")
            phase = rule.phase if rule and event.fault in _EITHER else _phase(event.fault)
            yield f"{event.tool}|{event.fault}|{phase}", run.case


def _rules(run: EpisodeRecord, given: Given) -> dict[str, Fault]:
    own = [one for case in given.cases if case.id == run.case for one in named(case.faults)]
    twins = [
        one
        for declaration in given.declarations
        for one in named(declaration.faults, prefix=f"{declaration.twin}/")
    ]
    return {one.id: one for one in (*twins, *own)}
