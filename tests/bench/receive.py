"""Acknowledged spans per CPU second: journal on, sealed, durable, consumed rows deleted.

Our receivers check the sender's key and look at every item, as they do in a sidecar. Every server
is a process of its own; CPU is the user and system time of its tree, from before the load until
half a second after it (a peer works on after its answer). Beside our figure stand, by turns in the
same run, medians of three:

- rotel -> blackhole: the rotel agent takes OTLP and keeps nothing (the budget: 1.1 times this);
- rotel -> OTLP: the same, sending on over gRPC, which is what else it can do with it;
- kept nowhere: our receivers with a sink that keeps nothing: what the journal costs;
- bare server: the same gRPC and HTTP libraries, each reading its message and answering: no key, no
  look at it. What no Python receiver on them can beat.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp
import grpc
import uvloop
from aiohttp import web

sys.path[:0] = [str(Path(__file__).parent)]
import _payloads as payloads  # noqa: E402
import _peers as peers  # noqa: E402

from sidecar import clock  # noqa: E402
from sidecar.identity.driver import Identity  # noqa: E402
from sidecar.identity.keys import mint  # noqa: E402
from sidecar.receive.config import Config  # noqa: E402
from sidecar.receive.driver import Trimmer  # noqa: E402
from sidecar.receive.grpc import GrpcReceiver  # noqa: E402
from sidecar.receive.http import HttpReceiver  # noqa: E402
from sidecar.receive.memory import keep_buffers  # noqa: E402
from sidecar.store.envelope import Sealer  # noqa: E402
from sidecar.store.sqlite.connection import open_database  # noqa: E402
from sidecar.store.sqlite.journal import SqliteJournal  # noqa: E402
from sidecar.store.sqlite.keys import SqliteKeys  # noqa: E402

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
# The same for every server; only ours asks for it.
KEY, KEY_ROW = mint(
    "agent", "bench", "bench", id_bytes=bytes(8), secret_bytes=bytes(32), now_ns=clock.now_ns()
)
HEADERS = {"authorization": f"Bearer {KEY}"}
IN_FLIGHT = 8
FEW_SPANS = 21
WARM_SECONDS = 0.4
OURS = "ours"


class Nothing:
    """A sink that keeps nothing."""

    async def append(self, entry):
        """Forget it."""


async def serve(folder, keeps):
    """The receiver process: its ports to stdout, then it serves until it is told to end."""
    sealer = Sealer(os.urandom(32), clock.random_bytes)
    journal = SqliteJournal(
        Path(folder) / "journal.db",
        sealers=lambda project: sealer,
        bytes_max=1 << 31,
        new_id=clock.new_id,
    )
    sink = journal if keeps else Nothing()
    config = Config(grpc="127.0.0.1:0", http="127.0.0.1:0")
    keys = SqliteKeys(Path(folder) / "ledger.db")
    keys.add_key(KEY_ROW)
    identity = Identity(keys, clock.now_ns)
    receivers = [kind(config, sink, identity) for kind in (GrpcReceiver, HttpReceiver)]
    for receiver in receivers:
        await receiver.start()
    # Everything counts as consumed at once: the deletion's cost is part of the figure.
    looking = open_database(Path(folder) / "journal.db", read_only=True)
    newest = "SELECT coalesce(max(seq), 0) FROM record"
    trimmer = Trimmer(journal, lambda: looking.execute(newest).fetchone()[0])
    await trimmer.start()
    ports = dict(zip(("grpc", "http"), (r.port for r in receivers), strict=True))
    print(json.dumps(ports), flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await trimmer.stop()
    for receiver in receivers:
        await receiver.stop()
    looking.close()
    journal.close()
    keys.close()


async def serve_bare():
    """The libraries alone: ports to stdout, then it serves until it is killed."""

    async def export(_, context):
        await context.read()
        return b""

    async def answer(request):
        b"".join([piece async for piece in request.content.iter_any()])
        return web.Response(content_type="application/x-protobuf")

    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 1 << 26)])
    service, _, method = EXPORT.strip("/").partition("/")
    handler = grpc.stream_unary_rpc_method_handler(export)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    ports = {"grpc": server.add_insecure_port("127.0.0.1:0")}
    await server.start()
    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    ports["http"] = runner.addresses[0][1]
    print(json.dumps(ports), flush=True)
    await asyncio.Event().wait()


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
        shown = tuple(HEADERS.items())
        return await load(lambda body: call(body, metadata=shown), bodies, seconds)


async def over_http(port, bodies, seconds):
    """The load over kept-alive connections."""
    headers = {**HEADERS, "Content-Type": "application/x-protobuf"}
    async with aiohttp.ClientSession(headers=headers) as session:

        async def send(body):
            async with session.post(f"http://127.0.0.1:{port}/v1/traces", data=body) as response:
                assert response.status == 200, response.status

        return await load(send, bodies, seconds)


def ours(folder, *more):
    """Our receivers as a server of this run."""
    Path(folder).mkdir(exist_ok=True)
    command = [sys.executable, __file__, "--serve", str(folder), *more]
    server = peers.Peer(command, {}, stdout=subprocess.PIPE, text=True)
    server.ports = json.loads(server.process.stdout.readline())
    return server


def servers(stack, folder):
    """All servers that there are, by name, started."""
    behind = stack.enter_context(_stopped(peers.sink(folder)))
    onward = f"http://127.0.0.1:{behind.ports['grpc']}"
    made = {
        OURS: ours(folder / "kept"),
        "rotel -> blackhole": peers.rotel(folder, "blackhole"),
        "rotel -> OTLP": peers.rotel(
            folder,
            "otlp",
            *("--otlp-exporter-endpoint", onward, "--otlp-exporter-protocol", "grpc"),
        ),
        "kept nowhere": ours(folder / "nothing", "--nothing"),
        "bare server": ours(folder / "bare", "--bare"),
    }
    for server in filter(None, made.values()):
        stack.enter_context(_stopped(server))
    return {name: server for name, server in made.items() if server is not None}


@contextmanager
def _stopped(server):
    try:
        yield server
    finally:
        server.stop()


def rate(server, wire, bodies, seconds):
    """Requests acknowledged per CPU second of the server's tree."""
    drive = over_grpc if wire == "grpc" else over_http
    before = server.cpu()
    sent = asyncio.run(drive(server.ports[wire], bodies, seconds))
    time.sleep(peers.SETTLE_SECONDS)
    return sent / (server.cpu() - before)


def compare(running, wire, bodies, options):
    """Requests per CPU second by server: medians of rounds in which each had its turn."""
    seen = {name: [] for name in running}
    for server in running.values():
        rate(server, wire, bodies, WARM_SECONDS)
    for _ in range(options.rounds):
        for name, server in running.items():
            seen[name].append(rate(server, wire, bodies, options.seconds))
    return {name: statistics.median(rates) for name, rates in seen.items()}


def table(title, rates, mean):
    """The lines of one payload on one wire."""
    own = rates[OURS]
    yield f"{title}: {own * mean:9,.0f} spans/CPU-s ({own:6,.0f} requests/CPU-s)"
    for name, other in rates.items():
        if name != OURS:
            ratio = f"ratio {own / other:.2f}"
            yield f"    {name:19} {other * mean:9,.0f} ({other:6,.0f}); {ratio}"


def sets():
    """Name and requests of each payload."""
    small = payloads.small()
    few = type(small)()
    few.resource_spans.add().scope_spans.add().spans.extend(
        list(payloads.all_spans(small))[:FEW_SPANS]
    )
    return {
        "small spans": [small],
        "captured spans": payloads.captured(),
        "small requests": [few],
    }


def main():
    """Print a table for each payload and wire."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve")
    parser.add_argument("--nothing", action="store_true")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=3)
    options, _ = parser.parse_known_args()
    if options.serve:
        keep_buffers()
        uvloop.run(serve_bare() if options.bare else serve(options.serve, not options.nothing))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=".")))
        running = servers(stack, folder)
        if "rotel -> blackhole" not in running:
            print("rotel is not installed: ours alone")
        for name, requests in sets().items():
            if not requests:
                print(f"{name:15} skipped: needs ../shared corpora")
                continue
            bodies = [request.SerializeToString() for request in requests]
            mean = sum(map(payloads.spans, requests)) / len(requests)
            for wire in ("grpc", "http"):
                rates = compare(running, wire, bodies, options)
                print("\n".join(table(f"{name:15} {wire}", rates, mean)), flush=True)


if __name__ == "__main__":
    main()
