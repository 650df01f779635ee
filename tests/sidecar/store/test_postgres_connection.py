"""The connection to Postgres: deadlines, one name for every failure, and recovery by itself."""

import asyncio
import threading
import time
from contextlib import closing

import asyncpg
import pytest
from postgres_rig import GUARDED, PASSWORD, Server, database, shared

from sidecar.errors import StoreUnavailable
from sidecar.store.location import read_location
from sidecar.store.migrate import numbered
from sidecar.store.postgres.backend import PostgresBackend
from sidecar.store.postgres.connection import READ_SECONDS, Database
from sidecar.store.postgres.migrations import applied, migrate, migrations


@pytest.fixture
def url():
    with database() as made:
        yield made


@pytest.fixture
def opened(url):
    with closing(Database(read_location(url), schema="ledger")) as made:
        yield made


@pytest.fixture(scope="module")
def own_server():
    """A server that these tests may kill."""
    server = Server()
    yield server
    server.stop()


def one(opened):
    return opened.read_sync(lambda c: c.fetchval("SELECT 1"))


def until_it_answers(opened):
    ends = time.monotonic() + 20
    while True:
        try:
            return one(opened)
        except StoreUnavailable:
            assert time.monotonic() < ends, "it never came back"


def test_reads_work_on_and_beside_a_running_loop(opened):
    async def main():
        assert one(opened) == 1
        return await asyncio.gather(
            opened.read(lambda c: c.fetchval("SELECT 2")),
            opened.run(lambda c: c.fetchval("SELECT 3")),
            asyncio.to_thread(one, opened),
        )

    assert asyncio.run(main()) == [2, 3, 1]


def test_a_transaction_is_whole_or_not_at_all(opened):
    async def half(connection):
        await connection.execute("INSERT INTO gateway_state VALUES ('a', 'x')")
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        opened.transact_sync(half)
    assert opened.read_sync(lambda c: c.fetchval("SELECT count(*) FROM gateway_state")) == 0


def test_a_broken_constraint_is_the_callers_and_other_failures_are_the_stores(opened):
    twice = "INSERT INTO gateway_state VALUES ('a', 'x'), ('a', 'y')"
    with pytest.raises(asyncpg.UniqueViolationError):
        opened.run_sync(lambda c: c.execute(twice))
    with pytest.raises(StoreUnavailable, match="no_such"):
        opened.run_sync(lambda c: c.execute("SELECT * FROM no_such"))
    assert one(opened) == 1  # a statement that fails says nothing of the server


def test_a_statement_that_takes_too_long_ends_at_its_deadline(url):
    with closing(Database(read_location(url), schema="ledger", statement_seconds=0.1)) as opened:
        with pytest.raises(StoreUnavailable, match="timeout"):
            opened.run_sync(lambda c: c.execute("SELECT pg_sleep(30)"))
        assert one(opened) == 1
    with closing(Database(read_location(url), schema="ledger")) as opened:
        with pytest.raises(StoreUnavailable, match="did not answer in time"):
            opened.run_sync(lambda c: c.execute("SELECT pg_sleep(30)"), seconds=0.1)
        assert until_it_answers(opened) == 1


def test_who_stops_in_a_transaction_does_not_keep_its_locks(url):
    """The other side of a machine that stands still while it has its turn to write."""
    with (
        closing(Database(read_location(url), schema="ledger", statement_seconds=0.3)) as frozen,
        closing(Database(read_location(url), schema="ledger")) as opened,
    ):
        held = threading.Event()

        async def stand_still(connection):
            await connection.execute("SELECT 1 FROM audit_head FOR UPDATE")
            held.set()
            await asyncio.sleep(30)

        thread = threading.Thread(target=_ignoring, args=(frozen, stand_still))
        thread.start()
        assert held.wait(5)
        started = time.monotonic()
        opened.run_sync(lambda c: c.execute("SELECT 1 FROM audit_head FOR UPDATE"))
        assert time.monotonic() - started < 4
        frozen.close()
        thread.join(10)


def _ignoring(opened, job):
    try:
        opened.transact_sync(job, seconds=8)
    except StoreUnavailable:
        pass


def test_a_closed_database_refuses(url):
    opened = Database(read_location(url), schema="ledger")
    opened.close()
    opened.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        one(opened)


def test_what_cannot_be_reached_stops_the_start_with_a_remedy():
    with pytest.raises(StoreUnavailable) as refused:
        Database(read_location("postgresql://nobody@127.0.0.1:9/none"), schema="ledger")
    assert "postgresql://127.0.0.1:9/none" in refused.value.text()
    assert "Check that the database runs" in refused.value.text()


def test_the_password_comes_by_reference_and_is_in_no_message(url):
    guarded = shared().url(url.rpartition("/")[2], user=GUARDED)
    with closing(Database(read_location(guarded, PASSWORD), schema="ledger")) as opened:
        assert opened.read_sync(lambda c: c.fetchval("SELECT current_user::text")) == GUARDED
    for wrong in ("hush-hush", None):
        with pytest.raises(StoreUnavailable) as refused:
            Database(read_location(guarded, wrong), schema="ledger")
        assert "hush" not in refused.value.text() and PASSWORD not in refused.value.text()


def test_a_lost_connection_is_replaced_without_a_failed_read(opened, url):
    for _ in range(3):
        one(opened)
        shared().execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE datname = '{url.rpartition('/')[2]}'"
        )
        assert one(opened) == 1


def test_a_killed_server_is_unavailable_at_once_and_comes_back_by_itself(own_server):
    name = own_server.new_database()
    with closing(Database(read_location(own_server.url(name)), schema="ledger")) as opened:
        migrate(opened, migrations("ledger"))
        own_server.kill()
        started = time.monotonic()
        for _ in range(20):
            with pytest.raises(StoreUnavailable):
                one(opened)
        assert time.monotonic() - started < 2
        own_server.start()
        assert until_it_answers(opened) == 1


def test_a_server_that_stands_still_holds_nobody_longer_than_once(own_server):
    name = own_server.new_database()
    with closing(Database(read_location(own_server.url(name)), schema="ledger")) as opened:
        one(opened)
        own_server.freeze()
        try:
            started = time.monotonic()
            for _ in range(20):
                with pytest.raises(StoreUnavailable, match="in time"):
                    one(opened)
            assert time.monotonic() - started < READ_SECONDS + 1.5
        finally:
            own_server.thaw()
        assert until_it_answers(opened) == 1


ADDITIVE = [("0001_a.sql", "CREATE TABLE a (x int);"), ("0002_b.sql", "ALTER TABLE a ADD y int;")]
BREAKING = ("0003_c.sql", "-- oldest: 3\nDROP TABLE a;")


def test_many_that_start_at_once_migrate_once():
    with database(migrated=False) as url:
        opened = [Database(read_location(url), schema="ledger") for _ in range(6)]
        known = migrations("ledger")
        threads = [threading.Thread(target=migrate, args=(each, known)) for each in opened]
        for each in threads:
            each.start()
        for each in threads:
            each.join(30)
        versions = "SELECT array_agg(number ORDER BY number) FROM schema_version"
        rows = opened[0].read_sync(lambda c: c.fetchval(versions))
        assert rows == list(range(1, len(known) + 1))
        for each in opened:
            each.close()


def test_a_migration_that_fails_leaves_the_schema_as_it_was():
    with (
        database(migrated=False) as url,
        closing(Database(read_location(url), schema="ledger")) as opened,
    ):
        migrate(opened, numbered(ADDITIVE[:1]))
        broken = numbered([*ADDITIVE, ("0003_c.sql", "CREATE TABLE c (); SELECT no_such();")])
        with pytest.raises(StoreUnavailable, match="no_such"):
            migrate(opened, broken)
        assert applied(opened).number == 1
        columns = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'a'"
        assert opened.read_sync(lambda c: c.fetchval(columns)) == 1


def test_a_schema_that_only_a_newer_program_may_use_is_refused():
    with (
        database(migrated=False) as url,
        closing(Database(read_location(url), schema="ledger")) as opened,
    ):
        old, new = numbered(ADDITIVE[:1]), numbered([*ADDITIVE, BREAKING])
        migrate(opened, new[:2])
        assert migrate(opened, old).number == 2  # it only adds: the release before runs on it
        migrate(opened, new)
        with pytest.raises(StoreUnavailable, match="at least schema 3; this one knows 1") as no:
            migrate(opened, old)
        assert "newer" in no.value.text()


def test_a_user_without_the_right_to_change_it_uses_a_schema_that_is_up_to_date(url):
    name = url.rpartition("/")[2]
    server = shared()
    server.execute("DROP ROLE IF EXISTS plain")
    server.execute("CREATE ROLE plain LOGIN")
    try:
        server.execute("GRANT USAGE ON SCHEMA ledger TO plain", name)
        server.execute("GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA ledger TO plain", name)
        plain = read_location(server.url(name, user="plain"))
        with closing(Database(plain, schema="ledger")) as opened:
            assert migrate(opened, migrations("ledger")) == applied(opened)
            with pytest.raises(StoreUnavailable, match="permission denied"):
                opened.run_sync(lambda c: c.execute("CREATE TABLE more ()"))
    finally:
        server.execute("DROP OWNED BY plain", name)
        server.execute("DROP ROLE plain")


def test_keys_of_a_database_without_a_store_are_not_none():
    with database(migrated=False) as url, closing(PostgresBackend(read_location(url))) as stores:
        with pytest.raises(StoreUnavailable, match="there is no store"):
            stores.keys(make=False)
        with closing(stores.keys()) as keys:
            assert keys.list_keys() == []
        stores.keys(make=False).close()
