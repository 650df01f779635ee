"""Failure signature: what makes two failures the same (replay.md, signature v1).

Rules
1. It is made of the violated rule, the first offending call (tool, status class), the fault it met,
   and which tools with effects were executed: not of the path, which differs every time.
2. A conflict between agents is told by its cause alone: who, and over what.
3. Conflicts come before crashes, crashes before what the agent claimed against the world, and that
   before expectations: the first is the failure's name.
"""

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from processors.model.twin import TwinEvent
from processors.model.verdict import Score
from sidecar.analyse.together.moves import Crashed, History
from sidecar.analyse.together.oracles import Conflict
from sidecar.replay.direct import DirectRun

DISPROVED = frozenset(
    {"claimed_success_state_failed", "wrong_amount", "wrong_target", "duplicate_effect"}
)


class Signature(Struct, frozen=True, kw_only=True):
    """A failure's name. ``fault`` is that of the offending call, ``writes`` the tools executed."""

    rule: str
    tool: str = ""
    status: str = ""
    fault: str = ""
    writes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits."""
        told = "\n".join((self.rule, self.tool, self.status, self.fault, *self.writes))
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    @property
    def mode(self) -> str:
        """The failure mode: the rule without what it is about."""
        return self.rule.partition(":")[0]


class Failed(Struct, frozen=True, kw_only=True):
    """One failure of a run: its signature and what was found, in a sentence."""

    signature: Signature
    detail: str


def failure(run: DirectRun, history: History, found: Sequence[Conflict]) -> Failed | None:
    """The failure of a run, or None where all is well."""
    if found:
        worst = found[0]
        return Failed(signature=Signature(rule=worst.cause), detail=worst.detail)
    for name, end in history.ends.items():
        if isinstance(end, Crashed):
            place = history.moves[-1].call_id if history.moves else ""
            return _failed(
                run, f"crash:{end.kind}", place, f"{name} raised {end.kind}: {end.detail}"
            )
    if None in history.ends.values():
        place = history.moves[-1].call_id if history.moves else ""
        said = "nothing changes any more" if history.stuck else "it would have gone on"
        return _failed(
            run, "unending", place, f"the run was ended after {len(history.moves)} calls: {said}"
        )
    return _disproved(run) or _missed(run)


def _disproved(run: DirectRun) -> Failed | None:
    for one in run.trace.outcome.contradictions:
        if one.code in DISPROVED:
            return _failed(run, f"contradiction:{one.code}", _call_of(one.step_id), one.detail)
    return None


def _missed(run: DirectRun) -> Failed | None:
    for score in run.scores:
        if score.required and score.status == "fail":
            rule = f"{score.type}:{_about(score)}".rstrip(":")
            return _failed(run, rule, _call_of(score.first_step), score.detail)
    return None


def _failed(run: DirectRun, rule: str, call_id: str, detail: str) -> Failed:
    event = next(
        (one for one in run.events if one.call_id == call_id and one.kind != "fault_fired"), None
    )
    signature = Signature(
        rule=rule,
        tool=event.tool if event is not None else "",
        status=status_class(event),
        fault=_fault(run.events, call_id),
        writes=tuple(sorted({one.tool for one in run.events if one.effect_key is not None})),
    )
    return Failed(signature=signature, detail=detail)


def status_class(event: TwinEvent | None) -> str:
    """``2xx``, ``4xx``, …, ``silent`` where no answer came, empty where there was no call."""
    if event is None:
        return ""
    return "silent" if event.status is None else f"{event.status // 100}xx"


def _fault(events: Sequence[TwinEvent], call_id: str) -> str:
    own = (one for one in events if one.kind == "fault_fired" and one.call_id == call_id)
    return "+".join(dict.fromkeys(f"{one.fault}" for one in own))


def _call_of(step: str | None) -> str:
    return (step or "").removeprefix("twin:")


def _about(score: Score) -> str:
    return score.expectation.partition(":")[2].partition("#")[0]
