"""What telemetry saw and the tape did not is told, call by call."""

import json

import pytest
from click.testing import CliRunner

from sidecar.cli.tape import command
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter
from sidecar.tape.model import Header

pytestmark = pytest.mark.requirement("TAP-02")
START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


def made(path, *tools, trace="", at=START):
    """A tape of one model call and these tools, that ran ten seconds."""
    times = {"start_ns": START, "end_ns": START + 10 * SECOND}
    moment = f"2023-11-14T22:13:{20 + (at - START) // SECOND:02d}.000000000Z"
    header = Header(tape_id="t", captured_at=moment, trace_ids=(trace,) if trace else ())
    with TapeWriter(path, header) as writer:
        writer.event(Fact(kind="llm_call", seam="provider", name="gpt-4o", input={}, **times))
        for name in tools:
            writer.event(Fact(kind="tool_call", seam="tool", name=name, input={}))
        writer.event(Fact(kind="decision", seam="clock", name="time.time", output=1))
        writer.event(Fact(kind="terminal", status="ok", output={}))
        writer.seal()
    return path


def span(number, name, **attributes):
    return {
        "traceId": "0" * 31 + "1",
        "spanId": f"{number:016x}",
        "parentSpanId": "" if number == 1 else f"{1:016x}",
        "name": name,
        "startTimeUnixNano": str(START + SECOND),
        "endTimeUnixNano": str(START + 2 * SECOND),
        "attributes": [
            {"key": key, "value": {"stringValue": one}} for key, one in attributes.items()
        ],
    }


def capture(path, *tools):
    """A capture of one trace: an agent, a model call and these tools."""
    operation, tool = "gen_ai.operation.name", "gen_ai.tool.name"
    spans = [
        span(1, "invoke_agent a", **{operation: "invoke_agent"}),
        span(2, "chat m", **{operation: "chat", "gen_ai.request.model": "gpt-4o-2024"}),
        *(
            span(number, f"execute_tool {name}", **{operation: "execute_tool", tool: name})
            for number, name in enumerate(tools, 3)
        ),
    ]
    scope = {"scope": {"name": "test"}, "spans": spans}
    path.write_text(json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}))
    return path


def run(*arguments):
    done = CliRunner().invoke(command, [*map(str, arguments)], standalone_mode=False)
    assert done.exception is None, done.exception
    return done.return_value, done.stdout


def told(tape, capture):
    code, shown = run("coverage", tape, capture, "--output", "json")
    return code, json.loads(shown)


def test_a_tape_that_has_every_call_is_complete_though_models_are_called_otherwise(tmp_path):
    seen = capture(tmp_path / "0001.traces.json", "look", "pay")
    code, value = told(made(tmp_path / "a.tape", "look", "pay", "more"), seen)
    assert (code, value["outcome"], value["missing"]) == (0, "complete", 0)
    assert value["seams"] == {"clock": 1, "none": 1, "provider": 1, "tool": 3}


@pytest.mark.row("R24")
def test_a_call_that_only_telemetry_saw_is_missing(tmp_path):
    seen = capture(tmp_path / "0001.traces.json", "look", "send_mail", "send_mail")
    tape = made(tmp_path / "a.tape", "look", "send_mail")
    code, value = told(tape, seen)
    assert (code, value["outcome"], value["missing"]) == (1, "incomplete", 1)
    code, shown = run("coverage", tape, seen)
    assert "1 of 4 calls" in shown
    assert "! tool_call    send_mail  telemetry 2, tape 1" in shown


def test_a_trace_of_another_run_says_nothing(tmp_path):
    seen = capture(tmp_path / "0001.traces.json", "look")
    later = made(tmp_path / "a.tape", "look", at=START + 5 * SECOND)
    code, value = told(later, seen)
    assert (code, value["outcome"], value["others"]) == (2, "undecided", 1)
    named = made(tmp_path / "b.tape", "look", trace="0" * 31 + "1", at=START + 5 * SECOND)
    assert told(named, seen)[0] == 0
