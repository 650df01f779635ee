"""A whole gateway over real parts: real HTTP on 127.0.0.1, SQLite files, keys, regorus, egress.

``Shop`` is the upstream: it counts effects in its own database and misbehaves by order id. ``Rig``
is the gateway before it; ``rig(...)`` starts and stops all of it. Under ``--two-gateways`` it is
two gateways that share one Postgres instead, and every other request of a test goes to the second;
a test of what one process keeps to itself asks for one (``gateways=1``).
"""

import asyncio
import itertools
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
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
TWO_GATEWAYS = False
"""Set by ``--two-gateways`` (conftest)."""
PLACES = {}
"""Folder of a test: its place on Postgres."""
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


def query(path, sql):
    """Rows of the ledger at a path of ``rig``, stopped or not; what it changes is committed."""
    if path.parent in PLACES:
        return _apart(PLACES[path.parent][0], sql)
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(sql).fetchall()
        connection.commit()
        return found


def _apart(place, sql):
    """In a thread: a place may run a loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(place.query, sql).result()


class Rig:
    """What a test holds: the agent's client, and every part behind it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.gateways, self.servers, self._turn = [], [], itertools.count()
        self.policy = None

    @property
    def server(self):
        """The gateway whose turn it is."""
        return self.servers[next(self._turn) % len(self.servers)]

    @property
    def running(self):
        """How many calls are on their way in the gateways."""
        return sum(len(each._desk.running) for each in self.gateways)

    @property
    def waiting(self):
        """How many look at a request for approval and wait."""
        return sum(each.asked._waiting.total() for each in self.gateways)

    def query(self, sql):
        """Rows of the ledger, read beside the gateway; what it changes is committed."""
        return query(self.ledger_path, sql) if self.ledgers is None else _apart(self.ledgers, sql)

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


async def _on_postgres(folder):
    """The place for the ledgers of one folder, as a file would be: a restart finds it again."""
    from ledger_rig import ledgers

    if folder not in PLACES:
        place = ledgers("postgres", folder)  # entered in a thread: it runs loops of its own
        PLACES[folder] = (await asyncio.to_thread(place.__enter__), place)
    return PLACES[folder][0]


def forget_places():
    """Give the databases back that a test was given."""
    while PLACES:
        PLACES.popitem()[1][1].__exit__(None, None, None)


@asynccontextmanager
async def rig(
    folder, *, tool_changes=None, settings=None, upstream_url=None, policy=None, bundle="",
    wrap=lambda ports: ports, ledger_path=None, busy_timeout_ms=None, body_bytes_max=1024**2,
    ledgers=None, now_ns=clock.now_ns, tools_of=None, gateways=2,
    **served,
):  # fmt: skip
    """A started Rig; ``wrap`` may replace ports (to fail or to die) before the gateway starts."""
    async with AsyncExitStack() as stack:
        made = Rig(folder)
        folder.mkdir(parents=True, exist_ok=True)
        made.shop = Shop(folder / "shop.db")
        await made.shop.start()
        stack.push_async_callback(made.shop.stop)
        url = upstream_url or f"http://127.0.0.1:{made.shop.port}"
        upstream = Upstream(name="payments", url=url, allow_cidrs=("127.0.0.0/8",))
        known = tools_of or tools(**(tool_changes or {}))
        registry = Registry.from_config((upstream,), known, {})
        made.ledger_path = ledger_path or folder / "ledger.db"
        alone = ledgers is not None or ledger_path is not None or not TWO_GATEWAYS
        if alone:
            made.keys = SqliteKeys(folder / "ledger.db")
            stack.callback(made.keys.close)
        else:
            ledgers = await _on_postgres(folder)
            made.keys = stack.enter_context(ledgers.keys())
        made.ledgers = ledgers
        # The folder of a test may lie on tmpfs; what that means is tested on its own.
        made.settings = settings or Settings(accept_ephemeral_ledger=True)
        for _ in range(1 if alone else gateways):
            if ledgers is None:
                opened = SqliteLedger(
                    made.ledger_path, keyring(made.keys), busy_timeout_ms=busy_timeout_ms
                )
                stack.callback(opened.close)
            else:  # another backend's (ledger_rig), which several gateways may share
                opened = stack.enter_context(ledgers.ledger())
            if made.policy is None or policy is None:
                made.policy = policy or PolicyWorker(load_bundle(bundle), deadline_ns=2_000_000_000)
                stack.push_async_callback(made.policy.stop)
                await made.policy.start()
            egress = Egress()
            stack.push_async_callback(egress.close)
            upstreams = HttpUpstreams(registry, egress)
            ports = Ports(
                ledger=opened,
                registry=registry,
                policy=made.policy,
                upstreams=upstreams,
                addresses=upstreams.addresses,
            )
            gateway = Gateway(wrap(ports), made.settings, now_ns=now_ns)
            stack.push_async_callback(gateway.stop)
            await gateway.start()
            server = GatewayServer(
                gateway, made.authenticate, listen="127.0.0.1:0", body_bytes_max=body_bytes_max,
                **served,
            )  # fmt: skip
            stack.push_async_callback(server.stop)
            await server.start()
            made.gateways.append(gateway)
            made.servers.append(server)
            if len(made.gateways) == 1:  # what a test reaches into is the first's
                made.ledger, made.gateway = opened, gateway
        made.agent = made.credential("agent", name="refund-agent")
        made.http = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        )
        yield made
