"""Score, Failure, Finding, Verdict: what an evaluation found, and what a gate concludes from it.

Rules
1. A crashed evaluator is an Error score, never a zero and never a pass.
2. No evidence is never PASS: a case without an evaluated required expectation is incomplete.
3. A finding carries its rule, operands and references, so that a verdict can be checked by hand.
"""

from typing import Any, Literal

from msgspec import Struct

from processors.model.names import VerdictStatus

ScoreStatus = Literal["pass", "fail", "skip", "error"]
CaseClass = Literal[
    "new_critical",
    "regressed",
    "incomplete",
    "improved",
    "unchanged",
    "flaky",
    "quarantined",
    "void",
]


class Score(Struct, frozen=True, kw_only=True):
    """One expectation's result on one episode; ``first_step`` is the first offending step id.

    ``evaluator`` is its type and version; ``level`` D a rule's, S measured or sampled, J a judge's.
    """

    expectation: str
    type: str
    status: ScoreStatus
    detail: str = ""
    required: bool = True
    first_step: str | None = None
    evidence: tuple[str, ...] = ()
    evaluator: str = ""
    level: Literal["D", "S", "J"] = "D"


class Failure(Struct, frozen=True, kw_only=True):
    """A failed case with the first step where candidate and baseline part."""

    case: str
    case_class: CaseClass
    expectation: str
    detail: str
    first_difference: str | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """One fired gate rule."""

    rule: str
    severity: Literal["block", "undecided", "warn", "info"]
    detail: str
    cases: tuple[str, ...] = ()
    operands: dict[str, Any] = {}


class Verdict(Struct, frozen=True, kw_only=True):
    """A gate's conclusion over a suite. ``exit_code`` follows the one table of interfaces.md."""

    verdict_id: str
    project: str
    suite: str
    baseline: str
    candidate: str
    status: VerdictStatus | None
    exit_code: int
    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...]
    counts: dict[str, int]
    created_at_ns: int
    digest: str
    evidence: dict[str, Any] = {}
