"""A report as JUnit XML: against a schema of that dialect, and with what it must keep apart."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_rig import diff_report, evil_report

from sidecar.gate.report.model import Attempt, Case, report
from sidecar.gate.report.render import render

pytestmark = pytest.mark.requirement("RPT-01")

XS = "{http://www.w3.org/2001/XMLSchema}"
XSD = ElementTree.parse(Path(__file__).with_name("junit.xsd")).getroot()
TYPES = {
    "xs:string": r"[\s\S]*",
    "xs:decimal": r"-?\d+(\.\d+)?",
    "xs:nonNegativeInteger": r"\d+",
}


def faults(element):
    """What in an element the schema does not allow."""
    declared = XSD.find(f"{XS}element[@name='{element.tag}']")
    if declared is None:
        yield f"<{element.tag}> is unknown"
        return
    kind = declared.find(f"{XS}complexType")
    if kind is None:
        kind = XSD.find(f"{XS}complexType[@name='{declared.get('type')}']")
    below = {one.get("ref") for one in kind.iter(f"{XS}element")}
    known = {one.get("name"): one for one in kind.findall(f"{XS}attribute")}
    for name, one in known.items():
        if one.get("use") == "required" and name not in element.attrib:
            yield f"<{element.tag}> lacks {name}"
    for name, value in element.attrib.items():
        if name not in known:
            yield f"<{element.tag}> has {name}"
        elif not re.fullmatch(TYPES[known[name].get("type")], value):
            yield f"<{element.tag}> {name} is {value}"
    if kind.get("mixed") != "true" and (element.text or "").strip():
        yield f"<{element.tag}> has text"
    for child in element:
        if child.tag not in below:
            yield f"<{child.tag}> stands in <{element.tag}>"
        yield from faults(child)


def parsed(value):
    root = ElementTree.fromstring(render(value, "junit"))
    assert list(faults(root)) == []
    return root


def made(*cases):
    return report(command="tape replay", title="t", outcome="fail", exit_code=1, cases=cases)


def attempts(*statuses):
    return tuple(Attempt(status=one, detail=f"{one} it did") for one in statuses)


def test_the_schema_refuses_what_is_no_report():
    text = '<testsuite tests="x"><testcase><failure/><b/></testcase>y</testsuite>'
    found = list(faults(ElementTree.fromstring(text)))
    assert len(found) == 10


def test_a_diff_is_one_case_an_agent(tmp_path):
    root = parsed(diff_report(tmp_path)[3])
    assert (root.get("tests"), root.get("failures")) == ("1", "1")
    failure = root.find("testcase/failure")
    assert failure.get("type") == "diff/input_changed" and "drift: ARGS" in failure.text
    assert '> 6 tool_call pay {"amount": 2' in failure.text


def test_skip_error_and_failure_are_three_things_and_a_warning_fails_nothing():
    root = parsed(
        made(
            Case(id="p", status="pass"),
            Case(id="f", status="fail"),
            Case(id="s", status="skip", code="partial"),
            Case(id="e", status="error", code="crashed"),
            Case(id="w", status="fail", severity="warning"),
            Case(id="q", status="fail", quarantined=True),
        )
    )
    counts = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "6", "failures": "1", "errors": "1", "skipped": "3"}
    below = {case.get("name"): [one.tag for one in case] for case in root.iter("testcase")}
    assert below == {
        "p": [], "f": ["failure"], "s": ["skipped"], "e": ["error"], "w": ["skipped"],
        "q": ["skipped"],
    }  # fmt: skip
    told = [one.get("message") for one in root.iter("skipped")]
    assert "warning, decides nothing" in told[1] and "quarantined" in told[2]


@pytest.mark.row("R57")
def test_retries_are_in_one_case_and_are_not_lost():
    root = parsed(
        made(
            Case(id="flaky", status="pass", attempts=attempts("fail", "error", "pass")),
            Case(id="broken", status="fail", attempts=attempts("fail", "fail", "error")),
        )
    )
    flaky, broken = root.iter("testcase")
    assert [one.tag for one in flaky] == ["flakyFailure", "flakyError"]
    assert [one.tag for one in broken] == ["failure", "rerunFailure", "rerunError"]
    assert root.get("tests") == "2" and root.get("failures") == "1"
    assert flaky.find("flakyFailure/stackTrace").text == "fail it did"


def test_nothing_that_xml_may_not_hold_gets_in():
    text = render(evil_report(), "junit")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e\ufffe\uffff]", text)
    assert "<script" not in text and "<img" not in text
    case = Case(id="\ufffe\ud800\x00", status="fail", detail="\uffff\x1b[2J")
    assert parsed(made(case)).find("testcase").get("name") == "\ufffd\\ud800\\x00"
    parsed(evil_report())
