"""Answers of models and of HTTP that a counterfactual changes, as the agent's client has them."""

import httpx
import openai
import pytest
import requests
from capture_rig import run as run_session
from capture_rig import session_of
from model_rig import (
    ModelServer,
    Reply,
    chat,
    chat_stream,
    message,
    message_stream,
    response_stream,
)
from wires_rig import events, twice

from sidecar.capture.modes import CounterfactualPlayer, player_of
from sidecar.capture.plan import plan_of
from sidecar.capture.play import Drifted
from sidecar.capture.record import redactor_of
from sidecar.capture.streamed import Answer, pieces_of
from sidecar.tape.codec import DEFAULT, Codecs

HI = [{"role": "user", "content": "hello"}]
TEXT = "/choices/0/message/content"


def changed(run, patch):
    """What the agent gets when one answer is another."""
    plan = plan_of({"mode": "counterfactual", "patches": [patch]})
    player = CounterfactualPlayer(plan, run.tape, redactor_of("full"), Codecs(DEFAULT))
    before = len(run.seen)
    try:
        run_session(session_of(player=player), run._run())
    except Drifted as drifted:
        return drifted.drift
    return run.seen[before]


def client(server):
    return openai.OpenAI(base_url=server.openai, api_key="sk-none", max_retries=0)


def answer(server):
    try:
        return client(server).chat.completions.create(model="m", messages=HI).choices[0].message
    except openai.OpenAIError as error:
        return type(error).__name__


def streamed(server):
    stream = client(server).chat.completions.create(model="m", messages=HI, stream=True)
    return [chunk.choices[0].delta.content for chunk in stream if chunk.choices]


@pytest.mark.requirement("REP-03")
@pytest.mark.parametrize("agent", [answer, streamed])
def test_a_models_answer_is_changed_at_once_and_in_a_stream(tmp_path, agent):
    run = twice(tmp_path, agent, chat("rain") if agent is answer else chat_stream("ra", "in"))
    (event,) = events(run.tape, "llm_call")
    edit = {"op": "replace", "path": TEXT, "value": "snow"}
    found = changed(run, {"what": "result", "seq": event.seq, "patch": [edit]})
    assert (found.content if agent is answer else "".join(map(str, found))) == "snow"


@pytest.mark.full
@pytest.mark.parametrize(
    ("error", "told"),
    [("HTTP 429", "RateLimitError"), ("ReadTimeout", "APITimeoutError"), ("HTTP 503", "Inter")],
)
def test_a_model_fails_as_a_status_or_as_a_connection(tmp_path, error, told):
    run = twice(tmp_path, answer, chat("rain"))
    (event,) = events(run.tape, "llm_call")
    assert changed(run, {"what": "fault", "seq": event.seq, "error": error}).startswith(told)


@pytest.mark.full
@pytest.mark.parametrize("get", [httpx.get, requests.get])
@pytest.mark.parametrize("body", ['{"a": 1, "b": "long enough"}', '{"a" : 1}'])
def test_a_result_of_http_is_changed_in_a_place_or_is_another_body(tmp_path, get, body):
    def agent(server):
        found = get(f"{server.url}/a")
        return found.status_code, found.json(), found.headers.get("content-length"), found.text

    run = twice(tmp_path, agent, routes=[("GET", "/a", Reply(body))])
    (call,) = events(run.tape, "tool_call")

    def result(**change):
        return changed(run, {"what": "result", "seq": call.seq, **change})

    edit = {"op": "replace", "path": "/body/a", "value": 22}
    status, value, length, text = result(patch=[edit])
    assert (status, value["a"], length) == (200, 22, str(len(text)))
    assert result(value={"status": 404, "body": {"no": 1}})[:2] == (404, {"no": 1})
    assert result(value={"only": "a body"})[:2] == (200, {"only": "a body"})


@pytest.mark.parametrize(
    "reply",
    [
        chat_stream("It ", "rains.", calls=[("look", {"a": 1})]),
        message_stream("It ", "rains.", calls=[("look", {"a": 1})]),
        response_stream("It ", "rains."),
    ],
)
def test_a_whole_answer_made_a_stream_makes_that_answer(reply):
    from sidecar.capture.pieces import payload_of

    def made(pieces):
        found = Answer()
        for piece in pieces:
            found.add(piece)
        assert found.ended
        return found.value

    whole = made(payload_of(part, "event") for part in reply.parts)
    assert made(pieces_of(whole)) == whole
    assert pieces_of({"some": "answer"}) is None
    assert made(pieces_of(message("x").body))["content"] == [{"type": "text", "text": "x"}]


def two_and_a_tool(server):
    said = client(server).chat.completions.create(model="m", messages=HI).choices[0].message
    found = httpx.get(f"{server.url}/a").json()
    more = [*HI, {"role": "user", "content": f"{said.content} {found}"}]
    return said.content, found, streamed_by(client(server), more)


def streamed_by(client, messages):
    stream = client.chat.completions.create(model="m", messages=messages, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


@pytest.mark.full
@pytest.mark.parametrize(
    ("plan", "asked", "told"),
    [
        ({"mode": "tools"}, ["POST", "POST"], ("other", {"a": 1}, "live")),
        ({"mode": "fork", "fork": 2}, ["GET", "POST"], ("rain", {"a": 2}, "live")),
    ],
)
def test_real_clients_go_live_where_the_mode_says_so(tmp_path, plan, asked, told):
    replies = chat("rain"), chat_stream("all ", "day")
    run = twice(tmp_path, two_and_a_tool, *replies, routes=[("GET", "/a", Reply({"a": 1}))])
    player = player_of(plan_of(plan), run.tape, redactor_of("full"), Codecs(DEFAULT))
    with ModelServer(run.server.port) as server:
        if plan["mode"] == "tools":
            server.say(chat("other"))
        server.say(chat_stream("li", "ve"))
        server.on("GET", "/a", Reply({"a": 2}))
        run.server = server
        session = session_of(player=player)
        run_session(session, run._run())
    assert session.drift is None
    assert [one.method for one in server.asked] == asked
    assert run.seen[1] == told
