"""Durable calls on every backend: one row a key, one lease, sealed requests, an audit chain."""

import asyncio
import json

import pytest
from ledger_rig import BACKENDS, NOW, SCOPE, SIGNER, call, ledgers, run, signed
from msgspec import structs

from sidecar.gateway.audit import verify
from sidecar.store.durable import Accepted, Attempted, Disposal, DurableCall, DurableQuery, Lease
from sidecar.store.ledger import CallQuery

PAST = {"requeue": "requeued", "discard": "discarded"}
CALL = DurableCall(
    durable_id="d1", project="p", principal="a", tool="t", key_hash="k", fingerprint="f",
    state="waiting", attempts=0, due_at_ns=NOW, ends_at_ns=NOW + 99, created_at_ns=NOW,
    updated_at_ns=NOW, request=b"hush: the request",
)  # fmt: skip


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


def other(number, **fields):
    return structs.replace(CALL, durable_id=f"d{number}", key_hash=f"k{number}", **fields)


def taken(durable):
    opened = call(durable.durable_id, project=durable.project)
    said = signed(opened, phase="accepted", status=202)
    return Accepted(call=durable, opened=opened, receipt=said)


def ended(state="waiting", owner="o", **fields):
    said = {"attempts": 1, "due_at_ns": NOW + 5, "code": "x", "now_ns": NOW + 1, **fields}
    return Attempted(call=CALL, owner=owner, state=state, **said)


def kinds(opened):
    entries = opened.entries_after(0, 999)
    keys = {SIGNER.kid: SIGNER.public, **opened.public_keys()}
    assert verify(entries, opened.audit_head(), keys).fault is None
    return [(each.kind, json.loads(each.body)) for each in entries if "durable" in each.kind]


async def leased(opened, owner="o"):
    (found,) = opened.due_durable(NOW + 50, 9)
    return await opened.lease_durable(Lease(seen=found, owner=owner, until_ns=NOW + 9))


@pytest.mark.requirement("DUR-01")
def test_a_key_has_one_durable_call_and_its_request_comes_back_as_it_was(store):
    async def scenario(opened):
        assert await opened.queue_durable(taken(CALL))
        again = structs.replace(CALL, durable_id="d2", request=b"other")
        assert not await opened.queue_durable(taken(again))
        assert opened.due_durable(NOW - 1, 9) == []
        assert opened.due_durable(NOW, 9) == [CALL]
        bare = structs.replace(CALL, request=None)
        assert opened.durable_of(SCOPE) == bare == opened.find_durable("d1", "p")
        assert opened.find_durable("d1", "other") is None
        (row,) = opened.list_calls(CallQuery())
        assert (row.call_id, row.phase, row.effect) == ("d1", "accepted", "not_executed")
        assert len(opened.get_call("d1").receipts) == 1  # of the second try there is none
        assert opened.facts_after(0, 99) == []
        assert kinds(opened) == [
            ("durable_queued", {"durable_id": "d1", "key_hash": "k", "tool": "t"})
        ]
        if hasattr(store, "at_rest"):
            assert b"hush" not in await asyncio.to_thread(store.at_rest)

    run(store, scenario)


@pytest.mark.requirement("DUR-01")
def test_of_many_gateways_one_has_the_lease_and_without_it_nothing_is_changed(store):
    async def scenario(opened):
        await opened.queue_durable(taken(CALL))
        (seen,) = opened.due_durable(NOW, 9)
        wanted = [Lease(seen=seen, owner=f"o{n}", until_ns=NOW + 9) for n in range(20)]
        won = await asyncio.gather(*map(opened.lease_durable, wanted))
        assert won.count(True) == 1
        owner = f"o{won.index(True)}"
        assert not await opened.end_durable(ended(owner="somebody"))
        assert await opened.end_durable(ended(owner=owner))
        found = opened.find_durable("d1")
        assert (found.state, found.attempts, found.due_at_ns) == ("waiting", 1, NOW + 5)
        assert (found.owner, found.code, found.lease_until_ns) == (None, "x", 0)
        assert not await opened.end_durable(ended(owner=owner))  # the lease is over

    run(store, scenario)


@pytest.mark.requirement("DUR-01")
@pytest.mark.parametrize("state", ["done", "dead"])
def test_an_end_is_in_the_chain_and_keeps_the_request_only_where_it_may_be_sent(store, state):
    async def scenario(opened):
        await opened.queue_durable(taken(CALL))
        await leased(opened)
        assert await opened.end_durable(ended(state))
        assert kinds(opened)[-1] == (
            "durable_ended", {"attempts": "1", "code": "x", "durable_id": "d1", "state": state}
        )  # fmt: skip
        rows = await asyncio.to_thread(store.query, "SELECT request IS NULL FROM durable")
        assert [bool(gone) for (gone,) in rows] == [state == "done"]
        assert opened.due_durable(NOW + 50, 9) == []

    run(store, scenario)


@pytest.mark.requirement("DUR-01")
def test_what_waits_is_cancelled_unless_somebody_is_at_it(store):
    async def scenario(opened):
        await opened.queue_durable(taken(CALL))
        cancel = Disposal(
            project="p", durable_id="d1", action="discard", by="key:ann", reason="no",
            due_at_ns=NOW + 1, ends_at_ns=NOW + 1,
        )  # fmt: skip
        leased = Lease(seen=opened.find_durable("d1"), owner="o", until_ns=NOW + 50)
        assert await opened.lease_durable(leased)
        assert not await opened.dispose_durable(cancel)
        ended = Attempted(
            call=CALL, owner="o", state="waiting", attempts=0, due_at_ns=NOW, code="cooling_off",
            now_ns=NOW,
        )  # fmt: skip
        assert await opened.end_durable(ended)
        seen = opened.find_durable("d1")
        assert await opened.dispose_durable(cancel)
        assert not await opened.lease_durable(Lease(seen=seen, owner="o", until_ns=NOW + 50))
        assert opened.find_durable("d1").state == "discarded"
        assert opened.due_durable(NOW + 9, 9) == []

    run(store, scenario)


@pytest.mark.parametrize("action", ["requeue", "discard"])
def test_a_person_puts_a_dead_letter_back_or_away_and_nothing_else(store, action):
    said = Disposal(
        project="p", durable_id="d1", action=action, by="key:ann", reason="the tool is back",
        due_at_ns=NOW + 7, ends_at_ns=NOW + 77,
    )  # fmt: skip

    async def scenario(opened):
        await opened.queue_durable(taken(CALL))
        if action == "requeue":
            assert not await opened.dispose_durable(said)  # it waits
        await leased(opened)
        await opened.end_durable(ended("dead"))
        assert not await opened.dispose_durable(structs.replace(said, project="other"))
        words = await asyncio.gather(*(opened.dispose_durable(said) for _ in range(9)))
        assert words.count(True) == 1
        kind, body = kinds(opened)[-1]
        assert kind == f"durable_{PAST[action]}"
        assert body == {"by": "key:ann", "durable_id": "d1", "reason": "the tool is back"}
        due = opened.due_durable(NOW + 7, 9)
        if action == "discard":
            assert due == [] and opened.find_durable("d1").state == "discarded"
        else:
            assert (due[0].attempts, due[0].ends_at_ns) == (0, NOW + 77)
            assert due[0].request == CALL.request

    run(store, scenario)


def test_what_is_long_over_is_deleted_and_what_may_be_needed_is_not(store):
    async def scenario(opened):
        for number, state in enumerate(("waiting", "done", "dead")):
            call = other(number, due_at_ns=NOW - 9 + number)
            await opened.queue_durable(taken(call))
            if state != "waiting":
                seen = opened.find_durable(call.durable_id)
                await opened.lease_durable(Lease(seen=seen, owner="o", until_ns=NOW + 9))
                await opened.end_durable(structs.replace(ended(state), call=call))
        assert await opened.prune_durable(NOW, 9) == 0
        assert await opened.prune_durable(NOW + 1, 9) == 1
        left = {each.state for each in opened.list_durable(DurableQuery())}
        assert left == {"waiting", "dead"}

    run(store, scenario)


def test_durable_calls_are_listed_by_project_and_state(store):
    async def scenario(opened):
        for number in (1, 2, 3):
            await opened.queue_durable(taken(other(number, created_at_ns=NOW + number)))
        await opened.queue_durable(taken(other(4, project="q")))
        names = [each.durable_id for each in opened.list_durable(DurableQuery(project="p"))]
        assert names == ["d3", "d2", "d1"]
        assert opened.list_durable(DurableQuery(state="dead")) == []
        assert len(opened.list_durable(DurableQuery(state="waiting", limit=2))) == 2
        assert len(opened.list_durable(DurableQuery())) == 4

    run(store, scenario)
