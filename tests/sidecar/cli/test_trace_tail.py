"""``sidecar trace tail`` in a process of its own, over a store that grows."""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from export_rig import until

from processors.model.evidence import Outcome
from processors.model.step import Step
from processors.model.trace import AgentTrace, Service
from sidecar import clock
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.traces import SqliteOpenTraces
from sidecar.store.traces import (
    CursorMove,
    Digests,
    Due,
    Intake,
    Part,
    Publication,
    content_digest,
)

COMMAND = (sys.executable, "-m", "sidecar", "trace", "tail", "--store", "sqlite:///data")


def sealers(project):
    return Sealer(hashlib.sha256(project.encode()).digest(), clock.random_bytes)


class Store:
    def __init__(self, folder):
        self.opened = SqliteOpenTraces(folder / "data" / "traces.db", sealers=sealers)

    def publish(self, trace_id, outcome="unverified", service="refunds", project="shop"):
        before = self.opened.cursor("j")
        move = CursorMove(name="j", before=before, after=before + 1)
        key, now = trace_id * 32, clock.now_ns()
        part = Part(project=project, key=key, kind="telemetry", payload=b"x", expires_ns=now * 2)
        trace = AgentTrace(
            trace_id=key,
            project=project,
            service=Service(name=service),
            steps=(Step(step_id="s", kind="agent", start_ns=now),),
            outcome=Outcome(status=outcome),
        )

        async def scenario():
            await self.opened.take_in(Intake(move=move, parts=(part,), now_ns=now))
            due = Due(now_ns=now + 10, idle_ns=1, open_max_ns=1, limit=9)
            (opened,) = self.opened.due(due)
            digest = content_digest(trace)
            publication = Publication(
                open_id=opened.open_id,
                version=opened.version,
                traces=(trace,),
                digests=(Digests(digest, digest),),
                now_ns=now,
            )
            await self.opened.publish([publication])

        asyncio.run(scenario())


class Tail:
    def __init__(self, folder, *arguments):
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines = []
        assert "following" in self.process.stderr.readline()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def end(self):
        """Ctrl-C; exit code and what it said last."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(20)
        self._reader.join(20)
        said = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, said


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path)
    yield made
    made.opened.close()


def test_what_is_published_from_now_on_is_told_each_revision_once(store, tmp_path):
    store.publish("a")
    tail = Tail(tmp_path, "--output", "jsonl")
    store.publish("b")
    until(lambda: len(tail.lines) == 1)
    store.publish("b", outcome="contradicted")
    until(lambda: len(tail.lines) == 2)
    assert tail.end() == (0, "")
    told = [json.loads(line) for line in tail.lines]
    assert [(each["trace_id"][0], each["revision"], each["outcome"]) for each in told] == [
        ("b", 1, "unverified"),
        ("b", 2, "contradicted"),
    ]


def test_filters_and_text(store, tmp_path):
    wanted = ("--service", "refunds", "--project", "shop", "--outcome", "contradicted")
    tail = Tail(tmp_path, *wanted)
    store.publish("1", outcome="contradicted", service="other")
    store.publish("2", outcome="contradicted", project="bank")
    store.publish("3")
    store.publish("4", outcome="contradicted")
    until(lambda: tail.lines)
    assert tail.end()[0] == 0
    (line,) = tail.lines
    assert "4" * 32 in line and line.endswith("refunds  1 steps  rev 1  contradicted")


def test_it_ends_in_silence_when_its_reader_goes_away(store, tmp_path):
    reading, writing = os.pipe()
    process = subprocess.Popen(
        COMMAND,
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert "following" in process.stderr.readline()
    os.close(reading)
    store.publish("a")
    assert (process.wait(20), process.stderr.read()) == (0, "")
    process.stderr.close()


def test_without_a_store_it_says_so(tmp_path):
    found = subprocess.run(
        [sys.executable, "-m", "sidecar", "trace", "tail", "--store", "sqlite:///nowhere"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert found.returncode == 3 and "there is no store" in found.stderr
