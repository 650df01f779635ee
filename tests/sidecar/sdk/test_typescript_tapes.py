"""Tapes that an agent in JavaScript records are tapes: they hold, and are its Python twin's."""

import asyncio
import json
import subprocess

import httpx
import pytest
from click.testing import CliRunner
from model_rig import ModelServer, Reply, chat, chat_stream
from node_rig import TYPESCRIPT, node

from sidecar.cli.root import root
from sidecar.sdk.claims import claim
from sidecar.sdk.client import tell
from sidecar.sdk.driver import record, tool
from sidecar.tape.files import read_tape

pytestmark = [pytest.mark.requirement("SDK-01"), pytest.mark.requirement("TAP-01")]
LONG = "hello " * 600  # a blob


def served(server):
    weather = Reply({"sky": "clear", "degrees": 21.0}, headers={"Set-Cookie": "sid=abc; Path=/"})
    server.on("GET", "/weather", weather)
    server.on("GET", "/inside", Reply({}))
    server.say(chat(LONG), chat_stream("Hel", "lo"))


def in_javascript(path, server, capture="redacted", slow="A"):
    served(server)
    command = [node(), str(TYPESCRIPT / "agent.mjs"), str(path), capture, server.url, slow]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return read_tape(path)


def in_python(path, server):
    """What agent.mjs does."""

    @tool
    async def refund(order_id, amount):
        async with httpx.AsyncClient() as inner:
            await inner.get(f"{server.url}/inside")
        return {"order_id": order_id, "refunded": amount, "password": "hunter22-and-more"}

    @tool
    async def lines():
        yield "one"
        yield {"two": 2}

    async def agent(recording):
        asked = {
            "model": "m-1",
            "messages": [{"role": "user", "content": "I am ann@mail.example.org"}],
        }
        headers = {"authorization": "Bearer sk-live-4eC39HqLyjWDarjtT1"}
        async with httpx.AsyncClient() as client:
            place = f"{server.url}/v1/chat/completions"
            first = await client.post(place, json={**asked, "temperature": 1.0}, headers=headers)
            await asyncio.gather(refund("A", 25.0), refund("B", 1.5))
            async for _ in lines():
                pass
            whole = {**asked, "stream": True}
            async with client.stream("POST", place, json=whole, headers=headers) as streamed:
                async for _ in streamed.aiter_bytes():
                    pass
            await client.get(f"{server.url}/weather?city=Bern&token=abcdefgh")
        tell(claim("refund", "success"))
        recording.output(first.json()["choices"][0]["message"]["content"])

    served(server)
    with record(path, capture="redacted", roots=[path.parent]) as recording:
        asyncio.run(agent(recording))
    return read_tape(path)


@pytest.fixture(scope="module")
def tapes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tapes")
    with ModelServer() as server:
        script = in_javascript(folder / "js.tape", server)
        return script, in_python(folder / "py.tape", server), folder


def test_a_tape_from_javascript_holds_in_every_digest(tapes):
    tape, _, _ = tapes
    found = tape.examination
    assert found.holds and found.unchecked == 0 and found.faults == ()
    assert found.seal == found.computed
    assert tape.header.fidelity == "L2" and tape.header.source == "sdk"
    assert (found.seal.counters.dropped, found.seal.counters.truncated) == (0, 0)
    assert found.seal.leaks.sought == 1 and found.seal.leaks.found == 0
    assert found.seal.blobs.n > 2


def test_both_languages_record_the_same_run_alike(tapes):
    script, python, _ = tapes
    assert script.header.redactor == python.header.redactor
    assert script.header.codecs == python.header.codecs
    answers = [
        (event.name, event.chunks, event.st, event.use, tape.payload(event, "out"))
        for tape in (script, python)
        for event in tape.events
        if event.kind in ("llm_call", "tool_result", "terminal") and event.seam != "http"
    ]
    half = len(answers) // 2
    assert sorted(answers[:half], key=repr) == sorted(answers[half:], key=repr)
    weather = [tape.payload(tape.events[-2], "out") for tape in (script, python)]
    assert weather[0]["body"] == weather[1]["body"] == {"sky": "clear", "degrees": 21}
    assert script.seal.behavior_digest == python.seal.behavior_digest
    asked = script.payload(script.events[-3], "in")
    assert asked["query"] == {"city": ["Bern"], "token": ["[secret]"]}


def test_no_secret_is_on_it(tapes):
    _, _, folder = tapes
    text = (folder / "js.tape").read_text()
    for secret in ("hunter22", "ann@mail", "4eC39HqLyj", "abcdefgh", "sid=abc"):
        assert secret not in text


def test_the_commands_for_tapes_take_it_and_compare_it_with_one_from_python(tapes):
    _, _, folder = tapes
    script, python = str(folder / "js.tape"), str(folder / "py.tape")

    def run(*words):
        done = CliRunner().invoke(root, ["tape", *words, "--output", "json"], standalone_mode=False)
        return json.loads(done.output)

    assert run("verify", script)["exit_code"] == 0
    assert run("show", script)
    assert run("diff", script, python)["exit_code"] == 0


def test_which_of_two_calls_at_once_answers_first_is_no_other_behaviour(tmp_path):
    with ModelServer() as server:
        one, other = (in_javascript(tmp_path / f"{it}.tape", server, slow=it) for it in "AB")
    answered = [
        [
            tape.payload(event, "out")["order_id"]
            for event in tape.events
            if event.name == "refund" and event.kind == "tool_result"
        ]
        for tape in (one, other)
    ]
    assert answered == [["B", "A"], ["A", "B"]]
    assert one.seal.exact_digest != other.seal.exact_digest
    assert one.seal.behavior_digest == other.seal.behavior_digest


def test_without_content_only_digests_stand_on_it(tmp_path):
    with ModelServer() as server:
        tape = in_javascript(tmp_path / "off.tape", server, capture="off")
    assert tape.examination.holds and tape.header.fidelity == "L1"
    assert all(event.inl == {} for event in tape.events)
