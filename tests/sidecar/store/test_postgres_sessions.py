"""Connections that hold locks: lost with the connection, won again, used by many at once."""

import asyncio
import time
from contextlib import closing, contextmanager

import pytest
from postgres_rig import database, shared

from sidecar.errors import StoreUnavailable
from sidecar.store.location import read_location
from sidecar.store.postgres.connection import Database
from sidecar.store.postgres.presence import Presence
from sidecar.store.postgres.session import Session
from sidecar.store.postgres.writer import Writer

pytestmark = pytest.mark.full  # servers that are cut off, each its while

TAKE = "SELECT pg_try_advisory_lock(1)"


@pytest.fixture
def url():
    with database() as made:
        yield made


@pytest.fixture
def opened(url):
    with closing(Database(read_location(url), schema="ledger")) as made:
        yield made


@contextmanager
def presence(opened):
    """A presence that is connected."""

    async def made():
        return Presence(opened, "approvals")

    each = opened.wait(made(), 5)
    try:
        until(lambda: opened.wait(each.lead("start"), 5) or each.listening)
        yield each
    finally:
        opened.wait(each.close(), 5)


def until(true):
    ends = time.monotonic() + 20
    while not true():
        assert time.monotonic() < ends, "it never came true"


def end_sessions(url):
    """End every connection to a database, as an administrator would."""
    shared().execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        f" WHERE datname = '{url.rpartition('/')[2]}'"
    )


def test_what_a_lost_session_held_is_lost_before_anything_is_asked(opened, url):
    session = Session[str](opened)

    async def take(connection):
        if "a" not in session.held and await connection.fetchval(TAKE):
            session.held.add("a")
        return "a" in session.held

    assert not session.holds("a")
    assert session.run_sync(take) and session.holds("a")
    end_sessions(url)
    until(lambda: not session.holds("a"))
    other = Session[str](opened)
    assert other.run_sync(lambda connection: connection.fetchval(TAKE))
    assert not session.run_sync(take), "another has it"
    other.close()
    until(lambda: session.run_sync(take))
    session.close()
    assert not session.holds("a")


def test_many_ask_at_once_who_leads(opened):
    with presence(opened) as each:

        async def all_at_once():
            return await asyncio.gather(*(each.lead(f"lead {n % 5}") for n in range(50)))

        assert opened.wait(all_at_once(), 10) == [True] * 50


def test_who_asks_as_the_connection_is_lost_is_told_no_or_that_the_store_is_away(opened, url):
    with presence(opened) as each:

        async def ask(number):
            try:
                return await each.lead(f"lead {number}")
            except StoreUnavailable:
                return False

        async def while_it_ends():
            asked = [asyncio.ensure_future(ask(n)) for n in range(200)]
            await asyncio.gather(asyncio.to_thread(end_sessions, url), *asked)

        for _ in range(3):
            opened.wait(while_it_ends(), 20)
            until(lambda: opened.wait(ask(0), 5))


def test_what_was_led_is_led_by_another_once_the_connection_is_lost(url):
    with (
        closing(Database(read_location(url), schema="ledger")) as here,
        closing(Database(read_location(url), schema="ledger")) as there,
        presence(here) as first,
        presence(there) as second,
    ):
        until(lambda: here.wait(first.lead("work"), 5))
        assert not there.wait(second.lead("work"), 5)

        async def end_first():
            pid = await first._connection.fetchval("SELECT pg_backend_pid()")
            await here.here(lambda c: c.execute(f"SELECT pg_terminate_backend({pid}, 5000)"))

        here.wait(end_first(), 10)
        until(lambda: there.wait(second.lead("work"), 5))
        assert not here.wait(first.lead("work"), 5)


def test_a_late_transaction_says_so_and_takes_nothing_with_it(opened):
    with pytest.raises(StoreUnavailable, match="did not answer in time"):
        opened.transact_sync(lambda c: c.execute("SELECT pg_sleep(30)"), seconds=0.2)
    until(lambda: _answers(opened))


def _answers(opened):
    try:
        return opened.read_sync(lambda c: c.fetchval("SELECT 1")) == 1
    except StoreUnavailable:
        return False


@pytest.mark.parametrize("alone", [True, False])
def test_whatever_the_driver_raises_in_a_group_has_the_one_name(opened, alone):
    """Two questions at once on one connection is a fault of the driver's own kind."""
    writer = Writer(opened)

    async def two_at_once(turn):
        await asyncio.gather(*(turn.connection.fetchval("SELECT pg_sleep(0.1)") for _ in range(2)))

    async def good(turn):
        return await turn.connection.fetchval("SELECT 1")

    async def all_of_them():
        jobs = [two_at_once] if alone else [good, two_at_once, good]
        return await asyncio.gather(*map(writer.run, jobs), return_exceptions=True)

    found = asyncio.run(all_of_them())
    assert any(isinstance(each, StoreUnavailable) for each in found)
    assert all(each == 1 or isinstance(each, StoreUnavailable) for each in found), found
