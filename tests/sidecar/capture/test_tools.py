"""Tools of the agent's own: called when recorded, answered from the tape when replayed."""

import asyncio

import pytest
from capture_rig import recorded, replayed

from sidecar.capture.seams import people
from sidecar.capture.seams.ambient import raised
from sidecar.capture.seams.session import active
from sidecar.evaluate.assertions.conclude import asserted
from sidecar.evaluate.assertions.factories import requires_before
from sidecar.evaluate.assertions.parse import Named
from sidecar.sdk.driver import acting, approval, tool

pytestmark = pytest.mark.requirement("TAP-02")


class NoStock(Exception):
    pass


class Shop:
    def __init__(self):
        self.calls = []
        self.look = tool(self._look)
        self.buy = tool(self._buy, name="buy")
        self.pages = tool(self._pages)
        self.feed = tool(self._feed)

    def _look(self, item, *, limit=1):
        self.calls.append(item)
        if item == "none":
            raise NoStock(item)
        return {"item": item, "price": 25.0, "sizes": (1, 2)}

    async def _buy(self, item, **more):
        self.calls.append(item)
        return [item, more]

    def _pages(self, count):
        self.calls.append(count)
        for page in range(count):
            yield {"page": page, "of": float(count)}
        return "end"

    async def _feed(self, count):
        self.calls.append(count)
        for page in range(count):
            yield (page,)


def both(tmp_path, agent, tape="a.tape"):
    """Record and replay; what each said, the tape, and the replay's session."""
    said = []

    def bound(shop):
        if asyncio.iscoroutinefunction(agent):

            async def run():
                said.append(await agent(shop))
        else:

            def run():
                said.append(agent(shop))

        return run

    first, second = Shop(), Shop()
    found = recorded(tmp_path / tape, bound(first))
    session = replayed(found, bound(second))
    assert session.drift is None
    assert said[0] == said[1]
    assert repr(said[0]) == repr(said[1])
    assert first.calls and not second.calls
    assert session.tally.digest() == found.seal.exact_digest
    return found


def test_a_tool_is_recorded_by_its_arguments_and_answers_from_the_tape(tmp_path):
    tape = both(tmp_path, lambda shop: shop.look("tea"))
    call, result = tape.events[1:3]
    assert (call.name, call.inl["in"]) == ("_look", {"item": "tea"})
    assert result.inl["out"] == {"item": "tea", "price": 25, "sizes": [1, 2]}
    assert result.cause == (call.seq,)


def test_what_a_tool_raises_is_raised_again(tmp_path):
    def agent(shop):
        try:
            shop.look("none", limit=2)
        except NoStock as error:
            return type(error), error.args

    both(tmp_path, agent)


def test_a_fault_that_is_declared_has_its_text():
    error = raised(("ValueError", "no such order"), None)
    assert (type(error), str(error)) == (ValueError, "no such order")
    assert raised(("ValueError", None), None).args == ()


def test_an_asynchronous_tool_answers_too(tmp_path):
    async def agent(shop):
        return await asyncio.gather(shop.buy("tea", cups=2), shop.buy("milk"))

    tape = both(tmp_path, agent)
    calls = [one for one in tape.events if one.kind == "tool_call"]
    assert [one.inl["in"] for one in calls] == [{"item": "tea", "cups": 2}, {"item": "milk"}]


def test_a_stream_is_passed_on_piece_by_piece(tmp_path):
    seen = []

    def agent(shop):
        for page in shop.pages(3):
            seen.append((page, len(shop.calls)))
        return [page for page, _ in seen]

    tape = recorded(tmp_path / "a.tape", lambda: agent(Shop()))
    assert len(tape.events[2].chunks) == 3
    both(tmp_path, lambda shop: list(shop.pages(3)), "b.tape")


def test_an_asynchronous_stream_is_passed_on(tmp_path):
    async def agent(shop):
        return [page async for page in shop.feed(3)]

    both(tmp_path, agent)


def test_a_stream_left_early_is_left_early_again(tmp_path):
    def agent(shop):
        pages = shop.pages(3)
        first = next(pages)
        pages.close()
        return first

    tape = both(tmp_path, agent)
    assert [(one.st, len(one.chunks)) for one in tape.events[2:3]] == [("cancelled", 1)]


def haggling(calls):
    """Tools that listen to who takes their pieces."""

    @tool
    def offers(price):
        calls.append(price)
        while price > 0:
            try:
                price = (yield {"price": price}) or price - 10
            except NoStock as gone:
                price = 5
                yield {"gone": str(gone)}
        return "free"

    @tool
    async def feed(price):
        calls.append(price)
        try:
            heard = yield price
            yield heard
        except NoStock as gone:
            yield {"gone": str(gone)}

    return offers, feed


def test_what_is_sent_or_thrown_into_a_stream_reaches_the_tool_and_is_played_alike(tmp_path):
    async def agent(offers, feed):
        talk = offers(30)
        said = [next(talk), talk.send(12), talk.throw(NoStock("tea")), next(talk)]
        said += list(talk)
        one, other, third = feed(1), feed(2), feed(3)
        said += [await anext(one), await one.asend("well?")]
        said += [await anext(other), await other.athrow(NoStock("milk"))]
        await anext(third)
        try:
            await third.athrow(KeyError("not the tool's"))
        except KeyError as error:
            said.append(repr(error))
        await one.aclose()
        await other.aclose()
        return said

    bare, recorded_calls, played_calls, said = [], [], [], []
    plain = asyncio.run(agent(*haggling(bare)))
    assert plain[:3] == [{"price": 30}, {"price": 12}, {"gone": "tea"}] and bare == [30, 1, 2, 3]

    def bound(calls):
        async def run():
            said.append(await agent(*haggling(calls)))

        return run

    tape = recorded(tmp_path / "a.tape", bound(recorded_calls))
    session = replayed(tape, bound(played_calls))
    assert session.drift is None and said == [plain, plain]
    assert recorded_calls == bare and played_calls == []


def test_an_asynchronous_stream_that_is_forgotten_ends_with_its_loop(tmp_path):
    async def agent(shop):
        return await anext(shop.feed(3))  # the loop closes the rest, and its task is cancelled

    both(tmp_path, agent)


@pytest.mark.requirement("REP-02")
def test_another_argument_is_a_drift_of_arguments(tmp_path):
    tape = recorded(tmp_path / "a.tape", lambda: Shop().look("tea"))
    drift = replayed(tape, lambda: Shop().look("tee")).drift
    assert (drift.kind, drift.seq) == ("ARGS", 1)


def test_outside_of_a_session_a_tool_is_the_function_it_was():
    shop = Shop()
    assert active() is None
    assert shop.look("tea")["price"] == 25.0
    assert list(shop.pages(1)) == [{"page": 0, "of": 1.0}]
    assert asyncio.run(shop.buy("tea")) == ["tea", {}]


def test_what_people_say_is_recorded_and_nobody_is_asked_again(tmp_path, monkeypatch):
    asked = []

    def ask(prompt=""):
        asked.append(prompt)
        return "yes"

    monkeypatch.setattr("builtins.input", ask)

    def agent():
        people.install(active())
        said = input("Refund? ")
        decided = approval({"refund": 12}, lambda: {"approver": said, "decision": "approve"})
        return said, decided

    said = []
    tape = recorded(tmp_path / "a.tape", lambda: said.append(agent()))
    assert replayed(tape, lambda: said.append(agent())).drift is None
    assert said[0] == said[1]
    assert asked == ["Refund? "]
    assert [(one.kind, one.name) for one in tape.events[1:3]] == [
        ("human_input", "input"),
        ("human_input", "approval"),
    ]
    assert said[0][1]["action_hash"].startswith("sha256:")


@pytest.mark.requirement("ASR-01")
@pytest.mark.parametrize(("decision", "status"), [("approve", "pass"), ("deny", "fail")])
def test_an_approval_of_a_tool_is_the_one_that_is_asked_for_before_its_call(
    tmp_path, decision, status
):
    def agent(shop):
        approval({"buy": 1}, lambda: {"approver": "p", "decision": decision}, tool="buy")
        asyncio.run(shop.buy("a"))

    tape = recorded(tmp_path / "a.tape", lambda: agent(Shop()))
    needs = Named(id="a", assertion=requires_before("buy", approval=True))
    (found,) = asserted([needs], tape, 0)
    assert found.finding.status == status, found.finding


def test_a_decision_that_is_no_dict_is_said():
    with pytest.raises(TypeError, match="decide returns a dict"):
        approval({"buy": 1}, lambda: True)


def test_several_agents_of_one_program_are_told_apart(tmp_path):
    def agent(shop):
        with acting("planner"):
            shop.look("tea")
        return shop.look("milk")

    tape = both(tmp_path, agent)
    assert [one.agent for one in tape.events[1:-1]] == ["planner"] * 2 + ["agent"] * 2
