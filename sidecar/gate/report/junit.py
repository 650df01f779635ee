"""A verdict as JUnit XML: one test case per case of the suite, for CI systems."""

from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from processors.model.verdict import Failure, Verdict
from sidecar.plain import plained

_ERRORS = frozenset({"void", "incomplete", "flaky"})


def render(verdict: Verdict) -> str:
    """The XML text. Failed cases are failures; void, incomplete and flaky ones are errors."""
    verdict = plained(verdict)
    failures = {failure.case: failure for failure in verdict.failures}
    cases: list[dict[str, Any]] = verdict.evidence.get("cases", [])
    errors = sum(case["class"] in _ERRORS for case in cases)
    suite = Element(
        "testsuite",
        name=_legal(verdict.suite),
        tests=str(len(cases)),
        failures=str(sum(_failed(case) for case in cases)),
        errors=str(errors),
    )
    properties = SubElement(suite, "properties")
    for name, value in (
        ("verdict", verdict.verdict_id),
        ("status", verdict.status or "UNDECIDED"),
        ("digest", verdict.digest),
    ):
        SubElement(properties, "property", name=name, value=_legal(value))
    for case in cases:
        _case(suite, verdict, case, failures.get(case["case"]))
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suite, encoding="unicode")


def _case(suite: Element, verdict: Verdict, case: dict[str, Any], failure: Failure | None) -> None:
    names = {"classname": _legal(verdict.suite), "name": _legal(case["case"])}
    element = SubElement(suite, "testcase", names)
    if failure is None:
        return
    kind = "error" if case["class"] in _ERRORS else "failure"
    said = f"{failure.expectation}: {failure.detail}" if failure.expectation else failure.detail
    below = SubElement(element, kind, type=case["class"], message=_legal(said))
    below.text = _legal(failure.first_difference or said)


def _failed(case: dict[str, Any]) -> bool:
    return case["candidate"] == "failed" and case["class"] not in _ERRORS


def _legal(text: str) -> str:
    return "".join(
        c
        for c in text
        if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000"
    )
