"""A report as SARIF: against the official schema, and within the limits of those who show it."""

import json
import re
import urllib.parse

import jsonschema_rs
import pytest
from built_tools import schema
from report_rig import EVIL, diff_report, evil_report

from sidecar.gate.report.asserted import asserted_report as asserted
from sidecar.gate.report.model import Case, Run, Step, report
from sidecar.gate.report.render import render
from sidecar.gate.report.sarif import RESULTS_MAX, STEPS_MAX, document

pytestmark = pytest.mark.requirement("RPT-01")


def made(*cases, **more):
    run = Run(name="tapes/a b.tape", exact_digest="sha256:0")
    head = {"command": "tape assert", "title": "t", "outcome": "fail", "exit_code": 1}
    return report(**head, runs=(run,), cases=cases, **more)


def parsed(value):
    return json.loads(render(value, "sarif"))["runs"][0]


STEPS = tuple(Step(seq=seq, text=f"{seq} x") for seq in range(3 * STEPS_MAX))


@pytest.mark.parametrize(
    "value",
    [
        made(),
        made(Case(id="c", status="fail", run=0, seq=1500, steps=STEPS, signature="a" * 32)),
        evil_report(),
        asserted([], outcome="undecided", exit_code=2),
        made(*[Case(id=str(n), status="fail", rule=str(n)) for n in range(1100)]),
    ],
    ids=["empty", "steps", "evil", "nothing", "rules"],
)
def test_it_is_valid_by_the_official_schema(value):
    validator = jsonschema_rs.validator_for(schema("sarif-2.1.0.json"), validate_formats=True)
    assert [error.message for error in validator.iter_errors(document(value, "1.2.3"))] == []


def test_a_diff_is_valid_by_the_official_schema(tmp_path):
    validator = jsonschema_rs.validator_for(schema("sarif-2.1.0.json"), validate_formats=True)
    assert list(validator.iter_errors(document(diff_report(tmp_path)[3]))) == []
    assert list(validator.iter_errors({"version": "2.1.0", "runs": [{}]}))


@pytest.mark.row("R58")
def test_there_is_one_run_and_what_is_too_much_is_counted():
    cases = [Case(id=f"w{n}", status="fail", severity="warning") for n in range(10)]
    cases += [Case(id=str(n), status="fail") for n in range(RESULTS_MAX)]
    whole = json.loads(render(made(*cases), "sarif"))
    assert len(whole["runs"]) == 1
    run = whole["runs"][0]
    assert len(run["results"]) == RESULTS_MAX
    assert {one["level"] for one in run["results"]} == {"error"}
    assert run["properties"]["resultsLeftOut"] == 10
    told = run["invocations"][0]["toolExecutionNotifications"]
    assert told[-1]["message"]["text"] == "10 more failures are left out"


def test_skips_and_errors_are_no_results():
    run = parsed(
        made(
            Case(id="s", status="skip", code="partial"),
            Case(id="e", status="error", code="crashed"),
            Case(id="p", status="pass"),
            Case(id="w", status="fail", severity="warning"),
        )
    )
    assert [one["level"] for one in run["results"]] == ["warning"]
    told = run["invocations"][0]["toolExecutionNotifications"]
    assert [(one["descriptor"]["id"], one["level"]) for one in told] == [
        ("skip", "note"),
        ("error", "error"),
    ]


def test_the_trajectory_is_cut_around_the_first_event_that_offends():
    for seq in (0, 1500, 2999):
        case = Case(id="c", status="fail", run=0, seq=seq, steps=STEPS)
        (flow,) = parsed(made(case))["results"][0]["codeFlows"]
        steps = flow["threadFlows"][0]["locations"]
        assert len(steps) == STEPS_MAX
        (essential,) = (one for one in steps if one["importance"] == "essential")
        assert essential["location"]["message"]["text"] == f"{seq} x"


@pytest.mark.row("R58")
def test_the_fingerprint_is_that_of_the_failure(tmp_path):
    value = diff_report(tmp_path)[3]
    (result,) = parsed(value)["results"]
    assert result["partialFingerprints"] == {"agenttwinFailure/v1": value.cases[0].signature}
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "b.tape", "uriBaseId": "SRCROOT", "index": 1}


def test_no_text_is_a_link_a_placeholder_or_a_control():
    text = render(evil_report(), "sarif")
    assert not re.search("[\x7f-\x9f\u2028\u202e]|(?<!\\\\)\\\\u001b", text)
    run = parsed(evil_report())
    message = run["results"][0]["message"]["text"]
    assert not re.search(r"(?<!\\)[\[\]]", message) and "{{{{7*7}}}}" in message


@pytest.mark.parametrize(
    ("name", "uri"),
    [("a b#?.tape", "a%20b%23%3F.tape"), ("/x/é", "file:///x/%C3%A9"), ("a\\b", "a/b"), ("", ".")],
)
def test_a_path_is_a_reference_and_nothing_else(name, uri):
    run = Run(name=name)
    value = report(command="x", title="t", outcome="fail", exit_code=1, runs=(run,))
    assert parsed(value)["artifacts"][0]["location"]["uri"] == uri
    assert urllib.parse.urlsplit(parsed(made())["artifacts"][0]["location"]["uri"]).scheme == ""
    assert EVIL not in uri
