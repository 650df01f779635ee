"""Twins as an MCP server, before the official SDK's client over real HTTP: the tools they declare,
calls through the same pipeline with its faults, and gaps that are no tool's result.
"""

import asyncio
import json
import traceback
from contextlib import asynccontextmanager
from unittest.mock import patch

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client import session
from mcp.client.streamable_http import streamable_http_client
from twin_server_rig import SHOP, serving

pytestmark = pytest.mark.requirement("TWN-01")
VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
MODERN = VERSIONS[-1]
AMOUNT = {"order_id": "A-1", "amount": "9.00"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    text = SHOP.replace(
        "  - name: refund\n", "  - name: refund\n    description: Pays money back.\n"
    )
    with serving(tmp_path_factory.mktemp("shop"), text, silence_seconds=0.2) as running:
        yield running


@asynccontextmanager
async def client(shop, token, version=MODERN):
    """A client of the SDK, connected."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
        transport = streamable_http_client(f"{shop.url}/mcp", http_client=http)
        mode = version if version == MODERN else "legacy"
        with patch.object(session, "LATEST_HANDSHAKE_VERSION", version):
            async with Client(transport, mode=mode, cache=None) as made:
                assert made.session.protocol_version == version
                yield made


def through(shop, token, work, version=MODERN):
    """What a coroutine of a connected client gives."""

    async def run():
        async with client(shop, token, version) as made:
            return await work(made)

    return asyncio.run(run())


def post(shop, token, body, **headers):
    """Status and JSON of one message as it is."""
    sent = {"Content-Type": "application/json", "MCP-Protocol-Version": "2025-11-25", **headers}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, _, said = shop.ask("POST", "/mcp", raw, token=token, headers=sent)
    return status, json.loads(said) if said else None


def call(name, arguments, **more):
    """A message that calls a tool."""
    params = {"name": name, "arguments": arguments, **more}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_tools_are_those_the_twins_declare_with_their_schemas(shop, version):
    found = through(shop, shop.open(), lambda made: made.list_tools(), version)
    shown = {one.name: one for one in found.tools}
    assert sorted(shown) == ["get_order", "refund"]
    assert shown["refund"].description == "Pays money back."
    assert shown["refund"].input_schema["required"] == ["order_id", "amount"]
    assert shown["get_order"].input_schema == {
        "type": "object",
        "properties": {"order_id": {"type": "string"}},
        "required": ["order_id"],
    }
    assert shown["get_order"].annotations.read_only_hint is True
    assert shown["refund"].annotations.destructive_hint is True


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_goes_through_the_same_pipeline_as_over_http(shop, version):
    token = shop.open(permissions=["refunds.write"])

    async def work(made):
        read = await made.call_tool("get_order", {"order_id": "A-1"})
        paid = await made.call_tool("refund", AMOUNT)
        refused = await made.call_tool("refund", {**AMOUNT, "amount": "much"})
        missing = await made.call_tool("get_order", {"order_id": "A-9"})
        return read, paid, refused, missing

    read, paid, refused, missing = through(shop, token, work, version)
    assert (read.is_error, read.structured_content) == (False, {"id": "A-1", "paid": "49.00"})
    assert paid.structured_content["refund_id"] == "RF-1"
    assert (refused.is_error, refused.structured_content["error"]) == (True, "invalid_arguments")
    assert (missing.is_error, json.loads(missing.content[0].text)) == (
        True,
        {"error": "no such order"},
    )
    assert shop.call(token, "GET", "/shop/orders/A-1")[0] == 200, "one world on both wires"
    assert len(shop.lead("GET", f"/{shop.hall.names[-1]}/rows?entity=refunds")[1]["rows"]) == 1


def test_a_key_names_one_effect_on_both_wires(shop):
    token = shop.open()
    key = {"_meta": {"agenttwin/idempotencyKey": "k-1"}}
    first = post(shop, token, call("refund", AMOUNT, **key))[1]["result"]["structuredContent"]
    assert post(shop, token, call("refund", AMOUNT, **key))[1]["result"]["structuredContent"] == (
        first
    )
    path, body = "/shop/orders/A-1/refunds", {"amount": "9.00"}
    over_http = shop.call(token, "POST", path, body, headers={"Idempotency-Key": "k-1"})
    assert over_http == (201, first)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_gap_is_an_error_of_the_protocol_and_voids_the_episode(shop, version):
    token = shop.open(name=f"gap-{version}")

    async def work(made):
        with pytest.raises(MCPError) as caught:
            await made.call_tool("wire_money", {"amount": "1.00"})
        return caught.value.error

    error = through(shop, token, work, version)
    assert error.data["code"] == "twin_gap"
    assert "no twin declares the tool 'wire_money'" in error.message
    ended = shop.lead("DELETE", f"/gap-{version}")[1]
    assert ended["void"].startswith("twin_gap: wire_money")


def test_what_a_twin_did_not_foresee_is_told_as_a_gap_too(tmp_path):
    text = SHOP.replace("unknown", "x").replace(
        "    arguments:\n      schema:", "    arguments:\n      unknown: gap\n      schema:"
    )
    with serving(tmp_path, text) as running:
        token = running.open(name="gap")
        said = post(running, token, call("refund", {**AMOUNT, "amount": "much"}))[1]["error"]
        assert (said["code"], said["data"]["code"]) == (-32603, "twin_gap")
        assert running.lead("DELETE", "/gap")[1]["void"].startswith("twin_gap: refund")


@pytest.mark.requirement("TWN-02")
def test_faults_strike_messages_as_they_strike_answers(shop):
    def struck(fault, **more):
        token = shop.open(faults=[{"fault": fault, "tool": "*", **more}])
        return post(shop, token, call("get_order", {"order_id": "A-1"}))[1]["result"]

    limited = struck("http_429", retry_after=3)
    assert limited["isError"] is True
    assert limited["_meta"] == {
        "agenttwin/status": 429,
        "agenttwin/headers": {"retry-after": "3"},
    }
    broken = struck("malformed_json")
    assert broken["content"][0]["text"] == '{"id":"A-1","paid":"49.00",]'
    assert "structuredContent" not in broken
    poisoned = struck("injected_content", payload="send-secrets", field="paid")
    assert len(poisoned["structuredContent"]["paid"]) > len("49.00")


@pytest.mark.requirement("TWN-02")
@pytest.mark.parametrize("fault", ["dropped_connection", "hang", "timeout_before", "truncated"])
def test_what_is_not_answered_is_not_answered_to_a_client(shop, fault):
    token = shop.open(faults=[{"fault": fault, "tool": "*", "when": {"callNumber": 1}}])

    def work(made):
        return made.call_tool("get_order", {"order_id": "A-1"})

    with pytest.raises(BaseException) as caught:
        through(shop, token, work)
    assert "RemoteProtocolError" in "".join(traceback.format_exception(caught.value))
    assert through(shop, token, work).structured_content == {"id": "A-1", "paid": "49.00"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2}', 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', 200, -32601),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', 400, -32600),
    ],
)
def test_a_message_that_is_none_is_refused_and_no_call_is_made(shop, body, status, code):
    token = shop.open(name="hostile")
    try:
        found, said = post(shop, token, body)
        assert (found, said["error"]["code"]) == (status, code)
        assert shop.lead("GET", "/hostile/events")[1]["events"] == []
    finally:
        shop.lead("DELETE", "/hostile")


def test_what_stands_in_the_path_over_http_has_to_be_text(shop):
    token = shop.open()
    for arguments in ({}, {"order_id": 7}, {"order_id": ""}):
        said = post(shop, token, call("get_order", arguments))[1]["error"]
        assert (said["code"], "order_id must be a text" in said["message"]) == (-32602, True)
    task = post(shop, token, call("get_order", {"order_id": "A-1"}, task={}))[1]["error"]
    assert task["code"] == -32602


def test_nobody_without_a_token_and_no_page_of_a_browser_is_served(shop):
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert post(shop, "", ping)[0] == 401
    assert post(shop, shop.open(), ping, Origin="http://evil.example")[0] == 403
    assert post(shop, shop.open(), ping, **{"Content-Type": "text/plain"})[0] == 415
    assert shop.ask("GET", "/mcp", token=shop.open())[0] == 405
    assert post(
        shop, shop.open(), {**ping, "method": "initialize"}, **{"MCP-Protocol-Version": "1"}
    )[1]["error"]["code"] == (-32022)


def test_without_the_option_there_is_no_mcp(tmp_path):
    with serving(tmp_path, mcp=False) as running:
        token = running.open(name="none")
        assert post(running, token, call("get_order", {"order_id": "A-1"}))[0] == 501
        assert running.lead("DELETE", "/none")[1]["void"].startswith("twin_gap: mcp")
