"""A report in any form: ``render(report, "markdown")``."""

from typing import Any, Literal, get_args

from sidecar.gate.report import json, markdown, text
from sidecar.gate.report.model import Report

Form = Literal["text", "json", "markdown"]


def form_of(name: str) -> Form:
    """The form of a name, such as an option's value."""
    (found,) = (one for one in get_args(Form) if one == name)
    form: Form = found
    return form


def render(report: Report, form: Form, *, own: dict[str, Any] | None = None) -> str:
    """The report's text; ``own`` are a command's own keys beside the fixed ones of JSON."""
    if form == "json":
        return json.render(report, own)
    return {"text": text.render, "markdown": markdown.render}[form](report)
