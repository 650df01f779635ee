"""Two real sidecars on one Postgres: whoever is killed, nothing acknowledged is lost or doubled.

Goal: REC-02 and REC-06 where several sidecars share a database. Method: a sender for each sidecar,
both with spans of the same traces, logs what was acknowledged and sends again what was not; a
sidecar, its pipeline or the database is killed with -9 in between; at the end the store is counted.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import postgres_rig
import pytest

from sidecar.errors import StoreUnavailable
from sidecar.store.location import read_location
from sidecar.store.postgres.connection import Database
from sidecar.store.postgres.traces import PostgresTraces
from sidecar.store.traces import TraceQuery

pytestmark = pytest.mark.full  # minutes on two cores: real processes and servers

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from catching_up import until_none  # noqa: E402
from kill_rounds import _descendants  # noqa: E402
from sidecar_process import CONFIG, SidecarProcess  # noqa: E402

SECONDS = 90
"""For how long nothing may come any more of what is waited for, before it counts as missing."""


class Member:
    """A sidecar with a folder of its own and a sender that sends to it alone."""

    def __init__(self, folder, url, side):
        folder.mkdir()
        self.folder = folder
        (folder / "seal-key").write_text("11" * 32)
        config = CONFIG.replace("sqlite:///data", url)
        self.sidecar = SidecarProcess(folder, config)
        self.side = side
        self.sender = None

    def start(self, key):
        (self.folder / "key").write_text(key)
        self.serve()
        command = [sys.executable, HERE / "kill_sender.py", self.folder, "7", str(self.side)]
        self.sender = subprocess.Popen(command)

    def serve(self):
        self.sidecar.start()
        bound = self.sidecar.addresses
        new = self.folder / "address.new"
        new.write_text(json.dumps({"http": bound["receive.http"], "grpc": bound["receive.grpc"]}))
        new.rename(self.folder / "address")

    def kill(self):
        """``kill -9`` of the sidecar; its children end by themselves."""
        os.kill(self.sidecar.process.pid, signal.SIGKILL)
        self.sidecar.reap()

    def kill_pipeline(self):
        """``kill -9`` of its pipeline, which the sidecar starts again."""
        for pid in _descendants(self.sidecar.process.pid):
            with contextlib.suppress(OSError):
                if b"pipeline_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)

    @property
    def acknowledged(self):
        with contextlib.suppress(FileNotFoundError):
            lines = (self.folder / "acknowledged").read_text().splitlines()
            return {tuple(line.split()) for line in lines}
        return set()

    def hush(self):
        """No new requests; those begun are acknowledged."""
        (self.folder / "stop").touch()
        if self.sender is not None:
            self.sender.wait(SECONDS)

    def stop(self):
        (self.folder / "stop").touch()
        if self.sender is not None and self.sender.poll() is None:
            self.sender.kill()
            self.sender.wait()
        return self.sidecar.stop()


class Both:
    """Two sidecars on one database."""

    def __init__(self, folder, server):
        self.server = server
        self.url = server.url(server.new_database())
        self.one = Member(folder / "one", self.url, 0)
        self.two = Member(folder / "two", self.url, 1)

    def start(self):
        key = self.one.sidecar.key()
        self.one.start(key)
        self.two.start(key)

    def more(self, member, spans=60):
        """Let a sender have that many more spans acknowledged."""
        wanted = len(member.acknowledged) + spans
        left = until_none(lambda: max(0, wanted - len(member.acknowledged)), SECONDS)
        errors = member.sidecar.errors()[-3000:]
        assert left == 0, f"nothing is acknowledged any more:\n{errors}"

    def finish(self):
        """Stop the load; acknowledged, missing and doubled spans once the pipelines caught up."""
        self.one.hush()
        self.two.hush()
        acknowledged = self.one.acknowledged | self.two.acknowledged
        found = {}

        def left():
            with contextlib.suppress(StoreUnavailable):
                found.update(self.count(acknowledged))
                return found["missing"] + found["twice"]
            return None

        until_none(left, SECONDS)
        assert found, "the store could not be read"
        return found

    def count(self, acknowledged):
        database = Database(read_location(self.url), schema="traces")
        try:
            traces = PostgresTraces(database)
            stored, shared = Counter(), 0
            for line in traces.list_traces(TraceQuery(limit=1_000_000)):
                trace = traces.get_trace(line.trace_id, line.project)
                spans = [s for step in trace.steps for s in step.sources if s.kind == "span"]
                stored.update((s.trace_id, s.span_id) for s in spans)
                shared += len({int(s.span_id, 16) >> 36 & 1 for s in spans}) == 2
            wrong = database.read_sync(
                lambda c: c.fetchval(
                    "SELECT count(*) FROM (SELECT FROM trace GROUP BY project, trace_id"
                    " HAVING count(*) <> max(revision) OR min(revision) <> 1) AS gaps"
                )
            )
        finally:
            database.close()
        return {
            "acknowledged": len(acknowledged),
            "missing": sum(not stored[pair] for pair in acknowledged),
            "twice": sum(times > 1 for times in stored.values()),
            "shared": shared,
            "misnumbered": wrong,
        }

    def stop(self):
        return [member.stop() for member in (self.one, self.two)]


@pytest.fixture(scope="module")
def server():
    made = postgres_rig.Server(durable=True)
    yield made
    made.stop()


@pytest.fixture
def both(tmp_path, server):
    made = Both(tmp_path, server)
    yield made
    made.stop()


def right(counted):
    assert (counted["missing"], counted["twice"], counted["misnumbered"]) == (0, 0, 0), counted
    assert counted["acknowledged"] > 200, "a run that loaded nothing has shown nothing"
    assert counted["shared"] > 20, "traces were to come to both sidecars"


@pytest.mark.requirement("REC-02")
@pytest.mark.requirement("REC-06")
def test_a_sidecar_or_the_database_killed_under_load_loses_and_doubles_nothing(both):
    both.start()
    both.more(both.one)
    both.one.kill()
    both.more(both.two)
    both.one.serve()
    both.more(both.one)
    both.server.kill()
    both.server.start()
    both.more(both.one)
    both.more(both.two)
    right(both.finish())
    assert both.stop() == [0, 0]


@pytest.mark.full
@pytest.mark.requirement("REC-02")
@pytest.mark.requirement("REC-06")
def test_many_rounds_of_kills_lose_and_double_nothing(both):
    dice = random.Random(20261130)
    both.start()
    for _ in range(12):
        member = dice.choice((both.one, both.two))
        match dice.choice(("sidecar", "pipeline", "database")):
            case "sidecar":
                member.kill()
                time.sleep(dice.uniform(0, 1))
                member.serve()
            case "pipeline":
                member.kill_pipeline()
            case "database":
                both.server.kill()
                time.sleep(dice.uniform(0, 2))
                both.server.start()
        both.more(both.one, 60)
        both.more(both.two, 60)
    right(both.finish())
    assert both.stop() == [0, 0]
