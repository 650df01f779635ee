"""Agents of three frameworks, as they come from PyPI and unchanged, are recorded and replayed.

They run in an environment of their own (``make frameworks``)."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from agent_rig import ROOT, AgentFolder
from model_rig import ModelServer, chat

from sidecar.tape.files import examine, read_tape

pytestmark = [
    pytest.mark.full,
    pytest.mark.requirement("TAP-02"),
    pytest.mark.requirement("REP-01"),
]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PYTHON = CACHE / "agenttwin-sidecar" / "frameworks" / "bin" / "python"
AGENTS = Path(__file__).parent / "agents"
TIMES = 100
ORDER = "Refund order 2"


def again(reply):
    """A later call has an id of its own."""
    reply.body["choices"][0]["message"]["tool_calls"][0]["id"] = "call_9"
    return reply


@pytest.fixture(params=["langgraph", "pydantic_ai", "openai_agents"], scope="module")
def made(request, tmp_path_factory):
    """An agent's folder with its tape; the server is gone."""
    assert PYTHON.exists(), "make frameworks"
    name = f"{request.param}_agent.py"
    agent = AgentFolder(tmp_path_factory.mktemp(request.param), PYTHON, name)
    shutil.copy(AGENTS / name, agent.folder / name)
    with ModelServer() as server:
        server.say(
            chat(calls=[("look_up", {"order": 2}), ("rate", {"currency": "NOK"})]),
            again(chat(calls=[("look_up", {"order": 3})])),
            chat("Done."),
        )
        agent.environment["MODEL_URL"] = server.openai
        ran = agent.record(ORDER)
        assert ran.code == 0, ran.err
        assert len(server.asked) == 3
    agent.said = ran.out
    return agent


@pytest.fixture
def copied(made, tmp_path):
    shutil.copytree(made.folder, tmp_path / "a")
    agent = AgentFolder(tmp_path / "a", PYTHON, made.script)
    agent.environment = made.environment
    return agent


def test_an_unchanged_agent_is_recorded_by_its_models_and_tools(made):
    assert made.said == "Done.\n"
    tape = read_tape(made.folder / "run.tape")
    assert examine(made.folder / "run.tape").holds
    models = [one for one in tape.events if one.kind == "llm_call"]
    assert [one.st for one in models] == ["ok"] * 3
    calls = [one for one in tape.events if one.kind == "tool_call"]
    assert sorted((one.name, str(one.inl["in"])) for one in calls) == [
        ("look_up", "{'order': 2}"),
        ("look_up", "{'order': 3}"),
        ("rate", "{'currency': 'NOK'}"),
    ]


def test_what_a_model_is_asked_comes_after_what_the_tools_said(made):
    events = read_tape(made.folder / "run.tape").events
    first, second, third = (one for one in events if one.kind == "llm_call")
    assert {events[one].cause for one in causes_of(events, second)} == {
        (one.seq,) for one in events if one.kind == "tool_call" and one.cause == (first.seq,)
    }
    assert [events[one].kind for one in third.cause] == ["tool_result"]


def causes_of(events, one):
    assert [events[seq].kind for seq in one.cause] == ["tool_result"] * 2
    return one.cause


def test_it_comes_back_without_a_server(made):
    ran = made.replay(ORDER)
    assert ran.code == 0, ran.err
    assert ran.json["exact_digest"] == ran.json["recorded_digest"]


def test_it_comes_back_a_hundred_times(made):
    command = [PYTHON, Path(__file__).with_name("replay_times.py"), made.script, "run.tape"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **made.environment}
    ran = subprocess.run(
        [*command, str(TIMES), ORDER],
        cwd=made.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    recorded = read_tape(made.folder / "run.tape").seal.exact_digest
    assert json.loads(ran.stdout) == {recorded: TIMES}


@pytest.mark.requirement("REP-02")
def test_one_character_of_its_prompt_is_a_drift_of_the_prompt(copied):
    copied.change("Be brief.", "Be brief!")
    ran = copied.replay(ORDER)
    assert ran.code == 2
    tape = read_tape(copied.folder / "run.tape")
    first = next(one for one in tape.events if one.kind == "llm_call")
    assert (ran.json["drift"]["kind"], ran.json["drift"]["seq"]) == ("PROMPT", first.seq)


ASKING = {
    "langgraph_agent.py": (
        'return {"messages": [MODEL.invoke(state["messages"])]}',
        """said = MODEL.invoke(state["messages"])
    for call in said.tool_calls:
        if call["args"] == {"order": 3}:
            call["args"] = {"order": 3}
    return {"messages": [said]}""",
    ),
    "pydantic_ai_agent.py": (
        "agent = Agent(OpenAIChatModel(",
        """
class Own(OpenAIChatModel):
    async def request(self, *args, **named):
        said = await super().request(*args, **named)
        for part in said.parts:
            if getattr(part, "args", None) == '{"order": 3}':
                part.args = '{"order": 3}'
        return said


agent = Agent(Own(""",
    ),
    "openai_agents_agent.py": (
        "    model = OpenAIChatCompletionsModel(",
        """    class Own(OpenAIChatCompletionsModel):
        async def get_response(self, *args, **named):
            said = await super().get_response(*args, **named)
            for each in said.output:
                if getattr(each, "arguments", None) == '{"order": 3}':
                    each.arguments = '{"order": 3}'
            return said

    model = Own(""",
    ),
}
"""Agents whose own code stands between what a model says and what a tool is asked."""


@pytest.mark.requirement("REP-02")
@pytest.mark.parametrize("script", ASKING)
def test_one_argument_of_a_tool_is_a_drift_of_its_arguments(script, tmp_path):
    agent = AgentFolder(tmp_path, PYTHON, script)
    shutil.copy(AGENTS / script, tmp_path / script)
    agent.change(*ASKING[script])
    with ModelServer() as server:
        server.say(chat(calls=[("look_up", {"order": 3})]), chat("Done."))
        agent.environment["MODEL_URL"] = server.openai
        assert agent.record(ORDER).code == 0
    before, after = ASKING[script][1].rsplit('{"order": 3}', 1)
    agent.change(ASKING[script][1], before + '{"order": 4}' + after)
    ran = agent.replay(ORDER)
    assert ran.code == 2, ran.err
    (asked,) = (one for one in read_tape(tmp_path / "run.tape").events if one.kind == "tool_call")
    assert (ran.json["drift"]["kind"], ran.json["drift"]["seq"]) == ("ARGS", asked.seq)
