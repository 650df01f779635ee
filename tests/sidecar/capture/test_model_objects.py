"""Objects that ask a model in their own way, wrapped: recorded, and asked nothing in a replay."""

import asyncio
import dataclasses
from types import SimpleNamespace

import pytest
from capture_rig import recorded, replayed

from sidecar.sdk.driver import model


@dataclasses.dataclass
class Said:
    text: str
    usage: dict


class Answer:
    def __init__(self, text, parts):
        self.text, self.parts = text, parts


class Client:
    """Asks nobody; counts how often it was asked."""

    model = "own-1"

    def __init__(self):
        self.asked = 0
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def generate(self, prompt, *, temperature=0.0):
        self.asked += 1
        if prompt == "bad":
            raise ValueError("no such prompt")
        return Said(prompt.upper(), {"input_tokens": 3, "output_tokens": 2})

    def _create(self, **request):
        self.asked += 1
        return Answer("hi", [SimpleNamespace(n=1.0), SimpleNamespace(n=2)])

    def stream(self, prompt):
        self.asked += 1
        yield from prompt
        if prompt == "bad":
            raise ValueError("broke off")

    async def ainvoke(self, prompt):
        await asyncio.sleep(0)
        return self.generate(prompt)

    async def astream(self, prompt):
        self.asked += 1
        for letter in prompt:
            yield {"letter": letter}

    def count(self):
        return self.asked


def twice(tmp_path, agent):
    """What an agent got from a client, and again from the tape; the tape."""
    client, got = Client(), []
    wrapped = model(client)
    if asyncio.iscoroutinefunction(agent):

        async def run():
            got.append(await agent(wrapped))

    else:

        def run():
            got.append(agent(wrapped))

    tape = recorded(tmp_path / "agent.tape", run)
    asked = client.asked
    session = replayed(tape, run)
    assert session.drift is None, session.drift
    assert client.asked == asked
    assert session.tally.digest() == tape.seal.exact_digest
    return tape, *got


def calls(tape):
    return [event for event in tape.events if event.kind == "llm_call"]


def failing(call):
    try:
        return call()
    except ValueError as error:
        return str(error)


@pytest.mark.requirement("TAP-02")
def test_a_wrapped_object_is_recorded_by_name_of_its_arguments_and_answers_with_its_classes(
    tmp_path,
):
    def agent(llm):
        answer = llm.chat.completions.create(model="m", messages=[{"content": "hello"}])
        numbers = [(type(part.n), part.n) for part in answer.parts]
        return llm.generate("hello"), failing(lambda: llm.generate("bad")), answer.text, numbers

    tape, first, again = twice(tmp_path, agent)
    assert again == first
    assert first[0] == Said("HELLO", {"input_tokens": 3, "output_tokens": 2})
    assert first[3] == [(float, 1.0), (int, 2)]
    asked, whole, bad = calls(tape)
    assert (asked.name, whole.name, bad.st) == ("m", "own-1", "error")
    assert tape.payload(asked, "in") == {"model": "m", "messages": [{"content": "hello"}]}
    assert tape.payload(whole, "in") == {"prompt": "hello"}
    assert whole.use == {"input": 3, "output": 2}


def test_streams_of_a_wrapped_object_come_piece_by_piece(tmp_path):
    def agent(llm):
        got = []

        def all_of_it():
            for piece in llm.stream("bad"):
                got.append(piece)

        return list(llm.stream("abc")), failing(all_of_it), got, next(llm.stream("xy"))

    tape, first, again = twice(tmp_path, agent)
    assert first == again == (["a", "b", "c"], "broke off", ["b", "a", "d"], "x")
    assert [len(event.chunks) for event in calls(tape)] == [3, 3, 1]
    assert [event.st for event in calls(tape)] == ["ok", "error", "cancelled"]


def test_asynchronous_methods_of_a_wrapped_object(tmp_path):
    async def agent(llm):
        pieces = [piece async for piece in llm.astream("ab")]
        answers = await asyncio.gather(llm.ainvoke("one"), llm.ainvoke("two"))
        try:
            await llm.ainvoke("bad")
        except ValueError as error:
            return pieces, [one.text for one in answers], str(error)

    _, first, again = twice(tmp_path, agent)
    assert first == again == ([{"letter": "a"}, {"letter": "b"}], ["ONE", "TWO"], "no such prompt")


def ask(llm, prompt, temperature):
    return llm.generate(prompt, temperature=temperature)


@pytest.mark.parametrize(
    ("kind", "prompt", "temperature"),
    [(None, "hello", 0.5), ("PROMPT", "hellp", 0.5), ("PARAMS", "hello", 0.6)],
)
def test_what_is_asked_otherwise_is_a_drift_and_the_object_is_not_asked(
    tmp_path, kind, prompt, temperature
):
    client = Client()
    llm = model(client)
    tape = recorded(tmp_path / "agent.tape", lambda: ask(llm, "hello", 0.5))
    session = replayed(tape, lambda: ask(llm, prompt, temperature))
    assert (session.drift and session.drift.kind) == kind
    assert client.asked == 1


def test_what_is_no_call_is_the_objects_own(tmp_path):
    client = Client()
    llm = model(client, methods=["generate"], name="mine")
    assert (llm.model, llm.count()) == ("own-1", 0)
    llm.limit = 3
    assert client.limit == 3
    assert [*llm.stream("ab")] == ["a", "b"]
    tape = recorded(tmp_path / "agent.tape", lambda: (llm.generate("x"), [*llm.stream("y")]))
    assert [event.name for event in calls(tape)] == ["mine"]
