"""A report in any form: ``render(report, "markdown")``."""

from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from sidecar.gate.report import github, html, json, junit, markdown, sarif, text
from sidecar.gate.report.exhibit import Exhibit
from sidecar.gate.report.files import viewer
from sidecar.gate.report.model import Report

Form = Literal["text", "json", "markdown", "junit", "sarif", "github", "html"]
_RENDER: Final[dict[str, Callable[[Report], str]]] = {
    "text": text.render,
    "markdown": markdown.render,
    "junit": junit.render,
    "sarif": sarif.render,
    "github": github.render,
}


def form_of(name: str) -> Form:
    """The form of a name, such as an option's value."""
    (found,) = (one for one in get_args(Form) if one == name)
    form: Form = found
    return form


def render(
    report: Report,
    form: Form,
    *,
    own: dict[str, Any] | None = None,
    shown: Exhibit | None = None,
) -> str:
    """The report's text.

    ``own`` are a command's own keys beside the fixed ones of JSON; ``shown`` the tapes that the
    viewer shows beside the report, in the order of its runs. Raises ValueError for another form.
    """
    if form not in get_args(Form):
        raise ValueError(f"{form} is no form of a report: {', '.join(get_args(Form))}")
    if form == "json":
        return json.render(report, own)
    if form == "html":
        return html.render(report, viewer(), shown or Exhibit())
    return _RENDER[form](report)
