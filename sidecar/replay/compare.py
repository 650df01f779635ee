"""Baseline against candidate, case by case: the class of each, and the first step where they part.

Rules
1. Both sides were run on one plan: the same case, seed, twins and faults.
2. void, incomplete and flaky come before any judgement: what does not hold is not compared.
3. A declared determinism is checked on both sides; runs that differ make the case flaky.
4. A run without an answer is no evidence. A baseline without one leaves nothing to compare with,
   whatever the candidate did: incomplete. A candidate alone without one has crashed.
5. A difference of behaviour is reported with every case, and decides none: expectations decide.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from processors.model.verdict import CaseClass, Score
from sidecar.evaluate.score import Conclusion
from sidecar.replay.acts import Difference, acts, first_difference
from sidecar.replay.acts import Told as Acted
from sidecar.replay.record import EpisodeRecord, Told, scrubber, unanswered
from sidecar.twins.scenario import Severity

CLASSES: tuple[CaseClass, ...] = (
    "new_critical",
    "regressed",
    "incomplete",
    "void",
    "flaky",
    "improved",
    "unchanged",
)


class CaseResult(Struct, frozen=True, kw_only=True):
    """One compared case. ``failed`` are the candidate's failed required scores; ``reasons`` say why
    nothing was concluded where nothing was; ``crashed``: the candidate alone gave no answer."""

    case: str
    title: str
    severity: Severity
    case_class: CaseClass
    baseline: Conclusion | None
    candidate: Conclusion | None
    failed: tuple[Score, ...] = ()
    reasons: tuple[str, ...] = ()
    difference: Difference | None = None
    duplicate_effects: int = 0
    disproved_claims: int = 0
    injections_followed: int = 0
    crashed: bool = False
    judge_doubts: int = 0
    digests: dict[str, tuple[str, ...]] = {}


class Plan(Struct, frozen=True, kw_only=True):
    """What a case is to the comparison, whatever it holds inside."""

    case: str
    title: str
    severity: Severity


Runs = Mapping[str, Sequence[EpisodeRecord]]


def compare(
    plans: Sequence[Plan], baseline: Runs, candidate: Runs, *, deterministic: bool
) -> tuple[CaseResult, ...]:
    """The cases in order; ``baseline`` and ``candidate`` map a case to its runs."""
    return tuple(
        _case(plan, baseline.get(plan.case, ()), candidate.get(plan.case, ()), deterministic)
        for plan in plans
    )


def counts(results: Sequence[CaseResult]) -> dict[str, int]:
    """How many cases of each class."""
    found = Counter(result.case_class for result in results)
    return {name: found[name] for name in CLASSES}


def _case(
    plan: Plan,
    baseline: Sequence[EpisodeRecord],
    candidate: Sequence[EpisodeRecord],
    deterministic: bool,
) -> CaseResult:
    before = baseline[0].conclusion if baseline else None
    after = candidate[0].conclusion if candidate else None
    kind, reasons = _class(plan.severity, baseline, candidate, deterministic)
    return CaseResult(
        case=plan.case,
        title=plan.title,
        severity=plan.severity,
        case_class=kind,
        baseline=before,
        candidate=after,
        failed=tuple(
            one
            for run in candidate[:1]
            for one in run.scores
            if one.required and one.status == "fail"
        ),
        reasons=reasons,
        difference=_difference(baseline, candidate),
        duplicate_effects=sum(_contradictions(run, "duplicate_effect") for run in candidate[:1]),
        disproved_claims=sum(
            _contradictions(run, "claimed_success_state_failed") for run in candidate[:1]
        ),
        injections_followed=sum(_injections(run) for run in candidate[:1]),
        crashed=_crashed(baseline, candidate),
        judge_doubts=max(map(_doubts, candidate), default=0),
        digests={
            "baseline": tuple(run.digest for run in baseline),
            "candidate": tuple(run.digest for run in candidate),
        },
    )


def _doubts(run: EpisodeRecord) -> int:
    """Criteria that a judge whom no labels back says do not hold."""
    return sum(one.level == "J" and one.status == "fail" and not one.required for one in run.scores)


def _injections(run: EpisodeRecord) -> int:
    """Calls that were certainly led by a stranger's words."""
    return sum(
        one.code == "injected_instruction" and one.severity == "critical"
        for one in run.trace.detections
    )


def _class(
    severity: Severity,
    baseline: Sequence[EpisodeRecord],
    candidate: Sequence[EpisodeRecord],
    deterministic: bool,
) -> tuple[CaseClass, tuple[str, ...]]:
    runs = [*baseline, *candidate]
    voids = _each_once(f"{run.side}: {run.void}" for run in runs if run.void is not None)
    if voids or not baseline or not candidate:
        return "void", voids or ("a side has not run",)
    lacking = _silences(runs) if any(map(_silence, baseline)) else ()
    lacking += _each_once(text for run in runs for text in _lacking(run))
    if lacking:
        return "incomplete", lacking
    unsteady = _unsteady(baseline) + _unsteady(candidate) if deterministic else ()
    if unsteady:
        return "flaky", unsteady
    before, after = baseline[0].conclusion == "passed", candidate[0].conclusion == "passed"
    if before and not after:
        return ("new_critical" if severity == "critical" else "regressed"), ()
    return ("improved" if after and not before else "unchanged"), ()


def _crashed(baseline: Sequence[EpisodeRecord], candidate: Sequence[EpisodeRecord]) -> bool:
    """Whether every run of the candidate, and none of the baseline, lacks an answer.

    Void runs say nothing: what the twins do not declare may be what the agent fell over.
    """
    if not baseline or not candidate or any(run.void for run in (*baseline, *candidate)):
        return False
    return all(map(_silence, candidate)) and not any(map(_silence, baseline))


def _silences(runs: Sequence[EpisodeRecord]) -> tuple[str, ...]:
    return _each_once(f"{run.side}: {why}" for run in runs if (why := _silence(run)) is not None)


def _each_once(reasons: Iterable[str]) -> tuple[str, ...]:
    """A suite that runs twice would say everything twice."""
    return tuple(dict.fromkeys(reasons))


def _silence(run: EpisodeRecord) -> str | None:
    return unanswered(run.agent, run.trace)


def _lacking(run: EpisodeRecord) -> list[str]:
    if run.conclusion != "incomplete":
        return []
    wanting = [
        f"{run.side}: {one.expectation}: {one.detail}"
        for one in run.scores
        if one.required and one.status in ("skip", "error")
    ]
    return wanting or [f"{run.side}: nothing was evaluated"]


def _unsteady(runs: Sequence[EpisodeRecord]) -> tuple[str, ...]:
    first = runs[0]
    if first.agent.ending == "recorded":
        return ()
    if len(runs) < 2:
        return (f"{first.side}: determinism was not checked",)
    for other in runs[1:]:
        if other.digest != first.digest:
            parted = _difference((first,), (other,))
            where = parted.text() if parted else "in what the twins recorded or how it was scored"
            return (f"{first.side}: two runs of one case differ, {where}",)
    return ()


def _difference(
    baseline: Sequence[EpisodeRecord], candidate: Sequence[EpisodeRecord]
) -> Difference | None:
    if not baseline or not candidate:
        return None
    return first_difference(_acted(baseline[0]), _acted(candidate[0]))


def _acted(run: EpisodeRecord) -> Acted:
    told = Told(
        agent=run.agent,
        trace=run.trace,
        scores=run.scores,
        receipts=run.receipts,
        events=run.events,
        ids=(run.episode,),
    )
    answer = run.agent.output if run.agent.ending != "recorded" else run.trace.final_output
    return Acted(acts=acts(run.trace), answer=answer, scrub=scrubber(told))


def _contradictions(run: EpisodeRecord, code: str) -> int:
    return sum(one.code == code for one in run.trace.outcome.contradictions)
