"""Whole processes: a replay that is killed goes on, and Ray comes to the same document."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest
from postgres_rig import database

AGENT = """\
import time


def answer(request, call):
    order = call("get_order", {"order_id": request["input"]["order"]}).value
    time.sleep(0.02)
    call("issue_refund", {"order_id": order["id"], "amount": order["total"]}, key="k")
    return f"I have issued the refund for {order['id']}."
"""
SCENARIO = """\
- id: c{}
  input: {{order: A-1}}
  expect: [{{type: state, entity: orders, key: A-1, equals: {{refunded: 49}}}}]
"""
REFERENCES = ("--baseline", "py:slow_calls:answer", "--candidate", "py:slow_calls:answer")
pytestmark = [pytest.mark.full, pytest.mark.requirement("CRV-01")]


@pytest.fixture
def folder(replayed):
    (replayed.folder / "slow_calls.py").write_text(AGENT)
    replayed.suite("".join(SCENARIO.format(n) for n in range(60)), deterministic=True)
    return replayed.folder


def start(folder, *words):
    command = [sys.executable, "-m", "sidecar", "replay", *words, "--output", "json"]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def told(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    verdict = json.loads(out)
    for name in ("verdict_id", "created_at_ns"):
        del verdict[name]
    for name in ("folder", "root"):
        del verdict["evidence"][name]
    return verdict


def rows(folder, statement):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json, sqlite3, sys\n"
            "found = sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall()\n"
            "print(json.dumps(found))",
            str(folder / "sidecar-data" / "traces.db"),
            statement,
        ],
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout) if done.returncode == 0 else []


def children(of):
    """The process and what is below it."""
    found = [of]
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == of:
            found += children(int(name))
    return found


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.row("R44")
def test_a_coordinator_that_is_killed_leaves_nobody_and_its_run_goes_on(folder):
    plain = told(start(folder, "suite.yaml", *REFERENCES, "--executor", "inline"))
    first = start(folder, "suite.yaml", *REFERENCES)
    done = "SELECT run_id FROM replay_shard WHERE took_ns IS NOT NULL"
    ((run, *_), *_) = until(lambda: rows(folder, done))
    family = children(first.pid)
    first.kill()
    first.communicate()
    assert len(family) > 2
    until(lambda: not any(alive(pid) for pid in family), seconds=20)
    before = len(rows(folder, "SELECT place FROM replay_episode"))
    assert 0 < before < 240
    # What it held comes free when its leases run out: the first ones are long.
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys\n"
            "kept = sqlite3.connect(sys.argv[1])\n"
            "kept.execute('UPDATE replay_shard SET lease_until_ns = 1')\n"
            "kept.commit()",
            str(folder / "sidecar-data" / "traces.db"),
        ],
        check=True,
    )
    assert told(start(folder, "--resume", run)) == plain


@pytest.mark.row("R44")
def test_a_worker_that_is_killed_costs_its_shard_a_delivery(folder):
    plain = told(start(folder, "suite.yaml", *REFERENCES, "--executor", "inline"))
    first = start(folder, "suite.yaml", *REFERENCES)
    until(lambda: rows(folder, "SELECT run_id FROM replay_shard WHERE took_ns IS NOT NULL"))
    workers = [pid for pid in children(first.pid) if b"forkserver" in cmdline(pid)]
    os.kill(workers[-1], signal.SIGKILL)
    assert told(first) == plain


def test_ctrl_c_says_how_to_go_on(folder):
    first = start(folder, "suite.yaml", *REFERENCES)
    until(lambda: rows(folder, "SELECT run_id FROM replay_shard WHERE took_ns IS NOT NULL"))
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)
    assert (first.returncode, out) == (3, "")
    words = err[err.index("sidecar replay --resume") :].split()
    assert told(start(folder, *words[2:4]))["status"] == "PASS"


NOTED = """\
import os
import time
from slow_calls import answer as slow


def answer(request, call):
    with open("noted", "a") as file:  # short lines are written whole
        file.write(f"{os.getppid()} {request['scenario']}\\n")
    while len(seen := noted()) > 10 and len({pool for pool, _ in seen}) < 2:
        time.sleep(0.05)  # the second coordinator is on its way
    return slow(request, call)


def noted():
    with open("noted") as file:
        return [line.split() for line in file]
"""


def test_two_coordinators_on_one_postgres_do_each_shard_once_and_come_to_one_verdict(folder):
    (folder / "noted_calls.py").write_text(NOTED)
    suite = (folder / "suite.yaml").read_text()
    suite = suite.replace("deterministic: true", "deterministic: false")
    (folder / "suite.yaml").write_text(suite.replace("deadline: 30s", "deadline: 120s"))
    side = "py:noted_calls:answer"
    with database(migrated=False) as url:
        shared = ("--store", url, "--executor", "process", "--jobs", "2")
        first = start(folder, "suite.yaml", "--baseline", side, "--candidate", side, *shared)
        run = until(lambda: runs_in(url))
        second = start(folder, "--resume", run, *shared)
        ended = [process.communicate(timeout=300) for process in (first, second)]
        assert [first.returncode, second.returncode] == [0, 0], ended
        one, other = (json.loads(out) for out, _ in ended)
        assert one == other
        assert "another coordinator concluded the run" in ended[0][1] + ended[1][1]
        late = start(folder, "--resume", run, *shared)
        assert "ended with verdict" in late.communicate(timeout=60)[1]
    noted = [line.split() for line in (folder / "noted").read_text().splitlines()]
    assert len(noted) == 120 and len({pool for pool, _ in noted}) == 2
    assert sorted(name for _, name in noted) == sorted(2 * [f"c{n}" for n in range(60)])


def runs_in(url):
    async def asked():
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(
                "SELECT run_id FROM traces.replay_shard WHERE took_ns IS NOT NULL LIMIT 1"
            )
        finally:
            await connection.close()

    with contextlib.suppress(asyncpg.PostgresError):  # its tables are not there yet
        return asyncio.run(asked())


def test_the_next_replay_removes_what_a_killed_one_had_begun_to_write(folder):
    part = folder / "sidecar-data" / "evidence" / ("0" * 32 + ".part")
    part.mkdir(parents=True)
    (part / "plan.json").write_text("{}")
    process = start(folder, "suite.yaml", *REFERENCES, "--executor", "inline")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0
    assert f"removed {part.relative_to(folder)}: evidence that a killed replay" in err
    assert not part.exists()


def test_ray_comes_to_the_same_document(folder):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    plain = told(start(folder, "suite.yaml", *REFERENCES, "--executor", "inline"))
    assert told(start(folder, "suite.yaml", *REFERENCES, "--executor", "ray")) == plain


def cmdline(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
