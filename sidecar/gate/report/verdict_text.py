"""A verdict in text, for people: the word first, then each case that needs attention, then why."""

from collections.abc import Iterable
from typing import Any

from processors.model.verdict import Failure, Verdict
from sidecar.plain import plained

_WORDS = {
    "new_critical": "new critical",
    "regressed": "regressed",
    "incomplete": "incomplete",
    "void": "void",
    "flaky": "flaky",
    "improved": "improved",
    "unchanged": "unchanged",
}


def word(verdict: Verdict) -> str:
    """PASS, WARN, BLOCK, or that there is no verdict."""
    return verdict.status or "UNDECIDED"


def render(verdict: Verdict) -> str:
    """The whole report."""
    verdict = plained(verdict)
    lines = [
        f"{word(verdict)}  {verdict.suite}: {verdict.candidate} against {verdict.baseline}",
        f"  {summary(verdict)}",
        *_failures(verdict),
        *_findings(verdict),
        f"  verdict   {verdict.verdict_id}",
    ]
    if folder := verdict.evidence.get("folder"):
        lines.append(f"  evidence  {folder}")
    return "\n".join(lines)


def summary(verdict: Verdict) -> str:
    """``9 cases: 2 new critical, 1 regressed, 6 unchanged``."""
    counted = [
        f"{verdict.counts[name]} {said}"
        for name, said in _WORDS.items()
        if verdict.counts.get(name)
    ]
    total = sum(verdict.counts.values())
    return f"{total} case{'s' if total != 1 else ''}: {', '.join(counted) or 'none'}"


def explain(verdict: Verdict) -> str:
    """Every case with its class, and every finding with its operands."""
    verdict = plained(verdict)
    lines = [render(verdict), "", "cases"]
    for case in verdict.evidence.get("cases", []):
        lines.append(
            f"  {_WORDS[case['class']]:<13} {case['case']}  ({case['severity']}; baseline"
            f" {case['baseline']}, candidate {case['candidate']})  {case['title']}"
        )
    lines += ["", "rules that fired"]
    for finding in verdict.findings:
        lines.append(f"  {finding.severity:<9} {finding.rule} v{finding.operands.get('version')}")
        lines.append(f"            {_operation(finding.operands)}")
        if remedy := finding.operands.get("remedy"):
            lines.append(f"            {remedy.replace('VERDICT', verdict.verdict_id)}")
    lines += ["", "pinned"]
    lines += [f"  {name}: {value}" for name, value in _pins(verdict)]
    return "\n".join(lines)


def _failures(verdict: Verdict) -> Iterable[str]:
    for failure in verdict.failures:
        yield f"  {_mark(failure)} {_said(failure):<13} {failure.case}"
        if failure.expectation:
            yield f"      {failure.expectation}: {failure.detail}"
        elif failure.detail:
            yield f"      {failure.detail}"
        if failure.first_difference:
            yield f"      first difference: {failure.first_difference}"


def _said(failure: Failure) -> str:
    return "still failing" if failure.case_class == "unchanged" else _WORDS[failure.case_class]


def _mark(failure: Failure) -> str:
    return "✗" if failure.case_class in ("new_critical", "regressed") else "·"


def _findings(verdict: Verdict) -> Iterable[str]:
    for finding in verdict.findings:
        yield f"  {finding.severity:<9} {finding.rule}: {finding.detail}"


def _operation(operands: dict[str, Any]) -> str:
    fixed = ("version", "operator", "threshold", "cases", "remedy")
    name, count = next((item for item in operands.items() if item[0] not in fixed), ("", 0))
    return f"{name} = {count} {operands.get('operator')} {operands.get('threshold')}"


def _pins(verdict: Verdict) -> Iterable[tuple[str, Any]]:
    for name in ("suite_version", "suite_digest", "policy_revision", "deterministic", "root"):
        yield name.replace("_", " "), verdict.evidence.get(name)
    for name, digest in verdict.evidence.get("twins", {}).items():
        yield f"twin {name}", digest
    yield "seeds", verdict.evidence.get("seeds")
    yield "digest", verdict.digest
