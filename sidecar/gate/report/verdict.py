"""A gate's verdict as a report: a case for each case of the suite."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from processors.model.verdict import Failure, Verdict
from sidecar.gate.report.model import Attempt, Case, Outcome, Report, Status, report
from sidecar.gate.report.signature import signature
from sidecar.gate.report.verdict_text import summary
from sidecar.outcome import Exits

_ERRORS: Final = frozenset({"void", "incomplete", "flaky"})
_RAN: Final[Mapping[str, Status]] = {"passed": "pass", "failed": "fail"}
_OUTCOMES: Final[Mapping[str | None, Outcome]] = {
    "PASS": "pass",
    "WARN": "warn",
    "BLOCK": "block",
    None: "undecided",
}


def verdict_report(
    verdict: Verdict, exits: Exits | None = None, exit_code: int | None = None
) -> Report:
    """The report; void, incomplete and flaky cases are errors, not failures.

    ``exit_code`` is that of the command by its profile, where it is not the verdict's own.
    """
    failures = {failure.case: failure for failure in verdict.failures}
    cases: list[dict[str, Any]] = verdict.evidence.get("cases", [])
    return report(
        command="replay",
        title=f"{verdict.suite}: {verdict.candidate} against {verdict.baseline}, "
        f"{summary(verdict)}",
        outcome=_OUTCOMES[verdict.status],
        profile=exits.profile if exits else "ci",
        exit_code=verdict.exit_code if exit_code is None else exit_code,
        cases=tuple(_case(verdict, one, failures.get(one["case"])) for one in cases),
        notes=tuple(f"{one.severity} {one.rule}: {one.detail}" for one in verdict.findings),
        facts={
            "verdict": verdict.verdict_id,
            "status": verdict.status or "UNDECIDED",
            "digest": verdict.digest,
            "baseline": verdict.baseline,
            "candidate": verdict.candidate,
        },
    )


def _case(verdict: Verdict, case: dict[str, Any], failure: Failure | None) -> Case:
    kind = case["class"]
    status: Status = "error" if kind in _ERRORS else "pass"
    if status == "pass" and case["candidate"] == "failed":
        status = "fail"
    made = Case(
        id=case["case"],
        group=verdict.suite,
        rule=kind,
        status=status,
        quarantined=kind == "quarantined",
        detail=case["title"],
        attempts=_attempts(case.get("runs", ())),
    )
    if failure is None:
        return made
    said = f"{failure.expectation}: {failure.detail}" if failure.expectation else failure.detail
    first = f"; first difference: {failure.first_difference}" if failure.first_difference else ""
    return replace(
        made,
        detail=said + first,
        signature=signature(f"gate/{kind}:{failure.case}:{failure.expectation}"),
    )


def _attempts(runs: Sequence[str]) -> tuple[Attempt, ...]:
    """The candidate's runs of a case, where there were several."""
    if len(runs) < 2:
        return ()
    return tuple(
        Attempt(status=_RAN.get(one, "error"), detail=f"run {number}: {one}")
        for number, one in enumerate(runs, 1)
    )
