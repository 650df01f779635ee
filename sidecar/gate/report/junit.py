"""A report as JUnit XML, in the dialect of Maven Surefire that CI systems read.

**Rules**
1. One test case a case, however often it was run. Earlier attempts of one that passed at last are
   ``flakyFailure``, further ones of one that did not ``rerunFailure``.
2. A case that could not be asked is ``skipped``, one without an answer an ``error``, and neither a
   ``failure``. A failure that decides nothing (a warning, in quarantine), for which JUnit has no
   word, is ``skipped`` and says which it is.
3. No character that XML 1.0 may not hold, and none that moves a terminal's cursor.
"""

import re
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from sidecar.gate.report.model import Attempt, Case, Report
from sidecar.plain import plain, plain_lines

SECOND_NS: Final = 1_000_000_000
_ILLEGAL: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """The XML text; its root is one ``testsuite``."""
    cases = [_case(case) for case in report.cases]
    suite = Element(
        "testsuite",
        name=_legal(report.cases[0].group if _one_group(report) else report.command),
        time=_seconds(sum(case.duration_ns or 0 for case in report.cases)),
        tests=str(len(cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
    )
    properties = SubElement(suite, "properties")
    facts = {
        "title": report.title,
        "outcome": report.outcome,
        "profile": report.profile,
        "exit_code": str(report.exit_code),
        **report.facts,
        **{f"run.{number}": run.exact_digest for number, run in enumerate(report.runs)},
    }
    for name, value in facts.items():
        SubElement(properties, "property", name=_legal(name), value=_legal(value))
    suite.extend(cases)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suite, encoding="unicode")


def _case(case: Case) -> Element:
    element = Element(
        "testcase",
        name=_legal(case.id),
        classname=_legal(case.group or case.rule),
        time=_seconds(case.duration_ns or 0),
    )
    if case.status == "pass":
        for attempt in case.attempts:
            if attempt.status in ("fail", "error"):
                _attempt(element, "flaky", case, attempt)
        return element
    if case.status == "skip":
        SubElement(element, "skipped", message=_legal(_said(case)))
        return element
    if not case.counts:
        why = "quarantined" if case.quarantined else "warning"
        SubElement(element, "skipped", message=_legal(f"{why}, decides nothing: {_said(case)}"))
        return element
    kind = "failure" if case.status == "fail" else "error"
    below = SubElement(element, kind, type=_legal(case.rule or kind), message=_legal(_said(case)))
    below.text = _legal_lines(_told(case))
    broken = [one for one in case.attempts if one.status in ("fail", "error")]
    # The first one is the failure itself, unless the failure is that they differ.
    for attempt in broken if case.flaky else broken[1:]:
        _attempt(element, "rerun", case, attempt)
    return element


def _attempt(element: Element, prefix: str, case: Case, attempt: Attempt) -> None:
    kind = "Failure" if attempt.status == "fail" else "Error"
    below = SubElement(
        element,
        f"{prefix}{kind}",
        message=_legal(attempt.detail),
        type=_legal(case.rule or kind.lower()),
    )
    SubElement(below, "stackTrace").text = _legal(attempt.detail)


def _said(case: Case) -> str:
    seq = f"at {case.seq}: " if case.seq is not None else ""
    code = f" [{case.code}]" if case.code else ""
    return f"{seq}{case.detail}{code}"


def _told(case: Case) -> str:
    lines = [plain(_said(case))]
    if case.drift:
        lines.append(plain(f"drift: {', '.join(case.drift)}"))
    if case.steps:
        lines.append("events around it:")
        lines += [f"{'>' if one.seq == case.seq else ' '} {plain(one.text)}" for one in case.steps]
    if case.signature:
        lines.append(f"signature: {case.signature}")
    return "\n".join(lines)


def _one_group(report: Report) -> bool:
    return bool(report.cases) and len({case.group for case in report.cases}) == 1


def _seconds(duration_ns: int) -> str:
    return f"{max(duration_ns, 0) / SECOND_NS:.3f}"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", plain(text))


def _legal_lines(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", plain_lines(text))
