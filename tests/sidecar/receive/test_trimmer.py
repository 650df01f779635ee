"""The journal is kept short, and only by what the pipeline has durably taken in."""

import asyncio

from sidecar.errors import StoreUnavailable
from sidecar.receive.driver import Trimmer
from sidecar.store.journal import JournalEntry


def entry(number):
    return JournalEntry(
        project="shop",
        principal="key:1",
        signal="traces",
        encoding="protobuf",
        payload=b"%d" % number,
        received_ns=number,
    )


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def test_only_what_is_consumed_is_deleted_however_much_it_is(kit):
    consumed = [0]

    async def scenario():
        await asyncio.gather(*(kit.journal.append(entry(number)) for number in range(600)))
        trimmer = Trimmer(kit.journal, lambda: consumed[0])
        await trimmer.start()
        full = kit.journal.bytes_held
        consumed[0] = 590
        await until(lambda: len(kit.records()) == 10)
        assert 0 < kit.journal.bytes_held < full / 10
        consumed[0] = 600
        await until(lambda: kit.journal.bytes_held == 0)
        await trimmer.stop()
        await trimmer.stop()

    asyncio.run(scenario())


def test_a_store_that_fails_is_tried_again(kit):
    asked = []

    def consumed():
        asked.append(1)
        if len(asked) == 1:
            raise StoreUnavailable("busy")
        return 1

    async def scenario():
        await kit.journal.append(entry(1))
        trimmer = Trimmer(kit.journal, consumed)
        await trimmer.start()
        await until(lambda: kit.journal.bytes_held == 0)
        await trimmer.stop()

    asyncio.run(scenario())
    assert len(asked) >= 2
