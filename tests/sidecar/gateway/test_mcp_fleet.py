"""MCP calls on two gateways that share one Postgres: rows B and H of the test kit."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from ledger_rig import ledgers
from mcp import MCPError
from mcp_rig import AllowListed, Crm, definitions_of, gated, served, tools

from sidecar.gateway.budget import Budget
from sidecar.gateway.config import Cost
from sidecar.gateway.driver import Settings

pytestmark = [pytest.mark.full, pytest.mark.requirement("MCP-01")]

NOTE = {"customer": "Ada", "text": "called"}
VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")


def run(folder, scenario, **options):
    async def main(store):
        async with AsyncExitStack() as stack:
            crm = Crm()
            port = await stack.enter_async_context(served(crm.server()))
            reviewed = await definitions_of(port)
            both = []
            for name in ("one", "two"):
                (folder / name).mkdir()
                gateway = gated(
                    folder / name, port, reviewed, ledgers=store, policy=AllowListed(), **options
                )
                both.append(await stack.enter_async_context(gateway))
            for each in both:
                each.crm, each.agent = crm, both[0].agent
            await scenario(*both)

    with ledgers("postgres", folder) as store:
        asyncio.run(main(store))


async def said(client, arguments, key):
    """The text of an answer, or the code of a refusal."""
    try:
        meta = {"agenttwin/idempotencyKey": key}
        answer = await client.call_tool("add_note", arguments, meta=meta)
    except MCPError as error:
        return error.error.data["code"]
    return answer.content[0].text


@pytest.mark.row("B")
@pytest.mark.parametrize("version", VERSIONS)
def test_many_calls_with_one_key_on_two_gateways_make_one_effect(tmp_path, version):
    async def scenario(one, two):
        async with one.client(version) as first, two.client(version) as second:
            found = await asyncio.gather(
                *(said(client, NOTE, "k") for _ in range(100) for client in (first, second))
            )
            assert one.crm.notes == [("Ada", "called")]
            assert set(found) <= {"noted 1", "in_flight"} and "noted 1" in found
            assert await said(second, NOTE, "k") == await said(first, NOTE, "k") == "noted 1"
            assert await said(second, {**NOTE, "text": "other"}, "k") == "key_reused"
        two.agent = two.credential("agent", name="other")
        async with two.client(version) as other:
            assert await said(other, NOTE, "k") == "noted 2"  # another's key is no key of this one

    run(tmp_path, scenario)


@pytest.mark.row("H")
@pytest.mark.parametrize("version", VERSIONS)
def test_two_gateways_admit_exactly_floor_of_budget_by_cost(tmp_path, version):
    budget = Budget(scope="project", limit="100", currency="EUR", window="24h")
    settings = Settings(accept_ephemeral_ledger=True, budgets=(budget,))
    cost = Cost(amount='"7"', currency='"EUR"')

    async def scenario(one, two):
        async with one.client(version) as first, two.client(version) as second:
            found = await asyncio.gather(
                *(
                    said(client, {**NOTE, "text": f"{n}"}, f"{name}{n}")
                    for n in range(20)
                    for name, client in (("a", first), ("b", second))
                )
            )
        admitted = [each for each in found if each.startswith("noted")]
        assert len(admitted) == 100 // 7 == len(one.crm.notes)
        assert set(found) - set(admitted) == {"budget_exceeded"}

    run(tmp_path, scenario, settings=settings, configured=tools(cost=cost)[:2])
