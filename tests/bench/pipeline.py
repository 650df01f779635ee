"""End-to-end spans per CPU second: sealed journal to published traces, every stage, durable.

CPU is this process's user and system time, from the first record read to the last trace published.
Beside it stands decoding alone (protobuf to plain telemetry): the machine's speed drops out. Below
it the stages, each run once over the same requests without a store; what is left of the whole is
SQLite, the loops, and traces built again because more of them came.
"""

import argparse
import asyncio
import gc
import itertools
import os
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path

import zstandard

sys.path[:0] = [str(Path(__file__).parent)]
import _payloads as payloads  # noqa: E402

from processors.assemble.trace import clued  # noqa: E402
from processors.model.names import Capture  # noqa: E402
from processors.normalise.detect import normalise  # noqa: E402
from processors.redact.rules import redact_with  # noqa: E402
from processors.verify.detect import detect  # noqa: E402
from processors.verify.outcome import judge  # noqa: E402
from sidecar import clock  # noqa: E402
from sidecar.otlp.decode import decode  # noqa: E402
from sidecar.pipeline.batch import ProjectRules, Rules  # noqa: E402
from sidecar.pipeline.clues import digests, early  # noqa: E402
from sidecar.pipeline.config import Config  # noqa: E402
from sidecar.pipeline.driver import Pipeline, Ports  # noqa: E402
from sidecar.pipeline.pack import pack, unpack  # noqa: E402
from sidecar.pipeline.split import split  # noqa: E402
from sidecar.store.envelope import Sealer  # noqa: E402
from sidecar.store.journal import JournalEntry, journal_cursor  # noqa: E402
from sidecar.store.sqlite.connection import open_database  # noqa: E402
from sidecar.store.sqlite.journal import SqliteJournal, SqliteJournalReader  # noqa: E402
from sidecar.store.sqlite.traces import SqliteOpenTraces, SqliteTraces  # noqa: E402
from sidecar.store.traces import content_digest, encode_trace  # noqa: E402

KEY = os.urandom(32)
SQUEEZE = zstandard.ZstdCompressor(level=1).compress
UNSQUEEZE = zstandard.ZstdDecompressor().decompress
UNPUBLISHED = "SELECT count(*) FROM open_trace WHERE version > published_version"
STEPS = "SELECT coalesce(sum(steps), 0), count(*) FROM trace WHERE newest = 1"


@cache
def sealers(project):
    """One key for all."""
    return Sealer(KEY, clock.random_bytes)


def varied(body):
    """A request whose answers all name another amount: no two runs say the same."""
    numbers = itertools.count()
    return re.sub(rb"12\.50", lambda _: b"%02d.%02d" % divmod(next(numbers) % 10_000, 100), body)


def cpu():
    """User and system seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rules_of(capture: Capture):
    """The pipeline's rules under a capture."""
    projects = ProjectRules(capture=capture, content_ns=1 << 60)
    return Rules(tools={"issue_refund": "irreversible"}, projects={}, otherwise=projects)


async def fill(folder, bodies):
    """A journal with the bodies in it; its cursor's name."""
    journal = SqliteJournal(
        folder / "journal.db", sealers=sealers, bytes_max=1 << 32, new_id=clock.new_id
    )
    for body in bodies:
        entry = JournalEntry(
            project="bench",
            principal="key:bench",
            signal="traces",
            encoding="protobuf",
            payload=body,
            received_ns=clock.now_ns(),
        )
        await journal.append(entry)
    journal.close()
    return journal_cursor(journal.journal_id)


async def drain(folder, cursor, records, capture):
    """Run the pipeline until all is published; CPU seconds."""
    opened = SqliteOpenTraces(folder / "traces.db", sealers=sealers)
    journal = SqliteJournalReader(folder / "journal.db", sealers=sealers)
    traces = SqliteTraces(folder / "traces.db")
    looking = open_database(folder / "traces.db", read_only=True)
    ports = Ports(
        journal=journal,
        open_traces=opened,
        traces=traces,
        facts_after=lambda seq, limit: [],
        probed=lambda trace: False,
        probe=lambda trace: None,
    )
    rules = rules_of(capture)
    stop = asyncio.Event()
    before = cpu()
    running = asyncio.create_task(Pipeline(ports, Config(idle="50ms"), rules).run(stop))
    while opened.cursor(cursor) < records or looking.execute(UNPUBLISHED).fetchone()[0]:
        await asyncio.sleep(0.05)
    spent = cpu() - before
    stop.set()
    await running
    steps, count = looking.execute(STEPS).fetchone()
    for store in (opened, journal, traces, looking):
        store.close()
    return spent, steps, count


def measure(requests, capture):
    """(spans, CPU seconds, steps, traces) of one run."""
    bodies = [varied(request.SerializeToString()) for request in requests]
    with tempfile.TemporaryDirectory(dir=".") as name:
        cursor = asyncio.run(fill(Path(name), bodies))
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000)
        spent, steps, count = asyncio.run(drain(Path(name), cursor, len(bodies), capture))
    return sum(map(payloads.spans, requests)), spent, steps, count


def decoding(requests):
    """Spans per CPU second of decoding alone."""
    bodies = [varied(request.SerializeToString()) for request in requests]
    before = cpu()
    for body in bodies:
        decode("traces", "protobuf", body)
    return sum(map(payloads.spans, requests)) / (cpu() - before)


class Stages:
    """CPU seconds by stage."""

    def __init__(self):
        self.seconds = Counter()

    def run(self, stage, work, *arguments, **named):
        """The work's result; its time counts for the stage."""
        before = time.thread_time()
        result = work(*arguments, **named)
        self.seconds[stage] += time.thread_time() - before
        return result


def staged(requests, capture):
    """CPU seconds by stage, every trace taken in and built once."""
    stages, rules = Stages(), rules_of(capture)
    for body in [varied(request.SerializeToString()) for request in requests]:
        batch = stages.run("decode", decode, "traces", "protobuf", body)
        for piece in stages.run("split", split, batch).values():
            one_trace(stages, piece, rules)
    return stages.seconds


def one_trace(stages, piece, rules):
    """All stages of one trace in order."""
    run, keep = stages.run, rules.keep("bench")
    sealer = sealers("bench")
    run("early clues", early, piece)
    packed = run("pack, unpack", pack, piece)
    sealed = run("zstd, seal", lambda: sealer.seal(SQUEEZE(packed), b""))
    opened = run("zstd, seal", lambda: UNSQUEEZE(sealer.open(sealed, b"")))
    fragments = run("normalise", normalise, run("pack, unpack", unpack, opened))
    traces, words = run("assemble", clued, fragments, project="bench", now_ns=clock.now_ns())
    run("clues", digests, words)
    for trace in traces:
        judged = run("verify", judge, trace, tools=rules.tools, now_ns=clock.now_ns())
        judged = run("detect", detect, judged, tools=rules.tools, settings=rules.detect)
        kept = judged if keep is None else run("redact", redact_with, judged, keep)
        run("digest, encode", content_digest, kept)
        stored = run("digest, encode", encode_trace, kept, 1)
        run("zstd, seal", SQUEEZE, stored)


def table(seconds, spans, whole):
    """Microseconds a span by stage, one line each, and what is left of the whole."""
    left = whole - sum(seconds.values())
    for stage, spent in (*seconds.items(), ("store, loops, rebuilt", left)):
        yield f"    {stage:22} {spent / spans * 1e6:7.1f} us/span"


def main():
    """Print a line for each payload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--capture", default="off")
    options, _ = parser.parse_known_args()
    count = options.requests
    real = payloads.captured()
    sets = {
        "small spans": [payloads.small(seed) for seed in range(count)],
        "captured spans": [
            payloads.renumbered(real[number % len(real)], number + 1) for number in range(count)
        ]
        if real
        else [],
    }
    for name, requests in sets.items():
        if not requests:
            print(f"{name:15} skipped: needs ../shared corpora")
            continue
        spans, spent, steps, traces = measure(requests, options.capture)
        print(
            f"{name:15} {spans / spent:8,.0f} spans/CPU-s ({spans:,} spans, {traces:,} traces,"
            f" {steps:,} steps); decoding alone {decoding(requests):8,.0f}",
            flush=True,
        )
        print("\n".join(table(staged(requests, options.capture), spans, spent)), flush=True)


if __name__ == "__main__":
    main()
