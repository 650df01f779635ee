"""Baseline against candidate, case by case: the class of each, and the first step where they part.

Rules
1. Both sides were run on one plan: the same case, seed, twins and faults.
2. void, incomplete and flaky come before any judgement: what does not hold is not compared.
3. A declared determinism is checked on both sides; runs that differ make the case flaky.
4. A run without an answer is no evidence. A baseline without one leaves nothing to compare with,
   whatever the candidate did: incomplete. A candidate alone without one has crashed.
5. A difference of behaviour is reported with every case, and decides none: expectations decide.
6. Runs are taken in one at a time (``Comparing``): what a case holds does not grow with records.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from processors.model.verdict import CaseClass, Score
from sidecar.evaluate.score import Conclusion
from sidecar.replay.acts import Difference, acts, first_difference
from sidecar.replay.acts import Told as Acted
from sidecar.replay.digests import Digests
from sidecar.replay.record import EpisodeRecord, Side, Told, is_slim, scrubber, unanswered
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
    digests: dict[str, Digests] = {}


class Plan(Struct, frozen=True, kw_only=True):
    """What a case is to the comparison, whatever it holds inside; ``regression``: the known failure
    that it pins."""

    case: str
    title: str
    severity: Severity
    regression: str = ""


def compare(
    plans: Sequence[Plan], runs: Iterable[EpisodeRecord], *, deterministic: bool
) -> tuple[CaseResult, ...]:
    """The cases in order; ``runs`` come case by case, those of a side in order."""
    folds: dict[str, Comparing] = {}
    for case, of_case in groupby(runs, key=lambda one: one.case):
        fold = folds.setdefault(case, Comparing(deterministic))
        for run in of_case:
            fold.add(run)
        fold.close()
    return tuple(folds.get(plan.case, Comparing(deterministic)).result(plan) for plan in plans)


def counts(results: Sequence[CaseResult]) -> dict[str, int]:
    """How many cases of each class."""
    found = Counter(result.case_class for result in results)
    return {name: found[name] for name in CLASSES}


class Comparing:
    """The runs of one case, taken in one at a time: of all but the first of a side only what the
    comparison says of them is held."""

    def __init__(self, deterministic: bool) -> None:
        self._deterministic = deterministic
        self._sides: dict[Side, _SideFold] = {
            "baseline": _SideFold(),
            "candidate": _SideFold(),
        }
        self._difference: Difference | None = None

    def add(self, run: EpisodeRecord) -> None:
        """Take a run in. Raises ValueError where its side had it, or a later one."""
        self._sides[run.side].add(run, self._deterministic)

    def close(self) -> None:
        """No more will come: the first runs are compared, and let go."""
        baseline, candidate = self._sides["baseline"], self._sides["candidate"]
        if baseline.first is not None and candidate.first is not None:
            self._difference = _difference(baseline.first, candidate.first)
        for side in (baseline, candidate):
            side.close()

    def result(self, plan: Plan) -> CaseResult:
        """What the runs come to, in a case of the plan."""
        baseline, candidate = self._sides["baseline"], self._sides["candidate"]
        kind, reasons = _class(plan.severity, baseline, candidate, self._deterministic)
        return CaseResult(
            case=plan.case,
            title=plan.title,
            severity=plan.severity,
            case_class=kind,
            baseline=baseline.conclusion,
            candidate=candidate.conclusion,
            failed=candidate.failed,
            reasons=reasons,
            difference=self._difference,
            duplicate_effects=candidate.contradictions["duplicate_effect"],
            disproved_claims=candidate.contradictions["claimed_success_state_failed"],
            injections_followed=candidate.injections,
            crashed=_crashed(baseline, candidate),
            judge_doubts=candidate.doubts,
            digests={
                "baseline": baseline.digests,
                "candidate": candidate.digests,
            },
        )


class _SideFold:
    """One side of a case. Reasons are said once each: what runs twice would say all twice."""

    def __init__(self) -> None:
        self.first: EpisodeRecord | None = None
        self.conclusion: Conclusion | None = None
        self.failed: tuple[Score, ...] = ()
        self.contradictions: Counter[str] = Counter()
        self.injections = 0
        self.doubts = 0
        self.digests = Digests()
        self.voids: dict[str, None] = {}
        self.silences: dict[str, None] = {}
        self.lacking: dict[str, None] = {}
        self.unsteady: str | None = None
        self.recorded = False
        self.silent = 0
        self._last = 0

    def __len__(self) -> int:
        return len(self.digests)

    def add(self, run: EpisodeRecord, deterministic: bool) -> None:
        if run.run <= self._last:
            raise ValueError(f"{run.case}: {run.side} run {run.run} is out of order")
        self._last = run.run
        if not self.digests:
            self._begin(run)
        elif deterministic and self.unsteady is None and self.first is not None:
            self._hold_against(self.first, run)
        self.digests.append(run.digest)
        self.doubts = max(self.doubts, _doubts(run))
        if run.void is not None:
            self.voids[f"{run.side}: {run.void}"] = None
        if (why := _silence(run)) is not None:
            self.silences[f"{run.side}: {why}"] = None
            self.silent += 1
        for text in _lacking(run):
            self.lacking[text] = None

    def close(self) -> None:
        """Let go of the record."""
        if len(self) == 1 and self.first is not None and not self.recorded:
            self.unsteady = f"{self.first.side}: determinism was not checked"
        self.first = None

    def _begin(self, run: EpisodeRecord) -> None:
        self.first, self.conclusion = run, run.conclusion
        self.recorded = run.agent.ending == "recorded"
        self.failed = tuple(one for one in run.scores if one.required and one.status == "fail")
        self.contradictions.update(one.code for one in run.trace.outcome.contradictions)
        self.injections = _injections(run)

    def _hold_against(self, first: EpisodeRecord, run: EpisodeRecord) -> None:
        if self.recorded or run.digest == first.digest:
            return
        if is_slim(first) or is_slim(run):
            where = "in steps that were not kept"
        else:
            parted = _difference(first, run)
            where = parted.text() if parted else "in what the twins recorded or how it was scored"
        self.unsteady = f"{first.side}: two runs of one case differ, {where}"


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
    severity: Severity, baseline: _SideFold, candidate: _SideFold, deterministic: bool
) -> tuple[CaseClass, tuple[str, ...]]:
    voids = (*baseline.voids, *candidate.voids)
    if voids or not baseline or not candidate:
        return "void", voids or ("a side has not run",)
    lacking = (*baseline.silences, *candidate.silences) if baseline.silent else ()
    lacking += (*baseline.lacking, *candidate.lacking)
    if lacking:
        return "incomplete", lacking
    unsteady = tuple(one.unsteady for one in (baseline, candidate) if one.unsteady)
    if deterministic and unsteady:
        return "flaky", unsteady
    before, after = baseline.conclusion == "passed", candidate.conclusion == "passed"
    if before and not after:
        return ("new_critical" if severity == "critical" else "regressed"), ()
    return ("improved" if after and not before else "unchanged"), ()


def _crashed(baseline: _SideFold, candidate: _SideFold) -> bool:
    """Whether every run of the candidate, and none of the baseline, lacks an answer.

    Void runs say nothing: what the twins do not declare may be what the agent fell over.
    """
    if not baseline or not candidate or baseline.voids or candidate.voids:
        return False
    return candidate.silent == len(candidate) and not baseline.silent


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


def _difference(baseline: EpisodeRecord, candidate: EpisodeRecord) -> Difference | None:
    """Where two runs part. A digest covers all that is looked at, but a recorded answer."""
    recorded = "recorded" in (baseline.agent.ending, candidate.agent.ending)
    if baseline.digest == candidate.digest and not recorded:
        return None
    return first_difference(_acted(baseline), _acted(candidate))


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
