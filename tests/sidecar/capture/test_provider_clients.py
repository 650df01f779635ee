"""The real openai and anthropic clients: recorded against a scripted server, replayed without."""

import openai
import pytest
from model_rig import (
    chat,
    chat_stream,
    embeddings,
    message,
    message_stream,
    overloaded,
    response,
    response_stream,
)
from pydantic import BaseModel
from wires_rig import events, twice

from sidecar.tape.tape import MISSING

KEY = "sk-test-abcdefghijklmnop1234"
HI = [{"role": "user", "content": "hello"}]


def client(server, **more):
    return openai.OpenAI(base_url=server.openai, api_key=KEY, **more)


def claude(server, **more):
    import anthropic  # a second to import, which only the full tier has

    return anthropic.Anthropic(base_url=server.anthropic, api_key=KEY, **more)


def ask(server):
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    first = client(server).chat.completions.create(model="m", messages=HI, tools=tools)
    call = first.choices[0].message.tool_calls[0]
    more = [*HI, first.choices[0].message.model_dump(exclude_none=True)]
    more.append({"role": "tool", "tool_call_id": call.id, "content": "rain"})
    second = client(server).chat.completions.create(model="m", messages=more, tools=tools)
    return first.model_dump(), second.model_dump()


@pytest.mark.requirement("TAP-02")
def test_chat_completions_with_tool_calls_are_one_event_each_and_come_back_equal(tmp_path):
    run = twice(tmp_path, ask, chat(calls=[("look", {"city": "Oslo"})]), chat("It rains."))
    first, second = events(run.tape, "llm_call")
    assert (first.seam, first.name, first.st) == ("provider", "m", "ok")
    assert first.use == {"input": 9, "output": 4}
    assert second.cause == (first.seq,)  # what it asks it asks for that answer
    asked = run.tape.payload(first, "in")
    assert asked["messages"] == HI
    assert asked["tools"][0]["function"]["name"] == "look"
    given = run.tape.payload(second, "out")
    assert given["choices"][0]["message"]["content"] == "It rains."
    assert run.same()[1]["choices"][0]["message"]["content"] == "It rains."


def test_no_key_and_no_header_of_a_credential_is_on_the_tape_even_in_full(tmp_path):
    run = twice(tmp_path, ask, chat(calls=[("look", {})]), chat("x"))
    text = run.path.read_bytes()
    assert KEY.encode() not in text
    assert b"authorization" not in text.lower()


def stream(server):
    return [
        chunk.model_dump()
        for chunk in client(server).chat.completions.create(model="m", messages=HI, stream=True)
    ]


@pytest.mark.row("R6")
def test_a_stream_is_kept_piece_by_piece_and_as_the_answer_it_makes(tmp_path):
    run = twice(tmp_path, stream, chat_stream("It ", "rains.", calls=[("look", {"a": [1, 2]})]))
    (event,) = events(run.tape, "llm_call")
    assert len(event.chunks) == 9  # role, two texts, call and its two halves, finish, usage, [DONE]
    out = run.tape.payload(event, "out")
    assert out["object"] == "chat.completion"
    said = out["choices"][0]["message"]
    assert (said["role"], said["content"]) == ("assistant", "It rains.")
    assert said["tool_calls"] == [
        {
            "id": "call_0",
            "type": "function",
            "function": {"name": "look", "arguments": '{"a": [1, 2]}'},
        }
    ]
    assert out["choices"][0]["finish_reason"] == "tool_calls"
    assert event.use == {"input": 9, "output": 2}
    assert len(run.same()) == 8


class Weather(BaseModel):
    city: str
    degrees: float


def raw_and_parsed(server):
    with_raw = client(server).chat.completions.with_raw_response.create(model="m", messages=HI)
    parsed = client(server).chat.completions.parse(model="m", messages=HI, response_format=Weather)
    found = parsed.choices[0].message.parsed
    assert isinstance(found, Weather)
    headers = {name: value for name, value in with_raw.headers.items() if name != "set-cookie"}
    return with_raw.http_response.text, headers, with_raw.status_code, found


@pytest.mark.full
def test_raw_responses_have_their_text_and_headers_and_structured_ones_their_type(tmp_path):
    named = chat("hello")
    named.headers = {"x-request-id": "req_1", "x-ratelimit-remaining-requests": "7"}
    run = twice(tmp_path, raw_and_parsed, named, chat('{"city": "Oslo", "degrees": 7.5}'))
    text, headers, status, _ = run.same()
    assert text.startswith('{"id": "chatcmpl-1", "object"')  # spelt as the server spelt it
    assert headers["x-request-id"] == "req_1"
    assert status == 200


def embed(server):
    return (
        client(server)
        .embeddings.create(model="m", input=["a", "b"], encoding_format="float")
        .model_dump()
    )


@pytest.mark.full
def test_embeddings_are_an_event_of_the_provider(tmp_path):
    run = twice(tmp_path, embed, embeddings([0.25, -1.0, 3e-8], [1.0, 2.0, 0.1]))
    (event,) = events(run.tape, "llm_call")
    assert run.tape.payload(event, "in")["input"] == ["a", "b"]
    assert run.same()["data"][0]["embedding"] == [0.25, -1.0, 3e-8]


def responses(server):
    whole = client(server).responses.create(model="m", input="hello", instructions="be short")
    with client(server).responses.stream(model="m", input="hello") as events_:
        kinds = [event.type for event in events_]
        final = events_.get_final_response()
    return whole.model_dump(), kinds, final.output_text


@pytest.mark.full
def test_responses_and_their_streams(tmp_path):
    run = twice(tmp_path, responses, response("Hi."), response_stream("Hi", " you."))
    whole, streamed = events(run.tape, "llm_call")
    assert whole.use == {"input": 9, "output": 4, "cache_read": 2, "reasoning": 1}
    assert run.tape.payload(streamed, "out")["output"][0]["content"][0]["text"] == "Hi you."
    assert run.same()[2] == "Hi you."


def messages(server):
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    asked = {"model": "m", "max_tokens": 9, "messages": HI, "system": "be short", "tools": tools}
    whole = claude(server).messages.create(**asked)
    with claude(server).messages.stream(**asked) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    return whole.model_dump(), texts, final.model_dump()


@pytest.mark.full
def test_messages_of_anthropic_and_their_streams(tmp_path):
    calls = [("look", {"city": "Oslo", "days": [1, 2]})]
    run = twice(
        tmp_path, messages, message("Hi.", calls=calls), message_stream("Hi", " you.", calls=calls)
    )
    whole, streamed = events(run.tape, "llm_call")
    assert run.tape.payload(whole, "in")["system"] == "be short"
    out = run.tape.payload(streamed, "out")
    assert [block["type"] for block in out["content"]] == ["text", "tool_use"]
    assert out["content"][0]["text"] == "Hi you."
    assert out["content"][1]["input"] == {"city": "Oslo", "days": [1, 2]}
    assert out["stop_reason"] == "tool_use"
    assert streamed.use == {"input": 9, "output": 4}
    assert run.same()[1] == ["Hi", " you."]


async def all_async(server):
    async with openai.AsyncOpenAI(base_url=server.openai, api_key=KEY) as client:
        whole = await client.chat.completions.create(model="m", messages=HI)
        streamed = await client.chat.completions.create(model="m", messages=HI, stream=True)
        chunks = [chunk.model_dump() async for chunk in streamed]
    import anthropic

    async with anthropic.AsyncAnthropic(base_url=server.anthropic, api_key=KEY) as client:
        asked = {"model": "m", "max_tokens": 9, "messages": HI}
        async with client.messages.stream(**asked) as stream:
            final = (await stream.get_final_message()).model_dump()
    return whole.model_dump(), chunks, final


@pytest.mark.full
def test_the_same_from_async_clients(tmp_path):
    replies = chat("Hi."), chat_stream("Hi", " you."), message_stream("Hi", " you.")
    run = twice(tmp_path, all_async, *replies)
    assert len(events(run.tape, "llm_call")) == 3
    assert run.same()[2]["content"][0]["text"] == "Hi you."


def tries_again(server):
    return client(server, max_retries=2).chat.completions.create(model="m", messages=HI).id


@pytest.mark.row("R5")
def test_each_attempt_of_a_client_is_an_event_and_a_replay_does_not_wait(tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr("openai._base_client.time.sleep", slept.append)
    limited = overloaded(429, retry_after=30)
    run = twice(tmp_path, tries_again, limited, overloaded(503), chat("Hi."))
    assert slept[0] == 30
    first, second, third = events(run.tape, "llm_call")
    assert [first.st, second.st, third.st] == ["error", "error", "ok"]
    assert [first.err.type, second.err.type] == ["HTTP 429", "HTTP 503"]
    slept.clear()
    assert run.same() == "chatcmpl-1"
    assert slept == [0.0, 0.0]


def gives_up(server):
    try:
        client(server, max_retries=0).chat.completions.create(model="m", messages=HI)
    except openai.RateLimitError as error:
        return str(error), error.status_code, error.body, error.response.headers["retry-after"]


@pytest.mark.full
def test_an_answer_that_is_an_error_raises_what_it_raised(tmp_path):
    run = twice(tmp_path, gives_up, overloaded(429, retry_after=1))
    assert run.same()[1] == 429


PROMPT = [{"role": "user", "content": "hellp"}]


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("PROMPT", {"messages": PROMPT}),
        ("PARAMS", {"temperature": 0.5}),
        ("PARAMS", {"model": "other"}),
        ("TOOLSET", {"tools": [{"type": "function", "function": {"name": "look"}}]}),
    ],
)
@pytest.mark.requirement("REP-01")
def test_what_is_asked_otherwise_is_a_drift_of_its_kind_at_its_event(tmp_path, kind, changed):
    def agent(server, **more):
        asked = {"model": "m", "messages": HI, **more}
        said = client(server).chat.completions.create(model="m", messages=HI).id
        return said, client(server).chat.completions.create(**asked).id

    run = twice(tmp_path, agent, chat("one"), chat("two"))
    session = run.replay(lambda server: agent(server, **changed))
    second = events(run.tape, "llm_call")[1]
    assert (session.drift.kind, session.drift.seq) == (kind, second.seq)
    assert len(run.seen) == 1


@pytest.mark.full
@pytest.mark.row("R13")
def test_headers_and_ids_that_change_by_themselves_are_no_drift(tmp_path):
    def agent(server, **more):
        return client(server).chat.completions.create(model="m", messages=HI, **more).id

    run = twice(tmp_path, agent, chat("one"))
    again = run.replay(lambda server: agent(server, extra_headers={"x-trace": "2"}, timeout=7))
    assert again.drift is None


@pytest.mark.full
def test_without_content_only_digests_are_kept(tmp_path):
    run = twice(tmp_path, tries_again, chat("one"), capture="off")
    (event,) = events(run.tape, "llm_call")
    assert run.tape.payload(event, "in") is MISSING
    assert event.in_ is not None


def gemini(server):
    import httpx

    url = f"{server.url}/v1beta/models/g-1:generateContent?key=AIzaSecretSecret"
    asked = {"contents": [{"parts": [{"text": "hello"}]}]}
    return httpx.post(url, json=asked).json()


@pytest.mark.full
def test_an_endpoint_that_is_asked_by_plain_http_is_a_provider_too(tmp_path):
    run = twice(tmp_path, gemini, chat("one"))
    (event,) = events(run.tape, "llm_call")
    assert event.name == "g-1"
    assert run.tape.payload(event, "in")["model"] == "g-1"
    assert b"AIzaSecret" not in run.path.read_bytes()
    run.same()
