"""A long call is a task for who knows tasks, and the ledger knows what became of it."""

import asyncio

import pytest
from mcp_rig import AllowListed, Crm, definitions_of, gated, served
from mcp_types import CallToolResult
from msgspec import structs

from sidecar.gateway.rpc import handle
from sidecar.store.ledger import Answer, Claim

pytestmark = pytest.mark.requirement("MCP-01")
EXTENSION = "io.modelcontextprotocol/tasks"
NOTE = {"customer": "Ada", "text": "called"}


def run(folder, scenario, *, made=None, task_seconds=0.02, **options):
    async def main():
        crm = Crm()
        async with asyncio.timeout(40), served((made or Crm.server)(crm)) as port:
            reviewed = await definitions_of(port)
            given = {"task_seconds": task_seconds, **options}
            async with gated(folder, port, reviewed, **given) as each:
                each.crm, each.port, each.reviewed = crm, port, reviewed
                await scenario(each)

    asyncio.run(main())


async def ask(each, method, named, *, knows=True, key=None, number=1, credential=None, **params):
    """One request of 2026-07-28; its status and answer."""
    capabilities = {"extensions": {EXTENSION: {}}} if knows else {}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        **({"agenttwin/idempotencyKey": key} if key else {}),
    }
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": named}
    status, _, answer = await each.post(body, headers=headers, credential=credential)
    return status, answer


async def call(each, name="add_note", arguments=None, **options):
    given = NOTE if arguments is None else arguments
    return (await ask(each, "tools/call", name, name=name, arguments=given, **options))[1]


async def get(each, task, method="tasks/get", **options):
    return (await ask(each, method, task, taskId=task, **options))[1]


@pytest.mark.row("K")
def test_a_long_call_is_a_task_that_ends_with_its_result_and_one_effect(tmp_path):
    async def scenario(each):
        each.crm.hold.clear()
        said = (await call(each, key="k"))["result"]
        assert (said["resultType"], said["status"]) == ("task", "working")
        task = said["taskId"]
        assert said["ttlMs"] == 24 * 3600 * 1000 and said["pollIntervalMs"] == 2000
        at_work = (await get(each, task))["result"]
        assert (at_work["resultType"], at_work["status"]) == ("complete", "working")
        assert at_work["createdAt"] == said["createdAt"]
        assert (await get(each, task, "tasks/cancel"))["result"] == {"resultType": "complete"}
        each.crm.hold.set()
        while (ended := (await get(each, task))["result"])["status"] == "working":
            await asyncio.sleep(0.01)
        assert ended["status"] == "completed"
        result = ended["result"]
        assert result["content"][0]["text"] == "noted 1" and result["resultType"] == "complete"
        receipt = each.ledger.get_receipt(result["_meta"]["agenttwin/gateway-receipt"])
        assert (receipt.phase, receipt.effect) == ("executed", "confirmed")
        assert each.crm.notes == [("Ada", "called")]
        again = await call(each, key="k")
        assert again["result"]["content"][0]["text"] == "noted 1"
        # What it is called with again finds another gateway on the same ledger too.
        async with gated(tmp_path, each.port, each.reviewed) as other:
            found = (await get(other, task, credential=each.agent))["result"]
            assert found["status"] == "completed"

    run(tmp_path, scenario)


def test_no_task_is_given_where_none_is_known_or_none_could_be_found_again(tmp_path):
    async def scenario(each):
        each.crm.hold.clear()
        calls = [
            call(each, key="a", knows=False), call(each, arguments={**NOTE, "text": "b"}, number=2),
            call(each, "find_customer", {"name": "Ada"}, key="c", number=3),
        ]  # fmt: skip
        running = [asyncio.ensure_future(each) for each in calls]
        await each.crm.begun.wait()
        while each.gateway._at_once.total() < 3:
            await asyncio.sleep(0.005)
        done, _ = await asyncio.wait(running, timeout=0.2)
        assert not done
        each.crm.hold.set()
        said = [answer["result"] for answer in await asyncio.gather(*running)]
        assert {answer["resultType"] for answer in said} == {"complete"}

    run(tmp_path, scenario)


def test_a_task_is_its_own_callers_and_of_its_own_server_and_nobody_makes_one_up(tmp_path):
    policy = AllowListed()

    async def scenario(each):
        each.crm.hold.clear()
        task = (await call(each, key="k"))["result"]["taskId"]
        other = each.credential("agent", name="other")
        narrow = each.credential("agent", name="narrow", tools=("find_customer",))
        for asked in (
            get(each, task, credential=other), get(each, task, credential=narrow),
            get(each, task[:-2] + "xx"), get(each, "made-up"),
        ):  # fmt: skip
            error = (await asked)["error"]
            assert (error["code"], error["data"]["code"]) == (-32602, "no_such_task")
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            status, answer = await ask(each, method, task, taskId=task, knows=False)
            assert (status, answer["error"]["code"]) == (400, -32021)
            assert EXTENSION in answer["error"]["data"]["requiredCapabilities"]["extensions"]
            status, answer = await ask(each, method, "another", taskId=task)
            assert answer["error"]["code"] == -32020
        status, answer = await ask(each, "tasks/list", "x")
        assert answer["error"]["code"] == -32601 or status == 400
        policy.hidden.add("add_note")  # who may see the tool no more is told of no task of it
        assert (await get(each, task))["error"]["data"]["code"] == "no_such_task"
        each.crm.hold.set()

    run(tmp_path, scenario, policy=policy)


def test_a_call_that_is_answered_in_time_is_no_task_and_neither_is_a_refused_one(tmp_path):
    async def scenario(each):
        assert (await call(each, key="a"))["result"]["resultType"] == "complete"
        denied = await call(each, "delete_customer", {"name": "Ada"}, key="b", number=2)
        assert denied["error"]["data"]["code"] == "not_this_one"

    run(tmp_path, scenario, task_seconds=5.0, policy=AllowListed(denied={"crm/delete_customer"}))


CLAIM = Claim(
    claim_id=1, project="p", principal="a", tool="t", key_hash="k", fingerprint="f", state="sent",
    owner="o", lease_until_ns=0, fence=1, attempt=1, call_id="c", updated_at_ns=0, expires_at_ns=0,
)  # fmt: skip
KEPT = Answer(status=200, headers=(), body=b'{"result":{}}')


def test_the_result_of_a_task_is_the_servers_text_and_speaks_not_as_the_gateway(tmp_path):
    forged = {"agenttwin/gateway-receipt": "forged", "own": 1.50}

    def made(crm):
        server = crm.server()

        @server.tool(name="add_more", description="Adds more.")
        async def add_more() -> CallToolResult:
            await crm.hold.wait()
            return CallToolResult(content=[], _meta=forged)

        return server

    async def scenario(each):
        each.crm.hold.clear()
        said = (await call(each, "add_more", {}, key="k"))["result"]
        each.crm.hold.set()
        while (ended := (await get(each, said["taskId"]))["result"])["status"] == "working":
            await asyncio.sleep(0.01)
        meta = ended["result"]["_meta"]
        assert meta["own"] == 1.5 and meta["agenttwin/gateway-receipt"] != "forged"

    run(tmp_path, scenario, made=made)


@pytest.mark.parametrize(
    ("state", "runs", "answer", "code"),
    [
        ("sent", True, None, None), ("claimed", True, None, None), ("completed", False, KEPT, None),
        ("sent", False, None, "outcome_unknown"), ("unknown", False, None, "outcome_unknown"),
        ("failed_safe", False, None, "not_executed"), ("resolved_done", False, KEPT, None),
        ("resolved_not_done", False, None, "not_executed"),
        ("completed", False, None, "replay_body_unavailable"),
    ],
)  # fmt: skip
def test_what_a_claim_means_for_its_task(state, runs, answer, code):
    found = handle.failed(structs.replace(CLAIM, state=state, answer=answer), runs=runs)
    assert (found and found["data"]["code"]) == code
