"""``sidecar trace normalise``: captures in, one trace a line out; a bad one costs only itself."""

import json

import pytest
from click.testing import CliRunner

from sidecar.cli.trace import command

SPAN = {
    "traceId": "ab" * 16,
    "spanId": "cd" * 8,
    "name": "chat m",
    "kind": 3,
    "startTimeUnixNano": "1700000000000000001",
    "endTimeUnixNano": "1700000000000000002",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
    ],
}


def request(**more):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{**SPAN, **more}]}]}]})


def run(*arguments):
    return CliRunner().invoke(command, ["normalise", *map(str, arguments)])


@pytest.fixture
def capture(tmp_path):
    folder = tmp_path / "capture"
    folder.mkdir()
    (folder / "0001.traces.json").write_text(request())
    (folder / "notes.json").write_text("not a request")
    return folder


def test_each_trace_is_one_line_with_the_keys_of_the_specification(capture):
    result = run(capture, "--output", "jsonl")
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    trace = json.loads(line)
    assert trace["capture"] == str(capture)
    assert trace["usage_total"].keys() >= {"input", "output", "cache_read", "cache_write"}
    assert trace["usage_total"]["input"] == 7
    assert trace.keys() >= {
        *("trace_id", "trace_ids", "conversation_id", "service", "project", "revision"),
        *("completeness", "warnings", "steps", "final_output", "claims", "evidence", "outcome"),
    }
    (step,) = trace["steps"]
    assert step["kind"] == "model_call"
    assert step.keys() >= {
        *("step_id", "parent_step_id", "name", "agent", "start_ns", "end_ns", "status", "error"),
        *("model", "usage", "messages_in", "messages_out", "output", "tool", "decision"),
        *("receipt_id", "content_state", "sources"),
    }


def test_of_one_stem_the_protobuf_is_read(capture):
    (capture / "0001.traces.binpb").write_bytes(b"")
    assert run(capture, "--output", "jsonl").stdout == ""


def test_a_single_request_is_a_capture_too(capture):
    result = run(capture / "0001.traces.json", "--output", "json")
    assert [trace["capture"] for trace in json.loads(result.stdout)] == [
        str(capture / "0001.traces.json")
    ]


def test_text_shows_each_step(capture):
    result = run(capture)
    assert "model_call" in result.stdout
    assert "7 in" in result.stdout


@pytest.mark.parametrize("bad", ["torn", "empty", "missing"])
def test_a_bad_capture_is_reported_and_the_others_go_on(capture, tmp_path, bad):
    folder = tmp_path / bad
    if bad != "missing":
        folder.mkdir()
    if bad == "torn":
        (folder / "0001.traces.binpb").write_bytes(b"\xff\xff")
    result = run(folder, capture, "--output", "jsonl")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert str(folder) in result.stderr
    assert "Traceback" not in result.output


def test_items_left_out_are_said(tmp_path):
    path = tmp_path / "0001.traces.json"
    path.write_text(request(spanId="zz"))
    result = run(path, "--output", "jsonl")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "1 items" in result.stderr
