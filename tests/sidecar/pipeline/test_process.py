"""The pipeline's process: it works, comes back when killed, and never outlives its parent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sidecar.pipeline.process import PipelineProcess

HERE = Path(__file__).parent
SECONDS = 20


@pytest.fixture(autouse=True)
def _entry_is_found(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))


async def until(condition):
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def send(ingest, number):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="chat")
    span.trace_id = number.to_bytes(16, "big")
    span.span_id = number.to_bytes(8, "big")
    ingest.send(request.SerializeToString())
    return lambda: ingest.get(f"{number:032x}")


def test_the_child_publishes_and_comes_back_when_it_is_killed(ingest):
    published = [send(ingest, 1)]

    async def scenario():
        process = PipelineProcess("pipeline_entry:main", str(ingest.folder).encode())
        await process.start()
        await until(published[0])
        first = process.pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: process.pid not in (None, first))
        published.append(await asyncio.to_thread(send, ingest, 2))
        await until(published[1])
        last = process.pid
        await process.stop()
        await process.stop()
        return first, last, process.restarts

    first, last, restarts = asyncio.run(scenario())
    assert restarts == 1 and first != last
    assert not alive(first) and not alive(last)


def test_the_child_runs_at_the_lowest_priority(ingest):
    async def scenario():
        process = PipelineProcess("pipeline_entry:main", str(ingest.folder).encode())
        await process.start()
        try:
            await until(lambda: os.getpriority(os.PRIO_PROCESS, process.pid) == 19)
        finally:
            await process.stop()

    asyncio.run(scenario())


def test_the_child_ends_when_its_parent_is_killed(ingest):
    parent = subprocess.Popen(
        [sys.executable, str(HERE / "pipeline_entry.py"), str(ingest.folder)],
        stdout=subprocess.PIPE,
    )
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + SECONDS
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(child)


def test_a_child_that_cannot_start_is_tried_again_and_again_with_growing_pauses():
    async def scenario():
        process = PipelineProcess("pipeline_entry:no_such_function", b"x")
        await process.start()
        await until(lambda: process.restarts >= 3)
        await process.stop()

    started = time.monotonic()
    asyncio.run(scenario())
    assert time.monotonic() - started >= 0.1 + 0.2  # the first two pauses
