"""What the gateway adds to a tool call: p50 and p99 beside a bare aiohttp proxy, in the same run.

Upstream, bare proxy and gateway are processes of their own; the client sends by hand over kept
connections. Calls have distinct arguments and keys. "Added" is against the direct call. Rounds of
all arms alternate, so that the machine's drift falls on all of them.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web

sys.path[:0] = [str(Path(__file__).parents[1])]
from gateway_rig import keyring  # noqa: E402

from processors.model.principal import Principal  # noqa: E402
from sidecar.egress.client import Egress  # noqa: E402
from sidecar.gateway.client import HttpUpstreams  # noqa: E402
from sidecar.gateway.config import Cost, Match, Tool, Upstream  # noqa: E402
from sidecar.gateway.driver import Gateway, Ports, Settings  # noqa: E402
from sidecar.gateway.http import GatewayServer  # noqa: E402
from sidecar.gateway.policy.files import load_bundle  # noqa: E402
from sidecar.gateway.policy.worker import PolicyWorker  # noqa: E402
from sidecar.gateway.registry import Registry  # noqa: E402
from sidecar.receive.memory import keep_objects  # noqa: E402
from sidecar.store.sqlite.keys import SqliteKeys  # noqa: E402
from sidecar.store.sqlite.ledger import SqliteLedger  # noqa: E402

AGENT = Principal(id="key:bench", kind="agent", project="bench")
CLOSE = []
"""What this process opened, to be closed when stdin ends."""
ANSWER = json.dumps({"refunded": True, "order": "x" * 100}).encode()


async def listen(handler):
    """Serve a low-level handler on a free port; the port."""
    runner = web.ServerRunner(web.Server(handler, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner.addresses[0][1]


async def upstream():
    async def answer(request):
        await request.read()
        return web.Response(body=ANSWER, content_type="application/json")

    return await listen(answer)


async def bare_proxy(target):
    session = aiohttp.ClientSession(auto_decompress=False)
    CLOSE.append(session.close)

    async def forward(request):
        body = await request.read()
        url = f"http://127.0.0.1:{target}{request.raw_path}"
        async with session.request(request.method, url, data=body or None) as answer:
            kept = {"Content-Type": answer.headers["Content-Type"]}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    return await listen(forward)


async def known(_):
    return AGENT


async def gateway(target, folder):
    keys = SqliteKeys(Path(folder) / "ledger.db")
    ledger = SqliteLedger(Path(folder) / "ledger.db", keyring(keys))
    where = Upstream(name="t", url=f"http://127.0.0.1:{target}", allow_cidrs=("127.0.0.0/8",))
    cost = Cost(amount="arguments.amount", currency="arguments.currency")
    registry = Registry.from_config(
        (where,),
        (
            Tool(name="get", upstream="t", class_="read",
                 match=Match(method="GET", path="/orders/{order_id}")),
            Tool(name="refund", upstream="t", cost=cost,
                 match=Match(method="POST", path="/orders/{order_id}/refunds")),
        ),
        {},
    )  # fmt: skip
    policy = PolicyWorker(load_bundle())
    await policy.start()
    CLOSE.append(policy.stop)
    upstreams = HttpUpstreams(registry, Egress())
    CLOSE.append(upstreams.close)
    ports = Ports(ledger=ledger, registry=registry, policy=policy, upstreams=upstreams)
    made = Gateway(ports, Settings(accept_ephemeral_ledger=True))
    await made.start()
    server = GatewayServer(made, known, listen="127.0.0.1:0")
    await server.start()
    CLOSE.append(server.stop)
    return server.port


async def serve(arguments):
    """One of the processes: its port to stdout, then until stdin closes."""
    kind, *rest = arguments
    start = {"upstream": upstream, "proxy": bare_proxy, "gateway": gateway}[kind]
    port = await start(*rest)
    keep_objects()  # as a sidecar does
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for close in reversed(CLOSE):
        await close()


class Client:
    """One kept connection; ``call`` gives the status."""

    def __init__(self, port):
        self._port = port
        self.body = b""

    async def open(self):
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def call(self, data):
        self._writer.write(data)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        start = head.index(b"content-length:") + 15
        self.body = await self._reader.readexactly(int(head[start : head.index(b"\r\n", start)]))
        return int(head[9:12])


def get(prefix, number):
    return (
        f"GET {prefix}/orders/{number} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n"
    ).encode()


def refund(prefix, number, key=None):
    body = json.dumps({"amount": number % 90 + 1, "currency": "EUR", "note": "n" * 200})
    return (
        f"POST {prefix}/orders/{number}/refunds HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n"
        f"Idempotency-Key: {key or number}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


async def one_by_one(port, requests, wanted=200):
    """Seconds of each call, one after the other."""
    client, took = await Client(port).open(), []
    for data in requests:
        started = time.perf_counter()
        status = await client.call(data)
        took.append(time.perf_counter() - started)
        assert status == wanted, f"{status} instead of {wanted}: {client.body.decode()}"
    return took


async def at_once(port, requests, concurrency):
    """Calls per second, ``concurrency`` at a time."""
    waiting = iter(requests)

    async def client():
        mine = await Client(port).open()
        for data in waiting:
            assert await mine.call(data) == 200

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(concurrency)))
    return len(requests) / (time.perf_counter() - started)


def percentile(values, share):
    return statistics.quantiles(values, n=1000)[round(share * 1000) - 1] * 1000


class Arms:
    """The three ports, and requests that were never sent before."""

    def __init__(self, upstream_port, proxy_port, gateway_port, calls):
        self.ports = {"direct": upstream_port, "bare proxy": proxy_port, "gateway": gateway_port}
        self.calls = calls
        self._next = 0

    def requests(self, make, arm):
        prefix = "/t" if arm == "gateway" else ""
        first, self._next = self._next, self._next + self.calls
        return [make(prefix, number) for number in range(first, self._next)]


async def measure(arms, rounds):
    """Print both kinds of call at both concurrencies, then replays and denials."""
    for name, make in (("read", get), ("irreversible", refund)):
        took = {arm: [] for arm in arms.ports}
        rates = {arm: [] for arm in arms.ports}
        for turn in range(rounds + 1):
            for arm, port in arms.ports.items():
                found = await one_by_one(port, arms.requests(make, arm))
                rate = await at_once(port, arms.requests(make, arm), 16)
                if turn:  # the first round warms up
                    took[arm] += found
                    rates[arm].append(rate)
        report(name, took, rates)
    replays = await one_by_one(arms.ports["gateway"], [refund("/t", 1, "same")] * arms.calls)
    print(
        f"replay, c=1: p50 {percentile(replays, 0.5):.2f} ms, p99 {percentile(replays, 0.99):.2f}"
    )
    unlisted = [get("/t/nothing", number) for number in range(arms.calls)]
    refused = await one_by_one(arms.ports["gateway"], unlisted, wanted=404)
    print(
        f"refused, c=1: p50 {percentile(refused, 0.5):.2f} ms, p99 {percentile(refused, 0.99):.2f}"
    )


def spread(name, took):
    """Whole times, not added ones: nothing goes to the upstream."""
    p50, p99 = percentile(took, 0.5), percentile(took, 0.99)
    print(f"{name:12} gateway    c=1 whole p50 {p50:5.2f} ms, p99 {p99:5.2f} ms")


def report(name, took, rates):
    for arm in ("bare proxy", "gateway"):
        added = [
            percentile(took[arm], share) - percentile(took["direct"], share)
            for share in (0.5, 0.99)
        ]
        rate = statistics.median(rates[arm])
        share = rate / statistics.median(rates["bare proxy"])
        print(
            f"{name:12} {arm:10} c=1 added p50 {added[0]:5.2f} ms, p99 {added[1]:5.2f} ms;"
            f" c=16 {rate:6,.0f} req/s ({share:.2f} of the bare proxy)",
            flush=True,
        )


def start(*arguments):
    child = subprocess.Popen(
        [sys.executable, __file__, "--serve", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return child, int(child.stdout.readline())


def main():
    """Start the processes, measure, stop them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", nargs="+")
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options, _ = parser.parse_known_args()
    if options.serve:
        uvloop.run(serve(options.serve))
        return
    with tempfile.TemporaryDirectory(dir=".") as folder:
        tool, tool_port = start("upstream")
        proxy, proxy_port = start("proxy", tool_port)
        guarded, gateway_port = start("gateway", tool_port, folder)
        arms = Arms(tool_port, proxy_port, gateway_port, options.calls)
        try:
            uvloop.run(measure(arms, options.rounds))
        finally:
            for child in (guarded, proxy, tool):
                child.stdin.close()
                child.wait()


if __name__ == "__main__":
    main()
