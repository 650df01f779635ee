"""What frameworks stream, and what they ask of the responses endpoint, comes back without a key."""

import shutil

import pytest
from agent_rig import AgentFolder
from model_rig import ModelServer, chat, chat_stream, response, response_stream
from test_framework_agents import AGENTS, PYTHON

from sidecar.tape.files import read_tape

pytestmark = [
    pytest.mark.full,
    pytest.mark.requirement("TAP-02"),
    pytest.mark.requirement("REP-01"),
]
KEY = "sk-test-abcdefghijklmnop1234"
CASES = {
    "langchain_streams": (chat_stream("It ", "rains."), chat_stream("It ", "snows.")),
    "pydantic_ai_streams": (
        chat_stream("It ", "rains."),
        chat(calls=[("final_result", {"city": "Oslo", "degrees": 7.5})]),
    ),
    "openai_agents_streams": (
        response(calls=[("look", {"city": "Oslo"})]),
        response("It rains."),
        response_stream("It ", "snows."),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_streams_of_frameworks_come_back_without_server_network_or_key(tmp_path, name):
    assert PYTHON.exists(), "make frameworks"
    agent = AgentFolder(tmp_path, PYTHON, f"{name}.py")
    shutil.copy(AGENTS / agent.script, tmp_path / agent.script)
    with ModelServer() as server:
        server.say(*CASES[name])
        agent.environment = {"MODEL_URL": server.openai, "OPENAI_API_KEY": KEY}
        ran = agent.record()
        assert ran.code == 0, ran.err
        assert len(server.asked) == len(CASES[name])
    assert KEY.encode() not in (tmp_path / "run.tape").read_bytes()
    agent.environment = {}
    again = agent.replay()
    assert again.code == 0, again.err
    assert again.json["exact_digest"] == read_tape(tmp_path / "run.tape").seal.exact_digest
    assert again.err.startswith(ran.out)  # what the agent prints
