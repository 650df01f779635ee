"""What the gateway adds to a tool call: percentiles beside a bare aiohttp proxy, and beside nginx
``auth_request`` with an OPA server where both are installed, in the same run.

Upstream, proxies and gateway are processes of their own; the client sends by hand over kept
connections. Calls have distinct arguments and keys. "Added" is against the direct call. Rounds of
all arms alternate, so that the machine's drift falls on all of them. What is never sent to the tool
(a denial, a replay, a call that waits for a person) is shown whole. Budgets: performance.md.

nginx with OPA decides on method and path: it sees no body, knows no key, approval or budget, and
leaves no receipt. It is the least that a decision by an own server costs, not the same work.
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

import uvloop

sys.path[:0] = [str(Path(__file__).parent)]
from _guarded import END, nginx_with_opa  # noqa: E402

AT_ONCE = 16
SHARES = (0.5, 0.95, 0.99)
BUDGETS = {
    "read": "added p50 0.80, p99 8.00 ms; 0.60 of the bare proxy at c=16",
    "irreversible": "added p50 2.00, p99 15.00 ms; 500/s at c=1, 1,500/s at c=16",
}


class Client:
    """One kept connection; ``call`` gives the status."""

    def __init__(self, port):
        self._port = port
        self.body = b""

    async def open(self):
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    def close(self):
        self._writer.close()

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


def refund(prefix, number, key=None, amount=None, what="refunds"):
    body = json.dumps({"amount": amount or number % 90 + 1, "currency": "EUR", "note": "n" * 200})
    return (
        f"POST {prefix}/orders/{number}/{what} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n"
        f"Idempotency-Key: {key or number}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


def close(prefix, number):
    """A call that policy denies."""
    return refund(prefix, number, what="close")


def dear(prefix, number):
    """A call that waits for a person."""
    return refund(prefix, number, amount=250)


def again(prefix, number):
    """A call whose answer is known."""
    return refund(prefix, 1, "same")


async def one_by_one(port, requests, wanted=200):
    """Seconds of each call, one after the other."""
    client, took = await Client(port).open(), []
    for data in requests:
        started = time.perf_counter()
        status = await client.call(data)
        took.append(time.perf_counter() - started)
        assert status == wanted, f"{status} instead of {wanted}: {client.body.decode()}"
    client.close()
    return took


async def at_once(port, requests, concurrency, wanted=200):
    """Calls per second, ``concurrency`` at a time."""
    waiting = iter(requests)

    async def client():
        mine = await Client(port).open()
        for data in waiting:
            status = await mine.call(data)
            assert status == wanted, f"{status} instead of {wanted}: {mine.body.decode()}"
        mine.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(concurrency)))
    return len(requests) / (time.perf_counter() - started)


def percentile(values, share):
    return statistics.quantiles(values, n=1000)[round(share * 1000) - 1] * 1000


class Arms:
    """Ports by name, and requests that were never sent before."""

    def __init__(self, ports, calls, rounds):
        self.ports = ports
        self.calls = calls
        self.rounds = rounds
        self._next = 0

    def requests(self, make, arm):
        prefix = "/t" if arm == "gateway" else ""
        first, self._next = self._next, self._next + self.calls
        return [make(prefix, number) for number in range(first, self._next)]

    async def measure(self, make, arms, wanted=200):
        """Seconds of each call at c=1, and calls per second at c=16, by arm."""
        took = {arm: [] for arm in arms}
        rates = {arm: [] for arm in arms}
        for turn in range(self.rounds + 1):
            for arm in arms:
                found = await one_by_one(self.ports[arm], self.requests(make, arm), wanted)
                rate = await at_once(self.ports[arm], self.requests(make, arm), AT_ONCE, wanted)
                if turn:  # the first round warms up
                    took[arm] += found
                    rates[arm].append(rate)
        return took, {arm: statistics.median(found) for arm, found in rates.items() if found}


async def measure(arms):
    """Print what goes to the tool beside all peers, then what does not."""
    for name, make in (("read", get), ("irreversible", refund)):
        took, rates = await arms.measure(make, list(arms.ports))
        direct = took.pop("direct")
        print(f"allow, {name}: ms added to the direct call at c=1; calls a second", flush=True)
        for arm, found in took.items():
            added = [percentile(found, share) - percentile(direct, share) for share in SHARES]
            share = rates[arm] / rates["bare proxy"]
            line(arm, added, found, rates[arm], f"({share:.2f} of the bare proxy)")
        print(f"  {'budget':12} {BUDGETS[name]}", flush=True)
    print("what is not sent to the tool: whole ms at c=1; calls a second")
    known = refund("/t", 1, "same")
    await one_by_one(arms.ports["gateway"], [known])
    for name, make, wanted, only in (
        ("deny", close, 403, False),
        ("replayed", again, 200, True),
        ("pending", dear, 403, True),
    ):
        peers = (
            ["gateway"] if only or "nginx + OPA" not in arms.ports else ["nginx + OPA", "gateway"]
        )
        took, rates = await arms.measure(make, peers, wanted)
        for arm, found in took.items():
            line(
                f"{name}, {arm}", [percentile(found, share) for share in SHARES], found, rates[arm]
            )


def line(name, percentiles, took, rate, more=""):
    p50, p95, p99 = percentiles
    print(
        f"  {name:20} p50 {p50:5.2f}, p95 {p95:5.2f}, p99 {p99:5.2f} ms;"
        f" c=1 {1 / statistics.mean(took):6,.0f}/s, c={AT_ONCE} {rate:6,.0f}/s {more}".rstrip(),
        flush=True,
    )


def start(*arguments):
    child = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("_guarded.py")), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return child, int(child.stdout.readline())


def stop(*children):
    for child in children:
        child.stdin.close()
        child.wait()


async def profiled(gateway, port, calls, make):
    """Print what the gateway's event loop does for each of these calls, one at a time."""
    await one_by_one(port, [make("/t", number) for number in range(calls)])
    gateway.stdin.write("begin\n")
    gateway.stdin.flush()
    await one_by_one(port, [make("/t", number) for number in range(calls, 2 * calls)])
    gateway.stdin.write(f"end {calls}\n")
    gateway.stdin.flush()
    for line in iter(gateway.stdout.readline, END + "\n"):
        print(line, end="")


def main():
    """Start the processes, measure, stop them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", choices=("read", "irreversible"))
    options, _ = parser.parse_known_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        tool, tool_port = start("upstream")
        proxy, proxy_port = start("proxy", tool_port)
        guarded, gateway_port = start("gateway", tool_port, folder)
        if options.profile:
            make = {"read": get, "irreversible": refund}[options.profile]
            uvloop.run(profiled(guarded, gateway_port, options.calls, make))
            stop(guarded, proxy, tool)
            return
        peers, missing = nginx_with_opa(folder, tool_port)
        ports = {"direct": tool_port, "bare proxy": proxy_port}
        if peers is None:
            print(f"nginx with OPA is not measured: {missing} is not installed here")
        else:
            ports["nginx + OPA"] = peers[0].ports["http"]
        ports["gateway"] = gateway_port
        try:
            uvloop.run(measure(Arms(ports, options.calls, options.rounds)))
        finally:
            for peer in peers or ():
                peer.stop()
            stop(guarded, proxy, tool)


if __name__ == "__main__":
    main()
