"""One life of a gateway that dies by SIGKILL at a chosen point of its one call (for test_crash)."""

import asyncio
import json
import os
import signal
import socket

from gateway_rig import RECONCILE, AllowAll, Settings, keyring, tools
from msgspec import structs

from processors.model.principal import Principal
from sidecar.egress.client import Egress
from sidecar.gateway.action import ToolRequest
from sidecar.gateway.client import HttpUpstreams
from sidecar.gateway.config import Upstream
from sidecar.gateway.driver import Gateway, Ports
from sidecar.gateway.registry import Registry
from sidecar.store.sqlite import claims
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.ledger import SqliteLedger

AGENT = Principal(id="key:crash", kind="agent", project="default", name="crash")
BODY = json.dumps({"amount": 20, "currency": "EUR"}).encode()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class DyingLedger:
    """The real ledger; the process dies before or after one of its writes."""

    def __init__(self, ledger, point):
        self._ledger = ledger
        self._point = point

    def __getattr__(self, name):
        return getattr(self._ledger, name)

    async def _write(self, name, *arguments):
        if self._point == f"before_{name}":
            die()
        result = await getattr(self._ledger, name)(*arguments)
        if self._point == f"after_{name}":
            die()
        return result

    async def commit_intent(self, intent):
        if self._point == "between_commits":
            claims.marked = lambda *_: die()
        else:  # marked apart, so that it can die before and after
            intent = structs.replace(intent, marks=())
        return await self._write("commit_intent", intent)

    async def mark_sent(self, claim, now_ns, kinds):
        return await self._write("mark_sent", claim, now_ns, kinds)

    async def record(self, outcome):
        return await self._write("record", outcome)


class DyingUpstreams:
    """The real upstreams, but for a life that ends while sending or right after the answer."""

    def __init__(self, upstreams, port, point):
        self._upstreams = upstreams
        self._port = port
        self._point = point

    async def send(self, request):
        if self._point in ("mid_send", "after_send"):
            self._send_by_hand(request, whole=self._point == "after_send")
        reply = await self._upstreams.send(request)
        if self._point == "after_response":
            die()
        return reply

    def _send_by_hand(self, request, *, whole):
        head = (
            f"{request.method} {request.path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            f"Idempotency-Key: {request.idempotency_key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(request.body)}\r\n\r\n"
        ).encode()
        data = head + request.body
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            connection.sendall(data if whole else data[:-5])
            if whole:
                connection.recv(1)  # the upstream has answered; we never read what
            die()


def registry(port, *, reconcile=None):
    url = f"http://127.0.0.1:{port}"
    upstream = Upstream(name="payments", url=url, allow_cidrs=("127.0.0.0/8",))
    changes = {"reconcile": RECONCILE if reconcile is True else reconcile} if reconcile else {}
    return Registry.from_config((upstream,), tools(**changes), {})


def request(class_, key="k"):
    if class_ == "read":
        return ToolRequest(upstream="payments", method="GET", raw_path="/orders/17")
    path = "/orders/17/refunds" if class_ == "irreversible" else "/orders/17/notes"
    return ToolRequest(
        upstream="payments",
        method="POST",
        raw_path=path,
        headers=(("Content-Type", "application/json"), ("Idempotency-Key", key)),
        body=BODY,
    )


async def one_call(folder, port, class_, *, point="", reconcile=False, settle=False):
    """A whole life: start, one call, stop. Gives the reply and the claims' states."""
    keys = SqliteKeys(folder / "ledger.db")
    ledger = SqliteLedger(folder / "ledger.db", keyring(keys))
    found, egress = registry(port, reconcile=reconcile), Egress()
    real = Ports(
        ledger=ledger, registry=found, policy=AllowAll(), upstreams=HttpUpstreams(found, egress)
    )
    ports = structs.replace(
        real,
        ledger=DyingLedger(ledger, point),
        upstreams=DyingUpstreams(real.upstreams, port, point),
    )
    gateway = Gateway(ports if point else real, Settings(accept_ephemeral_ledger=True))
    try:
        await gateway.start()
        if settle:  # let what is unknown be reconciled before the call
            async with asyncio.timeout(10):
                while ledger.unresolved() and reconcile:
                    await asyncio.sleep(0.01)
        return await gateway.call(request(class_), AGENT)
    finally:
        await gateway.stop()
        await egress.close()
        ledger.close()
        keys.close()


def life(folder, port, class_, point, reconcile):
    asyncio.run(one_call(folder, port, class_, point=point, reconcile=reconcile))
