"""What is Postgres's own about the ledger: owners, leaders, notifications, and a server that dies.

What every backend owes is in ``tests/contract/test_ledger_store.py``.
"""

import asyncio
import itertools
import multiprocessing
import os
import signal
from contextlib import contextmanager

import pytest
from ledger_rig import (
    NOW,
    REVISION,
    SIGNER,
    PostgresLedgers,
    asked,
    ballot,
    call,
    intent,
    outcome,
    signing_ledger,
)
from postgres_rig import Server, database, migrate_all, shared

from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.gateway import audit
from sidecar.store.ledger import CallQuery, Committed, Scope

SECONDS = 30


@pytest.fixture
def store():
    with database() as url:
        yield PostgresLedgers(url)


@contextmanager
def own_server(**options):
    """A server of this test's own, and a ledger on it."""
    server = Server(**options)
    try:
        url = server.url(server.new_database())
        migrate_all(url)
        yield server, url
    finally:
        server.stop()


def terminate(url, application="%"):
    """End connections to a database from the server's side."""
    shared().execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        f" WHERE datname = '{url.rpartition('/')[2]}' AND query LIKE '{application}'"
    )


async def until(condition):
    async with asyncio.timeout(SECONDS):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


def run(main):
    asyncio.run(main())


def test_a_vote_in_one_sidecar_wakes_who_waits_in_another(store):
    patient = PostgresLedgers(store.url, look_seconds=10 * SECONDS)

    async def main():
        with signing_ledger(store) as one, signing_ledger(patient) as two:
            seen = await one.ask_approval(asked())
            await two.approval_after(seen, poll_seconds=0.01, seconds=1)
            await until(lambda: two.listening)
            asked_for = {"poll_seconds": 10 * SECONDS, "seconds": 10 * SECONDS}
            waiting = asyncio.ensure_future(two.approval_after(seen, **asked_for))
            await asyncio.sleep(0)
            assert await one.vote(ballot()) is None
            async with asyncio.timeout(SECONDS):
                # The news of the asking may come late and wake it too: then nothing has changed.
                while (found := await waiting).status == "pending":
                    waiting = asyncio.ensure_future(two.approval_after(found, **asked_for))
            assert found.status == "approved"

    run(main)


def test_a_wait_is_woken_when_its_listener_is_lost_and_goes_on_by_looking(store):
    patient = PostgresLedgers(store.url, look_seconds=10 * SECONDS)
    allow = f"ALTER DATABASE {store.url.rpartition('/')[2]} ALLOW_CONNECTIONS {{}}"

    async def main():
        with signing_ledger(store) as one, signing_ledger(patient) as two:
            seen = await one.ask_approval(asked())
            await two.approval_after(seen, poll_seconds=0.01, seconds=1)
            await until(lambda: two.listening)
            asked_for = {"poll_seconds": 0.05, "seconds": 10 * SECONDS}
            waiting = asyncio.ensure_future(two.approval_after(seen, **asked_for))
            await asyncio.sleep(0.05)
            await asyncio.to_thread(shared().execute, allow.format("false"))
            try:  # the listener does not come back; what is connected stays
                await asyncio.to_thread(terminate, store.url, "%pg_notification%")
                await asyncio.to_thread(terminate, store.url, "LISTEN%")
                await asyncio.to_thread(terminate, store.url, "SELECT 1%")
                async with asyncio.timeout(SECONDS):
                    assert (await waiting).status == "pending"
                assert not two.listening
                assert await one.vote(ballot()) is None
                async with asyncio.timeout(SECONDS):
                    while seen.status == "pending":
                        seen = await two.approval_after(seen, **asked_for)
            finally:
                await asyncio.to_thread(shared().execute, allow.format("true"))
            await until(lambda: two.listening)

    run(main)


def test_one_leads_and_another_follows_when_it_is_gone(store):
    async def main():
        with signing_ledger(store) as one:
            await until(lambda: one.leads("recovery"))
            with signing_ledger(store) as two:
                await until(lambda: two.leads("another"))
                assert not two.leads("recovery") and one.leads("recovery")
                one.close()
                await until(lambda: two.leads("recovery"))

    run(main)


def test_who_lost_its_connection_leads_no_more_until_it_leads_again(store):
    async def main():
        with signing_ledger(store) as one:
            await until(lambda: one.leads("recovery"))
            await asyncio.to_thread(terminate, store.url)
            await until(lambda: one.leads("recovery"))
            with signing_ledger(store) as two:
                await until(lambda: two.leads("another"))
                assert not two.leads("recovery")

    run(main)


def _hold_and_wait(store, connection):
    async def main(opened):
        opened.hold_owner("dying")
        await opened.commit_intent(intent(owner="dying"))
        connection.send("held")

    with signing_ledger(store) as opened:
        asyncio.run(main(opened))
        connection.recv()


def test_a_killed_process_is_dead_when_it_was_missed_for_the_grace(store):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold_and_wait, args=(store, theirs))

    async def main(one):
        await one.activate_policy(REVISION, NOW)
        process.start()
        assert await asyncio.to_thread(ours.recv) == "held"
        assert one.owner_lives("dying") and one.orphans() == []
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.join)
        await until(one.orphans)
        assert [each.owner for each in one.orphans()] == ["dying"]

    with signing_ledger(store) as opened:
        asyncio.run(main(opened))


def test_who_starts_again_in_its_data_folder_takes_what_its_dead_process_left_at_once(
    store, tmp_path
):
    patient = PostgresLedgers(store.url, folder=tmp_path, grace_seconds=3600)
    elsewhere = PostgresLedgers(store.url, folder=tmp_path / "other", grace_seconds=3600)
    (tmp_path / "other").mkdir()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold_and_wait, args=(patient, theirs))

    def missed(name):
        found = store.query(f"SELECT missed_at IS NOT NULL FROM owner WHERE name = '{name}'")
        return found == [(True,)]

    async def main(other):
        await other.activate_policy(REVISION, NOW)
        process.start()
        assert await asyncio.to_thread(ours.recv) == "held"
        with signing_ledger(patient) as second:
            second.hold_owner("second")  # beside a living one: that goes on living
            assert second.owner_lives("dying")
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.join)
        other.hold_owner("other")
        await until(lambda: other.owner_lives("dying") and missed("dying"))
        assert other.orphans() == []
        with signing_ledger(patient) as again:
            again.hold_owner("again")
            assert [each.owner for each in again.orphans()] == ["dying"]
        assert not list(tmp_path.glob("ledger-owner-*"))

    with signing_ledger(elsewhere) as other:
        asyncio.run(main(other))


def test_a_lock_that_is_held_is_life_whatever_the_data_folder_says(store, tmp_path):
    patient = PostgresLedgers(store.url, folder=tmp_path, grace_seconds=3600)

    async def main():
        with signing_ledger(store) as one:
            one.hold_owner("one")
            (tmp_path / "ledger-owner-one").touch()
            with signing_ledger(patient) as two:
                two.hold_owner("two")
                assert two.owner_lives("one")
                one.close()
                await until(lambda: not two.owner_lives("one"))

    run(main)


def test_who_closed_while_the_database_was_away_is_dead_when_it_starts_again(tmp_path):
    with own_server() as (server, url):
        patient = PostgresLedgers(url, folder=tmp_path, grace_seconds=3600)
        with signing_ledger(patient) as opened:
            opened.hold_owner("one")
            server.kill()
            opened.close()
        server.start()
        with signing_ledger(patient) as again:
            again.hold_owner("again")
            assert not again.owner_lives("one")


def test_an_owner_that_took_its_lock_again_within_the_grace_never_died(store):
    slow = PostgresLedgers(store.url, grace_seconds=10 * SECONDS)

    async def main():
        with signing_ledger(store) as one, signing_ledger(slow) as two:
            await one.activate_policy(REVISION, NOW)
            one.hold_owner("alive")
            await one.commit_intent(intent(owner="alive"))
            for _ in range(3):
                await asyncio.to_thread(terminate, store.url)
                assert two.owner_lives("alive") and two.orphans() == []
            held = "SELECT missed_at IS NULL FROM owner WHERE name = 'alive'"
            # It is at its post again: who looks then forgets that it was missed.
            await until(lambda: two.owner_lives("alive") and store.query(held) == [(True,)])

    run(main)


def test_a_ledger_closes_while_its_database_is_away():
    with own_server() as (server, url):
        store = PostgresLedgers(url)
        with signing_ledger(store) as opened:
            opened.hold_owner("one")
            server.kill()
            opened.close()
        server.start()
        with signing_ledger(store) as other:
            run(lambda: until(lambda: not other.owner_lives("one")))


def test_an_outcome_whose_answer_was_lost_is_recorded_once(store):
    async def main():
        with signing_ledger(store) as one:
            await one.activate_policy(REVISION, NOW)
            made = await one.commit_intent(intent())
            done = outcome(call(), made.claim, "completed")
            assert await one.record(done) and await one.record(done)
            assert [each.kind for each in one.entries_after(1, 10)] == ["authorised", "executed"]

    run(main)


async def _work(opened, numbers, told):
    """Calls as the gateway makes them; what was acknowledged is told."""
    for number in numbers:
        each = call(clock.new_id(), key_hash=f"k{number}")
        try:
            made = await opened.commit_intent(intent(each))
            if not isinstance(made, Committed):
                continue
            told.append(("authorised", number, each.call_id))
            assert await opened.mark_sent(made.claim, NOW)
        except StoreUnavailable:
            told.append(("refused", number, each.call_id))
            await asyncio.sleep(0.02)
            continue
        done = outcome(each, made.claim, "completed")
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    assert await opened.record(done)
                    break
                except StoreUnavailable:
                    told.append(("refused", number, each.call_id))
                    await asyncio.sleep(0.02)
        told.append(("executed", number, each.call_id))


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.full)])
def test_a_server_killed_under_load_loses_nothing_acknowledged(rounds):
    """Two sidecars at work; kill -9 of every process of the server, again and again."""
    told = []

    async def main(server, store):
        with signing_ledger(store) as one, signing_ledger(store) as two:
            await one.activate_policy(REVISION, NOW)
            for _ in range(rounds):
                before, enough = len(told), asyncio.Event()
                numbers = itertools.takewhile(
                    lambda _: not enough.is_set(),  # noqa: B023
                    itertools.count(len(told)),
                )
                work = [
                    asyncio.ensure_future(_work(each, numbers, told))
                    for each in (one, two)
                    for _ in range(8)
                ]
                await until(lambda: len(told) > before + 100)  # noqa: B023
                await asyncio.to_thread(server.kill)
                gone = len(told)
                await until(lambda: _count(told[gone:], "refused") > 0)  # noqa: B023
                await asyncio.to_thread(server.start)
                back = len(told)
                await until(lambda: _count(told[back:], "executed") > 50)  # noqa: B023
                enough.set()
                await asyncio.gather(*work)
            _all_is_there(one, told)

    with own_server(durable=True) as (server, url):
        asyncio.run(main(server, PostgresLedgers(url)))


def _count(told, kind):
    """How many were told of one kind.

    Never what the last one is: the calls of one ledger go step by step together, so the last word
    may be the same at every look for as long as the server is away.
    """
    return sum(each[0] == kind for each in told)


def _all_is_there(opened, told):
    entries = opened.entries_after(0, 1_000_000)
    end = opened.audit_end()
    keys = {SIGNER.kid: SIGNER.public}
    assert audit.verify(entries, end[2], keys).fault is None
    kinds = {kind: {c for k, _, c in told if k == kind} for kind in ("authorised", "executed")}
    rows = {each.call_id: each for each in opened.list_calls(CallQuery(limit=1_000_000))}
    assert kinds["authorised"] <= rows.keys()
    assert all(rows[each].phase == "executed" for each in kinds["executed"])
    for _, number, call_id in told:
        claim = opened.find_claim(
            Scope(project="p", principal="a", tool="t", key_hash=f"k{number}")
        )
        if call_id in kinds["authorised"]:
            assert claim.call_id == call_id  # and nobody else's
    receipts = [receipt for each in rows for receipt in opened.get_call(each).receipts]
    assert len(receipts) == len(set(receipts)) == len(entries) - 1
