"""Budgets on every backend: nobody passes the limit, nothing is rounded, every account balances."""

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_rig import (
    BACKENDS,
    NOW,
    REVISION,
    SHARED,
    call,
    intent,
    ledgers,
    outcome,
    run,
    signing_ledger,
)

from sidecar.store import budget
from sidecar.store.budget import Hold, Spent
from sidecar.store.ledger import Committed, NotCommitted, Seen

S = 1_000_000_000
shared = pytest.mark.parametrize("store", SHARED, indirect=True)


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


def hold(amount="20", limit="100", **fields):
    named = {"budget": "b", "subject": "", "unit": "EUR", **fields}
    return Hold(amount=amount, limit=limit, **named)


async def take(opened, name, *holds, at_ns=NOW, **fields):
    made = call(name, key_hash=name, **fields)
    return await opened.commit_intent(intent(made, holds=holds, now_ns=at_ns))


async def close(opened, name, taken, state="completed", at_ns=NOW, **fields):
    ended = outcome(call(name, key_hash=name), taken.claim, state, **fields)
    return await opened.record(budget_at(ended, at_ns))


def budget_at(ended, at_ns):
    from msgspec.structs import replace

    return replace(ended, now_ns=at_ns)


def standing(opened, asked, at_ns=NOW):
    found = opened.standings("p", [asked], at_ns)[0]
    return found.held, found.spent


@pytest.mark.row("H", "T45", "T47")
@pytest.mark.requirement("BUD-01")
def test_exactly_floor_of_budget_by_cost_calls_are_admitted_however_many_ask_at_once(store):
    async def scenario(opened):
        results = await asyncio.gather(
            *(take(opened, f"c{n}", hold("7.01", "50.00")) for n in range(40))
        )
        admitted = [each for each in results if isinstance(each, Committed)]
        assert len(admitted) == 50 * 100 // 701 == 7
        refused = next(each for each in results if isinstance(each, NotCommitted))
        assert refused.code == "budget_exceeded"
        assert (refused.over.left, refused.over.never) == ("0.93", False)
        assert standing(opened, hold("0")) == ("49.07", "0")

    run(store, scenario)


def _rush(store, subject):
    async def scenario():
        with signing_ledger(store) as opened:
            _start.wait()
            return await asyncio.gather(
                *(take(opened, f"{subject}{n}", hold("0.1", "1")) for n in range(20))
            )

    return [isinstance(each, Committed) for each in asyncio.run(scenario())]


def _begin(barrier):
    global _start
    _start = barrier


@pytest.mark.row("H", "T45")
@pytest.mark.full
@shared
@pytest.mark.requirement("BUD-01")
def test_two_processes_on_one_store_admit_exactly_floor_of_budget_by_cost(store):
    async def warm(opened):
        await opened.activate_policy(REVISION, NOW)

    run(store, warm)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, _begin, (context.Barrier(2),)) as processes:
        rushing = [processes.submit(_rush, store, name) for name in ("a", "b")]
        admitted = [each for rush in rushing for each in rush.result(120)]
    assert (len(admitted), sum(admitted)) == (40, 10)


def test_a_call_that_falls_under_several_budgets_takes_of_all_or_of_none(store):
    async def scenario(opened):
        wide, narrow = hold("20", "1000", budget="w"), hold("20", "30", budget="n")
        assert isinstance(await take(opened, "a", wide, narrow), Committed)
        second = await take(opened, "b", wide, narrow)
        assert (second.over.budget, second.over.left) == ("n", "10")
        assert standing(opened, wide) == ("20", "0") and standing(opened, narrow) == ("20", "0")

    run(store, scenario)


def test_every_subject_project_and_unit_has_an_account_of_its_own(store):
    async def scenario(opened):
        for number, fields in enumerate(({}, {"subject": "x"}, {"unit": "USD"}, {"budget": "c"})):
            assert isinstance(await take(opened, f"c{number}", hold("90", **fields)), Committed)
        elsewhere = await take(opened, "q", hold("90"), project="q")
        assert isinstance(elsewhere, Committed)
        assert isinstance(await take(opened, "again", hold("90")), NotCommitted)

    run(store, scenario)


def test_an_amount_over_the_whole_limit_is_told_apart_from_a_full_budget(store):
    async def scenario(opened):
        assert (await take(opened, "a", hold("100.01"))).over.never
        assert isinstance(await take(opened, "b", hold("100")), Committed)
        assert not (await take(opened, "c", hold("0.000000000000000000000000000001"))).over.never

    run(store, scenario)


@pytest.mark.row("T49")
def test_settling_takes_what_was_spent_and_gives_back_the_rest(store):
    async def scenario(opened):
        first = await take(opened, "a", hold("60"))
        assert isinstance(await take(opened, "b", hold("60")), NotCommitted)
        await close(opened, "a", first, holds="settled", spent=(Spent(unit="EUR", amount="5.5"),))
        assert standing(opened, hold("0")) == ("0", "5.5")
        second = await take(opened, "c", hold("94.5"))
        await close(opened, "c", second, "failed_safe", holds="released")
        assert standing(opened, hold("0")) == ("0", "5.5")

    run(store, scenario)


@pytest.mark.row("T49")
def test_more_than_was_held_is_spent_too_and_stops_the_next_call(store):
    async def scenario(opened):
        first = await take(opened, "a", hold("60"))
        more = (Spent(unit="EUR", amount="130"),)
        await close(opened, "a", first, holds="settled", spent=more)
        assert standing(opened, hold("0")) == ("0", "130")
        assert (await take(opened, "b", hold("0.01"))).over.left == "0"
        settled = [e for e in opened.entries_after(0, 99) if e.kind == "budget_settle"]
        assert '"over":"70"' in settled[0].body

    run(store, scenario)


@pytest.mark.row("H")
def test_an_unknown_outcome_keeps_its_money_and_counts_its_call(store):
    async def scenario(opened):
        calls = hold("1", "5", unit="calls")
        first = await take(opened, "a", hold("60"), calls)
        called = (Spent(unit="calls", amount="1"),)
        await close(opened, "a", first, "unknown", holds="held", spent=called)
        year_ns = NOW + 400 * 86_400 * S
        rolling = hold("60", length_ns=S)
        assert isinstance(await take(opened, "b", rolling, at_ns=year_ns), NotCommitted)
        assert standing(opened, hold("0")) == ("60", "0")
        assert standing(opened, calls) == ("0", "1")
        await close(opened, "a", first, "resolved_not_done", holds="released")
        assert standing(opened, hold("0")) == ("0", "0")

    run(store, scenario)


def test_what_was_spent_leaves_a_rolling_window_at_its_age_and_not_before(store):
    async def scenario(opened):
        rolling = hold("60", length_ns=10 * S)
        first = await take(opened, "a", rolling)
        await close(opened, "a", first, holds="settled")
        assert isinstance(await take(opened, "b", rolling, at_ns=NOW + 10 * S - 1), NotCommitted)
        assert standing(opened, rolling, NOW + 10 * S - 1) == ("0", "60")
        assert standing(opened, rolling, NOW + 10 * S) == ("0", "0")
        assert isinstance(await take(opened, "c", rolling, at_ns=NOW + 10 * S), Committed)

    run(store, scenario)


def test_a_clock_set_back_opens_no_window_again(store):
    async def scenario(opened):
        today, yesterday = (hold("60", window_ns=start) for start in (NOW, NOW - 86_400 * S))
        assert isinstance(await take(opened, "a", today), Committed)
        back = await take(opened, "b", yesterday, at_ns=NOW - 3600 * S)
        assert back.over.left == "40"
        tomorrow = hold("60", window_ns=NOW + 86_400 * S)
        assert isinstance(await take(opened, "c", tomorrow, at_ns=NOW + 86_400 * S), Committed)
        rolling = hold("60", budget="r", length_ns=10 * S)
        first = await take(opened, "d", rolling)
        await close(opened, "d", first, holds="settled")
        earlier = await take(opened, "e", rolling, at_ns=NOW - 3600 * S)
        assert earlier.over.left == "40"

    run(store, scenario)


def test_an_attempt_taken_over_gives_back_what_it_held_before_the_next_one_holds(store):
    async def scenario(opened):
        first = await take(opened, "a", hold("60"))
        seen = Seen(claim_id=first.claim.claim_id, fence=1, state="claimed")
        again = call("a2", key_hash="a")
        second = await opened.commit_intent(intent(again, holds=(hold("60"),), expected=seen))
        assert isinstance(second, Committed)
        assert standing(opened, hold("0")) == ("60", "0")

    run(store, scenario)


def test_what_is_only_observed_is_held_though_there_is_no_room(store):
    async def scenario(opened):
        observed = hold("70", enforced=False)
        for name in ("a", "b"):
            assert isinstance(await take(opened, name, observed), Committed)
        assert standing(opened, hold("0")) == ("140", "0")
        assert isinstance(await take(opened, "c", hold("1")), NotCommitted)

    run(store, scenario)


def test_sums_of_the_longest_amounts_are_exact(store):
    async def scenario(opened):
        small, large = "0." + "0" * 29 + "1", "9" * 30
        wide = hold(small, "9" * 30 + "." + "9" * 30)
        assert isinstance(await take(opened, "a", wide), Committed)
        assert isinstance(await take(opened, "b", hold(large, wide.limit)), Committed)
        assert standing(opened, wide) == (f"{large}.{'0' * 29}1", "0")

    run(store, scenario)


AMOUNTS = st.decimals("0.01", "40", places=2).map(lambda amount: f"{amount:f}")
STEP = st.tuples(
    st.sampled_from(["take", "settle", "release", "unknown"]), AMOUNTS, st.integers(0, 4 * S)
)


async def live(opened, steps, prefix=""):
    """What a model says of spending, step by step, against the ledger."""
    limit, length = Fraction(100), 10 * S
    rows, open_, now = [], [], NOW  # a row: when, amount, spent or not

    def used(at):
        return sum(a for t, a, spent in rows if not spent or t > at - length)

    for number, (what, amount, passed) in enumerate(steps):
        now += passed
        if what == "take" or not open_:
            rolling = hold(amount, "100", length_ns=length)
            taken = await take(opened, f"{prefix}c{number}", rolling, at_ns=now)
            fits = used(now) + Fraction(amount) <= limit
            assert isinstance(taken, Committed) == fits, (number, used(now), amount)
            if fits:
                rows.append([now, Fraction(amount), False])
                open_.append((f"{prefix}c{number}", taken, rows[-1]))
            continue
        name, taken, row = open_.pop(0)
        if what == "settle":
            told = (Spent(unit="EUR", amount=amount),)
            await close(opened, name, taken, holds="settled", spent=told, at_ns=now)
            row[1], row[2] = Fraction(amount), True
        elif what == "release":
            await close(opened, name, taken, "failed_safe", holds="released", at_ns=now)
            rows.remove(row)
        else:
            await close(opened, name, taken, "unknown", holds="held", at_ns=now)


def check_balances(store):
    """Every account is the sum of its postings, and of what its calls hold and have spent."""
    accounts = store.query("SELECT account_id, held, spent FROM budget_account")
    postings = store.query("SELECT account_id, source, target, amount FROM budget_posting")
    holds = store.query("SELECT account_id, state, amount, actual, past FROM budget_hold")
    assert accounts
    for account_id, held, spent in accounts:
        parts = dict.fromkeys(("free", "held", "spent", "past"), Decimal(0))
        for of, source, target, amount in postings:
            if of == account_id:
                assert Decimal(amount) > 0
                parts[source] -= Decimal(amount)
                parts[target] += Decimal(amount)
        assert sum(parts.values()) == 0
        assert (parts["held"], parts["spent"]) == (Decimal(held), Decimal(spent))
        assert parts["held"] >= 0 and parts["spent"] >= 0
        own = [each[1:] for each in holds if each[0] == account_id]
        assert parts["held"] == sum(Decimal(a) for s, a, _, _ in own if s == "held")
        settled = [(Decimal(a), p) for s, _, a, p in own if s == "settled"]
        assert parts["spent"] == sum(a for a, past in settled if not past)
        assert parts["past"] == sum(a for a, past in settled if past)


@pytest.mark.row("H")
@pytest.mark.requirement("BUD-01")
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=25))
def test_whatever_happens_the_books_balance_and_the_limit_holds(steps):
    with ledgers("memory", MEMORY) as store:

        async def scenario(opened):
            await live(opened, steps)
            if store.query("SELECT 1 FROM budget_account"):
                check_balances(store)

        run(store, scenario)


@pytest.fixture(autouse=True, scope="module")
def _memory(tmp_path_factory):
    global MEMORY
    MEMORY = tmp_path_factory.mktemp("keys")


def test_the_books_balance_on_every_backend(store):
    steps = [("take", "30", S), ("take", "40", S), ("settle", "70.01", S), ("take", "1", S)]
    steps += [("release", "1", S), ("take", "29.99", 2 * S), ("unknown", "1", S)] * 3
    steps += [("take", "25", 12 * S), ("settle", "25", 0), ("take", "60", 12 * S)]

    async def scenario(opened):
        await live(opened, steps)
        await asyncio.to_thread(check_balances, store)

    run(store, scenario)


def test_an_amount_is_said_plainly():
    texts = ["0", "20", "20.50", "100", "0.10", "1000"]
    assert [budget.text(Decimal(each)) for each in texts] == [
        "0",
        "20",
        "20.5",
        "100",
        "0.1",
        "1000",
    ]
