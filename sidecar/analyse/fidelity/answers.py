"""Answers of a twin beside those of production, tool by tool: errors, durations, gaps, effects.

Rules
1. What a twin could not answer is a gap, and counted apart: no result, no error, no duration.
2. What comes after an effect that the twin could not play is in no figure, nor is a read that gave
   the twin what it answers.
3. A class of errors is the status where production told one, else only that it was an error.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from sidecar.analyse.fidelity.distance import Timing, timing
from sidecar.evaluate.matching import same
from sidecar.replay.import_tape import parsed
from sidecar.replay.onto_twin import Answered, RunOnTwin
from sidecar.twins.group import TwinGroup

OK, ERROR, NO_ANSWER = "ok", "error", "no_answer"


class Errors(Struct, frozen=True, kw_only=True):
    """How ``n`` calls ended, by class, in the recording and on the twin; how many ended alike."""

    n: int
    recorded: dict[str, int]
    twin: dict[str, int]
    agreeing: int


class Gaps(Struct, frozen=True, kw_only=True):
    """``n`` of ``calls`` calls that the twin could not answer, by reason."""

    n: int
    calls: int
    reasons: dict[str, int]


class Effects(Struct, frozen=True, kw_only=True):
    """Calls with effects by whether they went through: on both sides, on none, on one only.

    ``unchanged``: went through on the twin, and changed nothing there.
    """

    n: int
    both: int
    neither: int
    recorded_only: int
    twin_only: int
    unchanged: int


class ReadsAfter(Struct, frozen=True, kw_only=True):
    """Reads that came after a call with an effect, and how many of them answered as recorded."""

    n: int
    equal: int


class Figures(Struct, frozen=True, kw_only=True):
    """What is counted of one tool. ``learned``: whether its twin declares a latency."""

    errors: Errors
    gaps: Gaps
    latency: Timing | None
    learned: bool


def figures(runs: Sequence[RunOnTwin], group: TwinGroup) -> dict[str, Figures]:
    """The figures of each tool that a twin has."""
    of: dict[str, list[Answered]] = defaultdict(list)
    for run in runs:
        for one in run.answers:
            if one.known and (one.gap or not (one.after_gap or one.given)):
                of[one.call.tool].append(one)
    return {tool: _figures(tool, of[tool], group) for tool in sorted(of)}


def effects(runs: Iterable[RunOnTwin], group: TwinGroup) -> Effects:
    """Calls with effects, by whether they went through."""
    counts: Counter[tuple[bool, bool]] = Counter()
    unchanged = 0
    for one in _comparable(runs):
        if group.tools[one.call.tool] == "read" or one.call.ended not in ("ok", "refused"):
            continue
        recorded, twin = one.call.ended == "ok", _class(one) == OK
        counts[recorded, twin] += 1
        unchanged += recorded and twin and not one.changed
    return Effects(
        n=counts.total(),
        both=counts[True, True],
        neither=counts[False, False],
        recorded_only=counts[True, False],
        twin_only=counts[False, True],
        unchanged=unchanged,
    )


def reads_after(runs: Iterable[RunOnTwin], group: TwinGroup) -> ReadsAfter:
    """Reads after effects: what the state of the twin is worth."""
    n = equal = 0
    for run in runs:
        changed = False
        for one in _comparable([run]):
            if group.tools[one.call.tool] != "read":
                changed = changed or one.call.ended == "ok"
            elif changed and one.call.result is not None:
                n += 1
                equal += same(parsed(one.recorded), parsed(one.value))
    return ReadsAfter(n=n, equal=equal)


def _comparable(runs: Iterable[RunOnTwin]) -> Iterator[Answered]:
    for run in runs:
        for one in run.answers:
            if one.known and not (one.gap or one.after_gap or one.given):
                yield one


def _figures(tool: str, some: Sequence[Answered], group: TwinGroup) -> Figures:
    whole = [one for one in some if not one.gap]
    told = [one for one in whole if one.call.ended in ("ok", "refused")]
    pairs = [(_recorded(one), _class(one)) for one in told]
    # A status is compared only where production told one; else an error is an error.
    alike = [left == right or (left == ERROR and right != OK) for left, right in pairs]
    twin = group.owner(tool)
    return Figures(
        errors=Errors(
            n=len(pairs),
            recorded=_counted(left for left, _ in pairs),
            twin=_counted(right for _, right in pairs),
            agreeing=sum(alike),
        ),
        gaps=Gaps(
            n=len(some) - len(whole),
            calls=len(some),
            reasons=_counted(one.gap for one in some if one.gap),
        ),
        latency=timing(
            [one.call.took_ns for one in whole if one.call.took_ns is not None],
            [one.took_ns for one in whole if one.call.took_ns is not None and one.took_ns],
        ),
        learned=twin is not None and twin.tools[tool].declared.latency != "",
    )


def _recorded(one: Answered) -> str:
    status = one.call.http_status
    if one.call.ended == "ok":
        said = isinstance(one.call.result, str) and one.call.result.startswith("Error")
        return ERROR if said else OK
    return ERROR if status is None else f"http_{status}"


def _class(one: Answered) -> str:
    if one.status is None:
        return NO_ANSWER
    return OK if one.status < 400 else f"http_{one.status}"


def _counted(some: Iterable[str]) -> dict[str, int]:
    counts = Counter(some)
    return {name: counts[name] for name in sorted(counts)}
