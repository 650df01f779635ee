"""What a person says of an unknown outcome: who may, when it counts, and what it leaves."""

import asyncio
import json

import pytest
from control_rig import control
from gateway_rig import AllowAll, rig

from sidecar.gateway.audit import verify
from sidecar.gateway.reconcile import Ruling
from sidecar.store.ledger import CallQuery


def allowing(folder):
    return rig(folder, policy=AllowAll())


def run(folder, scenario, opened=allowing):
    async def main():
        async with opened(folder) as each:
            await scenario(each)

    asyncio.run(main())


def ruling(call_id, *, done=True, project="default", reason="seen in the shop's books"):
    return Ruling(project=project, call_id=call_id, done=done, by="key:ann", reason=reason)


async def lost(each, key="a"):
    """The id of a call whose answer was lost."""
    reply = await each.refund("drop", key=key)
    assert reply.json["code"] == "outcome_unknown"
    return each.ledger.get_receipt(reply.headers["gateway-receipt"]).call_id


def told(each):
    """What the chain keeps of resolutions, and whether it is whole."""
    entries = each.ledger.entries_after(0, 999)
    assert verify(entries, each.ledger.audit_head(), each.ledger.public_keys()).fault is None
    return [json.loads(one.body) for one in entries if one.kind == "unknown_resolved"]


@pytest.mark.requirement("IDM-01")
def test_a_call_said_to_be_done_is_answered_so_and_never_made_again(tmp_path):
    async def scenario(each):
        call_id = await lost(each)
        assert await each.gateway.resolve(ruling(call_id)) is None
        again = await each.refund("drop", key="a")
        assert (again.status, again.headers["idempotent-replayed"]) == (200, "true")
        assert again.json == {"outcome": "done", "resolved": True, "call_id": call_id}
        assert each.shop.effects() == 1
        row = each.ledger.get_call(call_id)
        assert (row.state, row.effect, row.code) == ("resolved_done", "confirmed", "resolved")
        assert [each.ledger.get_receipt(one).phase for one in row.receipts] == [
            "authorised", "executed", "executed",
        ]  # fmt: skip
        assert told(each) == [
            {
                "by": "key:ann", "call_id": call_id, "reason": "seen in the shop's books",
                "state": "resolved_done",
            }
        ]  # fmt: skip

    run(tmp_path, scenario)


@pytest.mark.requirement("IDM-01")
def test_a_call_said_not_to_be_done_is_made_by_the_next_attempt_with_its_key(tmp_path):
    async def scenario(each):
        call_id = await lost(each)
        assert await each.gateway.resolve(ruling(call_id, done=False)) is None
        assert each.ledger.get_call(call_id).effect == "not_executed"
        await each.refund("drop", key="a")
        assert each.shop.effects() == 2  # what the person said was not so
        keys = {headers["idempotency-key"] for *_, headers, _ in each.shop.seen}
        assert len(keys) == 1

    run(tmp_path, scenario)


def test_a_call_that_met_the_unknown_one_names_it_too(tmp_path):
    async def scenario(each):
        first, second = await lost(each), await lost(each)
        assert first != second
        assert await each.gateway.resolve(ruling(second)) is None
        assert told(each)[0]["call_id"] == first

    run(tmp_path, scenario)


def test_a_word_on_what_is_known_or_not_there_does_not_count(tmp_path):
    async def scenario(each):
        call_id = await lost(each)
        done = await each.refund("17", key="b")
        known = each.ledger.get_receipt(done.headers["gateway-receipt"]).call_id
        assert await each.gateway.resolve(ruling(known)) == "not_unknown"
        assert await each.gateway.resolve(ruling("nowhere")) == "no_such_call"
        assert await each.gateway.resolve(ruling(call_id, project="other")) == "no_such_call"
        read = await each.ask("GET", "/payments/orders/17")
        read_id = each.ledger.get_receipt(read.headers["gateway-receipt"]).call_id
        assert await each.gateway.resolve(ruling(read_id)) == "not_unknown"
        assert told(each) == []

    run(tmp_path, scenario)


def test_a_word_on_a_call_that_is_on_its_way_does_not_count(tmp_path):
    async def scenario(each):
        each.shop.delay = 0.5
        asking = asyncio.ensure_future(each.refund("17", key="a"))
        async with asyncio.timeout(5):
            while not (sent := each.ledger.list_calls(CallQuery(state="sent"))):
                await asyncio.sleep(0.01)
        assert await each.gateway.resolve(ruling(sent[0].call_id)) == "in_flight"
        assert (await asking).status == 201

    run(tmp_path, scenario)


@pytest.mark.requirement("IDM-01")
def test_of_many_words_at_once_one_counts(tmp_path):
    async def scenario(each):
        call_id = await lost(each)
        words = [ruling(call_id, done=bool(number % 2)) for number in range(20)]
        said = await asyncio.gather(*map(each.gateway.resolve, words))
        assert sorted(map(str, said)) == ["None"] + 19 * ["not_unknown"]
        assert len(told(each)) == 1

    run(tmp_path, scenario)


@pytest.mark.requirement("CTL-01")
def test_only_who_may_decide_says_what_became_of_a_call(tmp_path):
    async def scenario(each):
        call_id = await lost(each)
        path = f"/v1/calls/{call_id}/resolve"
        body = {"outcome": "done", "reason": "booked: sk_live_4eC39HqLyjWDarjtT1zdp7dc"}
        for credential in (each.agent, each.reader, each.admin):
            told_ = await each.http_ask("POST", path, by=credential, json=body)
            assert (told_.status, told_.code) == (403, "forbidden")
        stranger = each.credential("approver", project="other")
        told_ = await each.http_ask("POST", path, by=stranger, json=body)
        assert (told_.status, told_.code) == (404, "no_such_call")
        for wrong in ({"outcome": "done"}, {"outcome": "maybe", "reason": "x"}):
            assert (await each.http_ask("POST", path, by=each.approver, json=wrong)).status == 422
        done = await each.http_ask("POST", path, by=each.approver, json=body)
        assert (done.status, done.json["state"]) == (200, "resolved_done")
        assert done.json["receipts"][-1]["code"] == "resolved"
        again = await each.http_ask("POST", path, by=each.approver, json=body)
        assert (again.status, again.code) == (409, "not_unknown")
        (kept,) = told(each)
        assert kept["by"].startswith("key:") and "sk_live_4eC39" not in kept["reason"]

    run(tmp_path, scenario, control)
