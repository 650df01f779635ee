"""Threads that were there before a recording (a test's own server) do not change an agent's."""

import asyncio
import threading

import httpx
import pytest
from model_rig import Reply
from wires_rig import events, twice


class Loop:
    """A loop in a thread of its own, which starts tasks when it is told to."""

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(20)
        self.loop.close()

    def work(self):
        async def nothing():
            return None

        async def tasks():
            await asyncio.gather(*(nothing() for _ in range(3)))

        asyncio.run_coroutine_threadsafe(tasks(), self.loop).result(20)


async def agent(server, stranger=None):
    async with httpx.AsyncClient(base_url=server.url) as client:
        if stranger is not None:
            stranger.work()
        found = await asyncio.gather(*(client.get(f"/n/{n}") for n in range(3)))
    return [one.json() for one in found]


@pytest.mark.requirement("TAP-02")
def test_tasks_of_a_thread_that_was_there_before_count_nothing_of_the_agents(tmp_path):
    routes = [("GET", f"/n/{n}", Reply({"n": n})) for n in range(3)]

    async def watched(server):
        return await agent(server, stranger)

    with Loop() as stranger:
        run = twice(tmp_path, watched, routes=routes)
    assert [event.attr["lane"] for event in events(run.tape, "tool_call")] == ["0", "1", "2"]
    assert run.replay(agent).drift is None
    assert run.seen[1] == run.seen[0] == [{"n": n} for n in range(3)]
