"""A whole ingest path in one folder: real stores, a pipeline in this process, receipts by hand."""

import asyncio
import hashlib

import pytest

from sidecar import clock
from sidecar.pipeline.batch import ProjectRules, Rules
from sidecar.pipeline.config import Config
from sidecar.pipeline.driver import Pipeline, Ports
from sidecar.store.envelope import Sealer
from sidecar.store.journal import JournalEntry
from sidecar.store.sqlite.journal import SqliteJournal, SqliteJournalReader
from sidecar.store.sqlite.traces import SqliteOpenTraces, SqliteTraces, migrate_traces

DAY_NS = 86_400_000_000_000


def sealers(project):
    return Sealer(hashlib.sha256(project.encode()).digest(), clock.random_bytes)


async def _nothing():
    return ()


class Ingest:
    """``send`` as a receiver would; ``settle`` runs the pipeline until nothing is left to do."""

    def __init__(self, folder, *, idle="1ms", capture="full", **bounds):
        self.folder = folder
        self.journal = SqliteJournal(
            folder / "journal.db", sealers=sealers, bytes_max=1 << 30, new_id=clock.new_id
        )
        migrate_traces(folder / "traces.db")
        self.traces = SqliteTraces(folder / "traces.db")
        self.facts = []
        self.probed = lambda trace: False
        self.probe = self.hear = None
        self.config = Config(idle=idle, **bounds)
        self.content_ns = DAY_NS
        self.capture = capture
        self.closed = False
        self.open_pipeline()

    def open_pipeline(self):
        self.reader = SqliteJournalReader(self.folder / "journal.db", sealers=sealers)
        self.open_traces = SqliteOpenTraces(
            self.folder / "traces.db", sealers=sealers, bounds=self.config.bounds
        )
        ports = Ports(
            journal=self.reader,
            open_traces=self.open_traces,
            traces=self.traces,
            facts_after=lambda seq, limit: [f for f in self.facts if f.seq > seq][:limit],
            probed=lambda trace: self.probed(trace),
            probe=lambda trace: self.probe(trace) if self.probe else _nothing(),
            hear=self.hear,
        )
        rules = ProjectRules(capture=self.capture, content_ns=self.content_ns)
        self.pipeline = Pipeline(
            ports,
            self.config,
            Rules(tools={"issue_refund": "irreversible"}, projects={}, otherwise=rules),
        )

    def restart(self):
        self.reader.close()
        self.open_traces.close()
        self.open_pipeline()

    def send(self, payload, *, signal="traces", encoding="protobuf", project="shop"):
        entry = JournalEntry(
            project=project,
            principal="key:1",
            signal=signal,
            encoding=encoding,
            payload=payload,
            received_ns=clock.now_ns(),
        )
        asyncio.run(self.journal.append(entry))

    async def run_until(self, done, seconds=20):
        """Run the pipeline until ``done()``; fail after ``seconds``."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.pipeline.run(stop))
        try:
            async with asyncio.timeout(seconds):
                while not done() and not running.done():
                    await asyncio.sleep(0.005)
        finally:
            stop.set()
            await running

    def settle(self, done, seconds=20):
        asyncio.run(self.run_until(done, seconds))

    def get(self, trace_id, **where):
        return self.traces.get_trace(trace_id, **where)

    def close(self):
        if self.closed:
            return
        self.closed = True
        self.reader.close()
        self.open_traces.close()
        self.traces.close()
        self.journal.close()


@pytest.fixture
def make_ingest(tmp_path_factory):
    """Makes ingest paths, each in a folder of its own; all are closed at the end."""
    made = []

    def make(**options):
        made.append(Ingest(tmp_path_factory.mktemp("ingest"), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def ingest(make_ingest):
    return make_ingest()
