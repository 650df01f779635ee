"""A peer that speaks anything but Postgres harms the question to itself and nothing else."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import hostile_postgres_rig as hostile
import msgspec
import pytest

from processors.model.step import Step, Tool
from processors.model.trace import AgentTrace
from sidecar import config
from sidecar.app.asking import open_asking
from sidecar.app.stages import pipeline_rules
from sidecar.egress.client import Egress
from sidecar.probe.config import Database, Probe, SqlProbe
from sidecar.probe.driver import Askers, run
from sidecar.probe.plan import load, plan
from sidecar.probe.sql.client import SqlAsker
from sidecar.probe.sql.messages import Job
from sidecar.probe.sql.process import ADDRESS_SPACE_BYTES
from sidecar.probe.sql.worker import Worker, WorkerFailed

STEP = Step(step_id="s1", kind="tool_call", name="t", status="ok", tool=Tool(name="t"))
TRACE = AgentTrace(trace_id="e" * 32, steps=(STEP,))
LOOP_SECONDS_MAX = 0.1


def database(port, tls="off"):
    url = f"postgresql://looker@127.0.0.1:{port}/shop"
    return Database(name="shop", url=url, allow_cidrs=("127.0.0.0/8",), tls=tls)


def asked(port, *, deadline="300ms", tls="off"):
    """The evidence, and the longest the loop was busy by itself meanwhile, in seconds."""
    sql = SqlProbe(database="shop", query="SELECT 1")
    probe = Probe(name="p", when="true", sql=sql, expect="true", deadline=deadline)

    async def scenario():
        egress = Egress()
        asker = SqlAsker([database(port, tls)], egress, Path())
        watch = asyncio.create_task(busiest())
        try:
            requests = plan(TRACE, load([probe]))
            (evidence,) = await run(requests, Askers(http=asker, sql=asker, mcp=asker))
        finally:
            watch.cancel()
            await asker.close()
            await egress.close()
        return evidence, await watch

    return asyncio.run(scenario())


async def busiest():
    # Of this thread's own time: what others on the machine take is not the loop's doing.
    most, before = 0.0, time.thread_time()
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            await asyncio.sleep(0.005)
            before, most = time.thread_time(), max(most, time.thread_time() - before)
    return max(most, time.thread_time() - before)


@pytest.mark.requirement("OUT-02")
@pytest.mark.parametrize(
    ("manner", "tls", "code"),
    [
        (hostile.nuls, "off", "answer_malformed"),
        (hostile.nuls_within, "off", "answer_malformed"),
        (hostile.garbage, "off", "answer_malformed"),
        (hostile.negative_length, "off", "answer_malformed"),
        (hostile.long_row, "off", "answer_malformed"),
        (hostile.unending_text, "off", "answer_malformed"),
        (hostile.huge_length, "off", "answer_too_large"),
        (hostile.notices, "off", "answer_too_large"),
        (hostile.drip, "off", "no_whole_answer"),
        (hostile.silence, "off", "no_whole_answer"),
        (hostile.silence, "require", "no_whole_answer"),
        (hostile.no_tls, "require", "unreachable"),
        (hostile.tls_with_more, "require", "unreachable"),
        (hostile.broken_tls, "require", "unreachable"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_is_no_postgres_is_unknown_with_its_code_and_the_loop_answers(manner, tls, code):
    deadline = "300ms" if code == "no_whole_answer" else "10s"
    with hostile.server(manner) as port:
        evidence, busy = asked(port, deadline=deadline, tls=tls)
    assert (evidence.held, evidence.detail) == (None, code)
    assert busy < LOOP_SECONDS_MAX


@pytest.mark.requirement("OUT-02")
def test_a_driver_that_its_server_keeps_for_ever_is_killed_and_the_loop_answers():
    with hostile.server(hostile.endless_work) as port:
        evidence, busy = asked(port)
    assert (evidence.held, evidence.detail) == (None, "driver_stuck")
    assert busy < LOOP_SECONDS_MAX


CONFIGURED = """
databases:
  - name: shop
    url: "postgresql://l@127.0.0.1:{port}/shop"
    allow_cidrs: ["127.0.0.0/8"]
    tls: "off"
probes:
  - {{name: p, when: "true", expect: "true", sql: {{database: shop, query: SELECT 1}}}}
"""


def test_the_pipeline_asks_as_configured_and_ends_what_it_started(tmp_path):
    def children():
        path = Path(f"/proc/self/task/{threading.get_native_id()}/children")
        return set(path.read_text().split())

    async def scenario():
        before = children()
        loaded = config.load(str(tmp_path / "sidecar.yaml"), environ={})
        asking = open_asking(loaded, pipeline_rules(loaded))
        assert asking.probed(TRACE)
        (evidence,) = await asking.probe(TRACE)
        assert children() > before
        await asking.close()
        assert children() == before
        return evidence

    with hostile.server(hostile.nuls) as port:
        (tmp_path / "sidecar.yaml").write_text(CONFIGURED.format(port=port))
        evidence = asyncio.run(scenario())
    assert evidence.detail == "answer_malformed"


def job(port):
    return Job(
        identity=0,
        address="127.0.0.1",
        port=port,
        host="127.0.0.1",
        user="looker",
        database="shop",
        password_file="",
        tls=False,
        ca_file="",
        query="SELECT 1",
        values=(),
        deadline_ns=30_000_000_000,
    )


async def code_of(worker, port, *, kill):
    """What a question ends in whose process is killed once the server has it."""
    asking = asyncio.create_task(worker.ask(job(port)))
    if kill is not None:
        await asyncio.to_thread(kill.wait)
        kill.clear()
        os.kill(worker.pid, signal.SIGKILL)
    try:
        return (await asking).code
    except WorkerFailed as failed:
        return failed.code


def test_a_process_that_dies_is_started_again_and_paused_when_it_dies_in_a_row():
    here = threading.Event()

    def silent(connection):
        connection.begun()
        here.set()
        connection.stay()

    async def scenario(port, gone):
        worker = Worker("shop")
        try:
            first = await code_of(worker, port, kill=here)
            again = await code_of(worker, gone, kill=None)  # an answer: it counts anew
            more = [await code_of(worker, port, kill=here) for _ in range(2)]
            return [first, again, *more, await code_of(worker, port, kill=None)]
        finally:
            await worker.close()
            assert worker.pid is None

    with hostile.server(silent) as port, hostile.server(hostile.nuls) as gone:
        codes = asyncio.run(scenario(port, gone))
    assert codes == ["driver_stuck", "answer_malformed", *["driver_stuck"] * 2, "driver_paused"]


def test_the_process_has_little_memory_no_files_and_nothing_of_our_environment(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "secret")

    async def scenario(port):
        worker = Worker("shop")
        try:
            await worker.ask(job(port))
            proc = Path(f"/proc/{worker.pid}")
            return (proc / "limits").read_text(), (proc / "environ").read_bytes()
        finally:
            await worker.close()

    with hostile.server(hostile.nuls) as port:
        limits, environ = asyncio.run(scenario(port))
    told = {line[:26].strip(): line[26:].split()[0] for line in limits.splitlines()}
    assert told["Max address space"] == str(ADDRESS_SPACE_BYTES)
    assert told["Max file size"] == told["Max core file size"] == "0"
    assert b"secret" not in environ


ALONE = """
import asyncio, sys, test_sql_hostile as rig
from sidecar.probe.sql.process import ADDRESS_SPACE_BYTES
from sidecar.probe.sql.worker import Worker

async def main(port):
    worker = Worker("shop")
    asking = asyncio.create_task(worker.ask(rig.job(port)))
    while worker.pid is None:
        await asyncio.sleep(0.01)
    print(worker.pid, flush=True)
    await asking

asyncio.run(main(int(sys.argv[1])))
"""


def test_a_stuck_process_ends_with_its_parent():
    computing = threading.Event()

    def endless(connection):
        hostile.endless_work(connection, computing.set)

    path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    with hostile.server(endless) as port:
        parent = subprocess.Popen(
            [sys.executable, "-P", "-c", ALONE, str(port)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        with parent:
            child = int(parent.stdout.readline())
            assert computing.wait(20)
            parent.kill()
        until = time.monotonic() + 10
        while runs(child) and time.monotonic() < until:
            time.sleep(0.01)
    assert not runs(child)


def runs(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_question_too_long_to_be_asked_is_refused():
    async def scenario():
        worker = Worker("shop")
        long = msgspec.structs.replace(job(1), values=("x" * 2**21,))
        with pytest.raises(WorkerFailed, match="sql_value_does_not_fit"):
            await worker.ask(long)
        assert worker.pid is None
        await worker.close()

    asyncio.run(scenario())
