"""A report as GitHub's annotations: what is shown of it, and that no text becomes a command."""

import re

import pytest
from report_rig import EVIL, evil_report

from sidecar.gate.report.github import EACH_MAX, TEXT_MAX
from sidecar.gate.report.model import Case, Run, report
from sidecar.gate.report.render import render

pytestmark = pytest.mark.requirement("RPT-01")
COMMAND = re.compile(r"::(error|warning|notice) ((?:[a-z]+=[^:,\s][^:,]*,?)+)::(.+)")


def parsed(value):
    """Level, properties and text of every line, as GitHub reads them."""
    found = []
    for line in render(value, "github").split("\n"):
        level, named, text = COMMAND.fullmatch(line).groups()
        properties = dict(one.split("=", 1) for one in named.split(","))
        found.append((level, {key: _read(one) for key, one in properties.items()}, _read(text)))
    return found


def _read(text):
    for code, one in (("%3A", ":"), ("%2C", ","), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, one)
    return text


def made(*cases, runs=()):
    return report(
        command="tape assert", title="t", outcome="fail", exit_code=1, cases=cases, runs=runs
    )


def test_what_decides_is_an_error_what_does_not_a_warning_and_a_pass_nothing():
    found = parsed(
        made(
            Case(id="a", status="error", detail="no answer", code="timeout"),
            Case(id="b", status="fail", detail="spent 100%: 12, not 10\nper day", seq=7, run=0),
            Case(id="c", status="fail", severity="warning", detail="slow"),
            Case(id="d", status="fail", quarantined=True, until="2027", owner="ann", detail="q"),
            Case(id="e", status="skip", detail="no content"),
            Case(id="f", status="pass", detail="fine"),
            runs=(Run(name="tapes/x.tape"),),
        )
    )
    assert [(level, named["title"]) for level, named, _ in found] == [
        ("error", "FAIL b"),
        ("error", "ERROR a"),
        ("warning", "FAIL c"),
        ("warning", "FAIL d"),
        ("warning", "SKIP e"),
        ("notice", "tape assert"),
    ]
    assert found[0][1]["file"] == "tapes/x.tape"
    assert found[0][2].startswith("spent 100%: 12, not 10") and found[0][2].endswith("(seq 7)")
    assert "file" not in found[1][1]
    assert found[-1][2].startswith("FAIL: t; ")


def test_of_too_many_the_last_line_says_how_many_more_there_are():
    failed = [Case(id=f"c{number}", status="fail", detail="d") for number in range(25)]
    errors = [one for one in parsed(made(*failed)) if one[0] == "error"]
    assert len(errors) == EACH_MAX
    assert errors[-1][2].startswith("16 more")
    ten = [one for one in parsed(made(*failed[:EACH_MAX])) if one[0] == "error"]
    assert [named["title"] for _, named, _ in ten] == [f"FAIL c{number}" for number in range(10)]


@pytest.mark.parametrize("name", ["/etc/passwd", "../up.tape", "C:\\x", "~/x", "s3://b/x"])
def test_a_path_outside_the_repository_is_no_file_of_it(name):
    (error, _) = parsed(made(Case(id="a", status="fail", run=0), runs=(Run(name=name),)))
    assert "file" not in error[1]


def test_no_text_becomes_a_command_of_its_own():
    text = f"x\n::set-output name=a::b\r\n::add-mask::c%0A::error::d,file=e:f {EVIL}"
    case = Case(id=text, status="fail", detail=text * 20, group=text, run=0)
    for level, _, said in parsed(made(case, runs=(Run(name=text),))):
        assert level in ("error", "notice") and len(said) <= TEXT_MAX + 100
    assert parsed(evil_report())
