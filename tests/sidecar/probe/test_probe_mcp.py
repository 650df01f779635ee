"""Probes of a real MCP server (the official SDK's), of both eras of the protocol."""

import asyncio
import contextlib
import json
import socket
import threading
from pathlib import Path

import pytest
import uvicorn
from aiohttp import web
from mcp.server.mcpserver import MCPServer

from processors.model.step import Step, Tool
from processors.model.trace import AgentTrace
from sidecar.egress.client import Egress
from sidecar.probe.config import McpCredential, McpProbe, Probe
from sidecar.probe.driver import Askers, run
from sidecar.probe.mcp import McpAsker
from sidecar.probe.messages import NotAnswered, RpcFailed, read_answer
from sidecar.probe.plan import load, plan

TRACE = AgentTrace(
    trace_id="e" * 32,
    steps=(
        Step(
            step_id="s1",
            kind="tool_call",
            name="close_ticket",
            status="ok",
            tool=Tool(name="close_ticket", arguments={"id": "T-7", "other": "T-8"}),
        ),
    ),
)


def asked(url, resource="crm://tickets/{arguments.id}", times=1, **fields):
    credential = fields.pop("credential", None)
    probe = Probe(
        name="ticket",
        when="true",
        mcp=McpProbe(
            url=url, resource=resource, allow_cidrs=("127.0.0.0/8",), credential=credential
        ),
        expect=fields.pop("expect", 'response.json.status == "closed"'),
        **fields,
    )

    async def scenario():
        egress = Egress()
        asker = McpAsker(egress, Path())
        try:
            for _ in range(times):
                (found,) = await run(
                    plan(TRACE, load([probe])), Askers(http=asker, sql=asker, mcp=asker)
                )
            return found
        finally:
            await egress.close()

    return asyncio.run(scenario())


@pytest.fixture(scope="module")
def crm():
    """The URL of a CRM with one closed ticket."""
    server = MCPServer("crm")

    @server.resource("crm://tickets/{number}")
    def ticket(number: str) -> str:
        return json.dumps({"id": number, "status": "closed" if number == "T-7" else "open"})

    listener = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(
        uvicorn.Config(server.streamable_http_app(), log_level="critical", lifespan="on")
    )
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    running.should_exit = True
    thread.join()
    listener.close()


@pytest.mark.requirement("OUT-02")
def test_a_resource_is_read_and_judged(crm):
    found = asked(crm)
    assert (found.held, found.detail) == (True, None)


def test_a_resource_in_another_state_does_not_hold(crm):
    found = asked(crm, "crm://tickets/{arguments.other}")
    assert (found.held, found.detail) == (False, "expectation_not_met")


def test_a_resource_that_is_not_there_is_unknown(crm):
    found = asked(crm, "crm://nothing/{arguments.id}")
    assert found.held is None
    assert found.detail in ("no_such_resource", "mcp_error")


class Old:
    """A server of before 2026-07-28: nothing without a session; ``seen`` is what it was sent."""

    def __init__(self, *, stream=False, stateless=False, status=200):
        self.stream, self.stateless, self.status = stream, stateless, status
        self.seen = []

    async def handle(self, request):
        if request.method == "DELETE":
            self.seen.append(("DELETE", request.headers.get("Mcp-Session-Id")))
            return web.Response(status=204)
        message = json.loads(await request.read())
        method = message["method"]
        self.seen.append((method, request.headers.get("Mcp-Session-Id")))
        if self.status != 200:
            return web.Response(status=self.status)
        if method == "initialize":
            headers = {} if self.stateless else {"Mcp-Session-Id": "s-1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}}
            return self._answer(message, result, headers)
        if not self.stateless and request.headers.get("Mcp-Session-Id") != "s-1":
            return web.json_response(
                {"jsonrpc": "2.0", "id": None, "error": {"code": -32600}}, status=400
            )
        if "id" not in message:
            return web.Response(status=202)
        text = json.dumps({"status": "closed"})
        return self._answer(message, {"contents": [{"uri": "x", "text": text}]}, {})

    def _answer(self, message, result, headers):
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if not self.stream:
            return web.json_response(body, headers=headers)
        noise = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
        events = "".join(f"event: message\ndata: {json.dumps(each)}\n\n" for each in (noise, body))
        return web.Response(text=events, content_type="text/event-stream", headers=headers)


@contextlib.contextmanager
def served(server):
    ready, stop = threading.Event(), None
    loop = asyncio.new_event_loop()
    place = {}

    async def serve():
        app = web.Application()
        app.router.add_route("*", "/mcp", server.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        place["port"], place["stop"] = runner.addresses[0][1], asyncio.Event()
        ready.set()
        await place["stop"].wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    stop = place["stop"]
    try:
        yield f"http://127.0.0.1:{place['port']}/mcp"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_of_before_gets_a_session_that_is_closed_after(stream):
    server = Old(stream=stream)
    with served(server) as url:
        assert asked(url).held is True
    methods = [method for method, _ in server.seen]
    assert methods == [
        *("resources/read", "initialize", "notifications/initialized", "resources/read", "DELETE")
    ]
    assert [session for _, session in server.seen] == [None, None, "s-1", "s-1", "s-1"]


def test_which_era_a_server_speaks_is_remembered():
    server = Old()
    with served(server) as url:
        assert asked(url, times=2).held is True
    assert [method for method, _ in server.seen].count("resources/read") == 3


@pytest.mark.parametrize("status", [401, 503])
def test_a_status_that_says_nothing_is_unknown_and_not_tried_another_way(status):
    server = Old(status=status)
    with served(server) as url:
        found = asked(url)
    assert (found.held, found.detail) == (None, f"http_{status}")
    assert len(server.seen) == 1


def test_a_missing_credential_file_is_unknown(tmp_path):
    found = asked(
        "http://127.0.0.1:9/mcp",
        credential=McpCredential(header="Authorization", file=str(tmp_path / "none")),
    )
    assert (found.held, found.detail) == (None, "credential_unreadable")


def test_nobody_there_is_unknown():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    found = asked(f"http://127.0.0.1:{port}/mcp")
    assert (found.held, found.detail) == (None, "unreachable")


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{", b'{"id": 2, "result": {}}', b'{"id": 1}', b"\xff\xfe", b"9" * 99],
)
def test_what_is_no_answer_to_the_request_is_none(body):
    for content_type in ("application/json", "text/event-stream"):
        with pytest.raises(NotAnswered):
            read_answer(body, content_type, 1)


def test_an_error_is_told_by_its_code():
    with pytest.raises(RpcFailed) as raised:
        read_answer(b'{"id": 1, "error": {"code": -32002, "message": "x"}}', "application/json", 1)
    assert raised.value.code == -32002
