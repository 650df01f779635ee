"""A report in text, for people: the outcome, then each case that needs attention."""

from sidecar.gate.report.model import Case, Parting, Place, Report, Run
from sidecar.gate.report.trail import preview
from sidecar.plain import plain
from sidecar.tape import drift as tape_drift


def render(report: Report) -> str:
    """The whole report; passing cases are counted and not listed."""
    lines = [f"{report.outcome.upper()}  {plain(report.title)}", f"  {summary(report)}"]
    lines += [f"  {plain(run_line(one))}" for one in report.runs]
    for case in report.cases:
        if case.status != "pass":
            lines.append(f"  {plain(case_line(case))}")
    if report.first_divergence is not None:
        lines += [f"  {plain(line)}" for line in parting_lines(report.first_divergence)]
    lines += [f"  {plain(one)}" for one in report.notes]
    lines += [f"  {plain(name)}: {plain(value)}" for name, value in report.facts.items()]
    return "\n".join(lines)


def summary(report: Report) -> str:
    """``12 evaluated: 11 passed, 1 failed; 2 skipped, 0 errors``."""
    counts = report.counts
    warned = f" ({counts.warned} as warnings)" if counts.warned else ""
    flaky = f", {counts.flaky} flaky" if counts.flaky else ""
    return (
        f"{counts.evaluated} evaluated: {counts.passed} passed, {counts.failed} failed{warned}; "
        f"{counts.skipped} skipped, {counts.errored} errors{flaky}"
    )


def run_line(run: Run) -> str:
    """One tape."""
    if run.state == "unreadable":
        return f"{run.role} {run.name}: unreadable: {run.error}"
    return f"{run.role} {run.name}: {run.state}, {run.events} events, {run.exact_digest}"


def case_line(case: Case) -> str:
    """One case: its status, where, why, and what weakens it."""
    seq = f"  at {case.seq}" if case.seq is not None else ""
    code = f" [{case.code}]" if case.code else ""
    drift = f" ({', '.join(case.drift)})" if case.drift else ""
    return f"{case.status.upper():<5} {case.id}{seq}  {case.detail}{drift}{code}{weight(case)}"


def weight(case: Case) -> str:
    """What keeps a case from deciding, and whether it is flaky."""
    said = "  (warning)" if case.severity == "warning" else ""
    if case.quarantined:
        said += f"  (quarantined until {case.until}, {case.owner})"
    return said + ("  (flaky)" if case.flaky else "")


def parting_lines(first: Parting) -> list[str]:
    """Where two runs first part, and by what."""
    name = f"agent {first.agent}" if first.agent else "no agent"
    left, right = ("-" if seq is None else str(seq) for seq in (first.seq_l, first.seq_r))
    drift = f" ({', '.join(first.drift)})" if first.drift else ""
    lines = [f"first divergence: {name}, {first.kind}{drift}, seq {left} and {right}"]
    lines += [f"  {place_line(one)}" for one in first.places or ()]
    if first.places is None and first.changed:
        lines.append(f"  {', '.join(first.changed)} changed; the content was not kept")
    if first.more_places:
        lines.append("  … and more places")
    return lines


def place_line(one: Place | tape_drift.Place) -> str:
    """One place, with both values."""
    left = preview(one.left) if one.has_left else "nothing"
    right = preview(one.right) if one.has_right else "nothing"
    return f"{one.pointer or 'the whole'}: {left} and {right}"
