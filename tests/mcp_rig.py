"""An MCP server of the official SDK behind a whole gateway, and clients of the SDK before it.

``Crm`` is the server (real HTTP, its effects in ``notes``), ``gated(...)`` the gateway before it,
and ``Gated.client(...)`` a client that speaks one version of the protocol.
"""

import asyncio
import json
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from unittest.mock import patch

import httpx2
import uvicorn
from gateway_rig import AllowAll, keyring
from mcp import Client
from mcp.client import session
from mcp.client.streamable_http import streamable_http_client
from mcp.server import runner
from mcp.server.mcpserver import Context, MCPServer
from msgspec import structs

from processors.model.call import Reason
from sidecar import clock
from sidecar.egress.client import Egress
from sidecar.gateway.client import HttpUpstreams, RoutedUpstreams
from sidecar.gateway.config import Match, McpServer, Tool
from sidecar.gateway.driver import Gateway, Ports, Settings
from sidecar.gateway.http import GatewayServer
from sidecar.gateway.policy.result import PolicyAnswer
from sidecar.gateway.registry import Registry
from sidecar.gateway.rpc.client import McpUpstreams
from sidecar.gateway.rpc.mcp import McpWire
from sidecar.gateway.rpc.pins import pinned
from sidecar.identity.driver import Identity
from sidecar.identity.keys import mint
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.ledger import SqliteLedger


class Crm:
    """Customers and notes. ``notes`` are the effects; ``hold`` lets calls wait."""

    def __init__(self):
        self.notes = []
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.hold = asyncio.Event()
        self.hold.set()

    def server(self, *, description="Adds a note to a customer."):
        made = MCPServer("crm")

        @made.tool(name="find_customer", description="Finds a customer by name.")
        async def find_customer(name: str, context: Context) -> str:
            for step in range(3):
                await context.report_progress(step, 3)
            self.begun.set()
            try:
                await self.hold.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return f"customer {name}"

        @made.tool(name="add_note", description=description)
        async def add_note(customer: str, text: str) -> str:
            self.begun.set()
            await self.hold.wait()
            self.notes.append((customer, text))
            return f"noted {len(self.notes)}"

        @made.tool(name="delete_customer", description="Deletes a customer.")
        async def delete_customer(name: str) -> str:
            raise ValueError("no such customer")

        return made


def of_before(app):
    """A server that has never heard of 2026-07-28."""

    async def answer(scope, receive, send):
        if (b"mcp-protocol-version", b"2026-07-28") in scope.get("headers", ()):
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body"})
        else:
            await app(scope, receive, send)

    return answer


@asynccontextmanager
async def served(made, version="2026-07-28"):
    """A server of the SDK on a free port, that speaks one version; its port."""
    app, stack = made.streamable_http_app(), ExitStack()
    if version != "2026-07-28":  # the SDK's server speaks all of them, and has no switch
        app = of_before(app)
        only = {"HANDSHAKE_PROTOCOL_VERSIONS": (version,), "LATEST_HANDSHAKE_VERSION": version}
        stack.enter_context(patch.multiple(runner, **only))
    running = uvicorn.Server(
        uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="critical",
            lifespan="on", timeout_graceful_shutdown=1,
        )
    )  # fmt: skip
    running.install_signal_handlers = lambda: None
    task = asyncio.create_task(running._serve())
    while not running.started:
        await asyncio.sleep(0.005)
    try:
        yield running.servers[0].sockets[0].getsockname()[1]
    finally:
        running.should_exit = True
        await task
        stack.close()


class AllowListed(AllowAll):
    """Allows, but for what it is told to hide, to deny or to have approved."""

    def __init__(self, hidden=(), denied=(), approved=()):
        self.hidden, self.denied, self.approved = set(hidden), set(denied), set(approved)
        self.asked = []

    async def decide(self, document):
        self.asked.append(document)
        tool = document["resource"]["id"]
        if tool in self.denied:
            return self._answer("deny", "not_this_one")
        if tool in self.approved:
            return self._answer("require_approval", "ask_a_person")
        return self._answer("allow", "allow_all")

    async def visible(self, document):
        hidden = document["resource"]["id"] in self.hidden
        return self._answer("deny" if hidden else "allow", "listed")

    def _answer(self, effect, code):
        return PolicyAnswer(effect=effect, reasons=(Reason(code=code),), revision=self.revision)


def tools(**changes):
    """The CRM's tools as configured."""
    return (
        Tool(name="find_customer", upstream="crm", class_="read",
             match=Match(tool="find_customer"), timeout="5s"),
        Tool(name="add_note", upstream="crm", class_="irreversible",
             match=Match(tool="add_note"), timeout="5s", **changes),
    )  # fmt: skip


class Gated:
    """What a test holds."""

    def credential(self, kind="agent", project="default", name="", **fields):
        text, row = mint(
            kind, project, name, id_bytes=clock.random_bytes(8),
            secret_bytes=clock.random_bytes(32), now_ns=clock.now_ns(),
        )  # fmt: skip
        self.keys.add_key(structs.replace(row, **fields))
        return text

    tokens = None

    async def authenticate(self, shown):
        return await Identity(self.keys, clock.now_ns, tokens=self.tokens)(shown)

    async def post(self, message, *, headers=(), credential=None, raw=None):
        """One POST; the status, the headers and the JSON that came (of the last event)."""
        sent = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {credential or self.agent}",
            **dict(headers),
        }
        body = raw if raw is not None else json.dumps(message).encode()
        answer = await self.http.post(self.url, content=body, headers=sent)
        text = answer.text
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            text = [line[6:] for line in text.splitlines() if line.startswith("data: ")][-1]
        return answer.status_code, dict(answer.headers), json.loads(text) if text else None

    async def approve(self, approval_id, voter="key:approver"):
        from sidecar.store.ledger import Ballot

        found = self.ledger.find_approval(approval_id)
        return await self.ledger.vote(
            Ballot(
                project=found.project, approval_id=approval_id, voter=voter, voter_name="",
                decision="approve", reason="seen", shown_digest=found.shown_digest,
                now_ns=clock.now_ns(),
            )
        )  # fmt: skip

    @asynccontextmanager
    async def client(self, version, **options):
        """A client of the SDK, connected."""
        headers = {"Authorization": f"Bearer {options.pop('credential', self.agent)}"}
        async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
            mode = version if version == "2026-07-28" else "legacy"
            transport = streamable_http_client(self.url, http_client=http)
            client = Client(transport, mode=mode, cache=None, **options)
            async with AsyncExitStack() as stack:
                # The SDK offers the newest version that has sessions; here it offers this one.
                with patch.object(session, "LATEST_HANDSHAKE_VERSION", version):
                    made = await stack.enter_async_context(client)
                assert made.session.protocol_version == version
                yield made


async def definitions_of(port):
    """What a server defines, as a file of reviewed definitions would hold it."""
    async with Client(f"http://127.0.0.1:{port}/mcp", mode="legacy") as each:
        found = await each.list_tools()
    dumped = found.model_dump(by_alias=True, exclude_none=True, mode="json")
    return {"tools": dumped["tools"]}


@asynccontextmanager
async def gated(
    folder, port, definitions, *, policy=None, tool_changes=None, refresh="60s", wait_seconds=10,
    task_seconds=5.0, configured=None, ledgers=None, settings=None, **served_with,
):  # fmt: skip
    """A gateway before the MCP server at a port; ``ledgers``: another backend's (ledger_rig), which
    several gateways may share, with their keys."""
    made, stack = Gated(), ExitStack()
    if ledgers is None:
        made.keys = stack.enter_context(closing(SqliteKeys(folder / "ledger.db")))
        opened = SqliteLedger(folder / "ledger.db", keyring(made.keys))
        made.ledger = stack.enter_context(closing(opened))
    else:
        made.keys = stack.enter_context(ledgers.keys())
        made.ledger = stack.enter_context(ledgers.ledger())
    server = McpServer(
        name="crm", url=f"http://127.0.0.1:{port}/mcp", allow_cidrs=("127.0.0.0/8",),
        refresh=refresh,
    )  # fmt: skip
    wanted = configured if configured is not None else tools(**(tool_changes or {}))
    found = pinned((server,), wanted, {"crm": definitions})
    assert not found.problems, found.problems
    registry = Registry.from_config((server.upstream,), found.tools, found.schemas)
    egress = Egress()
    made.upstreams = McpUpstreams(registry, egress, {"crm": 60_000_000_000})
    ports = Ports(
        ledger=made.ledger,
        registry=registry,
        policy=policy or AllowListed(),
        upstreams=RoutedUpstreams(HttpUpstreams(registry, egress), {"crm": made.upstreams}),
    )
    made.gateway = Gateway(ports, settings or Settings(accept_ephemeral_ledger=True))
    await made.gateway.start()
    page = "http://127.0.0.1:4320/approvals/{id}"
    made.server = GatewayServer(
        made.gateway, made.authenticate, listen="127.0.0.1:0",
        mcp=McpWire(
            made.upstreams, page, wait_seconds=wait_seconds, task_seconds=task_seconds
        ), **served_with,
    )  # fmt: skip
    await made.server.start()
    made.url = f"http://127.0.0.1:{made.server.port}/mcp/crm"
    made.agent = made.credential("agent", name="support-agent")
    made.http = httpx2.AsyncClient(timeout=20)
    try:
        yield made
    finally:
        await made.http.aclose()
        await made.server.stop()
        await egress.close()
        stack.close()
