"""The agent's clock is recorded and played; everybody else's goes on."""
# ruff: noqa: DTZ003, DTZ005, DTZ002, DTZ011 - what agents write

import asyncio
import copy
import dataclasses
import datetime as dt
import pickle
import sys
import threading
import time
import time as t
import types
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from time import time as seconds
from zoneinfo import ZoneInfo

import pydantic
import pytest
from ambient_rig import asked, both, library, with_seams
from capture_rig import recorded, replayed

from sidecar.capture.seams.callers import KNOWN

pytestmark = pytest.mark.requirement("TAP-02")
CLOCK = ("clock", "clock_asyncio")
REAL = time.time, time.sleep, asyncio.sleep, vars(datetime)["now"], vars(date)["today"]


class Stamp(datetime):
    pass


@dataclasses.dataclass
class Note:
    at: float = dataclasses.field(default_factory=lambda: time.time())
    by: float = dataclasses.field(default_factory=t.time)


def stamped(at=t.time, *, by=t.time_ns):
    return at(), by()


class Meter:
    clock = time.perf_counter

    def read(self):
        return self.clock()


READS = {
    "time.time": lambda: t.time(),
    "time.time_ns": lambda: t.time_ns(),
    "time.monotonic": lambda: t.monotonic(),
    "time.monotonic_ns": lambda: t.monotonic_ns(),
    "time.perf_counter": lambda: t.perf_counter(),
    "time.perf_counter_ns": lambda: t.perf_counter_ns(),
    "time.process_time": lambda: t.process_time(),
    "time.process_time_ns": lambda: t.process_time_ns(),
    "time.thread_time": lambda: t.thread_time(),
    "time.thread_time_ns": lambda: t.thread_time_ns(),
    "time.clock_gettime": lambda: t.clock_gettime(t.CLOCK_REALTIME),
    "time.clock_gettime_ns": lambda: t.clock_gettime_ns(t.CLOCK_REALTIME),
    "time.localtime": lambda: t.localtime(),
    "time.gmtime": lambda: t.gmtime(None),
    "time.ctime": lambda: t.ctime(),
    "time.asctime": lambda: t.asctime(),
    "time.strftime": lambda: t.strftime("%Y-%m-%d %H:%M:%S"),
    "datetime.now": lambda: datetime.now(),
    "datetime.today": lambda: dt.datetime.today(),
    "date.today": lambda: date.today(),
}
MOMENTS = {
    "utc": lambda: datetime.now(UTC),
    "a zone": lambda: datetime.now(tz=ZoneInfo("Europe/Berlin")),
    "an offset": lambda: datetime.now(timezone(timedelta(hours=2), "here")),
    "a subclass": lambda: Stamp.now(UTC),
    "a subclass's day": lambda: Stamp.today(),
}


def wait(read):
    """A clock's next value, after it has moved on: what is played is not what it says now."""
    value = read()
    until = REAL[0]() + 1e-3
    while REAL[0]() < until:
        pass
    return value


@pytest.mark.parametrize("name", READS)
def test_every_clock_comes_back_as_it_was_and_in_its_type(tmp_path, name):
    if name.startswith("time.clock_gettime") and not hasattr(t, "clock_gettime"):
        pytest.skip("Windows has none")
    was, now, tape = both(tmp_path / "a.tape", CLOCK, READS[name])
    assert (now, type(now)) == (was, type(was))
    assert asked(tape) == [("clock", name)]


@pytest.mark.parametrize("name", MOMENTS)
def test_a_moment_keeps_its_zone_and_class(tmp_path, name):
    was, now, _ = both(tmp_path / "a.tape", CLOCK, MOMENTS[name])
    assert (now, type(now), now.tzinfo) == (was, type(was), was.tzinfo)
    assert repr(now) == repr(was)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_utcnow_comes_back(tmp_path):
    was, now, tape = both(tmp_path / "a.tape", CLOCK, lambda: datetime.utcnow())
    assert now == was
    assert asked(tape) == [("clock", "datetime.utcnow")]


def test_what_was_bound_before_and_in_a_class_is_the_agents_clock_too(tmp_path):
    def agent():
        return [seconds(), Note(), Meter().read(), stamped(), stamped(by=t.time)]

    was, now, tape = both(tmp_path / "a.tape", CLOCK, agent)
    assert now == was
    names = [name for _, name in asked(tape)]
    assert names == [
        *["time.time"] * 3,
        "time.perf_counter",
        *["time.time", "time.time_ns", "time.time", "time.time"],
    ]
    assert stamped.__defaults__ == (REAL[0],)


def test_a_default_that_a_model_is_made_with_is_its_makers(tmp_path):
    theirs = library(tmp_path, "def make(kind):\n    return kind()\n")

    def agent():
        class Ticket(pydantic.BaseModel):
            at: float = pydantic.Field(default_factory=t.time)

        return Ticket().at, theirs.make(Ticket).at

    (was, first), (now, second), tape = both(tmp_path / "a.tape", ("clock",), agent)
    assert (now, asked(tape)) == (was, [("clock", "time.time")])
    assert first < second


def test_modules_and_objects_that_answer_oddly_are_left_in_peace(tmp_path, monkeypatch):
    class Lazy(types.ModuleType):
        def __getattr__(self, name):
            raise RuntimeError(f"{name} would be imported")

    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError("there is nothing behind it")

        def __call__(self):
            raise RuntimeError("called")

    monkeypatch.setitem(sys.modules, "lazy_module", Lazy("lazy_module"))
    monkeypatch.setitem(sys.modules, "no_module", Proxy())
    monkeypatch.setitem(sys.modules, "missing_module", None)
    monkeypatch.setattr(sys.modules[__name__], "PROXY", Proxy(), raising=False)
    was, now, _ = both(tmp_path / "a.tape", CLOCK, lambda: seconds())
    assert was == now


def test_a_given_moment_is_nobodys_to_record(tmp_path):
    def agent():
        return [t.localtime(0), t.gmtime(5), t.ctime(1.5), t.strftime("%Y", t.gmtime(0))]

    was, now, tape = both(tmp_path / "a.tape", CLOCK, agent)
    assert (now, asked(tape)) == (was, [])


def test_a_sleep_is_not_slept_again(tmp_path):
    def agent():
        began = REAL[0]()
        t.sleep(0.05)
        return REAL[0]() - began

    was, now, tape = both(tmp_path / "a.tape", CLOCK, agent)
    assert was >= 0.05 > now
    assert tape.events[1].inl["in"] == [0.05]


def test_another_sleep_is_a_drift(tmp_path):
    pause = [0.0]
    agent = with_seams(CLOCK, lambda: t.sleep(pause[0]))
    tape = recorded(tmp_path / "a.tape", agent)
    pause[0] = 0.001
    assert replayed(tape, agent).drift.seq == 1


def test_a_refused_sleep_is_refused_again(tmp_path):
    def agent():
        try:
            t.sleep(-1)
        except ValueError as error:
            return error.args

    was, now, tape = both(tmp_path / "a.tape", CLOCK, agent)
    assert now == was
    assert tape.events[1].err.type == "ValueError"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, InterruptedError])
def test_a_sleep_that_was_broken_off_is_broken_off_again(tmp_path, monkeypatch, kind):
    def broken_off(_):
        raise kind

    def agent():
        try:
            t.sleep(0)
        except BaseException as error:
            return type(error)

    monkeypatch.setattr(time, "sleep", broken_off)
    run = with_seams(CLOCK, lambda: got.append(agent()))
    got = []
    tape = recorded(tmp_path / "a.tape", run)
    monkeypatch.undo()
    assert replayed(tape, run).drift is None
    assert got == [kind, kind]


@pytest.mark.row("R28")
def test_sleeping_tasks_come_back_and_the_loop_keeps_its_clock(tmp_path):
    async def nap(pause):
        await asyncio.sleep(pause)
        return await asyncio.sleep(0, result=pause)

    def agent():
        async def main():
            began = REAL[0]()
            said = asyncio.get_running_loop().time()
            got = await asyncio.gather(nap(0.05), nap(0.04))
            async with asyncio.timeout(5):
                await asyncio.to_thread(len, "x")
            return got, said, REAL[0]() - began

        return asyncio.run(main())

    assert asyncio.iscoroutinefunction(asyncio.sleep)
    (was, at, slept), (now, again, played), _ = both(
        tmp_path / "a.tape", ("tasks", "threads", *CLOCK), agent
    )
    assert (now, again) == (was, at)
    assert slept >= 0.05 > played


def test_a_loop_and_a_pool_run_on_while_the_agents_clock_is_played(tmp_path):
    theirs = library(
        tmp_path,
        "import time, asyncio\n"
        "def tick():\n    return time.time()\n"
        "async def rest():\n    await asyncio.sleep(0.001)\n    return time.monotonic()\n",
    )

    def agent():
        async def main():
            loop = asyncio.get_running_loop()
            before = await theirs.rest()
            with ThreadPoolExecutor(2) as pool:
                ticks = await asyncio.gather(
                    *(loop.run_in_executor(pool, theirs.tick) for _ in range(8))
                )
            called = asyncio.Event()
            loop.call_later(0.001, called.set)
            await asyncio.wait_for(called.wait(), 5)
            return t.time(), await theirs.rest() - before, ticks

        return asyncio.run(main())

    (was, _, first), (now, passed, second), tape = both(tmp_path / "a.tape", CLOCK, agent)
    assert was == now
    assert passed >= 0.002
    assert max(first) < min(second)  # theirs is the wall's, in both
    assert asked(tape) == [("clock", "time.time")]


def test_what_the_agent_gives_a_pool_is_its_own_and_what_a_library_gives_is_not(tmp_path):
    theirs = library(
        tmp_path,
        "import asyncio, time\n"
        "async def rest(pool):\n"
        "    loop = asyncio.get_running_loop()\n"
        "    mine = await asyncio.to_thread(time.time)\n"
        "    return [mine, await loop.run_in_executor(pool, time.time)]\n",
    )

    def agent():
        async def main(pool):
            loop = asyncio.get_running_loop()
            mine = [
                *(await asyncio.to_thread(t.time), await loop.run_in_executor(pool, t.time_ns)),
                await asyncio.wrap_future(pool.submit(datetime.now, UTC)),
            ]
            return mine, await theirs.rest(pool)

        with ThreadPoolExecutor(1) as pool:
            return asyncio.run(main(pool))

    (was, first), (now, second), tape = both(
        tmp_path / "a.tape", ("tasks", "threads", *CLOCK), agent
    )
    assert was == now
    assert max(first) < min(second)
    assert [name for _, name in asked(tape)] == ["time.time", "time.time_ns", "datetime.now"]


def test_threads_of_the_agent_each_read_their_own_clock(tmp_path):
    def agent():
        found = {}

        def work(number):
            found[number] = [wait(t.time), wait(t.time)]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for one in threads:
            one.start()
            one.join()
        return found

    was, now, _ = both(tmp_path / "a.tape", CLOCK, agent)
    assert now == was


def test_after_the_session_everything_is_what_it_was(tmp_path):
    kept = []

    def agent():
        from time import time as bound

        kept.append(bound)
        kept.append(Note.__init__)
        return datetime.now()

    both(tmp_path / "a.tape", CLOCK, agent)
    now = time.time, time.sleep, asyncio.sleep, vars(datetime)["now"], vars(date)["today"]
    assert all(one is two for one, two in zip(now, REAL, strict=True))
    assert seconds is REAL[0]
    assert Meter.clock is time.perf_counter
    assert KNOWN == {}
    assert abs(kept[0]() - time.time()) < 5  # what was bound in between calls straight through
    was, again, tape = both(tmp_path / "b.tape", CLOCK, lambda: wait(kept[0]))
    assert was == again  # and serves the next session
    assert asked(tape) == [("clock", "time.time")]


def test_in_a_session_a_function_is_pickled_and_copied_and_a_class_is_the_one_there_is(tmp_path):
    def agent():
        moment = datetime.now()
        return [
            pickle.loads(pickle.dumps(t.time)) is not None,
            copy.deepcopy(t.time) == t.time,
            pickle.loads(pickle.dumps(t.time)) == t.time,
            pickle.loads(pickle.dumps(moment)) == moment,
            type(moment) is datetime is dt.datetime,
            isinstance(Stamp.now(), datetime),
            t.time.__name__ == "time",
        ]

    was, now, _ = both(tmp_path / "a.tape", CLOCK, agent)
    assert was == now == [True] * 7
