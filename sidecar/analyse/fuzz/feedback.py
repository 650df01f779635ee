"""What a run covered, as texts: the more new ones, the more worth mutating it again.

Rules
1. Pairs of tools in a row with the class of arguments and of the result; what twins' rows went
   through; what stopped short of a limit; where the run parted from the run as it is; signatures.
2. Values are classes (empty, short, long, zero, negative, …): a new id is nothing new.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from processors.model.twin import TwinEvent
from sidecar.analyse.fuzz.signature import Failed, status_class
from sidecar.analyse.together.moves import History
from sidecar.evaluate.expectations import AnyExpectation, MaxToolCalls
from sidecar.replay.direct import DirectRun

_WORD = 24


def covered(
    run: DirectRun,
    history: History,
    failed: Failed | None,
    *,
    base: History,
    expect: Sequence[AnyExpectation],
) -> frozenset[str]:
    """The features of a run; ``base`` is the run of the scenario as it is."""
    found = {*_pairs(run.events), *_edges(run.events), *_near(history, expect)}
    found.add(f"drift:{_drift(history, base)}")
    if failed is not None:
        found.add(f"signature:{failed.signature.key}")
    return frozenset(found)


def _pairs(events: Sequence[TwinEvent]) -> Iterator[str]:
    before = "start"
    faults = {one.call_id: one.fault for one in events if one.kind == "fault_fired"}
    for event in events:
        if event.kind == "fault_fired":
            continue
        given = ",".join(f"{name}={_class(value)}" for name, value in event.arguments.items())
        fault = faults.get(event.call_id) or ""
        yield f"call:{before}>{event.tool}({given})={event.kind}/{status_class(event)}/{fault}"
        before = event.tool


def _edges(events: Sequence[TwinEvent]) -> Iterator[str]:
    for event in events:
        for change in event.changes:
            one = change.before if isinstance(change.before, dict) else {}
            other = change.after if isinstance(change.after, dict) else {}
            for name in {**one, **other}:
                if one.get(name) != other.get(name):
                    edge = f"{_class(one.get(name))}>{_class(other.get(name))}"
                    yield f"edge:{change.entity}.{name}:{edge}"


def _near(history: History, expect: Sequence[AnyExpectation]) -> Iterator[str]:
    for one in expect:
        if isinstance(one, MaxToolCalls):
            calls = sum(not one.tool or move.asked.tool == one.tool for move in history.moves)
            yield f"near:maxToolCalls:{one.tool}:{max(0, one.max - calls)}"


def _drift(history: History, base: History) -> str:
    for move, other in zip(history.moves, base.moves, strict=False):
        if move.asked.tool != other.asked.tool:
            return f"other_call:{move.asked.tool}"
        if move.asked.arguments != other.asked.arguments:
            return f"arguments:{move.asked.tool}"
        if move.status != other.status:
            return f"status:{move.asked.tool}"
    missing = len(base.moves) - len(history.moves)
    return "none" if missing == 0 else ("fewer" if missing > 0 else "more")


def _class(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return "zero" if value == 0 else ("negative" if value < 0 else "positive")
    if isinstance(value, str):
        if not value:
            return "empty"
        plain = len(value) <= _WORD and not any(sign.isdigit() for sign in value)
        return value if plain else ("text" if len(value) > _WORD else "id")
    return type(value).__name__
