"""A whole gateway over real parts: real HTTP on 127.0.0.1, SQLite files, keys, regorus, egress.

``Shop`` is the upstream: it counts effects in its own database and misbehaves by order id. ``Rig``
is the gateway before it; ``rig(...)`` starts and stops all of it.
"""

import asyncio
import json
import sqlite3
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import aiohttp
from aiohttp import web
from msgspec import Struct

from processors.model.call import Reason
from sidecar import clock
from sidecar.egress.client import Egress
from sidecar.gateway.client import HttpUpstreams
from sidecar.gateway.config import Cost, Match, Reconcile, Tool, Upstream
from sidecar.gateway.driver import Gateway, Ports, Settings
from sidecar.gateway.http import GatewayServer
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.result import PolicyAnswer
from sidecar.gateway.policy.worker import PolicyWorker
from sidecar.gateway.registry import Registry
from sidecar.identity.keys import authenticate, mint
from sidecar.store.envelope import Keyring, Sealer
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.ledger import SqliteLedger

MASTER = bytes(range(32))
REFUND = "/payments/orders/{}/refunds"


class Shop:
    """Orders and refunds. The order id says how a refund goes: ``hang``, ``drop``, ``s503``, …"""

    def __init__(self, database: Path):
        self.database = database
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS effect (order_id TEXT, key TEXT, amount REAL)"
            )
        self.delay = 0.0
        self.requests = 0
        self.seen = []
        self._connection = sqlite3.connect(database, isolation_level=None)

    async def start(self, port=0):
        self._runner = web.ServerRunner(
            web.Server(self._handle, access_log=None, handler_cancellation=True)
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self):
        await self._runner.cleanup()
        self._connection.close()

    def effects(self, order_id=None):
        with closing(sqlite3.connect(self.database)) as connection:
            query = "SELECT count(*) FROM effect WHERE ?1 IS NULL OR order_id = ?1"
            return connection.execute(query, (order_id,)).fetchone()[0]

    async def _handle(self, request):
        self.requests += 1
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append((request.method, request.raw_path, headers, body))
        if self.delay:
            await asyncio.sleep(self.delay)
        if request.method == "GET":
            return self._read(request)
        return await self._refund(request, json.loads(body) if body else {})

    def _read(self, request):
        if request.path == "/refunds":
            rows = self._connection.execute(
                "SELECT order_id FROM effect WHERE key = ?", (request.query.get("key"),)
            ).fetchall()
            return web.json_response({"refunds": [row[0] for row in rows]})
        if request.path.endswith("/slow"):
            return web.Response(status=200, body=b"x" * 200_000)
        return web.json_response({"path": request.raw_path, "refunded": self.effects()})

    async def _refund(self, request, arguments):
        order_id = request.path.split("/")[2]
        if order_id.startswith("s"):  # a status, without an effect
            return web.json_response({"error": order_id}, status=int(order_id[1:4]))
        key = request.headers.get("Idempotency-Key")
        self._connection.execute(
            "INSERT INTO effect VALUES (?, ?, ?)", (order_id, key, arguments.get("amount"))
        )
        if order_id.startswith("hang"):
            await asyncio.sleep(30)
        if order_id.startswith("drop"):
            request.transport.close()
        if order_id.startswith("late503"):
            return web.json_response({"error": "busy"}, status=503)
        return web.json_response(
            {"refunded": arguments.get("amount"), "order": order_id}, status=201
        )


PRICE = Cost(amount="arguments.amount", currency="arguments.currency")


def tools(cost=PRICE, read_cost=None, read=None, **changes):
    """The shop's tools; ``changes`` go to all with effects."""
    return (
        Tool(name="get_order", upstream="payments", class_="read",
             match=Match(method="GET", path="/orders/{order_id}"), timeout="1s",
             cost=read_cost, **(read or {})),
        Tool(name="issue_refund", upstream="payments", class_="irreversible",
             match=Match(method="POST", path="/orders/{order_id}/refunds"), timeout="2s",
             cost=cost, **changes),
        Tool(name="add_note", upstream="payments", class_="write",
             match=Match(method="POST", path="/orders/{order_id}/notes"), timeout="2s", **changes),
    )  # fmt: skip


RECONCILE = Reconcile(
    get="/refunds?key={idempotency_key}", done="size(response.json.refunds) > 0", settle="1s"
)


def keyring(keys):
    return Keyring(Sealer(MASTER, clock.random_bytes), keys, clock.random_bytes)


class AllowAll:
    """A policy port that allows: for tests about something else than policy."""

    revision = "allow-all"
    reads = frozenset()

    async def start(self):
        pass

    async def stop(self):
        pass

    async def decide(self, document):
        reasons = (Reason(code="allow_all"),)
        return PolicyAnswer(effect="allow", reasons=reasons, revision=self.revision)


class Reply(Struct):
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Rig:
    """What a test holds: the agent's client, and every part behind it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.keys = SqliteKeys(folder / "ledger.db")

    def credential(self, kind="agent", project="default", name=""):
        text, row = mint(
            kind, project, name, id_bytes=clock.random_bytes(8),
            secret_bytes=clock.random_bytes(32), now_ns=clock.now_ns(),
        )  # fmt: skip
        self.keys.add_key(row)
        return text

    async def authenticate(self, shown):
        return authenticate(shown.authorization, self.keys, now_ns=clock.now_ns())

    async def ask(self, method, path, *, key=None, json=None, credential=None, **headers):
        """One request to the gateway as the agent."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Authorization"] = f"Bearer {credential or self.agent}"
        if key is not None:
            sent["Idempotency-Key"] = key
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with self.http.request(method, url, json=json, headers=sent) as response:
            found = {name.lower(): value for name, value in response.headers.items()}
            return Reply(response.status, found, await response.read())

    async def refund(self, order, *, key="k1", amount=20, **headers):
        """A refund; more than 100 EUR needs approval under the default policy."""
        body = {"amount": amount, "currency": "EUR"}
        return await self.ask("POST", REFUND.format(order), key=key, json=body, **headers)

    async def approve(
        self, approval_id, decision="approve", voter="key:approver", name="", **ballot
    ):
        """A vote straight to the ledger, as the control API would cast it."""
        from sidecar.store.ledger import Ballot

        found = self.ledger.find_approval(approval_id)
        fields = {"reason": "checked", "shown_digest": found.shown_digest, **ballot}
        return await self.ledger.vote(
            Ballot(
                project=found.project, approval_id=approval_id, voter=voter, voter_name=name,
                decision=decision, now_ns=clock.now_ns(), **fields,
            )
        )  # fmt: skip

    async def approved_token(self, order, *, key, amount=500):
        """The token of an approved refund."""
        asked = await self.refund(order, key=key, amount=amount)
        assert asked.json["code"] == "approval_required", asked.json
        approval_id = asked.json["approval"]["id"]
        assert await self.approve(approval_id) is None
        told = await self.ask("GET", f"/v1/approvals/{approval_id}")
        return told.json["token"]


@asynccontextmanager
async def rig(
    folder, *, tool_changes=None, settings=None, upstream_url=None, policy=None, bundle="",
    wrap=lambda ports: ports, ledger_path=None, busy_timeout_ms=None, body_bytes_max=1024**2,
    ledgers=None, tools_of=None,
    **served,
):  # fmt: skip
    """A started Rig; ``wrap`` may replace ports (to fail or to die) before the gateway starts."""
    async with AsyncExitStack() as stack:
        made = Rig(folder)
        stack.callback(made.keys.close)
        made.shop = Shop(folder / "shop.db")
        await made.shop.start()
        stack.push_async_callback(made.shop.stop)
        url = upstream_url or f"http://127.0.0.1:{made.shop.port}"
        upstream = Upstream(name="payments", url=url, allow_cidrs=("127.0.0.0/8",))
        known = tools_of or tools(**(tool_changes or {}))
        registry = Registry.from_config((upstream,), known, {})
        if ledgers is None:
            path, keys = ledger_path or folder / "ledger.db", keyring(made.keys)
            made.ledger = SqliteLedger(path, keys, busy_timeout_ms=busy_timeout_ms)
            stack.callback(made.ledger.close)
        else:  # another backend's (ledger_rig), which several gateways may share
            made.ledger = stack.enter_context(ledgers.ledger())
        made.policy = policy or PolicyWorker(load_bundle(bundle), deadline_ns=2_000_000_000)
        stack.push_async_callback(made.policy.stop)
        await made.policy.start()
        egress = Egress()
        stack.push_async_callback(egress.close)
        ports = Ports(
            ledger=made.ledger,
            registry=registry,
            policy=made.policy,
            upstreams=(upstreams := HttpUpstreams(registry, egress)),
            addresses=upstreams.addresses,
        )
        # The folder of a test may lie on tmpfs; what that means is tested on its own.
        made.settings = settings or Settings(accept_ephemeral_ledger=True)
        made.gateway = Gateway(wrap(ports), made.settings)
        stack.push_async_callback(made.gateway.stop)
        await made.gateway.start()
        made.server = GatewayServer(
            made.gateway, made.authenticate, listen="127.0.0.1:0", body_bytes_max=body_bytes_max,
            **served,
        )  # fmt: skip
        stack.push_async_callback(made.server.stop)
        await made.server.start()
        made.agent = made.credential("agent", name="refund-agent")
        made.http = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        )
        yield made
