"""Tasks and threads are recorded by cause, and their order comes back in a replay."""

import asyncio
import queue
import threading
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor

import pytest
from capture_rig import session_of, tick

from sidecar.capture.play import Drifted, StrictPlayer
from sidecar.capture.record import Circumstances, header_of, redactor_of
from sidecar.capture.seams import install as seams
from sidecar.capture.seams.session import current
from sidecar.capture.seams.turns import Turns
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.files import TapeWriter, examine, read_tape

pytestmark = pytest.mark.requirement("TAP-02")


class World:
    """Tools that answer in an order of their own; in a replay nobody may ask them."""

    def __init__(self, order=()):
        self.order, self.asked, self.ready = list(order), [], {}

    async def real(self, name):
        self.asked.append(name)
        mine = self.ready.setdefault(name, asyncio.Event())
        asyncio.get_running_loop().call_soon(self.release)
        await mine.wait()
        self.release()
        if name == "bad":
            raise LookupError("bad")
        return f"{name}!"

    def release(self):
        """Let the next answer, if it was asked for; after it the next."""
        if self.order and self.order[0] in self.ready:
            self.ready[self.order.pop(0)].set()

    async def __call__(self, name):
        x = current().enter(
            kind="tool_call", seam="tool", name="ask", given={"name": name}, awaited=True
        )
        if x.played:
            await x.arrive()
            if x.error is not None:
                raise LookupError(x.error[1])
            return x.out
        try:
            with x.inside():
                out = await self.real(name)
        except BaseException as error:
            x.failed(error)
            raise
        x.done(out)
        return out


def play(session, agent):
    session.begin()
    for name in ("threads", "races", "handing", "tasks", "tasks_anyio"):
        seams.install(session, name)
    assert session.broken == {}
    try:
        if asyncio.iscoroutinefunction(agent):
            return asyncio.run(agent())
        return agent()
    finally:
        session.end()


def twice(tmp_path, agent, world, *, in_turn=True):
    """Record, then replay three times: the tape, and that all came back."""
    path = tmp_path / "a.tape"
    writer = TapeWriter(path, header_of(Circumstances(tape_id="t", now_ns=0), "full"))
    said = play(session_of(writer), bound(agent, world))
    writer.seal()
    assert examine(path).holds
    tape = read_tape(path)
    for _ in range(3):
        nobody = World()
        player = StrictPlayer(tape, redactor_of("redacted"), Codecs(DEFAULT))
        session = session_of(player=player)
        again = play(session, bound(agent, nobody))
        assert session.drift is None
        assert again == said
        assert nobody.asked == []
        assert session.tally.digest() == tape.seal.exact_digest
        assert session.turns.reordered == 0 or not in_turn
    return tape, said


def is_async(agent):
    return asyncio.iscoroutinefunction(agent)


def bound(agent, world):
    if is_async(agent):

        async def call():
            return await agent(world)
    else:

        def call():
            return agent(world)

    return call


def causes(tape, name="ask"):
    return {
        one.inl["in"]["name"]: one.cause
        for one in tape.events
        if one.kind == "tool_call" and one.name == name
    }


async def gathering(ask):
    seen = []

    async def one(name):
        tick()
        seen.append(await ask(name))
        tick()

    await asyncio.gather(*map(one, "abc"))
    await ask("d")
    return seen


def test_gathered_tools_answer_in_the_recorded_order(tmp_path):
    tape, seen = twice(tmp_path, gathering, World([*"cab", "d"]))
    assert seen == ["c!", "a!", "b!"]
    last = causes(tape)["d"]
    assert [tape.events[one].name for one in last] == ["tick"] * 3
    assert {tape.events[one].attr["lane"] for one in last} == {"0", "1", "2"}
    first = [causes(tape)[name] for name in "abc"]
    assert len({tape.events[one[0]].cause for one in first}) == 1


async def grouped(ask):
    seen = []

    async def one(name):
        seen.append(await ask(name))

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(one(name))
    await ask("d")
    return seen


async def first_of(ask):
    tasks = [asyncio.ensure_future(ask(name)) for name in "abc"]
    # asyncio's sets have no order of their own: whom an agent goes on with first is its own affair
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for one in pending:
        one.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return [one.result() for one in done], len(pending)


async def one_by_one(ask):
    seen = []
    for one in asyncio.as_completed([ask(name) for name in "abc"]):
        seen.append(await one)
        tick()
    return seen


async def raced(ask):
    async def slow():
        await asyncio.Event().wait()

    try:
        await asyncio.wait_for(slow(), 0.001)
    except TimeoutError:
        tick()
    return await asyncio.wait_for(ask("a"), 60)


async def failing(ask):
    return [str(one) for one in await asyncio.gather(ask("bad"), ask("a"), return_exceptions=True)]


@pytest.mark.parametrize(
    ("agent", "order", "said"),
    [
        (grouped, [*"bca", "d"], ["b!", "c!", "a!"]),
        (one_by_one, "cab", ["c!", "a!", "b!"]),
        (raced, "a", "a!"),
        (failing, ["a", "bad"], ["bad", "a!"]),
    ],
)
def test_what_ran_at_the_same_time_comes_back(tmp_path, agent, order, said):
    assert twice(tmp_path, agent, World(order))[1] == said


def test_who_was_cancelled_is_cancelled_again(tmp_path):
    tape, (done, pending) = twice(tmp_path, first_of, World("b"), in_turn=False)
    assert (done, pending) == (["b!"], 2)
    ended = [one.st for one in tape.events if one.kind == "tool_result"]
    assert sorted(ended) == ["cancelled", "cancelled", "ok"]


def test_work_in_pools_and_threads_comes_back_by_cause(tmp_path):
    class Sync(World):
        def __call__(self, name):
            x = current().enter(kind="tool_call", seam="tool", name="ask", given={"name": name})
            if not x.played:
                self.asked.append(name)
                x.done(name + "!")
                return name + "!"
            return x.out

    def agent(ask):
        barrier = threading.Barrier(2, timeout=5)
        seen = []

        def both(name):
            tick()
            barrier.wait()
            return ask(name)

        with ThreadPoolExecutor(2) as pool:
            seen += pool.map(both, ["a", "b"])
        threads = [threading.Thread(target=ask, args=(name,)) for name in "cd"]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        ask("e")
        return seen

    path = tmp_path / "a.tape"
    writer = TapeWriter(path, header_of(Circumstances(tape_id="t", now_ns=0), "full"))
    assert play(session_of(writer), bound(agent, Sync())) == ["a!", "b!"]
    writer.seal()
    tape = read_tape(path)
    assert examine(path).holds
    for _ in range(3):
        player = StrictPlayer(tape, redactor_of("redacted"), Codecs(DEFAULT))
        session, nobody = session_of(player=player), Sync()
        assert play(session, bound(agent, nobody)) == ["a!", "b!"]
        assert (session.drift, nobody.asked) == (None, [])
        assert session.tally.digest() == tape.seal.exact_digest
    results = {one.seq: one.kind for one in tape.events}
    assert [results[one] for one in causes(tape)["e"]] == ["tool_result"] * 2


def test_a_pool_of_a_loop_is_joined_by_who_awaits_it(tmp_path):
    async def agent(ask):
        def work():
            tick()

        await asyncio.gather(asyncio.to_thread(work), asyncio.to_thread(work))
        return await ask("a")

    tape, _ = twice(tmp_path, agent, World("a"))
    assert [tape.events[one].name for one in causes(tape)["a"]] == ["tick", "tick"]


def test_a_replay_does_not_wait_for_time(tmp_path):
    async def agent(ask):
        begun = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(wait, begun.set_result, None)
        await begun
        return await ask("a")

    wait = 0.001
    path = tmp_path / "a.tape"
    writer = TapeWriter(path, header_of(Circumstances(tape_id="t", now_ns=0), "full"))
    play(session_of(writer), bound(agent, World("a")))
    writer.seal()
    wait = 3600
    player = StrictPlayer(read_tape(path), redactor_of("redacted"), Codecs(DEFAULT))
    session = session_of(player=player)
    assert play(session, bound(agent, World())) == "a!"
    assert session.drift is None


def test_a_lost_answer_does_not_hang_the_loop(tmp_path):
    tape, _ = twice(tmp_path, gathering, World([*"cab", "d"]))

    async def less():
        ask = World()
        await asyncio.gather(ask("a"), ask("b"))

    player = StrictPlayer(tape, redactor_of("redacted"), Codecs(DEFAULT))
    session = session_of(player=player)
    play(session, less)
    assert session.drift.kind == "MISSING_CALL"


def test_a_loop_in_a_thread_and_its_timers_come_back_too(tmp_path):
    def agent(ask):
        said = []

        async def inner():
            await asyncio.wait_for(asyncio.sleep(0.001), 60)
            said.append(await ask("a"))
            tick()

        thread = threading.Thread(target=lambda: asyncio.run(inner()))
        thread.start()
        thread.join()
        tick()
        return said

    tape, said = twice(tmp_path, agent, World("a"))
    assert said == ["a!"]
    ticks = [one for one in tape.events if one.name == "tick"]
    assert ticks[1].cause == (ticks[0].seq,)


def test_what_nobody_waits_for_at_the_end_is_on_the_tape_and_asked_for_again(tmp_path):
    left = []

    def agent(ask):
        x = current().enter(kind="llm_call", seam="provider", name="m", given={"of": 1})
        left.append(x)
        if not x.played:
            x.chunk("half")
        tick()

    tape, _ = twice(tmp_path, agent, World())
    assert [(one.kind, one.st, len(one.chunks)) for one in tape.events[-2:-1]] == [
        ("llm_call", "cancelled", 1)
    ]


async def handed_over(ask):
    todo = asyncio.Queue()

    async def maker():
        await todo.put(await ask("a"))

    task = asyncio.create_task(maker())
    await todo.get()
    await ask("b")
    await task


async def shielded(ask):
    await asyncio.shield(asyncio.ensure_future(ask("a")))
    await ask("b")


async def waited_for(ask):
    gathered = asyncio.gather(ask("a"), asyncio.sleep(0))
    await asyncio.wait([gathered])
    await ask("b")


async def asked_for_its_result(ask):
    task = asyncio.ensure_future(ask("a"))
    while not task.done():
        await asyncio.sleep(0)
    task.result()
    await ask("b")


async def in_a_group_of_anyio(ask):
    import anyio

    async with anyio.create_task_group() as group:
        group.start_soon(ask, "a")
    await ask("b")


async def through_a_stream_of_anyio(ask):
    import anyio

    send, receive = anyio.create_memory_object_stream(1)

    async def maker():
        async with send:
            await send.send(await ask("a"))

    async with anyio.create_task_group() as group, receive:
        group.start_soon(maker)
        await receive.receive()
        await ask("b")


@pytest.mark.parametrize(
    "agent",
    [
        handed_over,
        shielded,
        waited_for,
        asked_for_its_result,
        in_a_group_of_anyio,
        through_a_stream_of_anyio,
    ],
)
def test_who_got_something_from_another_comes_after_it(tmp_path, agent):
    tape, _ = twice(tmp_path, agent, World("ab"))
    result = next(one.seq for one in tape.events if one.kind == "tool_result")
    (last,) = causes(tape)["b"]
    assert result in (last, *tape.events[last].cause)


async def too_late(ask, waiting, limit):
    """What is waited for comes after the time was up; replayed, it could come before."""
    task = asyncio.ensure_future(ask("a"))
    try:
        said = await limit(waiting(task), 0.001)
    except TimeoutError:
        said = "late"
        ask.order += "ab"
        ask.release()
    while not task.done():
        await asyncio.sleep(0)
    return said, await ask("b")


async def in_a_queue(task):
    todo = asyncio.Queue()
    task.add_done_callback(lambda _: todo.put_nowait("a!"))
    return await todo.get()


async def set_for_all(task):
    done = asyncio.Event()
    task.add_done_callback(lambda _: done.set())
    await done.wait()
    return "a!"


async def in_a_block(waited, seconds):
    async with asyncio.timeout(seconds):
        return await waited


async def by_itself(waited, seconds):
    return await asyncio.wait_for(waited, seconds)


LIMITS = [by_itself]
if hasattr(asyncio, "timeout"):
    LIMITS.append(in_a_block)


@pytest.mark.requirement("REP-01")
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("waiting", [asyncio.shield, in_a_queue, set_for_all])
def test_a_time_that_was_up_is_up_again(tmp_path, waiting, limit):
    async def agent(ask):
        return await too_late(ask, waiting, limit)

    _, said = twice(tmp_path, agent, World())
    assert said == ("late", "b!")


async def in_time(ask):
    tick()
    return await asyncio.wait_for(ask("a"), 60), await asyncio.wait_for(ask("b"), 60)


async def failing_in_time(ask):
    try:
        await asyncio.wait_for(ask("bad"), 60)
    except LookupError as error:
        return str(error)


async def all_at_once(ask):
    return await asyncio.gather(*(asyncio.wait_for(ask(one), 60) for one in "abc"))


async def one_that_goes_on(ask):
    async def stubborn():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return await ask("a")

    return await asyncio.wait_for(stubborn(), 0.001)


async def stopped_from_outside(ask):
    async def waits():
        await asyncio.wait_for(asyncio.Event().wait(), 60)

    task = asyncio.ensure_future(waits())
    said = await ask("a")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    tick()
    return said


async def endless():
    async with asyncio.timeout(60):
        await asyncio.Event().wait()


async def in_blocks(ask):
    said = [await in_a_block(ask("a"), 60)]
    task = asyncio.ensure_future(endless())
    said.append(await ask("b"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(LookupError):
        await in_a_block(ask("bad"), 60)
    with pytest.raises(TimeoutError):
        await in_a_block(asyncio.Event().wait(), 0.001)
    return said


@pytest.mark.skipif(not hasattr(asyncio, "timeout"), reason="this Python has none")
def test_how_a_block_with_a_limit_ended_is_on_the_tape(tmp_path):
    tape, _ = twice(tmp_path, in_blocks, World(["a", "b", "bad"]))
    found = [one.inl["out"] for one in tape.events if one.name == "asyncio.timeout"]
    assert found == [{"timed_out": False}, {"timed_out": False}, {"timed_out": True}]


@pytest.mark.parametrize(
    ("agent", "order", "ended"),
    [
        (in_time, "ab", [False, False]),
        (failing_in_time, ["bad"], [False]),
        (all_at_once, "cab", [False, False, False]),
        (one_that_goes_on, "a", [True]),
        (stopped_from_outside, "a", []),
    ],
)
def test_how_a_wait_with_a_limit_ended_is_on_the_tape(tmp_path, agent, order, ended):
    tape, _ = twice(tmp_path, agent, World(order))
    found = [one for one in tape.events if one.name == "asyncio.wait_for"]
    assert [one.inl["out"]["timed_out"] for one in found] == ended


def test_a_wait_that_was_stopped_and_now_ends_by_itself_is_a_drift(tmp_path):
    def agent(ask, *, stops):
        async def main():
            done = asyncio.Event()
            task = asyncio.ensure_future(waits(done))
            await ask("a")
            await asyncio.sleep(0)
            task.cancel() if stops else done.set()
            await asyncio.wait([task])

        async def waits(done):
            await asyncio.wait_for(done.wait(), 60)

        return main

    path = tmp_path / "a.tape"
    writer = TapeWriter(path, header_of(Circumstances(tape_id="t", now_ns=0), "full"))
    play(session_of(writer), agent(World("a"), stops=True))
    writer.seal()
    for stops in (True, False):
        player = StrictPlayer(read_tape(path), redactor_of("redacted"), Codecs(DEFAULT))
        session = session_of(player=player)
        try:
            play(session, agent(World(), stops=stops))
        except Drifted:
            pass
        drift = session.drift and (session.drift.kind, session.drift.asked.name)
        assert drift == (None if stops else ("EXTRA_CALL", "asyncio.wait_for"))


def follower(ask, *, joins):
    """The same events in the same order; ``b`` comes after ``a`` was answered, or merely later."""

    async def agent():
        task = asyncio.ensure_future(ask("a"))
        while not task.done():
            await asyncio.sleep(0)
        if joins:
            await task
        await ask("b")

    return agent


@pytest.mark.requirement("REP-02")
@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("anew", [True, False])
def test_events_that_come_after_others_than_recorded_are_a_drift(tmp_path, joins, anew):
    writer = TapeWriter(
        tmp_path / "a.tape", header_of(Circumstances(tape_id="t", now_ns=0), "full")
    )
    play(session_of(writer), follower(World("ab"), joins=joins))
    writer.seal()
    tape = read_tape(tmp_path / "a.tape")
    told = []
    for joined in (joins, not joins):
        player = StrictPlayer(tape, redactor_of("redacted"), Codecs(DEFAULT))
        header = header_of(Circumstances(tape_id="u", now_ns=0), "full")
        new = tmp_path / f"{joined}.tape"
        session = session_of(TapeWriter(new, header) if anew else None, player)
        play(session, follower(World(), joins=joined))
        if anew:
            same = session.writer.seal().exact_digest == tape.seal.exact_digest
            assert same == (session.drift is None)
        told.append(session.drift and (session.drift.kind, session.drift.seq, session.drift.reason))
    said = [f"after seq {2 if after else 0}" for after in (not joins, joins)]
    why = f"it came {said[0]} here, and {said[1]} on the tape (causes)"
    assert told == [None, ("ORDER", 3, why)]


def test_what_a_thread_takes_out_of_a_queue_comes_after_who_put_it_in(tmp_path):
    def agent(ask):
        todo = queue.Queue()

        def worker():
            todo.get()
            tick()

        thread = threading.Thread(target=worker)
        thread.start()
        tick()
        todo.put("x")
        thread.join()
        return "done"

    tape, _ = twice(tmp_path, agent, World())
    first, second = (one for one in tape.events if one.name == "tick")
    assert second.cause == (first.seq,)


def test_what_is_started_when_something_is_collected_shifts_nobodys_lane(tmp_path):
    class Client:
        def __del__(self):
            asyncio.get_running_loop().create_task(asyncio.sleep(0))

    collected = [True, False, True, True]  # by the recording and three replays

    async def agent(ask):
        if collected.pop():
            Client()
        return await asyncio.gather(ask("a"), ask("b"))

    twice(tmp_path, agent, World("ab"))


async def stopped_in_a_wait(ask):
    await asyncio.wait([asyncio.ensure_future(endless())])


async def stopped_in_a_race(ask):
    for one in asyncio.as_completed([endless()]):
        await one


@pytest.mark.parametrize("waiting", [stopped_in_a_wait, stopped_in_a_race])
def test_what_was_stopped_while_it_waited_is_stopped_again_and_holds_nobody_up(tmp_path, waiting):
    async def agent(ask):
        async def stopping():
            task = asyncio.create_task(waiting(ask))
            await asyncio.sleep(0)
            task.cancel()
            return await asyncio.gather(task, return_exceptions=True)

        stopped = await stopping()
        answer = await ask("a")  # which nobody hands over before its turn
        return answer, [type(one).__name__ for one in stopped]

    twice(tmp_path, agent, World("a"))


def test_who_waits_for_what_has_had_its_turn_does_not_wait(tmp_path):
    """As for the body of an answer whose head was waited for, while others are due."""

    def agent(ask):
        return [tick(), tick(), tick()]

    tape, _ = twice(tmp_path, agent, World())
    first, second, third = (one.seq for one in tape.events if one.name == "tick")

    async def reader():
        turns = Turns(one for one in tape.events if one.name == "tick")
        turns.happened(first)
        turns.happened(third)  # before its turn
        waits = [asyncio.ensure_future(turns.arrive(seq)) for seq in (first, second, third)]
        done, _ = await asyncio.wait(waits, timeout=1)
        return len(done)

    assert asyncio.run(reader()) == 3


def test_a_wait_that_is_refused_is_refused_again(tmp_path):
    async def agent(ask):
        try:
            await asyncio.wait([asyncio.ensure_future(endless())], return_when="SOME")
        except ValueError as error:
            return str(error)

    twice(tmp_path, agent, World())


def test_how_many_streams_are_left_open_at_a_loops_end_shifts_nobodys_lane(tmp_path):
    left = [0, 2, 0, 3]  # by the recording and three replays: a library's are open when it is live

    def agent(ask):
        async def main():
            async def pieces():
                yield 1
                yield 2

            streams = [pieces() for _ in range(left.pop())]
            for one in streams:
                await anext(one)
            return streams

        kept = asyncio.run(main())
        thread = threading.Thread(target=tick)
        thread.start()
        thread.join()
        return len(kept) * 0

    twice(tmp_path, agent, World())


def test_who_of_a_pool_was_first_is_first_again(tmp_path):
    gates = {}

    def agent(ask):
        order = list("cab")

        def work(name):
            tick()
            if not ask.replaying:
                assert gates[name].wait(10)
            return name

        def let(name):
            if not ask.replaying:
                gates[name].set()

        gates.update({name: threading.Event() for name in "abc"})
        said = []
        with futures.ThreadPoolExecutor(3) as pool:
            todo = [pool.submit(work, name) for name in "abc"]
            let(order.pop(0))
            for one in futures.as_completed(todo):
                said.append(one.result())
                if order:
                    let(order.pop(0))
            more = [pool.submit(work, name) for name in "abc"]
            done, rest = futures.wait(more, return_when=futures.FIRST_COMPLETED)
            said.append((sorted(one.result() for one in done), len(rest) + len(done)))
        return said

    class Pool(World):
        def __init__(self, replaying=True):
            super().__init__()
            self.replaying = replaying

    path = tmp_path / "a.tape"
    writer = TapeWriter(path, header_of(Circumstances(tape_id="t", now_ns=0), "full"))
    said = play(session_of(writer), bound(agent, Pool(False)))
    writer.seal()
    assert said[:3] == ["c", "a", "b"]
    tape = read_tape(path)
    for _ in range(3):
        player = StrictPlayer(tape, redactor_of("redacted"), Codecs(DEFAULT))
        session = session_of(player=player)
        assert play(session, bound(agent, Pool())) == said
        assert session.drift is None
        assert session.tally.digest() == tape.seal.exact_digest
