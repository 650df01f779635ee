"""A commit that lingers takes along who comes meanwhile; who does not ask for it never waits."""

import asyncio
import threading

from sidecar.store.sqlite.connection import open_database
from sidecar.store.sqlite.writer import Writer


def insert(connection):
    connection.execute("INSERT INTO seen VALUES (1)")


def test_jobs_that_come_while_a_commit_lingers_share_it(tmp_path):
    commits, asked = [], []

    async def scenario():
        loop = asyncio.get_running_loop()
        database = open_database(tmp_path / "some.db")
        database.execute("CREATE TABLE seen (x)")
        later = []

        def linger(held_last):
            asked.append(held_last)
            if len(asked) == 1:
                return 0
            queued = threading.Event()

            def come():
                later.extend(asyncio.ensure_future(writer.run(insert)) for _ in range(3))
                loop.call_soon(queued.set)  # behind the tasks' first steps

            loop.call_soon_threadsafe(come)
            assert queued.wait(10)
            return 0

        writer = Writer(
            database,
            str(tmp_path / "some.db"),
            before_commit=lambda c: commits.append(
                c.execute("SELECT count(*) FROM seen").fetchone()[0]
            ),
            linger=linger,
        )
        await writer.run(insert)
        await writer.run(insert)
        await asyncio.gather(*later)
        writer.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert asked == [0, 1]
    assert commits == [1, 5]
