"""The official SDK's client and server through the gateway, on each version of the protocol."""

import asyncio
import json
from pathlib import Path

import anyio
import jsonschema_rs
import pytest
from mcp import MCPError
from mcp_rig import AllowListed, Crm, definitions_of, gated, served
from mcp_types import ElicitResult

SCHEMA = jsonschema_rs.validator_for(
    json.loads((Path(__file__).parents[3] / "policies/schema/input.json").read_text())
)
VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")


def run(folder, scenario, *, made=None, definitions=None, **options):
    async def main():
        crm = Crm()
        async with asyncio.timeout(40), served((made or Crm.server)(crm)) as port:
            reviewed = definitions or await definitions_of(port)
            async with gated(folder, port, reviewed, **options) as each:
                each.crm, each.reviewed, each.port = crm, reviewed, port
                await scenario(each)

    asyncio.run(main())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.requirement("MCP-01")
def test_a_client_sees_what_policy_shows_and_calls_it(tmp_path, version):
    async def scenario(each):
        async with each.client(version) as client:
            assert client.session.protocol_version == version
            found = await client.list_tools()
            assert [tool.name for tool in found.tools] == ["add_note", "find_customer"]
            answer = await client.call_tool("find_customer", {"name": "Ada"})
            assert answer.content[0].text == "customer Ada"
            with pytest.raises(MCPError) as refused:
                await client.call_tool("delete_customer", {"name": "Ada"})
            assert refused.value.error.data["code"] == "not_this_one"

    policy = AllowListed(hidden={"crm/delete_customer"}, denied={"crm/delete_customer"})
    run(tmp_path, scenario, policy=policy)


def envelope(version="2026-07-28", capabilities=None):
    return {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
    }


def modern_call(name="add_note", arguments=None, number=1, meta=(), **params):
    """A ``tools/call`` of 2026-07-28, and its headers."""
    wanted = {"customer": "Ada", "text": "called"} if arguments is None else arguments
    meta = {**envelope(), **dict(meta)}
    message = {
        "jsonrpc": "2.0", "id": number, "method": "tools/call",
        "params": {"name": name, "arguments": wanted, "_meta": meta, **params},
    }  # fmt: skip
    return message, modern_headers("tools/call", name)


def modern_headers(method, name=None):
    named = {"Mcp-Name": name} if name else {}
    return {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **named}


async def call(each, *given, **options):
    credential = options.pop("credential", None)
    message, headers = modern_call(*given, **options)
    _, _, answer = await each.post(message, headers=headers, credential=credential)
    return answer


def code_of(answer):
    return answer["error"]["code"], answer["error"].get("data", {}).get("code")


@pytest.mark.row("K")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.requirement("MCP-01")
def test_a_session_is_opened_in_the_version_that_is_asked_for(tmp_path, version):
    async def scenario(each):
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }}  # fmt: skip
        status, headers, answer = await each.post(hello)
        assert (status, answer["result"]["protocolVersion"]) == (200, version)
        session = {"MCP-Protocol-Version": version, "Mcp-Session-Id": headers["mcp-session-id"]}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await each.post(done, headers=session))[0] == 202
        for number, method in ((1, "ping"), (2, "tools/list")):
            asked = {"jsonrpc": "2.0", "id": number, "method": method}
            assert (await each.post(asked, headers=session))[2]["result"] is not None
        asked = {"jsonrpc": "2.0", "id": 3, "method": "tools/call",
                 "params": {"name": "find_customer", "arguments": {"name": "Ada"}}}  # fmt: skip
        _, _, answer = await each.post(asked, headers=session)
        assert answer["result"]["content"][0]["text"] == "customer Ada"
        other = each.credential("agent", name="other")
        status, _, answer = await each.post(asked, headers=session, credential=other)
        assert (status, answer["code"]) == (404, "no_such_session")

    run(tmp_path, scenario)


@pytest.mark.requirement("MCP-01")
def test_a_tool_that_nobody_reviewed_is_neither_listed_nor_called(tmp_path):
    async def scenario(each):
        async with each.client("2026-07-28") as client:
            found = await client.list_tools()
            assert [tool.name for tool in found.tools] == ["find_customer"]
            assert found.meta["agenttwin/withheld"] == {"new": 2}
        assert code_of(await call(each)) == (-32602, "no_such_tool")
        assert each.crm.notes == []

    async def main():
        crm = Crm()
        async with served(crm.server()) as port:
            return await definitions_of(port)

    reviewed = asyncio.run(main())
    reviewed["tools"] = [each for each in reviewed["tools"] if each["name"] == "find_customer"]
    from mcp_rig import tools

    run(tmp_path, scenario, definitions=reviewed, configured=tools()[:1])


@pytest.mark.requirement("MCP-01")
def test_nothing_to_show_is_an_error_that_says_why(tmp_path):
    async def scenario(each):
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": envelope()}}
        _, _, answer = await each.post(asked, headers=modern_headers("tools/list"))
        assert code_of(answer) == (-32001, "no_tools")
        assert answer["error"]["data"]["withheld"] == {"denied": 3}

    hidden = {"find_customer", "add_note", "crm/delete_customer"}
    run(tmp_path, scenario, policy=AllowListed(hidden=hidden))


@pytest.mark.requirement("MCP-01")
def test_a_credential_for_some_tools_sees_and_calls_no_others(tmp_path):
    async def scenario(each):
        narrow = each.credential("agent", name="reader", tools=("find_customer",))
        async with each.client("2026-07-28", credential=narrow) as client:
            found = await client.list_tools()
            assert [tool.name for tool in found.tools] == ["find_customer"]
            assert found.meta["agenttwin/withheld"] == {"denied": 2}
        answer = await call(each, credential=narrow)
        assert code_of(answer) == (-32001, "tool_not_granted")
        assert each.crm.notes == []

    run(tmp_path, scenario)


BODY = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
ODD = {
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    "a member in another case": (b'{"jsonrpc":"2.0","id":1,"method":"ping","Method":"x"}', -32600),
    "a key twice": (b'{"jsonrpc":"2.0","id":1,"method":"a","method":"tools/call"}', -32700),
    "a NUL in a key": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a\\u0000":1}}', -32700),
    "a response": (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
    "a broken id": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    "no JSON": (b"{", -32700),
    "a big number": (b'{"jsonrpc":"2.0","id":90071992547409930,"method":"ping"}', -32700),
}


@pytest.mark.row("K", "CVE-2026-27896")
@pytest.mark.requirement("MCP-01")
def test_a_body_that_is_not_one_plain_message_is_refused(tmp_path):
    async def scenario(each):
        for name, (raw, code) in ODD.items():
            status, _, answer = await each.post(
                None, raw=raw, headers=modern_headers("tools/call", "find_customer")
            )
            assert (status, answer["error"]["code"]) == (400, code), name
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tasks/run",
            "params": {"_meta": envelope()},
        }
        status, _, answer = await each.post(message, headers=modern_headers("tasks/run"))
        assert (status, answer["error"]["code"]) == (404, -32601)
        assert each.crm.notes == []

    run(tmp_path, scenario)


MISMATCHES = {
    "another name": {"Mcp-Name": "find_customer"},
    "another method": {"Mcp-Method": "tools/list"},
    "another version": {"MCP-Protocol-Version": "2025-11-25"},
    "a version nobody speaks": {"MCP-Protocol-Version": "2027-01-01"},
    "a malformed sentinel": {"Mcp-Name": "=?base64?YWRk?X?="},
    "no name": {"Mcp-Name": None},
    "no method": {"Mcp-Method": None},
}


@pytest.mark.row("K")
@pytest.mark.requirement("MCP-01")
def test_a_header_that_says_another_thing_than_the_body_is_refused(tmp_path):
    async def scenario(each):
        for name, changes in MISMATCHES.items():
            message, headers = modern_call()
            given = {k: v for k, v in {**headers, **changes}.items() if v is not None}
            status, _, answer = await each.post(message, headers=given)
            assert (status, answer["error"]["code"]) == (400, -32020), (name, answer)
        # Of a version that knows no such headers they are refused all the same.
        old = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Name": "find_customer"}
        message = {**BODY, "params": {"name": "add_note", "arguments": {}}}
        _, _, answer = await each.post(message, headers=old)
        assert answer["error"]["code"] == -32020
        assert each.crm.notes == []
        encoded = {"Mcp-Name": "=?base64?YWRkX25vdGU=?="}
        message, headers = modern_call()
        _, _, answer = await each.post(message, headers={**headers, **encoded})
        assert answer["result"]["content"][0]["text"] == "noted 1"

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-02")
def test_policy_sees_that_a_call_is_of_mcp_and_of_which_tool(tmp_path):
    policy = AllowListed()

    async def scenario(each):
        await call(each)
        (document,) = policy.asked
        SCHEMA.validate(document)
        assert document["action"]["name"] == "tools/call"
        assert document["mcp"] == {"method": "tools/call", "name": "add_note"}
        assert document["resource"]["properties"]["server"] == "crm"
        assert document["arguments"] == {"customer": "Ada", "text": "called"}

    run(tmp_path, scenario, policy=policy)


@pytest.mark.row("T53")
@pytest.mark.requirement("GW-01")
def test_a_silent_call_is_kept_alive_where_the_client_takes_events(tmp_path):
    async def scenario(each):
        each.crm.hold.clear()
        message, headers = modern_call()
        given = {**headers, "Authorization": f"Bearer {each.agent}",
                 "Accept": "application/json, text/event-stream"}  # fmt: skip
        async with each.http.stream("POST", each.url, json=message, headers=given) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            parts = answer.aiter_raw()
            assert await anext(parts) == b": ka\n\n"
            each.crm.hold.set()
            rest = b"".join([part async for part in parts])
        assert b"noted 1" in rest.rpartition(b"data: ")[2]

    run(tmp_path, scenario, keep_alive_seconds=0.02)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.requirement("MCP-01")
def test_progress_reaches_the_client_whose_call_it_is(tmp_path, version):
    async def scenario(each):
        seen = []

        async def told(progress, total, message):
            seen.append((progress, total))

        async with each.client(version) as client:
            await client.call_tool("find_customer", {"name": "Ada"}, progress_callback=told)
        assert seen == [(0, 3), (1, 3), (2, 3)]

    run(tmp_path, scenario)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.requirement("MCP-01")
def test_a_cancelled_read_is_given_up_at_its_server_too(tmp_path, version):
    async def scenario(each):
        each.crm.hold.clear()
        try:
            async with each.client(version) as client:
                call = asyncio.create_task(client.call_tool("find_customer", {"name": "Ada"}))
                await each.crm.begun.wait()
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                await asyncio.wait_for(each.crm.cancelled.wait(), 5)
                await client.list_tools()
        except* (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the client closes while it is told of the call that it has given up
        assert each.crm.cancelled.is_set()

    run(tmp_path, scenario)


@pytest.mark.row("K", "T60")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.requirement("MCP-01")
def test_a_call_with_effects_runs_on_when_it_is_cancelled_and_its_answer_is_kept(tmp_path, version):
    async def scenario(each):
        each.crm.hold.clear()
        meta = {"agenttwin/idempotencyKey": "note-1"}
        arguments = {"customer": "Ada", "text": "called"}
        async with each.client(version) as client:
            first = asyncio.create_task(client.call_tool("add_note", arguments, meta=meta))
            await each.crm.begun.wait()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            each.crm.hold.set()
            while not each.crm.notes:
                await asyncio.sleep(0.01)
            for _ in range(200):
                try:
                    again = await client.call_tool("add_note", arguments, meta=meta)
                    break
                except MCPError as error:
                    assert error.error.data["code"] == "in_flight"
                    await asyncio.sleep(0.01)
        assert again.content[0].text == "noted 1"
        assert again.meta["agenttwin/idempotent-replayed"] == "true"
        assert each.crm.notes == [("Ada", "called")]

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_person_approves_on_a_page_and_the_clients_own_word_decides_nothing(tmp_path):
    async def scenario(each):
        visited = []

        async def elicited(context, params):
            visited.append(params)
            if len(visited) == 2:  # the first word was the client's alone
                assert each.crm.notes == []
                await each.approve(params.url.rsplit("/", 1)[1])
            return ElicitResult(action="accept")

        async with each.client("2026-07-28", elicitation_callback=elicited) as client:
            answer = await client.call_tool("add_note", {"customer": "Ada", "text": "called"})
        assert answer.content[0].text == "noted 1"
        assert [params.mode for params in visited] == ["url", "url"]
        assert visited[0].url.startswith("http://127.0.0.1:4320/approvals/")
        assert each.crm.notes == [("Ada", "called")]

    run(tmp_path, scenario, policy=AllowListed(approved={"add_note"}), wait_seconds=1)


@pytest.mark.row("K")
@pytest.mark.requirement("APR-01")
def test_what_a_client_carries_is_of_use_only_for_its_own_call_and_once(tmp_path):
    async def scenario(each):
        capable = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}
        asked = await call(each, meta=capable)
        state = asked["result"]["requestState"]
        url = asked["result"]["inputRequests"]["approve"]["params"]["url"]
        assert asked["result"]["resultType"] == "input_required"
        accept = {"approve": {"action": "accept"}}
        carried = {"requestState": state, "inputResponses": accept}
        assert await each.approve(url.rsplit("/", 1)[1]) is None
        wrong = {
            "changed": call(each, **{**carried, "requestState": state[:-2] + "xx"}),
            "of another principal": call(
                each, credential=each.credential("agent", name="other"), **carried
            ),
            "for other arguments": call(
                each, arguments={"customer": "Eve", "text": "x"}, **carried
            ),
            "for another tool": call(
                each, name="find_customer", arguments={"name": "Ada"}, **carried
            ),
        }
        for name, attempt in wrong.items():
            assert code_of(await attempt) == (-32602, "request_state_invalid"), name
        assert each.crm.notes == []
        done = await call(each, number=2, meta=capable, **carried)
        assert done["result"]["content"][0]["text"] == "noted 1"
        again = await call(each, number=3, meta=capable, **carried)
        assert again["result"]["_meta"]["agenttwin/idempotent-replayed"] == "true"
        assert each.crm.notes == [("Ada", "called")]

    run(tmp_path, scenario, policy=AllowListed(approved={"add_note"}))


@pytest.mark.requirement("APR-01")
def test_a_client_of_before_is_sent_to_the_page_and_calls_again(tmp_path):
    async def scenario(each):
        async def elicited(context, params):
            return ElicitResult(action="accept")

        wanted = {"customer": "Ada", "text": "called"}
        async with each.client("2025-11-25", elicitation_callback=elicited) as client:
            with pytest.raises(MCPError) as needed:
                await client.call_tool("add_note", wanted)
            assert needed.value.error.code == -32042
            (visit,) = needed.value.error.data["elicitations"]
            await each.approve(visit["elicitationId"])
            answer = await client.call_tool("add_note", wanted)
        assert answer.content[0].text == "noted 1"

    run(tmp_path, scenario, policy=AllowListed(approved={"add_note"}))


async def token_of(each, approval_id):
    headers = {"Authorization": f"Bearer {each.agent}"}
    url = f"http://127.0.0.1:{each.server.port}/v1/approvals/{approval_id}"
    return (await each.http.get(url, headers=headers)).json()["token"]


@pytest.mark.requirement("APR-01")
def test_a_client_that_can_lead_nobody_anywhere_is_told_where_to_ask(tmp_path):
    async def scenario(each):
        answer = await call(each)
        assert code_of(answer) == (-32001, "approval_required")
        data = answer["error"]["data"]
        await each.approve(data["approval"]["id"])
        meta = {
            "agenttwin/idempotencyKey": data["idempotency_key"],
            "agenttwin/approvalToken": await token_of(each, data["approval"]["id"]),
        }
        done = await call(each, number=2, meta=meta)
        assert done["result"]["content"][0]["text"] == "noted 1"

    run(tmp_path, scenario, policy=AllowListed(approved={"add_note"}))


@pytest.mark.requirement("IDM-01")
def test_a_tools_own_error_may_have_had_an_effect(tmp_path):
    async def scenario(each):
        meta = {"agenttwin/idempotencyKey": "d1"}
        first = await call(each, "delete_customer", {"name": "Ada"}, meta=meta)
        assert first["result"]["isError"] is True
        again = await call(each, "delete_customer", {"name": "Ada"}, meta=meta)
        assert code_of(again) == (-32001, "outcome_unknown")

    run(tmp_path, scenario)


@pytest.mark.row("K", "T42", "T64")
@pytest.mark.requirement("IDM-01")
def test_a_client_that_calls_again_without_a_key_makes_no_second_effect_by_mistake(tmp_path):
    async def scenario(each):
        assert "result" in await call(each)
        again = await call(each, number=2)
        assert code_of(again) == (-32001, "possible_duplicate")
        other = await call(each, number=3, arguments={"customer": "Ada", "text": "met"})
        meant = await call(each, number=4, meta={"agenttwin/confirmDistinct": True})
        assert "result" in other and "result" in meant
        assert [text for _, text in each.crm.notes] == ["called", "met", "called"]

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-05")
def test_arguments_that_do_not_fit_the_reviewed_schema_reach_no_server(tmp_path):
    async def scenario(each):
        answer = await call(each, arguments={"customer": "Ada"})
        assert code_of(answer) == (-32602, "arguments_invalid")
        answer = await call(each, task={"ttl": 1})
        assert answer["error"]["code"] == -32602
        assert each.crm.notes == []

    run(tmp_path, scenario)


@pytest.mark.row("CVE-2025-64443")
@pytest.mark.requirement("GW-07")
def test_nobody_without_a_credential_and_no_page_of_a_browser_is_served(tmp_path):
    async def scenario(each):
        message, headers = modern_call()
        status, _, answer = await each.post(message, headers=headers, credential="nonsense")
        assert (status, answer["code"]) == (401, "unauthenticated")
        for origin in ("http://evil.example", f"http://127.0.0.1:{each.server.port}", "null"):
            status, _, answer = await each.post(message, headers={**headers, "Origin": origin})
            assert (status, answer["code"]) == (403, "origin_refused")
        plain = {**headers, "Content-Type": "text/plain"}
        assert (await each.post(message, headers=plain))[0] == 415
        bearer = {"Authorization": f"Bearer {each.agent}"}
        assert (await each.http.get(each.url, headers=bearer)).status_code == 405
        other = each.url.replace("/crm", "/nowhere")
        assert (await each.http.post(other, json=message, headers=bearer)).status_code == 404
        beside = each.url.replace("/mcp/crm", "/crm/tools/call/add_note")
        answer = await each.http.post(beside, json={}, headers={**bearer, "Idempotency-Key": "k"})
        assert answer.status_code == 404
        assert each.crm.notes == []

    run(tmp_path, scenario)


@pytest.mark.requirement("MCP-01")
def test_a_key_or_a_token_that_is_not_read_is_refused_and_not_passed_over(tmp_path):
    key, token = "agenttwin/idempotencyKey", "agenttwin/approvalToken"
    wrong = (
        ({key: 7}, {}), ({key: True}, {}), ({key: ["k"]}, {}), ({key: {"k": 1}}, {}),
        ({token: 7}, {}), ({key: "k"}, {"Idempotency-Key": "l"}),
        ({key: "k"}, {"Idempotency-Key": ""}),
        ({token: "k"}, {"Approval-Token": "l"}), ({key: ""}, {}), ({}, {"Idempotency-Key": ""}),
    )  # fmt: skip

    async def scenario(each):
        for meta, head in wrong:
            meta = {"agenttwin/confirmDistinct": True, **meta}
            message, headers = modern_call(meta=meta)
            _, _, answer = await each.post(message, headers={**headers, **head})
            assert answer["error"]["code"] in (-32602, -32020), (meta, head, answer)
        message, headers = modern_call()
        message["params"]["_meta"] = [{key: "k"}]
        _, _, answer = await each.post(message, headers=headers)
        assert answer["error"]["code"] == -32600
        assert each.crm.notes == []
        message, headers = modern_call(meta={key: "k"})
        for _ in range(2):
            await each.post(message, headers={**headers, "Idempotency-Key": "k"})
        assert len(each.crm.notes) == 1

    run(tmp_path, scenario)
