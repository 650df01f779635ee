"""``sidecar replay`` and ``sidecar gate`` as a user runs them: output, files, exit codes."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from recordings_rig import CONFIG
from staging_rig import staging_agent
from suite_rig import AGENT, SUITE, TWIN

from processors.model.step import Message, Step, Tool
from processors.model.step import Part as Part_
from processors.model.trace import AgentTrace, Service
from sidecar import clock
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.traces import SqliteOpenTraces
from sidecar.store.traces import CursorMove, Digests, Due, Intake, Part, Publication


class Shell:
    """The command line in a folder of the test's."""

    def __init__(self, folder):
        self.folder = folder
        for name, content in (("twin.yaml", TWIN), ("suite.yaml", SUITE), ("agent.py", AGENT)):
            (folder / name).write_text(content)

    def run(self, *words):
        keep = ("PATH", "HOME", "LANG", "VIRTUAL_ENV")
        return subprocess.run(
            [sys.executable, "-m", "sidecar", *words],
            cwd=self.folder,
            env={
                **{name: os.environ[name] for name in keep if name in os.environ},
                "PYTHONPATH": str(Path(__file__).parents[3]),
            },
            capture_output=True,
            text=True,
            timeout=120,
        )

    def replay(self, baseline, candidate, *more):
        agent = f"cmd:{sys.executable} agent.py"
        refs = ("--baseline", f"{agent} {baseline}", "--candidate", f"{agent} {candidate}")
        return self.run("replay", "suite.yaml", *refs, *more)


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.mark.requirement("XIT-01")
def test_a_good_candidate_passes_and_its_evidence_can_be_checked(shell):
    done = shell.replay("good", "good")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PASS  orders: ") and done.stderr == ""
    listed = json.loads(shell.run("gate", "list", "--output", "json").stdout)
    assert [one["status"] for one in listed] == ["PASS"]
    verdict_id = listed[0]["verdict_id"]
    shown = json.loads(shell.run("gate", "show", verdict_id[:12], "--output", "json").stdout)
    assert shown["verdict_id"] == verdict_id and shown["counts"]["unchanged"] == 1
    assert "rules that fired" in shell.run("gate", "explain", verdict_id).stdout
    holds = shell.run("gate", "verify", verdict_id)
    assert holds.returncode == 0 and "holds" in holds.stdout
    record = shell.folder / "sidecar-data/evidence" / verdict_id / "cases/reads/candidate-1.json"
    record.chmod(0o600)
    record.write_bytes(record.read_bytes().replace(b'"passed"', b'"failed"'))
    broken = shell.run("gate", "verify", verdict_id)
    assert broken.returncode == 1 and "candidate-1.json is not as it was written" in broken.stdout


@pytest.mark.requirement("XIT-01")
def test_a_bad_candidate_blocks_in_every_form_of_report(shell):
    done = shell.replay("good", "bad", "--output", "junit", "--evidence", "proof")
    assert done.returncode == 1, done.stderr
    assert '<failure type="new_critical"' in done.stdout
    assert len(list((shell.folder / "proof").iterdir())) == 1


@pytest.mark.requirement("XIT-01")
def test_a_candidate_that_cannot_run_is_undecided(shell):
    done = shell.run(
        *("replay", "suite.yaml", "--baseline", "cmd:./absent", "--candidate", "cmd:./absent")
    )
    assert done.returncode == 2
    assert done.stdout.startswith("UNDECIDED") and "agent_not_started" in done.stdout


@pytest.mark.full
def test_a_staging_agent_is_judged_where_its_range_is_named(shell):
    with staging_agent(shell.folder) as base:
        refs = ("--baseline", f"url:{base}/reads", "--candidate", f"url:{base}/reads")
        refused = shell.run("replay", "suite.yaml", *refs)
        assert refused.returncode == 3 and "replay.agents.allow_cidrs" in refused.stderr
        (shell.folder / "sidecar.yaml").write_text(
            'replay: {agents: {allow_cidrs: ["127.0.0.0/8"]}}\n'
        )
        done = shell.run("replay", "suite.yaml", *refs)
        assert (done.returncode, done.stdout[:6]) == (0, "PASS  "), done.stdout + done.stderr
        in_shards = shell.run("replay", "suite.yaml", *refs, "--executor", "process")
        assert in_shards.returncode == 0 and in_shards.stdout.startswith("PASS  ")
        (shell.folder / "sidecar.yaml").write_text('replay: {gateway: "127.0.0.1:4329"}\n')
        several = shell.run("replay", "suite.yaml", *refs, "--executor", "process")
        assert several.returncode == 3 and "--executor" in several.stderr


REPLAY = ("replay", "suite.yaml")


@pytest.mark.requirement("XIT-01")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("replay", "suite.yaml", "--candidate", "cmd:true"), 3, "needs a baseline"),
        (("replay", "suite.yaml", "--baseline", "cmd:true"), 3, "--candidate"),
        (("replay", "none.yaml", "--baseline", "cmd:a", "--candidate", "cmd:b"), 3, "none.yaml"),
        (("replay", "suite.yaml", "--baseline", "x", "--candidate", "cmd:b"), 3, "names no agent"),
        (("replay", "store:service=x", "--candidate", "cmd:b"), 3, "there is no store"),
        (
            ("replay", "store:service=x", "--twin", "twin.yaml", "--candidate", "cmd:b"),
            3,
            "there is no store",
        ),
        (
            (
                "replay",
                "suite.yaml",
                "--baseline",
                "cmd:a",
                "--candidate",
                "cmd:b",
                "--deadline",
                "x",
            ),
            3,
            "not a duration",
        ),
        (("gate", "show", "nothing"), 3, "there is no store"),
        (("replay", "no.yaml", "--candidate", "cmd:x"), 3, "the file cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_and_exits_3(shell, words, code, said):
    done = shell.run(*words)
    assert done.returncode == code
    assert said in done.stderr and "Traceback" not in done.stderr and done.stdout == ""


def test_a_missing_policy_bundle_is_said_before_anything_runs(shell):
    (shell.folder / "sidecar.yaml").write_text("policy: {bundle: nowhere}\n")
    done = shell.replay("good", "good")
    assert done.returncode == 3 and "nowhere" in done.stderr and "Traceback" not in done.stderr
    assert not (shell.folder / "sidecar-data").exists()


def test_every_problem_of_a_suite_is_named_with_its_line(shell):
    suite = shell.folder / "suite.yaml"
    suite.write_text(SUITE.replace("get_order}", "get_ordr}").replace("severity: critical", "x: 1"))
    done = shell.replay("good", "good")
    assert done.returncode == 3
    assert "suite.yaml:7: scenarios.0.x is unknown" in done.stderr


def stored(folder, trace):
    """Publish one trace into a store of the folder, as the pipeline does."""

    async def scenario():
        path = folder / "sidecar-data" / "traces.db"
        opened = SqliteOpenTraces(path, sealers=lambda _: Sealer(b"k" * 32, os.urandom))
        part = Part(project="default", key="k", kind="telemetry", payload=b"x", expires_ns=2**60)
        move = CursorMove(name="journal", before=0, after=1)
        await opened.take_in(Intake(move=move, parts=(part,), now_ns=1))
        (due,) = opened.due(Due(now_ns=2, idle_ns=1, open_max_ns=10, limit=1))
        await opened.publish(
            [
                Publication(
                    open_id=due.open_id,
                    version=due.version,
                    traces=(trace,),
                    digests=(Digests("c", "f"),),
                    now_ns=2,
                )
            ]
        )
        opened.close()

    asyncio.run(scenario())


def trace(*, content):
    shown = (Message(role="user", parts=(Part_(type="text", content="A-1"),)),)
    steps = (
        Step(
            step_id="1",
            kind="model_call",
            start_ns=clock.now_ns(),
            messages_in=shown if content else None,
        ),
        Step(
            step_id="2",
            kind="tool_call",
            status="ok",
            start_ns=clock.now_ns(),
            tool=Tool(
                name="get_order",
                arguments={"order_id": "A-1"} if content else None,
                result={"id": "A-1", "open": True} if content else None,
            ),
        ),
    )
    return AgentTrace(
        trace_id="ab" * 16,
        trace_ids=("ab" * 16,),
        service=Service(name="refunder"),
        steps=steps,
        final_output="It is open." if content else None,
    )


QUERY = ("replay", "store:service=refunder,since=1d", "--twin", "twin.yaml")


def test_without_captured_content_it_exits_2_and_says_how_to_capture(shell):
    stored(shell.folder, trace(content=False))
    done = shell.run(*QUERY, "--candidate", "cmd:true")
    assert done.returncode == 2 and done.stdout == ""
    assert "without" not in done.stdout and "content.capture" in done.stderr
    done = shell.run("replay", "store:service=nobody", *QUERY[2:], "--candidate", "cmd:true")
    assert done.returncode == 2 and "no stored trace matches" in done.stderr


@pytest.mark.full
def test_captured_traffic_needs_no_twin_its_tools_answer_as_recorded(shell):
    stored(shell.folder, trace(content=True))
    (shell.folder / "sidecar.yaml").write_text(CONFIG)
    named = ("store:service=refunder,since=1d", "--deterministic", "--output", "json")
    agent = f"cmd:{sys.executable} agent.py good"
    done = shell.run("replay", *named, "--baseline", "recorded", "--candidate", agent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["status"] == "PASS"
    assert "tools answer as they were recorded" in done.stderr
    asks = shell.folder / "asks.py"
    asks.write_text("def f(request, call):\n return call('get_order', {'order_id': 'Z'}).status\n")
    gap = shell.run("replay", *named, "--candidate", "py:asks:f", "--executor", "inline")
    assert gap.returncode == 2 and "get_order(order_id='A-1')" in gap.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("store:trace=" + "ab" * 16, "--project", "other"),
        ("store:service=refunder' OR '1'='1",),
        ("store:trace=../../default/" + "ab" * 16,),
    ],
)
def test_no_query_reaches_another_projects_traces(shell, words):
    stored(shell.folder, trace(content=True))
    done = shell.run("replay", *words, "--candidate", "cmd:true")
    assert done.returncode == 2 and done.stdout == ""
    assert "no stored trace matches" in done.stderr and "Traceback" not in done.stderr


def test_captured_traffic_is_replayed_against_what_was_recorded(shell):
    stored(shell.folder, trace(content=True))
    agent = f"cmd:{sys.executable} agent.py good"
    done = shell.run(*QUERY, "--candidate", agent, "--deterministic", "--output", "json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["status"], verdict["baseline"]) == ("PASS", "recorded")
    assert verdict["evidence"]["cases"][0]["case"] == "trace-" + "ab" * 16
