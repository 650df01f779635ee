"""A report as Markdown, for a comment on a change.

**Rules**
1. No text of a tape or a suite is markup: no link, image, mention, cell, heading or HTML.
2. What is too much for a comment is counted and left out.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from sidecar.gate.report.model import Case, Report
from sidecar.gate.report.text import parting_lines, run_line, summary, weight
from sidecar.plain import plain_markdown

CASES_MAX: Final = 200


def render(report: Report) -> str:
    """The report: a heading, a table of what needs attention, where two runs part, the rest."""
    lines = [
        f"## {report.outcome.upper()}: {plain_markdown(report.title)}",
        "",
        f"{summary(report)}.",
    ]
    wanted = [case for case in report.cases if case.status != "pass" or case.flaky]
    if wanted:
        head = ("status", "case", "of", "seq", "why")
        lines += ["", *_table(head, map(_case, wanted[:CASES_MAX]))]
    if len(wanted) > CASES_MAX:
        lines += ["", f"{len(wanted) - CASES_MAX} more cases."]
    if report.first_divergence is not None:
        first, *rest = parting_lines(report.first_divergence)
        lines += [
            "",
            plain_markdown(first),
            *(f"- {plain_markdown(line.strip())}" for line in rest),
        ]
        rows = report.first_divergence.context
        if rows:
            near = (
                (plain_markdown(row.kind), plain_markdown(row.left), plain_markdown(row.right))
                for row in rows
            )
            lines += ["", *_table(("change", "left", "right"), near)]
    lines += ["", *(f"- {plain_markdown(run_line(one))}" for one in report.runs)]
    lines += [f"- {plain_markdown(one)}" for one in report.notes]
    lines += [
        f"- {plain_markdown(name)}: {plain_markdown(value)}" for name, value in report.facts.items()
    ]
    return "\n".join(lines).rstrip()


def _case(case: Case) -> tuple[str, ...]:
    drift = f" ({', '.join(case.drift)})" if case.drift else ""
    code = f" [{case.code}]" if case.code else ""
    seq = "" if case.seq is None else str(case.seq)
    why = plain_markdown(f"{case.detail}{drift}{code}{weight(case)}")
    return case.status.upper(), plain_markdown(case.id), plain_markdown(case.group), seq, why


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
