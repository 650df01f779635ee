"""What speaks against being ready, from each kind of check."""

import asyncio

from sidecar.control import driver
from sidecar.control.driver import CursorWatch, Readiness, answers, holds
from sidecar.errors import StoreUnavailable


def test_each_part_is_asked_and_says_what_is_wrong_with_it():
    async def gone():
        raise StoreUnavailable("the store was deleted", where="/secret/place")

    async def broken():
        raise KeyError("content")

    checks = {
        "good": holds(lambda: True, "never"),
        "bad": holds(lambda: False, "it is not there"),
        "gone": answers(gone),
        "broken": answers(broken),
    }
    found = asyncio.run(Readiness(checks).reasons())
    assert found[:2] == ["bad: it is not there", "gone: the store was deleted"]
    assert found[2].startswith("broken: KeyError in ") and "content" not in found[2]
    assert len(found) == 3


def test_a_part_that_does_not_answer_is_a_reason(monkeypatch):
    monkeypatch.setattr(driver, "CHECK_SECONDS", 0.05)

    async def hang():
        await asyncio.Event().wait()

    assert asyncio.run(Readiness({"it": answers(hang)}).reasons()) == ["it: no answer within 0 s"]


def test_many_who_ask_at_once_cost_one_question():
    asked = []

    async def question():
        asked.append(1)

    async def scenario():
        readiness = Readiness({"it": answers(question)})
        await asyncio.gather(*(readiness.reasons() for _ in range(50)))

    asyncio.run(scenario())
    assert len(asked) == 1


def test_a_cursor_that_stands_still_while_something_waits_is_stuck_and_then_is_not():
    now, waiting, place = [1000.0], [5], [7]
    watch = CursorWatch(lambda: waiting[0], lambda: place[0], lambda: now[0])

    def after(seconds):
        now[0] += seconds
        return asyncio.run(watch.check())

    assert after(0) is None
    assert [after(20), after(20), after(20)] == [None, None, "stands still for 60 s"]
    place[0] = 8
    assert after(20) is None
    waiting[0] = 0
    assert [after(20) for _ in range(5)] == [None] * 5
    waiting[0] = 1
    assert after(500) is None, "nobody looked meanwhile, so nobody knows since when it waits"
