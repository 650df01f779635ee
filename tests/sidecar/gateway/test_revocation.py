"""A revoked key reaches what it asked for and what it voted for, as long as nothing was sent."""

import asyncio

import pytest
from gateway_rig import rig


def run(folder, scenario):
    async def main():
        async with rig(folder) as each:
            await scenario(each)

    asyncio.run(main())


def key_named(each, name):
    return next(row for row in each.keys.list_keys() if row.name == name)


def revoke(each, name):
    assert each.keys.revoke_key(key_named(each, name).key_id, 1)


async def vote(each, approval_id, name):
    each.credential("approver", name=name)
    voter = f"key:{key_named(each, name).key_id}"
    return await each.approve(approval_id, voter=voter, name=name)


async def pending(each, key="a"):
    asked = await each.refund("17", key=key, amount=500, Prefer="respond-async")
    return asked.json["approval"]["id"]


@pytest.mark.row("C")
@pytest.mark.requirement("APR-01")
def test_a_held_call_of_a_revoked_key_is_not_made_when_the_approval_comes(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        held = asyncio.ensure_future(each.refund("17", key="a", amount=500, Prefer="wait=20"))
        while not each.running:
            await asyncio.sleep(0.01)
        revoke(each, "refund-agent")
        assert await vote(each, approval_id, "ann") is None
        reply = await held
        assert (reply.status, reply.json["code"]) == (403, "key_revoked")
        assert each.shop.effects() == 0

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_vote_does_not_outlive_its_voters_key(tmp_path):
    async def scenario(each):
        first, second = await pending(each, "a"), await pending(each, "b")
        assert await vote(each, first, "ann") is None
        told = await each.ask("GET", f"/v1/approvals/{first}")
        token = told.json["token"]
        assert await each.approve(second, voter=f"key:{key_named(each, 'ann').key_id}") is None
        revoke(each, "ann")
        reply = await each.refund("17", key="a", amount=500, Approval_Token=token)
        assert (reply.status, reply.json["code"]) == (403, "approval_revoked")
        assert "token" not in (await each.ask("GET", f"/v1/approvals/{second}")).json
        assert each.shop.effects() == 0

    run(tmp_path, scenario)


@pytest.mark.row("C")
def test_a_revoked_approver_does_not_vote_and_a_standing_one_still_does(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        each.credential("approver", name="ann")
        revoke(each, "ann")
        voter = f"key:{key_named(each, 'ann').key_id}"
        assert await each.approve(approval_id, voter=voter) == "approver_not_eligible"
        assert await vote(each, approval_id, "ben") is None
        reply = await each.refund("17", key="a", amount=500, Prefer="wait=5")
        assert (reply.status, each.shop.effects()) == (201, 1)

    run(tmp_path, scenario)


def test_a_revoked_key_that_waits_for_an_answer_does_not_get_it(tmp_path):
    async def scenario(each):
        each.shop.delay = 1.0
        other = each.credential("agent", name="other")
        first = asyncio.ensure_future(each.refund("17", key="a", credential=other))
        while not each.shop.requests:
            await asyncio.sleep(0.01)
        second = asyncio.ensure_future(
            each.refund("17", key="a", credential=other, Prefer="wait=10")
        )
        while each.running < 2:
            await asyncio.sleep(0.01)
        revoke(each, "other")
        reply = await second
        assert (reply.status, reply.json["code"]) == (403, "key_revoked")
        assert (await first).status == 201 and each.shop.effects() == 1

    run(tmp_path, scenario)
