"""An agent that records itself: no option is misread, and a streamed answer is its output."""

import asyncio
import functools
from pathlib import Path

import pytest

from sidecar.capture.seams.session import active
from sidecar.sdk.driver import record, recorded, tool
from sidecar.tape.files import read_tape
from sidecar.testing import tapes

pytestmark = [pytest.mark.requirement("SDK-01"), pytest.mark.requirement("TAP-02")]


@tool
def look(item):
    return {"item": item}


class Refund:
    """A tool that is an object."""

    async def __call__(self, amount):
        return amount


def told(folder):
    """What the one tape there holds: tools' names, and the output."""
    (path,) = folder.glob("*.tape")
    tape = read_tape(path)
    assert tape.seal is not None
    return [one.name for one in tape.events if one.kind == "tool_call"], tape.events[-1].inl["out"]


def test_a_generator_is_recorded_while_it_is_read_and_its_pieces_are_the_output(tmp_path):
    @recorded(tmp_path / "{id}.tape", capture="redacted")
    def agent(item):
        yield item
        yield look(item)["item"]

    stream = agent("tea")
    assert list(tmp_path.iterdir()) == [] and list(stream) == ["tea", "tea"]
    assert active() is None
    calls, end = told(tmp_path)
    assert calls == ["look"] and end["output"] == ["tea", "tea"]


def test_a_generator_that_is_left_early_leaves_a_sealed_tape_of_what_it_gave(tmp_path):
    closed = []

    @recorded(tmp_path / "{id}.tape", capture="redacted")
    async def agent(item):
        try:
            yield look(item)["item"]
            yield "more"
        finally:
            closed.append(active() is not None)

    async def reader():
        stream = agent("tea")
        assert await anext(stream) == "tea"
        await stream.aclose()

    asyncio.run(reader())
    assert closed == [True] and active() is None
    calls, end = told(tmp_path)
    assert calls == ["look"] and end["output"] == ["tea"]


def test_anything_that_can_be_called_is_a_tool_under_its_own_name(tmp_path):
    with record(tmp_path / "a.tape", capture="redacted") as recording:
        double = tool(functools.partial(look, item="milk"))()
        recording.output([double, asyncio.run(tool(Refund())(20))])
    calls, end = told(tmp_path)
    assert calls == ["look", "Refund"]
    assert end["output"] == [{"item": "milk"}, 20]


def test_a_sleep_that_was_stopped_at_once_holds_nobody_up_until_a_librarys_limit(tmp_path):
    rang = []

    @tool
    async def ask(item):
        await asyncio.sleep(0)
        return item

    async def agent():
        asyncio.get_running_loop().call_later(300, rang.append, "time is up")
        sleeping = asyncio.create_task(asyncio.sleep(9))
        await asyncio.sleep(0)
        sleeping.cancel()
        return await asyncio.gather(ask("tea"), ask("milk"))

    with tapes.record(tmp_path / "a.tape", roots=[Path(__file__).parent]) as run:
        run.output(asyncio.run(agent()))
    with tapes.replay(tmp_path / "a.tape", roots=[Path(__file__).parent]) as run:
        run.output(asyncio.run(agent()))
    assert rang == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"capture": "redact"}, "capture is one of off, redacted, full, not 'redact'"),
        ({"packaging": "zip"}, "packaging is one of packed, store"),
        ({"roots": ["/nowhere/at/all"]}, "is no folder"),
        ({"labels": {"build": 7}}, "labels are texts"),
        ({"agent": ""}, "agent is a name"),
        ({"lasts_ns": -1}, "lasts_ns"),
    ],
)
def test_an_option_that_is_none_is_refused_before_anything_is_made(tmp_path, options, said):
    with pytest.raises(ValueError, match=said), record(tmp_path / "a.tape", **options):
        pytest.fail("it is recorded")
    assert list(tmp_path.iterdir()) == [] and active() is None
