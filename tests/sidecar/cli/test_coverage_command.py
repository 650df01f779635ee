"""``sidecar coverage`` as a user types it: of a verdict's evidence, and of a suite run now."""

import json
import sys
from dataclasses import dataclass

import click
import pytest
from test_replay_commands import Shell, stored, trace

from sidecar.cli.coverage import command
from sidecar.errors import SidecarError

CONFIG = """\
gateway:
  upstreams: [{name: shop, url: "https://shop.example"}]
  tools:
    - {name: refund, upstream: shop, match: {method: POST, path: /refunds}, class: irreversible}
"""


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("coverage")


@pytest.fixture
def covers(folder, monkeypatch, capsys):
    """The command in this process, in the folder of a replay."""
    monkeypatch.chdir(folder)

    def run(*words):
        capsys.readouterr()
        try:
            code, said = command.main([*words], prog_name="coverage", standalone_mode=False), ""
        except SidecarError as error:
            code, said = int(error.code), error.text()
        except click.UsageError as error:
            code, said = 3, error.format_message()
        out, err = capsys.readouterr()
        return Done(code, out, err + said)

    return run


@pytest.fixture(scope="module")
def verdict(folder):
    done = Shell(folder).replay("good", "good", "--output", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["verdict_id"]


@pytest.mark.requirement("COV-01")
def test_a_verdict_s_evidence_is_counted_with_its_suite_twins_and_policy(covers, folder, verdict):
    done = covers(verdict[:12], "--output", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    found = {one["surface"]: one for one in told["surfaces"]}
    assert len(found) == 8 and told["suites"] == ["orders"] and told["runs"] == 2
    assert (found["tool"]["covered"], found["tool"]["total"]) == (1, 1)
    said = {(one["group"], one["name"]) for one in found["policy"]["items"] if one["covered"]}
    assert ("allow: read_allowed", "said") in said
    assert ("deny: tool_unlisted", "silent") in said
    assert ("deny: tool_unlisted", "said") not in said
    modes = {one["group"] for one in found["failure_mode"]["items"] if one["covered"]}
    assert modes == {"act left out", "wrong amount or target", "wrong answer"}


@pytest.mark.requirement("COV-01")
def test_a_tool_of_the_registry_that_no_run_calls_is_missing_and_a_floor_fails(
    covers, folder, verdict
):
    (folder / "more.yaml").write_text(CONFIG)
    done = covers(
        *(verdict, "--config", "more.yaml", "--floor", "critical_tool=100%"),
        *("--floor", "tool=0.5"),
    )
    assert done.returncode == 1, done.stderr
    assert "tool                   1/2  irreversible 0/1, read 1/1" in done.stdout
    assert "missing  refund: done (no run makes its effect)" in done.stdout
    assert "below its floor: critical_tool: 0 of 2, below 100%" in done.stdout


@pytest.mark.requirement("COV-01")
def test_a_suite_is_run_and_counted_and_shown_as_a_page(covers, verdict):
    agent = f"cmd:{sys.executable} agent.py good"
    done = covers("suite.yaml", "--agent", agent, "--output", "markdown")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Coverage of orders") and "| tool | 1/1 |" in done.stdout


SPAN = {
    "traceId": "ab" * 16,
    "spanId": "cd" * 8,
    "name": "execute_tool wipe",
    "kind": 1,
    "startTimeUnixNano": "1700000000000000001",
    "endTimeUnixNano": "1700000000000000002",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
        {"key": "gen_ai.tool.name", "value": {"stringValue": "wipe"}},
    ],
}


@pytest.mark.requirement("COV-01")
def test_a_capture_of_production_weighs_and_shows_a_tool_that_nobody_named(covers, folder, verdict):
    capture = folder / "0001.traces.json"
    spans = [SPAN, {**SPAN, "spanId": "ef" * 8}]
    capture.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    done = covers(verdict, "--traffic", str(capture), "--output", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    tool = told["surfaces"][0]
    assert told["traffic"] == 1 and tool["production"] == {"covered": 0, "total": 2}
    assert [(one["group"], one["production"]) for one in tool["missing"]] == [("wipe", 2)]
    assert "no registry or twin names it" in tool["notes"][0]
    capture.write_text("{")
    broken = covers(verdict, "--traffic", str(capture))
    assert broken.returncode == 3 and "0001.traces.json" in broken.stderr


@pytest.mark.requirement("COV-01")
def test_traces_of_the_store_weigh_where_there_are_any(covers, folder, verdict):
    before = covers(verdict, "--output", "json")
    assert json.loads(before.stdout)["traffic"] is None
    stored(folder, trace(content=True))
    told = json.loads(covers(verdict, "--output", "json").stdout)
    assert told["traffic"] == 1
    assert told["surfaces"][0]["production"] == {"covered": 1, "total": 1}
    other = json.loads(covers(verdict, "--service", "nobody", "--output", "json").stdout)
    assert other["traffic"] is None


@pytest.mark.requirement("COV-01")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("suite.yaml",), 3, "name the agent"),
        (("nowhere",), 3, "there is no one verdict"),
        (("nowhere", "--floor", "safe=1"), 3, "names no surface"),
        (("suite.yaml", "--agent", "cmd:./absent"), 2, "no run came to a conclusion"),
    ],
)
def test_what_cannot_be_counted_is_told(covers, verdict, words, code, said):
    assert verdict
    done = covers(*words)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.requirement("COV-01")
def test_evidence_that_was_changed_or_decided_by_another_policy_covers_nothing(
    covers, folder, verdict
):
    (folder / "policy").mkdir()
    for name in ("decide.rego", "data.yaml"):
        (folder / "policy" / name).write_text(POLICY if name == "decide.rego" else "{}\n")
    (folder / "other.yaml").write_text("policy: {bundle: policy}\n")
    done = covers(verdict, "--config", "other.yaml")
    assert done.returncode == 0, done.stderr
    assert "policy                 not known: the runs were decided by policy" in done.stdout
    folder = folder / "sidecar-data" / "evidence" / verdict
    record = folder / "cases" / "reads" / "candidate-1.json"
    record.chmod(0o600)
    record.write_bytes(record.read_bytes().replace(b'"passed"', b'"failed"'))
    broken = covers(str(folder))
    assert broken.returncode == 2 and "is not as it was written" in broken.stderr


POLICY = """\
package agenttwin.v1

decide := {"effect": "allow", "reasons": [{"code": "all"}]}

list := {"effect": "allow", "reasons": [{"code": "all"}]}
"""
