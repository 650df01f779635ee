"""What one gateway gave to an MCP client or sent to a server, met again by another on the same
Postgres: a carried state, and a call that was cancelled while it was sent."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from ledger_rig import ledgers
from mcp_rig import AllowListed, Crm, definitions_of, gated, served
from test_mcp import call, code_of

pytestmark = [pytest.mark.full, pytest.mark.requirement("MCP-01"), pytest.mark.row("K")]

CAPABLE = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}
KEYED = {"agenttwin/idempotencyKey": "note-1"}


def run(folder, scenario, **policy):
    async def main(store):
        async with AsyncExitStack() as stack:
            crm = Crm()
            port = await stack.enter_async_context(served(crm.server()))
            reviewed, both = await definitions_of(port), []
            for _ in range(2):
                made = gated(
                    folder, port, reviewed, ledgers=store, policy=AllowListed(**policy),
                    wait_seconds=5,
                )  # fmt: skip
                both.append(await stack.enter_async_context(made))
            for each in both:
                each.crm, each.agent = crm, both[0].agent
            await scenario(*both)

    with ledgers("postgres", folder) as store:
        asyncio.run(main(store))


def test_a_state_that_one_gateway_gave_is_worth_one_call_on_both(tmp_path):
    async def scenario(one, two):
        asked = (await call(one, meta=CAPABLE))["result"]
        url = asked["inputRequests"]["approve"]["params"]["url"]
        accept = {"approve": {"action": "accept"}}
        carried = {"requestState": asked["requestState"], "inputResponses": accept}
        assert await two.approve(url.rsplit("/", 1)[1]) is None
        stranger = two.credential("agent", name="other")
        wrong = {
            "changed": {**carried, "requestState": asked["requestState"][:-2] + "xx"},
            "of another": {**carried, "credential": stranger},
            "for other arguments": {**carried, "arguments": {"customer": "Eve", "text": "x"}},
        }
        for name, given in wrong.items():
            assert code_of(await call(two, **given)) == (-32602, "request_state_invalid"), name
        found = await asyncio.gather(
            *(
                call(each, number=number, meta=CAPABLE, **carried)
                for number in range(2, 12)
                for each in (one, two)
            )
        )
        assert one.crm.notes == [("Ada", "called")]
        made = [each for each in found if "result" in each]
        assert made and {each["result"]["content"][0]["text"] for each in made} == {"noted 1"}
        refused = {each["error"]["data"]["code"] for each in found if "error" in each}
        assert refused <= {"in_flight"}
        again = await call(two, number=99, meta=CAPABLE, **carried)
        assert again["result"]["_meta"]["agenttwin/idempotent-replayed"] == "true"

    run(tmp_path, scenario, approved={"add_note"})


def test_a_call_that_was_cancelled_while_it_was_sent_is_known_to_the_other_gateway(tmp_path):
    async def scenario(one, two):
        one.crm.hold.clear()
        sent = asyncio.ensure_future(call(one, meta=KEYED))
        await one.crm.begun.wait()
        sent.cancel()  # its connection closes: in 2026-07-28 that is how a call is cancelled
        await asyncio.gather(sent, return_exceptions=True)
        assert code_of(await call(two, meta=KEYED)) == (-32001, "in_flight")
        one.crm.hold.set()
        async with asyncio.timeout(20):
            while "result" not in (again := await call(two, meta=KEYED)):
                assert code_of(again) == (-32001, "in_flight")
                await asyncio.sleep(0.02)
        assert again["result"]["content"][0]["text"] == "noted 1"
        assert again["result"]["_meta"]["agenttwin/idempotent-replayed"] == "true"
        assert one.crm.notes == [("Ada", "called")]

    run(tmp_path, scenario)


def test_a_call_without_a_key_is_not_made_again_by_the_other_gateway(tmp_path):
    """T64: no protocol says which calls are one; the duplicate window does, across gateways."""

    async def scenario(one, two):
        one.crm.hold.clear()
        sent = asyncio.ensure_future(call(one))
        await one.crm.begun.wait()
        sent.cancel()
        await asyncio.gather(sent, return_exceptions=True)
        assert code_of(await call(two)) == (-32001, "possible_duplicate")
        one.crm.hold.set()
        async with asyncio.timeout(20):
            while not one.crm.notes:
                await asyncio.sleep(0.02)
        assert code_of(await call(two)) == (-32001, "possible_duplicate")
        meant = await call(two, meta={"agenttwin/confirmDistinct": True})
        assert meant["result"]["content"][0]["text"] == "noted 2"

    run(tmp_path, scenario)
