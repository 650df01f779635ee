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
    "quarantined": "quarantined",
    "improved": "improved",
    "unchanged": "unchanged",
}
_FIXED = frozenset(
    ("version", "operator", "threshold", "statistic", "n", "cases", "owner", "remedy", "refs")
) | {"interval", "needed", "also"}

_PINNED = (
    "suite_version", "suite_digest", "policy_revision", "gate_policy", "deterministic", "root",
)  # fmt: skip


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
        *(f"  note      {one}" for one in verdict.evidence.get("unexercised", ())),
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
        lines += [f"            {one}" for one in _operation(finding.operands)]
        if remedy := finding.operands.get("remedy"):
            lines.append(f"            {remedy.replace('VERDICT', verdict.verdict_id)}")
    lines += [*_measures(verdict), "", "pinned"]
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


def _operation(operands: dict[str, Any]) -> Iterable[str]:
    name, value = next((item for item in operands.items() if item[0] not in _FIXED), ("", None))
    if not isinstance(value, int | float) or not isinstance(operands.get("threshold"), int | float):
        return  # kept by an earlier version, which did not say
    told = f"{name} = {value:g} {operands.get('operator')} {operands.get('threshold'):g}"
    yield f"{told} ({_basis(operands)})" if operands.get("statistic") != "count" else told
    for one in operands.get("also", ()):
        other, found = next(item for item in one.items())
        told = f"{other} = {found:g} {one['operator']} {one['threshold']:g}"
        yield f"and {told} ({one['statistic']})"
    if (needed := operands.get("needed")) is not None:
        yield f"{needed} more episodes a side needed"
    if owner := operands.get("owner"):
        yield f"owner {owner}"


def _basis(operands: dict[str, Any]) -> str:
    low, high = operands.get("interval", (None, None))
    told = f"{operands.get('statistic')}, n = {operands.get('n', 0):g}"
    return told if low is None else f"{told}, from {low:.4g} to {high:.4g}"


def _measures(verdict: Verdict) -> Iterable[str]:
    shown = verdict.evidence.get("measures", [])
    if shown:
        yield ""
        yield "measures"
    for one in shown:
        told = f"  {one['name']:<24} {one['value']:g}"
        if one["interval"] is not None:
            told += f"  [{one['interval'][0]:.4g}, {one['interval'][1]:.4g}]"
        detail = f"; {one['detail']}" if one["detail"] else ""
        yield f"{told}  {one['statistic']}{detail}"


def _pins(verdict: Verdict) -> Iterable[tuple[str, Any]]:
    for name in _PINNED:
        yield name.replace("_", " "), verdict.evidence.get(name)
    for name, digest in verdict.evidence.get("twins", {}).items():
        yield f"twin {name}", digest
    for name, code in verdict.evidence.get("twin_code", {}).items():
        yield f"twin {name} is code", code
    state = verdict.evidence.get("twin_state", {})
    if "version" in state:
        yield "twin state", f"{state['version']} of {state['taken_at']} {state['digest']}"
    for why in state.get("stale", ()):
        yield "stale", why
    yield "seeds", verdict.evidence.get("seeds")
    yield "digest", verdict.digest
