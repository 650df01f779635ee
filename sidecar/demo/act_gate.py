"""The acts about a release: two versions over nine scenarios against the shop's twin, and the
gate's word.

Rules
1. The command is the one a CI job runs, as a process of its own; its exit code is checked with its
   verdict.
2. What is expected of a version is written here, for the versions that ship; the verdict is the
   gate's.
"""

import shlex
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from processors.model.verdict import Failure, Verdict
from sidecar.demo import prompts
from sidecar.demo.check import Act, Check, Ids
from sidecar.demo.errand import command
from sidecar.demo.processes import Service, python
from sidecar.demo.stage import Stage
from sidecar.errors import SidecarError

GATE_SECONDS = 300.0
_WORSE = ("new_critical", "regressed")
_EXIT_CODES = {"PASS": 0, "WARN": 0, "BLOCK": 1}


class Expected(Struct, frozen=True, kw_only=True):
    """What the gate must say of a version against 1.2.4 under the default policy."""

    status: str
    new_critical: int = 0
    regressed: int = 0


EXPECTED = {
    "1.2.4": Expected(status="PASS"),
    "1.3.0": Expected(status="BLOCK", new_critical=2, regressed=1),
    "1.3.1": Expected(status="PASS"),
}


def play(stage: Stage, candidate: str) -> Act:
    """The gate on ``candidate`` against the baseline."""
    verdict, code = judge(
        stage,
        f"gate-{candidate}",
        [str(stage.files / "suite.yaml")],
        candidate=candidate,
        baseline=prompts.BASELINE,
    )
    return Act(
        name=f"gate_{candidate}",
        story=tuple(_story(verdict, candidate)),
        checks=tuple(_checks(stage, verdict, code, EXPECTED[candidate])),
        ids=Ids(verdicts=(verdict.verdict_id,)),
    )


def judge(
    stage: Stage, name: str, what: list[str], *, candidate: str, baseline: str | None
) -> tuple[Verdict, int]:
    """Run ``sidecar replay``; its verdict and exit code. Raises SidecarError without a verdict."""
    child = start(stage, name, what, candidate=candidate, baseline=baseline)
    code, output = child.finish(seconds=GATE_SECONDS)
    try:
        return msgspec.json.decode(output.encode(), type=Verdict), code
    except msgspec.DecodeError:
        raise SidecarError(
            f"`sidecar replay` gave no verdict and exit code {code}: {child.last_words()}",
            where=str(stage.files / f"{name}.log"),
        ) from None


def start(
    stage: Stage, name: str, what: list[str], *, candidate: str, baseline: str | None
) -> Service:
    """Start ``sidecar replay``; without ``baseline`` the recorded behaviour is it."""
    words = ["sidecar", "replay", *what, "--candidate", reference(stage, candidate)]
    if baseline is not None:
        words += ["--baseline", reference(stage, baseline)]
    words += ["--config", str(stage.config_file), "--output", "json"]
    return stage.run(name, python(*words))


def reference(stage: Stage, version: str) -> str:
    """The REF of an agent version."""
    return "cmd:" + shlex.join(command(stage, version))


def lines(failures: tuple[Failure, ...]) -> Iterator[str]:
    """What to say of failed cases, with the first step that differs."""
    for failure in failures:
        yield f"- {failure.case} ({failure.case_class}): {failure.detail}"
        yield f"  first difference: {failure.first_difference or 'none, both sides fail alike'}"


def _story(verdict: Verdict, candidate: str) -> Iterator[str]:
    total = sum(verdict.counts.values())
    yield f"{total} scenarios, each run twice with {candidate} and twice with {prompts.BASELINE}."
    yield f"Verdict: {verdict.status} (exit code {verdict.exit_code})."
    yield from lines(verdict.failures)
    for finding in verdict.findings:
        if finding.severity != "info":
            yield f"Rule {finding.rule}: {finding.detail}"


def _checks(stage: Stage, verdict: Verdict, code: int, expected: Expected) -> Iterator[Check]:
    found = _count(verdict, "new_critical"), _count(verdict, "regressed")
    facts = [
        Check(
            name=f"the gate says {expected.status}",
            held=verdict.status == expected.status,
            detail=str(verdict.status),
        ),
        Check(
            name="new critical failures and regressions are the ones that were built in",
            held=found == (expected.new_critical, expected.regressed),
            detail=f"{found[0]} critical, {found[1]} regressed",
        ),
    ]
    for fact in facts:
        if fact.held is False and stage.options.policy is not None:
            yield Check(name=fact.name, held=None, detail=f"under the policy given: {fact.detail}")
        else:
            yield fact
    yield Check(
        name="the exit code is that of the verdict",
        held=code == verdict.exit_code == _EXIT_CODES.get(verdict.status or "", 2),
        detail=str(code),
    )
    yield Check(
        name="each case that got worse names the first step that differs",
        held=all(f.first_difference for f in verdict.failures if f.case_class in _WORSE),
    )


def _count(verdict: Verdict, kind: str) -> int:
    return len({failure.case for failure in verdict.failures if failure.case_class == kind})
