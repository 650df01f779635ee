"""Calls while the ledger has it hard: a disk that fills, clocks hours apart, a Postgres that dies.

Whatever happens, a key has one effect, what was sent is never sent again, and the books balance.
"""

import asyncio
import sqlite3
from collections import Counter
from contextlib import AsyncExitStack, closing

import pytest
from gateway_rig import AllowAll, Settings, rig
from ledger_rig import PostgresLedgers, call, intent, ledgers
from postgres_rig import Server, migrate_all

from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.gateway.audit import verify
from sidecar.gateway.budget import Budget
from sidecar.gateway.config import Cost
from sidecar.gateway.recovery.driver import take_abandoned
from sidecar.store.ledger import CallQuery

HOUR = 3600 * 10**9
EUR = Budget(scope="project", limit="100", currency="EUR", window="month")
AGENT = Budget(scope="agent", limit="100", currency="EUR", window="24h")


def settings(*budgets):
    return Settings(accept_ephemeral_ledger=True, budgets=budgets)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def backend(request):
    return request.param


def pair(folder, backend, scenario, *, clocks=(clock.now_ns, clock.now_ns), **options):
    """Two gateways on one ledger before one shop, asked with one agent's key."""

    async def main(store):
        async with AsyncExitStack() as stack:
            both, url = [], None
            for name, now_ns in zip(("one", "two"), clocks, strict=True):
                place = folder if store is None else folder / name
                place.mkdir(exist_ok=True)
                each = await stack.enter_async_context(
                    rig(place, policy=AllowAll(), ledgers=store, upstream_url=url, now_ns=now_ns,
                        ledger_path=None if store else folder / "ledger.db", **options)
                )  # fmt: skip
                url = f"http://127.0.0.1:{each.shop.port}" if url is None else url
                both.append(each)
            one, two = both
            if store is not None:
                two.keys.add_key(one.keys.list_keys()[0])
            two.agent = one.agent
            await scenario(one, two)

    if backend == "sqlite":
        asyncio.run(main(None))
        return
    with ledgers("postgres", folder) as store:
        asyncio.run(main(store))


def whole(ledger):
    entries = ledger.entries_after(0, 100_000)
    return verify(entries, ledger.audit_head(), ledger.public_keys()).fault is None


@pytest.mark.row("B", "T40")
@pytest.mark.requirement("IDM-01")
def test_gateways_whose_clocks_are_hours_apart_make_one_effect_a_key(tmp_path, backend):
    clocks = (lambda: clock.now_ns() + 5 * HOUR, lambda: clock.now_ns() - 5 * HOUR)

    async def scenario(one, two):
        one.shop.delay = 0.05
        for number in range(3):
            asks = [(one, two)[n % 2].refund(str(number), key=f"k{number}") for n in range(30)]
            replies = await asyncio.gather(*asks)
            assert one.shop.effects(str(number)) == 1
            assert {reply.status for reply in replies} <= {201, 409}
            assert {r.json["code"] for r in replies if r.status == 409} <= {"in_flight"}
        assert whole(one.ledger)

    pair(tmp_path, backend, scenario, clocks=clocks)


@pytest.mark.row("B", "T40")
@pytest.mark.requirement("IDM-01")
def test_a_clock_that_jumps_by_hours_lets_nobody_take_over_a_call_that_was_sent(tmp_path, backend):
    ahead = [0]

    async def scenario(one, two):
        one.shop.delay = 0.5
        for number, jump in enumerate((30 * HOUR, -30 * HOUR)):
            asked = one.shop.requests
            first = asyncio.ensure_future(one.refund(f"o{number}", key=f"k{number}"))
            async with asyncio.timeout(10):
                while one.shop.requests == asked:
                    await asyncio.sleep(0.01)
            ahead[0] = jump
            late = await two.refund(f"o{number}", key=f"k{number}")
            assert (late.status, late.json["code"]) == (409, "in_flight")
            assert (await first).status == 201
            again = await two.refund(f"o{number}", key=f"k{number}")
            assert again.status in (201, 409)  # 409 key_expired: 30 hours are more than it is kept
            assert one.shop.effects(f"o{number}") == 1
            ahead[0] = 0
        assert whole(two.ledger)

    clocks = (clock.now_ns, lambda: clock.now_ns() + ahead[0])
    pair(tmp_path, backend, scenario, clocks=clocks)


@pytest.mark.row("H", "T45", "T47")
@pytest.mark.requirement("BUD-01")
def test_an_agent_that_was_never_seen_has_its_budget_from_its_first_calls_on(tmp_path, backend):
    async def scenario(one, two):
        one.shop.delay = 0.02
        asks = [
            gateway.refund("17", key=f"{name}{n}", amount=9)
            for n in range(15)
            for name, gateway in (("a", one), ("b", two))
        ]
        replies = await asyncio.gather(*asks)
        told = Counter(reply.json.get("code", reply.status) for reply in replies)
        assert told == {201: 100 // 9, "budget_exceeded": 30 - 100 // 9}
        assert one.shop.effects() == 100 // 9 and whole(one.ledger)

    pair(tmp_path, backend, scenario, settings=settings(AGENT))


@pytest.mark.row("T48")
@pytest.mark.requirement("BUD-01")
def test_a_call_of_unknown_cost_holds_its_declared_most_and_leaves_the_rest(tmp_path):
    cost = Cost(amount="arguments.missing", currency="'EUR'", max="30")

    async def main():
        options = {"settings": settings(EUR), "tool_changes": {"cost": cost}}
        async with rig(tmp_path, policy=AllowAll(), **options) as each:
            each.shop.delay = 0.2
            asks = [each.refund(str(n), key=f"k{n}") for n in range(4)]
            replies = await asyncio.gather(*asks)
            assert sorted(reply.status for reply in replies) == [201, 201, 201, 429]

    asyncio.run(main())


async def _fill(each, pages):
    """Let the ledger grow by so many pages and no more; None: as it likes."""

    def bound(connection):
        (now,) = connection.execute("PRAGMA page_count").fetchone()
        most = 2**30 if pages is None else now + pages
        connection.execute(f"PRAGMA max_page_count = {most}")

    await each.ledger._writer.run(bound)


@pytest.mark.row("G")
@pytest.mark.requirement("IDM-01")
def test_a_disk_that_is_full_at_any_write_makes_no_second_effect_and_sends_nothing_unrecorded(
    tmp_path,
):
    """SQLite's own SQLITE_FULL, at every page that a call's writes take in turn."""

    async def main():
        options = {"settings": settings(EUR), "ledger_path": tmp_path / "ledger.db"}
        async with rig(tmp_path, policy=AllowAll(), **options) as each:
            seen = Counter()
            for number in range(24):
                order, key = f"o{number}", f"k{number}"
                await _fill(each, number % 4)
                reply = await each.refund(order, key=key, amount="0.01")
                if each.shop.effects(order):
                    assert reply.status == 201 or reply.json["code"] == "outcome_unknown"
                else:
                    assert reply.json["code"] == "fail_closed"
                seen[reply.json.get("code", reply.status)] += 1
                if number % 4:
                    continue
                await _fill(each, None)
                again = await each.refund(order, key=key, amount="0.01")
                assert each.shop.effects(order) == 1
                assert again.status == 201 or again.json["code"] == "outcome_unknown"
            await _fill(each, None)
            assert seen["fail_closed"] and seen[201]
            assert whole(each.ledger)
            states = Counter(row.state for row in each.ledger.list_calls(CallQuery(limit=1000)))
            assert set(states) <= {None, "completed", "unknown", "failed_safe", "sent", "claimed"}

    asyncio.run(main())


def balanced(store):
    """Whether every account is the sum of its postings."""
    return store.query(
        "SELECT account.account_id FROM budget_account account LEFT JOIN budget_posting posting"
        " USING (account_id) GROUP BY account.account_id, account.held, account.spent"
        " HAVING account.held != coalesce(sum(CASE WHEN target = 'held' THEN amount"
        " WHEN source = 'held' THEN -amount ELSE 0 END), 0)"
        " OR account.spent != coalesce(sum(CASE WHEN target = 'spent' THEN amount"
        " WHEN source = 'spent' THEN -amount ELSE 0 END), 0)"
    )


@pytest.mark.full
@pytest.mark.row("B", "H", "I")
@pytest.mark.requirement("IDM-01")
def test_two_gateways_whose_postgres_is_killed_under_load_make_one_effect_a_key(tmp_path):
    server = Server(durable=True)
    try:
        url = server.url(server.new_database())
        migrate_all(url)
        store = PostgresLedgers(url)
        asyncio.run(_killed_under_load(tmp_path, server, store))
        assert balanced(store) == []
    finally:
        server.stop()


async def _answers(ledger):
    async with asyncio.timeout(60):
        while True:
            try:
                return await ledger.check()
            except StoreUnavailable:
                await asyncio.sleep(0.1)


async def _settled(gateway, key):
    """The answer once nobody is at the call any more, which is soon."""
    async with asyncio.timeout(60):
        while True:
            reply = await gateway.refund(key, key=key, amount="0.01")
            if reply.json.get("code") != "in_flight":
                return reply
            await asyncio.sleep(0.2)


async def _killed_under_load(folder, server, store):
    replies, over = [], asyncio.Event()

    async def agent(gateway, name):
        number = 0
        while not over.is_set():
            key = f"{name}{number // 2}"  # every key is asked for twice by each
            number += 1
            reply = await gateway.refund(key, key=key, amount="0.01")
            replies.append((key, reply.status, reply.json.get("code")))
            await asyncio.sleep(0.03)

    async with AsyncExitStack() as stack:
        both, upstream = [], None
        for name in ("one", "two"):
            (folder / name).mkdir()
            each = await stack.enter_async_context(
                rig(folder / name, policy=AllowAll(), ledgers=store, upstream_url=upstream,
                    settings=settings(EUR))
            )  # fmt: skip
            upstream = upstream or f"http://127.0.0.1:{each.shop.port}"
            both.append(each)
        one, two = both
        two.keys.add_key(one.keys.list_keys()[0])
        two.agent = one.agent
        # The same keys at both gateways, at once.
        agents = [
            asyncio.ensure_future(agent(gateway, name)) for gateway in both for name in "abcd"
        ]
        for _ in range(3):
            await asyncio.sleep(1.0)
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.start)
        await _answers(one.ledger)
        await asyncio.sleep(0.5)
        over.set()
        await asyncio.gather(*agents)
        codes = Counter(code or status for _, status, code in replies)
        assert set(codes) <= {201, "in_flight", "fail_closed", "outcome_unknown"}, codes
        assert codes[201] and codes["fail_closed"]  # it was under way, and it was away
        for key in {key for key, _, _ in replies}:
            last = await _settled(one, key)
            assert one.shop.effects(key) == 1 or last.json["code"] == "outcome_unknown", key
            assert last.status == 201 or last.json["code"] == "outcome_unknown", last.json
        assert whole(one.ledger)
        with closing(sqlite3.connect(one.shop.database)) as shop:
            (most,) = shop.execute(
                "SELECT max(n) FROM (SELECT count(*) AS n FROM effect GROUP BY order_id)"
            ).fetchone()
        assert most == 1


@pytest.mark.row("T34", "H")
@pytest.mark.requirement("IDM-02")
@pytest.mark.parametrize(("sent", "state"), [(True, "unknown"), (False, "failed_safe")])
def test_a_living_gateway_ends_what_none_of_its_calls_is_at_and_nothing_else(tmp_path, sent, state):
    """The ledger was away when the outcome was to be recorded: another gateway would have said
    ``in_flight`` for as long as this one lives, and what was held would have stayed so."""
    left = call("c1", project="default", tool="issue_refund", principal="key:agent")

    async def main():
        async with rig(tmp_path, policy=AllowAll(), settings=settings(EUR)) as each:
            each.shop.delay = 0.3
            desk, now_ns = each.gateway._open_desk, clock.now_ns()
            running = asyncio.ensure_future(each.refund("17", key="other"))
            async with asyncio.timeout(20):
                while not each.shop.requests:
                    await asyncio.sleep(0.01)
                made = await each.ledger.commit_intent(
                    intent(left, owner=desk.owner, policy_revision="allow-all", now_ns=now_ns,
                           expires_at_ns=now_ns + 10**12)
                )  # fmt: skip
                if sent:
                    assert await each.ledger.mark_sent(made.claim, now_ns)
            await take_abandoned(desk)
            assert each.ledger.get_call("c1").state == state
            done = each.ledger.get_call("c1")
            receipts = [each.ledger.get_receipt(one) for one in done.receipts]
            assert [one.phase for one in receipts] == ["authorised", "executed"]
            assert receipts[-1].code == "recovered"
            assert (await running).status == 201  # its call was on its way: nobody took it
            assert each.ledger.open_claims(desk.owner) == []

    asyncio.run(main())
