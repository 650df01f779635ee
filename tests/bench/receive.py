"""Acknowledged spans per CPU second: journal on, sealed, durable, consumed rows deleted.

The receiver runs in a process of its own; CPU is its user and system time while the load runs.
Beside each figure stands the same receiver with a sink that keeps nothing, so that the machine's
speed drops out.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import grpc
import uvloop

sys.path[:0] = [str(Path(__file__).parent)]
import _payloads as payloads  # noqa: E402

from processors.model.principal import Principal  # noqa: E402
from sidecar import clock  # noqa: E402
from sidecar.receive.config import Config  # noqa: E402
from sidecar.receive.driver import Trimmer  # noqa: E402
from sidecar.receive.grpc import GrpcReceiver  # noqa: E402
from sidecar.receive.http import HttpReceiver  # noqa: E402
from sidecar.store.envelope import Sealer  # noqa: E402
from sidecar.store.sqlite.connection import open_database  # noqa: E402
from sidecar.store.sqlite.journal import SqliteJournal  # noqa: E402

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
AGENT = Principal(id="key:bench", kind="agent", project="bench")
IN_FLIGHT = 8


class Nothing:
    """A sink that keeps nothing: the peer."""

    async def append(self, entry):
        """Forget it."""


def cpu():
    """User and system seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def serve(folder, keeps):
    """The receiver process: ports to stdout; CPU seconds for each line read from stdin."""
    sealer = Sealer(os.urandom(32), clock.random_bytes)
    journal = SqliteJournal(
        Path(folder) / "journal.db",
        sealers=lambda project: sealer,
        bytes_max=1 << 31,
        new_id=clock.new_id,
    )
    sink = journal if keeps else Nothing()
    config = Config(grpc="127.0.0.1:0", http="127.0.0.1:0")
    receivers = [kind(config, sink, lambda header: AGENT) for kind in (GrpcReceiver, HttpReceiver)]
    for receiver in receivers:
        await receiver.start()
    # Everything counts as consumed at once: the deletion's cost is part of the figure.
    looking = open_database(Path(folder) / "journal.db", read_only=True)
    newest = "SELECT coalesce(max(seq), 0) FROM record"
    trimmer = Trimmer(journal, lambda: looking.execute(newest).fetchone()[0])
    await trimmer.start()
    print(json.dumps([receiver.port for receiver in receivers]), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(cpu(), flush=True)
    await trimmer.stop()
    for receiver in receivers:
        await receiver.stop()
    looking.close()
    journal.close()


async def load(send, bodies, seconds):
    """Send the bodies in turn, IN_FLIGHT at a time, for about ``seconds``; how many were sent."""
    sent, end = 0, time.monotonic() + seconds

    async def one():
        nonlocal sent
        while time.monotonic() < end:
            mine, sent = sent, sent + 1
            await send(bodies[mine % len(bodies)])

    await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))
    return sent


async def over_grpc(port, bodies, seconds):
    """The load over one channel."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(EXPORT)
        return await load(lambda body: call(body), bodies, seconds)


async def over_http(port, bodies, seconds):
    """The load over kept-alive connections."""
    headers = {"Content-Type": "application/x-protobuf"}
    async with aiohttp.ClientSession(headers=headers) as session:

        async def send(body):
            async with session.post(f"http://127.0.0.1:{port}/v1/traces", data=body) as response:
                assert response.status == 200, response.status

        return await load(send, bodies, seconds)


def measure(keeps, wire, requests, seconds):
    """(spans, requests) acknowledged per CPU second of the receiver."""
    bodies = [request.SerializeToString() for request in requests]
    mean = sum(map(payloads.spans, requests)) / len(requests)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        child = subprocess.Popen(
            [sys.executable, __file__, "--serve", folder, *([] if keeps else ["--nothing"])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        ports = json.loads(child.stdout.readline())

        def used():
            child.stdin.write("\n")
            child.stdin.flush()
            return float(child.stdout.readline())

        drive, port = (over_grpc, ports[0]) if wire == "grpc" else (over_http, ports[1])
        asyncio.run(drive(port, bodies, 0.5))
        before = used()
        sent = asyncio.run(drive(port, bodies, seconds))
        spent = used() - before
        child.stdin.close()
        child.wait()
    return sent * mean / spent, sent / spent


def main():
    """Print a line for each payload and wire."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve")
    parser.add_argument("--nothing", action="store_true")
    parser.add_argument("--seconds", type=float, default=3.0)
    options, _ = parser.parse_known_args()
    if options.serve:
        uvloop.run(serve(options.serve, not options.nothing))
        return
    small = payloads.small()
    few = type(small)()
    few.resource_spans.add().scope_spans.add().spans.extend(list(payloads.all_spans(small))[:21])
    sets = {
        "small spans": [small],
        "captured spans": payloads.captured(),
        "small requests": [few],
    }
    for name, requests in sets.items():
        if not requests:
            print(f"{name:15} skipped: needs ../shared corpora")
            continue
        for wire in ("grpc", "http"):
            spans, rate = measure(True, wire, requests, options.seconds)
            peer, peer_rate = measure(False, wire, requests, options.seconds)
            print(
                f"{name:15} {wire}: {spans:9,.0f} spans/CPU-s ({rate:6,.0f} requests/CPU-s);"
                f" checked but kept nowhere: {peer:9,.0f} ({peer_rate:6,.0f});"
                f" ratio {spans / peer:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
