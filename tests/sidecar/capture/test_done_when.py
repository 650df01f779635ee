"""An agent with the real openai client is recorded once and comes back a hundred times, with no
network and no server; and whoever changes a word of it is told where."""

import io
import json
import runpy
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from agent_rig import AgentFolder
from model_rig import ModelServer, chat

from sidecar.capture.play import Drifted, StrictPlayer
from sidecar.capture.record import redactor_for
from sidecar.capture.seams.guard import guard
from sidecar.capture.seams.install import install_all
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.sites import Sites
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.files import examine, read_tape

pytestmark = [pytest.mark.requirement("REP-01"), pytest.mark.requirement("TAP-02")]
AGENT = Path(__file__).with_name("refund_agent.py")
TIMES = 100
PROCESSES = 20


def script(server):
    server.say(
        chat(
            calls=[
                ("look_up", {"order": 1}),
                ("look_up", {"order": 2}),
                ("rate", {"currency": "NOK"}),
            ]
        ),
        chat(calls=[("refund", {"order": 2, "amount": 25.0})]),
        chat("Done."),
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An agent's folder with its tape; the server is gone, and so are the files it read."""
    agent = AgentFolder(tmp_path_factory.mktemp("refunds"))
    shutil.copy(AGENT, agent.folder / "agent.py")
    (agent.folder / "orders").mkdir()
    for order in (1, 2):
        agent.write(json.dumps({"order": order, "total": 25.0 * order}), f"orders/{order}.json")
    agent.write("Only once.", "policy.txt")
    with ModelServer() as server:
        script(server)
        agent.environment["MODEL_URL"] = server.openai
        ran = agent.record("Refund order 2")
        assert ran.code == 0, ran.err
        assert len(server.asked) == 3
    agent.said = ran.out
    shutil.rmtree(agent.folder / "orders")
    (agent.folder / "policy.txt").unlink()
    (agent.folder / "sent.txt").unlink()
    del agent.environment["MODEL_URL"]
    return agent


@pytest.fixture
def copied(made, tmp_path):
    """The same folder, to be changed."""
    shutil.copytree(made.folder, tmp_path / "a")
    return AgentFolder(tmp_path / "a")


def replayed(agent, tape, monkeypatch):
    """Run the agent's file against its tape in this process: what it said, and the session."""
    monkeypatch.setattr(sys, "argv", ["agent.py", "Refund order 2"])
    session = Session(Sites([agent.folder]))
    session.player = StrictPlayer(tape, redactor_for(tape.header.redactor), Codecs(DEFAULT))
    said = io.StringIO()
    session.begin()
    try:
        guard(session)
        install_all(session)
        with redirect_stdout(said):
            runpy.run_path(str(agent.folder / "agent.py"), run_name="__main__")
    except Drifted:
        pass
    finally:
        session.end()
    assert session.broken == {}
    return said.getvalue(), session


@pytest.mark.parametrize(
    "times", [8, pytest.param(TIMES, marks=pytest.mark.full)], ids=["some", "a hundred"]
)
def test_strict_replays_have_one_digest(made, monkeypatch, times):
    monkeypatch.delenv("MODEL_URL", raising=False)
    tape = read_tape(made.folder / "run.tape")
    assert tape.header.fidelity == "L3"
    digests = set()
    for _ in range(times):
        said, session = replayed(made, tape, monkeypatch)
        assert session.drift is None
        assert said == made.said
        digests.add(session.tally.digest())
    assert not (made.folder / "sent.txt").exists()
    assert digests == {tape.seal.exact_digest}


def seq_of(agent, kind, name, at):
    found = [
        one.seq
        for one in read_tape(agent.folder / "run.tape").events
        if (one.kind, one.name) == (kind, name)
    ]
    return found[at]


@pytest.mark.requirement("REP-02")
@pytest.mark.parametrize(
    ("old", "new", "kind", "at"),
    [
        ("Be brief.", "Be brief!", "PROMPT", ("llm_call", "scripted-1", 0)),
        ("function(**arguments)", "function(**{**arguments, 'order': 3} if 'order' in arguments "
         "else arguments)", "ARGS", ("tool_call", "look_up", 0)),
    ],
)  # fmt: skip
@pytest.mark.row("R27")
def test_one_change_is_a_drift_of_its_kind_at_its_place(copied, monkeypatch, old, new, kind, at):
    monkeypatch.delenv("MODEL_URL", raising=False)
    copied.change(old, new, "agent.py")
    tape = read_tape(copied.folder / "run.tape")
    _, session = replayed(copied, tape, monkeypatch)
    assert (session.drift.kind, session.drift.seq) == (kind, seq_of(copied, *at))


@pytest.mark.full
def test_replays_in_processes_of_their_own_have_one_digest(made):
    assert examine(made.folder / "run.tape").holds
    digests = set()
    for _ in range(PROCESSES):
        ran = made.replay("Refund order 2")
        assert ran.code == 0, ran.err
        digests.add(ran.json["exact_digest"])
    assert digests == {examine(made.folder / "run.tape").seal.exact_digest}


@pytest.mark.full
def test_a_drift_is_told_on_stderr_and_exits_two(copied):
    copied.change("Be brief.", "Be brief!", "agent.py")
    ran = copied.replay("Refund order 2", options=())
    assert ran.code == 2
    assert f"PROMPT at seq {seq_of(copied, 'llm_call', 'scripted-1', 0)}" in ran.err
    assert "Traceback" not in ran.err


THREADS = """
import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from openai import OpenAI

client = OpenAI(base_url=os.environ["MODEL_URL"], api_key="sk-a-key-of-nobody-000000")


def ask(number):
    said = [{"role": "user", "content": str(number)}]
    answer = client.chat.completions.create(model="scripted-1", messages=said)
    return answer.choices[0].message.content


with ThreadPoolExecutor(4) as pool:
    for one in as_completed([pool.submit(ask, number) for number in range(4)]):
        print(one.result())
"""


@pytest.mark.full
def test_models_asked_by_threads_answer_in_the_order_there_was(tmp_path):
    def reply(asked):
        return chat(f"answer {asked.json['messages'][0]['content']}")

    agent = AgentFolder(tmp_path)
    agent.write(THREADS)
    with ModelServer() as server:
        server.on("POST", "/v1/chat/completions", reply)
        agent.environment["MODEL_URL"] = server.openai
        ran = agent.record()
        assert ran.code == 0, ran.err
    for _ in range(5):
        again = agent.replay(options=())
        assert again.code == 0, again.err
        assert again.out == ran.out
