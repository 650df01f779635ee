"""``sidecar bisect`` with recorded runs as the oracle, on histories of a real small agent."""

import os
import subprocess
import sys

import pytest
from agent_history_rig import history
from history_rig import asked, bisected, git
from model_rig import ModelServer, Reply
from msgspec import structs

from sidecar.errors import SidecarError
from sidecar.evaluate.assertions.parse import assertions_of
from sidecar.outcome import Outcome
from sidecar.replay.bisect.answer import Ran
from sidecar.replay.bisect.process.oracles import RecordOracle
from sidecar.replay.bisect.process.preparing import prepare
from sidecar.replay.rerun.ended import Process, concluded
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter
from sidecar.tape.model import Header

pytestmark = pytest.mark.requirement("BIS-01")
COMMAND = (sys.executable, "agent.py")
REPLAY = (sys.executable, "-P", "-m", "sidecar", "tape", "replay")
ASSERTIONS = """
assertions:
  - id: refunds-what-is-due
    spec: never
    args: {event: {kind: tool_call, name: POST 127.0.0.1/refund, arguments: {body.amount: 4000}}}
"""


@pytest.fixture(scope="module")
def server():
    with ModelServer() as server:
        server.on("POST", "/plan", Reply({"amount": 40}, times=10_000))
        server.on("POST", "/refund", Reply({"ok": True}, times=10_000))
        yield server


def bad_run(server, repo, tape):
    """Record the agent as it is checked out."""
    subprocess.run(
        [*REPLAY[:-1], "record", "-o", tape, "--capture", "full", "--", *COMMAND],
        cwd=repo,
        env={**os.environ, "AGENT_BASE": server.url},
        check=True,
        capture_output=True,
    )


@pytest.mark.full
def test_the_last_good_run_tells_where_it_leaves_the_bad_tape(tmp_path, server):
    commits = history(3, drift=0, culprit=1, refactor=2)
    ids = commits.write(tmp_path / "repo")
    tape = tmp_path / "bad.tape"
    bad_run(server, tmp_path / "repo", tape)
    asked_before = len(server.asked)
    wanted = asked(
        tmp_path / "repo",
        ids[:1],
        ids[-1],
        COMMAND,
        tape=str(tape),
        monotone=0,
        roots=(".",),
    )
    value = bisected(wanted).value
    assert value["culprit"] == {"commit": ids[1], "subject": "Count in cents"}
    # Whoever is told that all is as recorded made its calls where no tape had them.
    assert {one["verdict"] for one in value["probes"]} == {"good", "bad"}
    where = value["first_divergence"]
    assert (where["kind"], where["drift"], where["name"]) == (
        "input_changed",
        ["ARGS"],
        "POST 127.0.0.1/refund",
    )
    assert where["places"] == ["in:/body/amount"]
    assert "--tape" in value["repro"] and "--root ." in value["repro"]
    value = bisected(structs.replace(wanted, roots=("nowhere",))).value
    assert value["reason"] == "bad_end_untestable"  # and no verdict
    assert len(server.asked) == asked_before  # nothing was asked again


def write(path, text):
    path.write_text(text)
    return str(path)


@pytest.mark.full
def test_assertions_on_a_recording_find_it_whatever_else_changed(tmp_path, server, monkeypatch):
    monkeypatch.setenv("AGENT_BASE", server.url)
    ids = history(12, drift=7, culprit=4, refactor=9, broken=(5,)).write(tmp_path / "repo")
    assertions = write(tmp_path / "a.yaml", ASSERTIONS)
    wanted = asked(tmp_path / "repo", ids[:1], ids[-1], COMMAND, assertions=assertions)
    value = bisected(wanted).value
    assert value["culprit"]["commit"] == ids[4]
    assert value["first_divergence"]["kind"] == "input_changed"
    assert not list((tmp_path / "repo" / ".git").glob("sidecar-bisect/*"))


@pytest.mark.full
def test_in_64_commits_with_merges_a_refactor_and_drift_the_planted_one_is_found(
    tmp_path, server, monkeypatch
):
    monkeypatch.setenv("AGENT_BASE", server.url)
    repo, tape = tmp_path / "repo", tmp_path / "bad.tape"
    broken = (30, 36, 52)
    commits = history(64, drift=12, culprit=37, refactor=45, broken=broken, merges=(9, 33, 50, 60))
    ids = commits.write(repo)
    planted = ids[commits.subjects.index("Count in cents")]
    bad_run(server, repo, tape)
    asked_before = len(server.asked)
    wanted = asked(repo, ids[:1], ids[-1], COMMAND, tape=str(tape), all_parents=True)
    value = bisected(wanted).value
    # The one before it is broken: nothing tells these two apart.
    assert planted in {one["commit"] for one in value["suspects"]}
    assert value["reason"] == "untestable" and len(value["suspects"]) == 2
    assert {one["subject"] for one in value["suspects"]} == {"Count in cents", "Main 36"}
    assert len(server.asked) == asked_before


@pytest.mark.full
@pytest.mark.parametrize("all_parents", [False, True])
@pytest.mark.row("R64")
def test_git_bisect_run_with_the_oracle_profile_agrees(tmp_path, server, all_parents):
    repo, tape = tmp_path / "repo", tmp_path / "bad.tape"
    commits = history(
        64, drift=12, culprit=37, refactor=45, broken=(16, 30, 52), merges=(9, 33, 50, 60)
    )
    ids = commits.write(repo)
    bad_run(server, repo, tape)
    wanted = asked(
        repo, ids[:1], ids[-1], COMMAND, tape=str(tape), all_parents=all_parents, monotone=3
    )
    value = bisected(wanted).value
    assert value["culprit"]["subject"] == "Count in cents"
    assert {one["subject"] for one in value["skipped"]} <= {"Main 16", "Main 30", "Main 52"}
    assert value["contradictions"] == []
    options = [] if all_parents else ["--first-parent"]
    git(repo, "bisect", "start", *options, ids[-1], ids[0])
    line = [*REPLAY, str(tape), "--profile", "git", "--bisect", "--", *COMMAND]
    said = git(repo, "bisect", "run", *line)
    assert f"{value['culprit']['commit']} is the first bad commit" in said
    assert git(repo, "rev-parse", "refs/bisect/bad") == value["culprit"]["commit"]


@pytest.mark.full
@pytest.mark.row("R56", "R64")
def test_where_no_commit_between_runs_git_and_we_are_inconclusive(tmp_path, server):
    repo, tape = tmp_path / "repo", tmp_path / "bad.tape"
    commits = history(8, drift=1, culprit=4, refactor=99, broken=range(1, 7))
    ids = commits.write(repo)
    bad_run(server, repo, tape)
    value = bisected(asked(repo, ids[:1], ids[-1], COMMAND, tape=str(tape))).value
    assert (value["culprit"], value["reason"]) == (None, "untestable")
    assert {one["commit"] for one in value["suspects"]} == set(ids[1:])
    git(repo, "bisect", "start", ids[-1], ids[0])
    line = [*REPLAY, str(tape), "--profile", "git", "--bisect", "--", *COMMAND]
    said = subprocess.run(
        ["git", "-C", repo, "bisect", "run", *line], capture_output=True, text=True
    )
    assert said.returncode != 0
    assert "only 'skip'ped commits left" in said.stdout + said.stderr


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
def test_a_behaviour_that_shows_half_the_time_is_found_with_real_processes(tmp_path, seed):
    from history_rig import line_of

    ids = line_of(64, 23 + 17 * seed).write(tmp_path)
    # Half of the runs of a bad commit show it, by a coin that a counter and a hash throw.
    script = (
        f"test $(cat word) = good && exit 0; echo x >> {tmp_path}/n{seed}; "
        f"n=$(wc -l < {tmp_path}/n{seed}); "
        f"test $(printf '{seed}-%s' $n | sha256sum | cut -c1 | tr 0-7 0) != 0"
    )
    wanted = asked(tmp_path, ids[:1], ids[-1], ("/bin/sh", "-c", script), method="bayes", seed=seed)
    value = bisected(wanted).value
    assert value["culprit"]["commit"] == ids[23 + 17 * seed]
    assert 0.2 < value["rate"]["low"] < 0.5 < value["rate"]["high"] < 0.8


def test_only_assertions_that_fail_at_the_bad_end_count_at_others(tmp_path):
    text = """
assertions:
  - {id: no-refund, spec: never_calls, args: {tools: [refund]}}
  - {id: no-mail, spec: never_calls, args: {tools: [mail]}}
"""
    named = assertions_of(text, name="a.yaml")

    def judged(oracle, point, *tools, code=0):
        own = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        own.mkdir()
        with TapeWriter(own / "run.tape", Header(tape_id="t", fidelity="L3")) as writer:
            for tool in tools:
                writer.event(Fact(kind="tool_call", seam="tool", name=tool, input={}))
            writer.event(Fact(kind="terminal", status="ok", output={}))
            writer.seal()
        answer = oracle.judge(point, Ran(code=code), own)
        return answer.verdict, answer.detail

    def oracle(known=()):
        return RecordOracle(named, 9, tmp_path / "kept", known, 0)

    one = oracle()
    assert judged(one, 9, "refund") == ("bad", "failed: no-refund")
    assert judged(one, 5, "look") == ("good", "")
    assert one.divergence(5, 9)["kind"] == "replaced"
    assert judged(one, 5, "mail")[0] == "skip"
    assert judged(one, 5, "mail", "refund")[0] == "bad"
    assert judged(one, 5, "refund", code=1) == ("skip", "the agent failed")
    assert judged(one, 5, "refund", code=3)[0] == "skip"
    # What an earlier start found out counts on.
    known = {"point": 9, "verdict": "bad", "failed": ["no-mail"], "exit_status": 1}
    assert judged(oracle([known]), 5, "mail", code=1)[0] == "bad"
    assert judged(oracle([known]), 5, "refund")[0] == "skip"
    missing = one.judge(5, Ran(code=0), tmp_path / "nowhere")
    assert missing.verdict == "skip"


def test_evidence_that_is_none_is_refused(tmp_path):
    ids = history(3, drift=9, culprit=1, refactor=9).write(tmp_path / "repo")

    def no(said, **more):
        with pytest.raises(SidecarError, match=said):
            prepare(asked(tmp_path / "repo", ids[:1], ids[-1], COMMAND, **more))

    no("of its own", tape="x", assertions="y")
    no("none.tape", tape=str(tmp_path / "none.tape"))
    no("it cannot be read", assertions=str(tmp_path / "none.yaml"))
    no("one or more", assertions=write(tmp_path / "bad.yaml", "assertions: []"))


def test_a_seam_that_is_not_in_place_makes_no_divergence():
    told = {"outcome": "miss", "broken": {"http": "AttributeError"}}
    assert concluded(told, Process(code=0), "strict")[0] is Outcome.UNDECIDED
    assert concluded({**told, "outcome": "ok"}, Process(code=0), "strict")[0] is Outcome.OK
