"""A verdict as Markdown, for a comment on a change."""

from processors.model.verdict import Verdict
from sidecar.gate.report.verdict_text import summary, word
from sidecar.plain import plain_markdown, plained


def render(verdict: Verdict) -> str:
    """The report: a heading, a table of what needs attention, the rules that fired."""
    verdict = plained(verdict)
    lines = [
        f"## {word(verdict)}: {_cell(verdict.suite)}",
        "",
        f"`{_code(verdict.candidate)}` against `{_code(verdict.baseline)}`. {summary(verdict)}.",
    ]
    if verdict.failures:
        lines += ["", "| class | case | why | first difference |", "|---|---|---|---|"]
        for one in verdict.failures:
            why = f"{one.expectation}: {one.detail}" if one.expectation else one.detail
            cells = (one.case_class, one.case, why, one.first_difference or "")
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    if verdict.findings:
        lines.append("")
        lines += [
            f"- **{one.severity}** {one.rule}: {_cell(one.detail)}" for one in verdict.findings
        ]
    return "\n".join([*lines, "", f"Verdict `{verdict.verdict_id}`, digest `{verdict.digest}`."])


def _code(text: str) -> str:
    return text.replace("`", "'")


def _cell(text: str) -> str:
    return plain_markdown(" ".join(text.split()))
