"""GateInput: all that a decision is made of, and the class of each case under it.

**Rules**
1. The same input gives the same decision: the day that a quarantine is held against is part of it.
2. A quarantine excuses a case that fails or is unsteady. It never excuses a critical case, nor one
   that pins a known regression, nor what the candidate did to the world (``measures.py`` counts
   that before anything is excused).
3. In a sampled suite a case is ``regressed`` or ``new_critical`` as far as its runs say so, and
   ``flaky`` where one side both passed and failed and nothing is shown.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from processors.model.verdict import CaseClass
from sidecar.evaluate.fairness import Fairness
from sidecar.gate.circumstances import Circumstances
from sidecar.gate.policy import GatePolicy, Noise
from sidecar.gate.samples import FINAL_RUNS, CaseSamples, Sample
from sidecar.replay.compare import CaseResult

UNCONCLUDED = frozenset({"void", "incomplete"})


class GateInput(Struct, frozen=True, kw_only=True):
    """``quarantined`` maps a case of the policy to whether its quarantine is still in force.

    ``stale`` are the twins that are too old, ``permissions`` what tools need, ``fairness`` the
    groups that must come to the same.
    """

    results: tuple[CaseResult, ...]
    deterministic: bool
    samples: tuple[CaseSamples, ...] = ()
    policy: GatePolicy = GatePolicy()
    quarantined: dict[str, bool] = {}
    noise: Noise | None = None
    circumstances: Circumstances = Circumstances()
    stale: tuple[str, ...] = ()
    permissions: dict[str, str] = {}
    fairness: tuple[Fairness, ...] = ()


class Standing(Struct, frozen=True, kw_only=True):
    """A case under the gate: its class there, and what several runs say of it.

    ``returned``: a known regression that is shown to be back; ``unclear``: that may be.
    """

    result: CaseResult
    samples: CaseSamples | None
    shown: bool = False
    suspected: bool = False
    more: int = 0
    clear: bool = False
    returned: bool = False
    unclear: bool = False
    chance: float | None = None

    @property
    def case_class(self) -> CaseClass:
        """The class."""
        return self.result.case_class

    @property
    def doubtful(self) -> bool:
        """A critical case that looks worse, which no further run has cleared.

        A policy that asks for no more runs has not cleared it either, nor have many other cases.
        """
        return self.suspected and self.critical and (self.more > 0 or self.clear or self.few)

    @property
    def few(self) -> bool:
        """Whether a side has fewer runs than can show one case."""
        if self.samples is None:
            return True
        had = self.samples.passes("candidate")[1]
        if not self.samples.recorded:
            had = min(had, self.samples.passes("baseline")[1])
        return had < FINAL_RUNS

    @property
    def critical(self) -> bool:
        """Whether one of these is one too many."""
        return self.result.severity == "critical"

    @property
    def pinned(self) -> bool:
        """Whether it pins a known regression."""
        return self.samples is not None and bool(self.samples.regression)


def standings(given: GateInput) -> tuple[Standing, ...]:
    """Every case, in order."""
    known = {one.case: one for one in given.samples}
    found = [
        Standing(result=one, samples=known.get(one.case) or _single(one)) for one in given.results
    ]
    judged = map(_known, found) if given.deterministic else _judged(found, given)
    return tuple(_excused(one, given.quarantined) for one in judged)


def idle(given: GateInput) -> tuple[str, ...]:
    """Cases whose quarantine does nothing: it ended, or the case is gone or cannot be excused."""
    pinned = {one.case for one in given.samples if one.regression}
    excusable = {one.case for one in given.results if one.severity != "critical"} - pinned
    return tuple(
        case for case, holds in given.quarantined.items() if not holds or case not in excusable
    )


def _single(one: CaseResult) -> CaseSamples | None:
    """One run a side, where nothing but the comparison is known."""
    if one.case_class in UNCONCLUDED:
        return None
    return CaseSamples(
        case=one.case,
        severity=one.severity,
        baseline=(Sample(run=1, passed=one.baseline == "passed"),),
        candidate=(Sample(run=1, passed=one.candidate == "passed"),),
    )


def _excused(one: Standing, quarantined: dict[str, bool]) -> Standing:
    if one.critical or one.pinned or not quarantined.get(one.result.case, False):
        return one
    return replace(
        one, result=replace(one.result, case_class="quarantined"), shown=False, suspected=False
    )


def _known(one: Standing) -> Standing:
    """Where nothing is sampled one failure is enough, whatever the baseline did."""
    concluded = one.case_class not in (*UNCONCLUDED, "flaky")
    failed = concluded and one.result.candidate == "failed"
    return replace(one, returned=one.pinned and failed)


def _judged(found: Sequence[Standing], given: GateInput) -> Iterable[Standing]:
    from sidecar.gate.paired import judge  # loads scipy, which only sampled suites need

    several = [
        one.samples
        for one in found
        if one.samples is not None and one.case_class not in UNCONCLUDED
    ]
    by_case = {
        one.case: one for one in judge(several, given.policy, others=int(bool(given.fairness)))
    }
    for one in found:
        said = by_case.get(one.result.case)
        if said is None:
            yield one
            continue
        yield Standing(
            result=replace(
                one.result, case_class=_class(one, said.worse, said.unsteady, said.shown)
            ),
            samples=one.samples,
            shown=said.shown,
            suspected=said.suspected,
            more=said.more,
            clear=said.clear,
            returned=said.returned,
            unclear=said.unclear,
            chance=said.holm,
        )


def _class(one: Standing, worse: bool, unsteady: bool, shown: bool) -> CaseClass:
    if unsteady and not shown:
        return "flaky"
    if worse:
        return "new_critical" if one.critical else "regressed"
    return (
        "unchanged" if one.case_class in ("regressed", "new_critical", "flaky") else one.case_class
    )
