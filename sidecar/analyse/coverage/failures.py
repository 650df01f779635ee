"""Which ways of going wrong a suite would notice, and which known failures it runs again.

**Rules**
1. A failure mode is covered where a run was judged by a required expectation that catches it and,
   for a mode that needs provoking, where it was provoked in that run: by a fault that fired, by the
   scenario's tag, or since a run of either side did it.
2. The modes are a closed list; every type of expectation, detector and contradiction is in it.
3. A regression is a scenario that is tagged as one, or a failure that production had: its code on
   its tool. The latter is covered where a run of either side showed that code on that tool.
"""

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from processors.model.trace import AgentTrace
from sidecar.analyse.coverage.given import Given, by_key
from sidecar.analyse.coverage.surface import Item, Surface, cases_of, surface
from sidecar.evaluate.expectation import Expectation, type_of
from sidecar.evaluate.expectations import NoDetections
from sidecar.replay.record import EpisodeRecord

_SILENT: Final = ("timeout_after", "http_500_after", "lie_failure", "hang", "dropped_connection")
_ANSWERS: Final = ("malformed_json", "truncated", "missing_field", "renamed_field", "wrong_type")
_REFUSALS: Final = (
    *("timeout_before", "http_403", "http_422", "http_429", "http_500_before", "http_503"),
    *("permission_revoked", "slow", *_ANSWERS, *_SILENT),
)


class Mode(Struct, frozen=True):
    """A way of going wrong: expectations that catch it; what production calls it (codes of
    detectors and contradictions); the faults, or tags of a scenario, that provoke it, none where it
    needs no provoking."""

    name: str
    oracles: tuple[str, ...]
    codes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


MODES: Final = (
    Mode("wrong end state", ("state", "endState", "stateUnchanged")),
    Mode("collateral change", ("collateral", "stateUnchanged", "endState")),
    Mode(
        "false success",
        ("outcomeVerified", "finalOutcome", "noDetections", "semantic"),
        ("claimed_success_state_failed", "claim_without_action", "span_ok_receipt_error"),
        ("lie_success", "partial_write", "reorder"),
        ("false-success",),
    ),
    Mode(
        "effect denied",
        ("outcomeVerified", "finalOutcome", "semantic"),
        ("claimed_failure_effect_happened",),
        _SILENT,
    ),
    Mode(
        "wrong amount or target",
        ("toolArgs", "trajectory", "state", "endState", "toolCalled"),
        ("wrong_amount", "wrong_target"),
    ),
    Mode(
        "duplicate effect",
        ("noDuplicateSideEffect", "toolCalled", "maxToolCalls"),
        ("duplicate_effect", "repeated_call"),
        (*_SILENT, "duplicate_delivery", "timeout_before", "http_500_before"),
        ("retry",),
    ),
    Mode(
        "unsafe retry",
        ("noUnsafeRetry", "noDetections", "maxRetries"),
        ("unsafe_retry",),
        (*_SILENT, "timeout_before", "http_500_before", "http_503"),
        ("retry",),
    ),
    Mode("loop", ("noLoop", "maxToolCalls", "maxSteps", "noDetections"), ("loop",)),
    Mode("act left out", ("toolCalled", "milestones", "progress", "rubric")),
    Mode("forbidden act", ("toolNotCalled", "noIrreversibleAction", "maxToolCalls")),
    Mode("wrong order", ("order", "requiresBefore", "trajectory"), ("out_of_order",)),
    Mode(
        "approval skipped",
        ("approvalRequired", "noPolicyViolation", "noDetections"),
        ("skipped_approval",),
    ),
    Mode("escalation left out", ("requiredEscalation",)),
    Mode(
        "tool failure mishandled",
        ("toolStatus", "finalOutcome", "outcomeVerified", "outputContains", "outputMatches"),
        faults=_REFUSALS,
    ),
    Mode(
        "stale or foreign data believed",
        ("noCrossTenantAccess", "finalOutcome", "outputContains", "outputNotContains", "toolArgs"),
        faults=("stale_read", "repeated_answer", "replaced_answer", "cross_tenant_row"),
    ),
    Mode(
        "wrong answer",
        (
            *("outputContains", "outputNotContains", "outputMatches", "outputEquals"),
            *("outputSchema", "said", "semantic", "finalOutcome"),
        ),
    ),
    Mode("secret disclosed", ("noSecretDisclosure",)),
    Mode("another tenant's data", ("noCrossTenantAccess",)),
    Mode(
        "injected instruction followed",
        ("noDetections", "toolNotCalled", "stateUnchanged", "collateral", "milestones"),
        ("injected_instruction",),
        ("injected_content",),
        ("injection",),
    ),
    Mode("over budget", ("maxLatencyMs", "maxCostUsd", "maxSteps"), ("budget_burn",)),
    Mode(
        "call past the gateway",
        ("outcomeVerified", "noPolicyViolation"),
        ("span_without_receipt", "receipt_without_span"),
    ),
)
UNFAIR: Final = "unequal treatment"


def failure_surface(given: Given) -> Surface:
    """Every failure mode."""
    shown = {run.episode: set(_codes(run.trace)) for run in given.both}
    seen = {code for codes in shown.values() for code in codes}
    tags = {case.id: case.tags for case in given.cases}
    found = by_key(
        (mode.name, run.case)
        for run, expectation in given.judged()
        for mode in MODES
        if _catches(expectation, mode) and _provoked(mode, run, tags.get(run.case, ()), seen)
    )
    counted = _counted(given.traffic)
    items = [
        Item(
            group=mode.name,
            name="caught",
            by=cases_of(found.get(mode.name, ())),
            production=None if counted is None else sum(counted[code] for code in mode.codes),
            missing=_missing(mode),
        )
        for mode in MODES
    ]
    items.append(
        Item(
            group=UNFAIR,
            name="caught",
            by=cases_of(given.fairness),
            production=None if counted is None else 0,
            missing="the suite has no fairness rule",
        )
    )
    notes = () if given.expected else ("no suite is known, so no expectation is",)
    return surface("failure_mode", items, notes=notes)


def regression_surface(given: Given) -> Surface:
    """Scenarios that are tagged as regressions, and failures that production had."""
    ran = {run.case for run in given.runs}
    tagged = [
        Item(
            group="scenario",
            name=case.id,
            by=(case.id,) if case.id in ran else (),
            missing="no run of it came to a conclusion",
        )
        for case in given.cases
        if case.regression
        or any(fnmatchcase(tag, like) for tag in case.tags for like in given.regressions)
    ]
    showed = by_key((key, run.case) for run in given.both for key in _failed(run.trace))
    had = Counter(key for trace in given.traffic or () for key in set(_failed(trace)))
    known = [
        Item(
            group="production",
            name=key,
            by=cases_of(showed.get(key, ())),
            production=count,
            missing="no run of either side shows it",
        )
        for key, count in had.items()
    ]
    notes = [] if tagged else [f"no scenario has a tag like {', '.join(given.regressions)}"]
    if given.traffic is None:
        notes.append("no production traffic is known, so none of its failures is")
    return surface("regression", [*tagged, *known], notes=notes)


def _catches(expectation: Expectation, mode: Mode) -> bool:
    if type_of(expectation) not in mode.oracles:
        return False
    if isinstance(expectation, NoDetections) and expectation.codes:
        return not set(expectation.codes).isdisjoint(mode.codes)
    return True


def _provoked(mode: Mode, run: EpisodeRecord, tags: tuple[str, ...], seen: set[str]) -> bool:
    if not mode.faults:
        return True
    fired = {event.fault for event in run.events if event.kind == "fault_fired"}
    return (
        not fired.isdisjoint(mode.faults)
        or not set(tags).isdisjoint(mode.tags)
        or not seen.isdisjoint(mode.codes)
    )


def _missing(mode: Mode) -> str:
    how = f"no run is judged by {' or '.join(mode.oracles)}"
    return f"{how} while it is provoked ({', '.join(mode.faults)})" if mode.faults else how


def _codes(trace: AgentTrace) -> Iterator[str]:
    yield from (one.code for one in trace.outcome.contradictions)
    yield from (one.code for one in trace.detections if one.severity != "info")


def _counted(traffic: tuple[AgentTrace, ...] | None) -> Counter[str] | None:
    if traffic is None:
        return None
    return Counter(code for trace in traffic for code in set(_codes(trace)))


def _failed(trace: AgentTrace) -> Iterator[str]:
    """What went wrong in a trace: code and tool."""
    tools = {step.step_id: step.tool.name for step in trace.steps if step.tool is not None}
    for wrong in trace.outcome.contradictions:
        yield _of(wrong.code, tools.get(wrong.step_id or ""))
    for one in trace.detections:
        if one.severity in ("critical", "major"):
            yield _of(one.code, one.subjects[0] if one.subjects else None)
    if trace.outcome.status == "verified_failure":
        lost = {one.subject for one in trace.evidence if one.held is False}
        yield from (_of("verified_failure", subject) for subject in sorted(filter(None, lost)))


def _of(code: str, tool: str | None) -> str:
    return f"{code} of {tool}" if tool else code
