"""Claims on every backend: earlier attempts that may have happened, no key, what expires."""

import asyncio

import asyncpg
import pytest
from ledger_rig import (
    BACKENDS,
    NOW,
    SCOPE,
    PostgresLedgers,
    call,
    intent,
    ledgers,
    outcome,
    run,
)
from postgres_rig import database

from sidecar.store.ledger import TOMBSTONE_NS, Answer, Committed, NotCommitted, Seen
from sidecar.store.postgres.claims import forget
from sidecar.store.stop import BOTH

ANSWER = Answer(status=201, headers=(), body=b"hush")
LATER = NOW + 1_000_000


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


async def ended(opened, state, *, key="k", call_id="c1", class_="irreversible", expires=NOW + 99):
    """A call that was made and ended so; its fence."""
    made = call(call_id, key_hash=key, class_=class_, action_hash=call_id)
    committed = await opened.commit_intent(intent(made, expires_at_ns=expires))
    assert isinstance(committed, Committed), committed
    await opened.mark_sent(committed.claim, NOW)
    if state != "sent":
        answer = ANSWER if state == "completed" else None
        assert await opened.record(outcome(made, committed.claim, state, answer=answer))
    return committed.claim


async def taken_over(opened, fence, state, call_id="c2"):
    seen = Seen(claim_id=fence.claim_id, fence=fence.fence, state=state)
    made = intent(call(call_id), expected=seen, expires_at_ns=LATER)
    committed = await opened.commit_intent(made)
    assert isinstance(committed, Committed), committed
    return committed.claim


@pytest.mark.requirement("IDM-02")
def test_an_intent_says_whether_it_was_marked_sent_right_after(store):
    async def scenario(opened):
        apart = await opened.commit_intent(intent(call("c1", key_hash="a")))
        assert (apart.marked, opened.claim_of("c1").state) == (None, "claimed")
        made = await opened.commit_intent(intent(call("c2", key_hash="b"), marks=BOTH))
        assert made.marked in (True, None)  # a store may leave it to who sends
        state = "sent" if made.marked else "claimed"
        assert opened.claim_of("c2").state == state
        assert await opened.mark_sent(made.claim, NOW) is not made.marked

    run(store, scenario)


@pytest.mark.requirement("IDM-01")
def test_an_attempt_after_one_that_may_have_happened_says_so_and_expires_with_it(store):
    async def scenario(opened):
        first = await ended(opened, "unknown")
        second = await taken_over(opened, first, "unknown")
        claim = opened.find_claim(SCOPE)
        assert (claim.possible, claim.expires_at_ns, claim.attempt) == (True, NOW + 99, 2)
        third = await taken_over(opened, second, "claimed", "c3")  # its owner died before sending
        claim = opened.find_claim(SCOPE)
        assert (claim.possible, claim.expires_at_ns) == (True, NOW + 99)
        resolved = outcome(call("c3"), third, "resolved_not_done")
        assert await opened.record(resolved)
        await taken_over(opened, third, "resolved_not_done", "c4")
        claim = opened.find_claim(SCOPE)
        assert (claim.possible, claim.expires_at_ns) == (False, LATER)

    run(store, scenario)


@pytest.mark.parametrize(
    ("state", "since", "refused"),
    [
        ("completed", NOW - 1, True),
        ("completed", NOW, False),
        ("unknown", LATER, True),
        ("sent", LATER, True),
        ("failed_safe", 0, False),
    ],
)
@pytest.mark.requirement("IDM-01")
def test_a_call_without_a_key_is_refused_while_the_same_was_made(store, state, since, refused):
    async def scenario(opened):
        await ended(opened, state, key=None)
        again = call("c2", key_hash=None, action_hash="c1")
        found = await opened.commit_intent(intent(again, distinct_since_ns=since))
        assert (found == NotCommitted(code="possible_duplicate")) == refused
        another = call("c3", key_hash=None, action_hash="other")
        assert isinstance(
            await opened.commit_intent(intent(another, distinct_since_ns=since)), Committed
        )

    run(store, scenario)


@pytest.mark.requirement("IDM-01")
def test_of_50_calls_without_a_key_at_once_one_is_made(store):
    async def scenario(opened):
        intents = [
            intent(call(f"c{number}", key_hash=None), distinct_since_ns=0) for number in range(50)
        ]
        found = await asyncio.gather(*map(opened.commit_intent, intents))
        assert sum(isinstance(each, Committed) for each in found) == 1
        assert found.count(NotCommitted(code="possible_duplicate")) == 49
        confirmed = intent(call("c99", key_hash=None))
        assert isinstance(await opened.commit_intent(confirmed), Committed)

    run(store, scenario)


@pytest.mark.row("T40")
@pytest.mark.requirement("IDM-01")
def test_expired_answers_go_and_irreversible_keys_stay_without_them(store):
    async def scenario(opened):
        await ended(opened, "completed")
        await ended(opened, "completed", key="note", call_id="c2", class_="write")
        await ended(opened, "unknown", key="lost", call_id="c3", class_="write")
        await ended(opened, "completed", key="late", call_id="c4", expires=LATER)
        assert await opened.forget(NOW + 98, 100) == 0
        assert await opened.forget(NOW + 99, 100) == 3  # two answers, one claim
        claim = opened.find_claim(SCOPE)
        assert (claim.state, claim.answer) == ("completed", None)
        rows = await asyncio.to_thread(
            store.query, "SELECT key_hash, answer IS NULL FROM claim ORDER BY claim_id"
        )
        assert [(key, bool(gone)) for key, gone in rows] == [
            ("k", True), ("lost", True), ("late", False),
        ]  # fmt: skip
        assert await opened.forget(NOW + 99 + TOMBSTONE_NS, 100) == 2
        rows = await asyncio.to_thread(store.query, "SELECT key_hash FROM claim")
        assert {key for (key,) in rows} == {"lost", "late"}
        assert opened.get_call("c1").receipts  # what happened is not forgotten with the key

    run(store, scenario)


def test_what_is_forgotten_at_a_time_is_bounded(store):
    async def scenario(opened):
        await five_ended(opened)
        assert [await opened.forget(LATER, 2) for _ in range(4)] == [2, 2, 1, 0]
        await ended(opened, "failed_safe", key="k9", call_id="c9", class_="write")
        assert await opened.forget(LATER, 2, NOW + 99) == 0  # it had been done until then
        assert await opened.forget(LATER, 2, NOW + 98) == 1

    run(store, scenario)


async def five_ended(opened):
    for number in range(5):
        await ended(opened, "failed_safe", key=f"k{number}", call_id=f"c{number}", class_="write")


def test_the_bound_holds_however_postgres_plans_it():
    with database() as url:
        run(PostgresLedgers(url), five_ended)

        async def forgotten():
            connection = await asyncpg.connect(url)
            try:
                for plan in ("hashjoin", "mergejoin", "hashagg", "material", "memoize", "sort"):
                    await connection.execute(f"SET enable_{plan} = off")
                await connection.execute("SET search_path = ledger")
                return [await forget(connection, LATER, 2) for _ in range(4)]
            finally:
                await connection.close()

        assert asyncio.run(forgotten()) == [2, 2, 1, 0]
