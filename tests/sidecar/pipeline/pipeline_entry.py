"""What app does in the pipeline's process, over a test's folder; and a parent to be killed."""

import asyncio
import hashlib
import sys
from pathlib import Path

from sidecar import clock
from sidecar.pipeline.batch import ProjectRules, Rules
from sidecar.pipeline.config import Config
from sidecar.pipeline.driver import Ports
from sidecar.pipeline.process import PipelineProcess
from sidecar.pipeline.worker import Work, serve
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.journal import SqliteJournalReader
from sidecar.store.sqlite.traces import SqliteOpenTraces, SqliteTraces

ENTRY = "pipeline_entry:main"


def sealers(project):
    return Sealer(hashlib.sha256(project.encode()).digest(), clock.random_bytes)


def open_work(settings):
    folder = Path(settings.decode().strip())
    journal = SqliteJournalReader(folder / "journal.db", sealers=sealers)
    opened = SqliteOpenTraces(folder / "traces.db", sealers=sealers)
    traces = SqliteTraces(folder / "traces.db")

    def close():
        for store in (journal, opened, traces):
            store.close()

    ports = Ports(
        journal=journal,
        open_traces=opened,
        traces=traces,
        facts_after=lambda seq, limit: [],
        probed=lambda trace: False,
        probe=lambda trace: None,
    )
    rules = Rules(tools={}, projects={}, otherwise=ProjectRules(content_ns=1 << 60))

    async def finish():
        pass

    config = Config(idle="1ms")
    return Work(ports=ports, config=config, rules=rules, finish=finish, close=close)


def main():
    return serve(open_work)


async def parent(folder):
    """A parent that says its child's pid and then waits to be killed."""
    process = PipelineProcess(ENTRY, folder.encode())
    await process.start()
    print(process.pid, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(parent(sys.argv[1]))
