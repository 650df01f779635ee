"""A verdict as Markdown, for a comment on a change."""

from processors.model.verdict import Verdict
from sidecar.gate.report.text import summary, word


def render(verdict: Verdict) -> str:
    """The report: a heading, a table of what needs attention, the rules that fired."""
    lines = [
        f"## {word(verdict)}: {verdict.suite}",
        "",
        f"`{verdict.candidate}` against `{verdict.baseline}`. {summary(verdict)}.",
    ]
    if verdict.failures:
        lines += ["", "| class | case | why | first difference |", "|---|---|---|---|"]
        for one in verdict.failures:
            why = f"{one.expectation}: {one.detail}" if one.expectation else one.detail
            cells = (one.case_class, one.case, why, one.first_difference or "")
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    if verdict.findings:
        lines.append("")
        lines += [f"- **{one.severity}** {one.rule}: {one.detail}" for one in verdict.findings]
    return "\n".join([*lines, "", f"Verdict `{verdict.verdict_id}`, digest `{verdict.digest}`."])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
