"""A report as GitHub's workflow commands: annotations on the lines of a change.

**Rules**
1. GitHub shows ten errors and ten warnings of a step and drops the rest without a word. So at most
   nine of each are cases, those that decide first, and the tenth says how many were left out.
2. A failure that decides, and a case without an answer, is an error; one that decides nothing, and
   a skip, a warning. What passes is not told. A notice says what the whole came to.
3. No text of a tape begins a line, ends a property or a command.
"""

from collections.abc import Iterator
from typing import Final, Literal

from sidecar.gate.report.model import Case, Report
from sidecar.gate.report.text import summary, weight
from sidecar.plain import plain

EACH_MAX: Final = 10
TEXT_MAX: Final = 1_000
Level = Literal["error", "warning", "notice"]


def render(report: Report) -> str:
    """The commands, a line each: errors, warnings, and what it came to."""
    cases = sorted(report.cases, key=lambda case: case.status != "fail")
    errors = [case for case in cases if _is_error(case)]
    warnings = [case for case in cases if case.status != "pass" and not _is_error(case)]
    said = f"{report.outcome.upper()}: {report.title}; {summary(report)}"
    return "\n".join(
        (
            *_level("error", errors, report),
            *_level("warning", warnings, report),
            _command("notice", report.command, said),
        )
    )


def _level(level: Level, cases: list[Case], report: Report) -> Iterator[str]:
    shown = cases if len(cases) <= EACH_MAX else cases[: EACH_MAX - 1]
    for case in shown:
        seq = "" if case.seq is None else f" (seq {case.seq})"
        drift = f" [{', '.join(case.drift)}]" if case.drift else ""
        code = f" [{case.code}]" if case.code else ""
        text = f"{case.detail}{drift}{code}{weight(case)}{seq}"
        title = f"{case.status.upper()} {case.id}"
        yield _command(level, title, text, file=_file(case, report))
    if len(shown) < len(cases):
        text = f"{len(cases) - len(shown)} more are not shown here: see the whole report"
        yield _command(level, f"{len(cases)} of this kind", text)


def _is_error(case: Case) -> bool:
    return case.status == "error" or (case.status == "fail" and case.counts)


def _file(case: Case, report: Report) -> str:
    """The tape's path, where it may be one of the repository's."""
    if case.run is None or case.run >= len(report.runs):
        return ""
    name = report.runs[case.run].name
    outside = name.startswith(("/", "\\", "~")) or ":" in name or ".." in name.split("/")
    return "" if outside else name


def _command(level: Level, title: str, text: str, *, file: str = "") -> str:
    named = [f"file={_property(file)}"] if file else []
    return f"::{level} {','.join([*named, f'title={_property(title)}'])}::{_data(text) or level}"


def _data(text: str) -> str:
    found = plain(text)
    cut = found if len(found) <= TEXT_MAX else f"{found[: TEXT_MAX - 1]}…"
    return cut.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
