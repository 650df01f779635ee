"""What commands print when what they print was written by an enemy, or is read by nobody."""

import asyncio
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from gateway_rig import MASTER, rig
from serving import clean_environment

from processors.model.evidence import Claim, Contradiction, Evidence, Outcome
from processors.model.step import Source, Step, Tool, Usage
from processors.model.trace import AgentTrace, Service
from processors.model.verdict import Failure, Finding, Verdict
from sidecar.cli import options, trace, trace_view
from sidecar.cli.root import root
from sidecar.gate.report import junit, verdict_markdown, verdict_text
from sidecar.gate.report.verdict import verdict_report
from sidecar.store.traces import TraceSummary

FORGED = "FORGED LINE"
EVIL = f"x\x1b[2J\x9b1m\r\n{FORGED}\u2028{FORGED}\x85{FORGED}\u202ey`|<b>"


def checked(shown):
    """No line begins as an enemy wished and nothing moves a terminal."""
    assert "FORGED" in shown
    for line in shown.splitlines():
        assert not line.strip().startswith("FORGED"), line
        assert all(each.isprintable() for each in line), ascii(line)


def trace_of_an_enemy():
    step = Step(
        step_id="s", kind="tool_call", name=EVIL, start_ns=1, end_ns=2,
        sources=(Source(kind="span", span_id="s"),), tool=Tool(name=EVIL, arguments={EVIL: EVIL}),
    )  # fmt: skip
    claim = Claim(
        claim_id="c", subject=EVIL, status="success", source="final_answer", rule=EVIL, text=EVIL
    )
    held = Evidence(evidence_id="e", source="probe", name=EVIL, held=True, subject=EVIL)
    return AgentTrace(
        trace_id="a" * 32, project=EVIL, service=Service(name=EVIL, version=EVIL), steps=(step,),
        claims=(claim,), evidence=(held,), usage_total=Usage(input=1),
        outcome=Outcome(
            status="contradicted", contradictions=(Contradiction(code="c", detail=EVIL),)
        ),
    )  # fmt: skip


def summary_of_an_enemy():
    return TraceSummary(
        project=EVIL, trace_id="a" * 32, service=EVIL, version=EVIL, started_ns=5, ended_ns=6,
        steps=1, outcome="contradicted", revision=1, published_ns=7, completeness="complete",
        contradictions=(EVIL,),
    )  # fmt: skip


def verdict_of_an_enemy():
    case = {
        "case": EVIL, "class": "regressed", "severity": EVIL, "baseline": "passed",
        "candidate": "failed", "title": EVIL,
    }  # fmt: skip
    return Verdict(
        verdict_id="v", project=EVIL, suite=EVIL, baseline=EVIL, candidate=EVIL, status="BLOCK",
        exit_code=1, counts={"regressed": 1}, created_at_ns=1, digest="d",
        findings=(Finding(rule="r", severity="block", detail=EVIL, operands={"n": EVIL}),),
        failures=(
            Failure(
                case=EVIL, case_class="regressed", expectation=EVIL, detail=EVIL,
                first_difference=EVIL,
            ),
        ),
        evidence={"cases": [case], "folder": EVIL, "twins": {EVIL: EVIL}},
    )  # fmt: skip


def joined(lines):
    return "\n".join(line for line, _ in lines)


@pytest.mark.parametrize(
    "shown",
    [
        lambda: joined(trace_view.list_lines([summary_of_an_enemy()])),
        lambda: joined([trace_view.tail_line(summary_of_an_enemy())]),
        lambda: joined(trace_view.trace_lines(trace_of_an_enemy(), every_step=True)),
        lambda: trace.as_text(trace_of_an_enemy(), "capture"),
        lambda: verdict_text.render(verdict_of_an_enemy()),
        lambda: verdict_text.explain(verdict_of_an_enemy()),
        lambda: verdict_markdown.render(verdict_of_an_enemy()),
        lambda: junit.render(verdict_report(verdict_of_an_enemy())),
    ],
    ids=["list", "tail", "show", "normalise", "verdict", "explain", "markdown", "junit"],
)
def test_no_field_leaves_its_line(shown):
    checked(shown())


def test_json_holds_no_raw_control_character(capsys):
    options.emit({EVIL: [EVIL]}, "json", str)
    options.emit([{EVIL: EVIL}], "jsonl", str)
    checked(capsys.readouterr().out)


def test_text_and_talk_are_cleaned_on_their_way_out(capsys):
    options.emit({}, "text", lambda: "a\x1b[2J\nb")
    options.show_lines([("c\x9b\n", "bold")])
    options.talk("d\u202e")
    shown = capsys.readouterr()
    assert shown.out == "a\\x1b[2J\nb\nc\\x9b\\n\n"
    assert shown.err == "d\\u202e\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("trace", "--help"),
        ("key", "list"),
        ("key", "list", "--output", "json"),
        ("calls", "list"),
        ("approvals", "list", "--output", "jsonl"),
        ("audit", "export"),
    ],
    ids=" ".join,
)
def test_a_reader_that_has_gone_is_no_fault(tmp_path, arguments):
    def sidecar(*arguments, stdout=subprocess.PIPE):
        return subprocess.run(
            [sys.executable, "-m", "sidecar", *arguments],
            cwd=tmp_path, stdout=stdout, stderr=subprocess.PIPE, env=clean_environment(),
            timeout=60, check=False,
        )  # fmt: skip

    assert sidecar("key", "create", "--kind", "agent", "--project", "p").returncode == 0
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        done = sidecar(*arguments, stdout=nobody)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_name_and_a_voters_reason_stay_in_their_lines(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "data.seal-key").write_text(MASTER.hex())

    async def main():
        async with rig(folder) as each:
            each.credential("approver", name=EVIL)
            asked = await each.refund("17", key="b", amount=500)
            approval_id = asked.json["approval"]["id"]
            assert await each.approve(approval_id, reason=EVIL, voter=EVIL) is None
            return approval_id

    approval_id = asyncio.run(main())
    for arguments in (("key", "list"), ("approvals", "show", approval_id)):
        shown = CliRunner().invoke(root, [*arguments, "--store", f"sqlite:///{folder}"])
        assert shown.exit_code == 0
        checked(shown.stdout)
