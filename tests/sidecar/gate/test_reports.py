"""A report: its fixed keys, what counts, and that no form of it lets a text become markup."""

import json
import re
from xml.etree import ElementTree

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_rig import EVIL, diff_report, evil_report, tape

from sidecar.evaluate.assertions.conclude import asserted
from sidecar.evaluate.assertions.parse import assertions_of
from sidecar.gate.report.asserted import Judged, asserted_report, settled
from sidecar.gate.report.compared import compared_report
from sidecar.gate.report.json import told
from sidecar.gate.report.model import Attempt, Case, Place, Run, Step, report
from sidecar.gate.report.render import render
from sidecar.gate.report.schema import document
from sidecar.gate.report.signature import signature
from sidecar.replay.diff import compare
from sidecar.tape.files import read_tape, tape_codecs

pytestmark = pytest.mark.requirement("RPT-01")

KEYS = {
    *("schema", "command", "title", "outcome", "profile", "exit_code", "counts", "runs", "cases"),
    *("drifts", "first_divergence", "notes", "facts"),
}
STATUSES = ("pass", "fail", "skip", "error")
ASKED = """assertions:
  - {id: few, spec: max_repeats, args: {max: 3}}
  - {id: none, spec: never_calls, args: {tools: [drop]}}
  - {id: honest, spec: claim_verified}
  - spec: severity
    args: {level: warning, that: {spec: max_repeats, args: {max: 1}}}
"""


def case(status, **more):
    return Case(id="c", status=status, **more)


def made(*cases):
    return report(command="x", title="t", outcome="fail", exit_code=1, cases=cases)


def test_the_keys_are_the_same_whatever_a_report_is_of(tmp_path):
    for one in (made(), evil_report(), diff_report(tmp_path)[3]):
        assert json.loads(render(one, "json")).keys() == KEYS


def test_a_command_adds_its_own_keys_and_contradicts_none():
    value = json.loads(render(made(), "json", own={"strict": True, "outcome": "fail"}))
    assert value.keys() == KEYS | {"strict"}
    with pytest.raises(ValueError, match="two values of exit_code"):
        told(made(), {"exit_code": 0})


def test_the_same_input_gives_the_same_report(tmp_path):
    forms = ("json", "text", "markdown")
    (tmp_path / "x").mkdir()
    first, again = diff_report(tmp_path)[3], diff_report(tmp_path / "x")[3]
    assert [render(first, form) for form in forms] == [render(again, form) for form in forms]


def test_skips_and_errors_are_counted_apart_and_a_warning_is_still_a_failure():
    flaky = (Attempt(status="fail"), Attempt(status="pass"))
    counts = made(
        case("pass"), case("pass", attempts=flaky), case("fail"), case("fail", severity="warning"),
        case("fail", quarantined=True), case("skip"), case("error"), case("error"),
    ).counts  # fmt: skip
    assert (counts.evaluated, counts.passed, counts.failed, counts.warned) == (5, 2, 3, 2)
    assert (counts.skipped, counts.errored, counts.flaky) == (1, 2, 1)


def test_assertions_become_cases_with_the_events_around_the_first_that_offends(tmp_path):
    one = tape(tmp_path / "a.tape")
    found = asserted(assertions_of(ASKED, name="a.yaml"), one, 0)
    judged = (
        Judged(name="a.tape", tape=one, asserted=found),
        Judged(name="b", tape=None, error="no"),
    )
    value = asserted_report(judged, outcome="undecided", exit_code=3)
    assert [each.status for each in value.cases] == ["fail", "pass", "skip", "fail", "error"]
    assert value.cases[0].seq == 6 and value.cases[0].agent == "a"
    assert [step.seq for step in value.cases[0].steps] == list(range(12))
    assert value.counts.warned == 1 and value.runs[1].state == "unreadable"
    assert all(bool(each.signature) == (each.status != "pass") for each in value.cases)


def test_a_diff_becomes_a_case_an_agent_and_names_the_place(tmp_path):
    value = diff_report(tmp_path)[3]
    assert (value.outcome, value.exit_code, value.drifts) == ("differ", 1, {"ARGS": 1})
    (found,) = value.cases
    assert (found.status, found.seq, found.places[0].pointer) == ("fail", 6, "/amount")
    assert value.first_divergence.seq_l == 6 and len(value.first_divergence.context) == 7


def test_a_diff_that_proves_nothing_has_no_passing_case(tmp_path):
    one = tape(tmp_path / "a.tape")
    (tmp_path / "b.tape").write_bytes((tmp_path / "a.tape").read_bytes()[:-40])
    other = read_tape(tmp_path / "b.tape")
    value = compared_report(compare(one, other, tape_codecs(one)), ("a", one), ("b", other))
    assert (value.outcome, value.counts.passed) == ("incomparable", 0)
    assert {each.status for each in value.cases} == {"error", "skip"}


def test_a_signature_is_of_the_failure_and_not_of_the_day(tmp_path):
    first = diff_report(tmp_path)[3].cases[0].signature
    (tmp_path / "x").mkdir()
    assert diff_report(tmp_path / "x", amount=7)[3].cases[0].signature == first
    (tmp_path / "y").mkdir()
    assert diff_report(tmp_path / "y", amount=0, name="pay2")[3].cases[0].signature != first
    assert signature("r", pointers=["/a/0/b"]) == signature("r", pointers=["/a/7/b"])
    assert signature("r", pointers=["/a/b"]) != signature("r", pointers=["/a/c"])
    assert len(signature("\ud800")) == 32


def test_markdown_holds_no_markup_of_a_tape():
    text = render(evil_report(), "markdown")
    assert not re.search(r"<|\x1b|\x00|\u202e|!\[|\]\(|`|://|www\.|@all|[^&#]#(?!#)", text)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 6 and all(line.count("|") == 6 for line in table)


def test_markdown_leaves_out_what_is_too_much_and_says_how_much():
    text = render(made(*[case("fail")] * 450), "markdown")
    assert "250 more cases." in text and len(text.splitlines()) < 220


def test_text_keeps_to_its_lines():
    text = render(evil_report(), "text")
    assert "\x1b" not in text and "\u2028" not in text
    assert len(text.splitlines()) == 2 + 2 + 3 + 1 + 1
    assert EVIL not in text


def test_a_report_is_as_its_published_schema_says(tmp_path):
    validator = jsonschema_rs.validator_for(document())
    for value in (made(), evil_report(), diff_report(tmp_path)[3]):
        assert [error.message for error in validator.iter_errors(told(value, {"own": 1}))] == []
    for key in KEYS:
        without = {name: value for name, value in told(made()).items() if name != key}
        assert list(validator.iter_errors(without))


TEXTS = st.text(max_size=30)  # lone surrogates and controls among them


@st.composite
def any_reports(draw):
    """Reports with any text in any field that takes one."""
    text = lambda: draw(TEXTS)  # noqa: E731
    runs = tuple(
        Run(name=text(), role=text(), tape_id=text(), exact_digest=text(), error=text())
        for _ in range(draw(st.integers(0, 2)))
    )
    cases = tuple(
        Case(
            id=text(), group=text(), rule=text(), status=draw(st.sampled_from(STATUSES)),
            detail=text(), code=text(), agent=text(), quarantined=draw(st.booleans()),
            seq=draw(st.none() | st.integers(0, 9)), run=draw(st.none() | st.integers(0, 3)),
            drift=(text(),), steps=(Step(seq=1, text=text()),), owner=text(), until=text(),
            attempts=(Attempt(status=draw(st.sampled_from(STATUSES)), detail=text()),),
            places=(Place(side="in", pointer=text(), left={text(): text()}),),
        )
        for _ in range(draw(st.integers(0, 3)))
    )  # fmt: skip
    return report(
        command=text(), title=text(), outcome="fail", exit_code=1, runs=runs, cases=cases,
        notes=(text(),), facts={text(): text()},
    )  # fmt: skip


@settings(max_examples=15)
@given(any_reports())
def test_any_text_is_told_in_every_form_and_none_is_broken_by_it(value):
    assert json.loads(render(value, "json")).keys() == KEYS
    root = ElementTree.fromstring(render(value, "junit"))
    assert len(root.findall("testcase")) == len(value.cases)
    sarif = json.loads(render(value, "sarif").encode("utf-8"))
    assert len(sarif["runs"][0]["results"]) == value.counts.failed
    page = render(value, "html").encode("utf-8").decode()
    assert page.count("<script") == page.count("</script") == 2
    block = page.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(block)["report"]["title"] == value.title
    table = [one for one in render(value, "markdown").split("\n") if one.startswith("|")]
    assert all(line.count("|") == 6 for line in table)
    assert len(render(value, "text").splitlines()) == 2 + len(runs_and_rest(value))


def runs_and_rest(value):
    shown = [case for case in value.cases if case.status != "pass"]
    return [*value.runs, *shown, *value.notes, *value.facts]


def test_a_tape_that_was_let_go_is_told_all_the_same(tmp_path):
    one = tape(tmp_path / "a.tape")
    found = asserted(assertions_of(ASKED, name="a.yaml"), one, 0)
    judged = (Judged(name="b", tape=None, error="no"), Judged(name="a", tape=one, asserted=found))
    let_go = [settled(each, number) for number, each in enumerate(judged)]
    assert all(each.tape is None for each in let_go)
    how = {"outcome": "undecided", "exit_code": 3}
    assert asserted_report(let_go, **how) == asserted_report(judged, **how)
