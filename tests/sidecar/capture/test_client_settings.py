"""A client is made in a replay as it was made when it was recorded, without its key."""

import os

import openai
import pytest
from model_rig import chat
from wires_rig import twice

HI = [{"role": "user", "content": "hello"}]


def agent(server):
    return openai.OpenAI().chat.completions.create(model="m", messages=HI).id


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_a_client_needs_no_key_in_a_replay_where_it_had_one(tmp_path, environment):
    def with_key(server):
        environment.setenv("OPENAI_BASE_URL", server.openai)
        return agent(server)

    environment.setenv("OPENAI_API_KEY", "sk-test-abcdefghijklmnop1234")
    environment.setenv("OPENAI_BASE_URL", "http://localhost/v1")
    run = twice(tmp_path, with_key, chat("hello"))
    said = run.tape.events[0].attr["client_settings"]
    assert "OPENAI_API_KEY" in said["keys"]
    assert said["endpoints"]["OPENAI_BASE_URL"] == "http://localhost/v1"
    assert b"sk-test" not in run.path.read_bytes()
    environment.delenv("OPENAI_API_KEY")
    environment.delenv("OPENAI_BASE_URL")
    assert run.replay(agent).drift is None
    assert run.seen == ["chatcmpl-1", "chatcmpl-1"]
    assert "OPENAI_API_KEY" not in os.environ
    assert "OPENAI_BASE_URL" not in os.environ


def test_where_there_was_no_key_there_is_none_in_the_replay(tmp_path, environment):
    def tries(server):
        try:
            return agent(server)
        except openai.OpenAIError:
            return "no key"

    run = twice(tmp_path, tries)
    assert run.same() == "no key"


def test_a_key_that_is_there_stays(tmp_path, environment):
    environment.setenv("OPENAI_API_KEY", "sk-test-abcdefghijklmnop1234")
    environment.setenv("OPENAI_BASE_URL", "http://localhost/v1")
    run = twice(tmp_path, lambda server: openai.OpenAI().api_key)
    environment.setenv("OPENAI_API_KEY", "sk-another")
    run.replay()
    assert run.seen[1] == "sk-another"
    assert os.environ["OPENAI_API_KEY"] == "sk-another"
