"""Engines that answer what was not asked, twice, or in no language: denied, and outlived."""

import asyncio
import time
from pathlib import Path

import pytest
from opa_rig import ANSWER, engine, reply, scripted

from sidecar.gateway.policy import client, process
from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.document import encode
from sidecar.gateway.policy.worker import PolicyWorker

BUDGET_SECONDS = 0.2  # issue 5
RULES = """package agenttwin.v1

decide := {"effect": "deny", "reasons": [{"code": "said_so"}]} if input.say

# So that the child is told of it: what no rule reads is not sent.
decide := {"effect": "allow", "reasons": [{"code": "lie"}]} if input.lie == "none"

list := {"effect": "allow", "reasons": [{"code": "seen"}]} if input.say
"""
LIAR = """
import importlib.util, json, struct, sys
spec = importlib.util.spec_from_file_location("real", {real!r})
real = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)
honest, evaluate, lie = real._send, real._evaluate, []
ALLOW = b'{{"effect": "allow", "reasons": [{{"code": "lie"}}]}}'

def heard(engine, kind, payload):
    lie[:] = [json.loads(payload).get("lie")] if kind == real.DECIDE else []
    return evaluate(engine, kind, payload)

def said(connection, identity, status, answer):
    what = lie.pop() if lie else None
    if what == "another id":
        honest(connection, identity + 1, 0, ALLOW)
    elif what == "an old id":
        honest(connection, max(0, identity - 1), 0, ALLOW)
    elif what == "twice":
        honest(connection, identity, status, answer)
        honest(connection, identity, 0, ALLOW)
    elif what == "nothing":
        return
    elif what == "a huge frame":
        connection.sendall(struct.pack(">IQB", 2**32 - 1, identity, 0) + ALLOW)
    elif what == "a tiny frame":
        connection.sendall(struct.pack(">IQB", 1, identity, 0))
    elif what == "noise":
        connection.sendall(b"\\xff" * 4096)
    elif what == "another status":
        honest(connection, identity, 7, ALLOW)
    elif what == "no JSON":
        honest(connection, identity, 0, b"\\xff{{")
    elif what == "deep":
        honest(connection, identity, 0, b"[" * 100000 + b"]" * 100000)
    elif what == "a deep allow":
        nested = b"[" * 9999 + b"]" * 9999
        honest(connection, identity, 0, ALLOW[:-1] + b', "advice": ' + nested + b"}}")
    elif what == "two values":
        honest(connection, identity, 0, ALLOW + ALLOW)
    elif what == "NaN":
        honest(connection, identity, 0, ALLOW[:-1] + b', "advice": NaN}}')
    else:
        honest(connection, identity, status, answer)

real._send, real._evaluate = said, heard
real.main(int(sys.argv[1]), int(sys.argv[2]))
"""
LIES = (
    *("another id", "an old id", "nothing", "a huge frame", "a tiny frame", "noise"),
    *("another status", "no JSON", "deep", "a deep allow", "two values", "NaN"),
)


@pytest.fixture
def lying(tmp_path, monkeypatch):
    """Policy workers whose children lie where the document says so."""
    script = tmp_path / "liar.py"
    script.write_text(LIAR.format(real=str(Path(process.__file__))))
    monkeypatch.setattr(client, "_SCRIPT", script)

    def play(scenario):
        async def main():
            bundle = make_bundle([Module("decide.rego", RULES)], [])
            worker = PolicyWorker(bundle, deadline_ns=100_000_000)
            await worker.start()
            try:
                return await scenario(worker)
            finally:
                await worker.stop()

        return asyncio.run(main())

    return play


@pytest.mark.requirement("GW-04")
@pytest.mark.row("G", "T11", "T17")
@pytest.mark.parametrize("lie", LIES)
def test_a_worker_that_lies_is_denied_in_time_and_those_behind_are_answered(lying, lie):
    async def scenario(worker):
        started = time.monotonic()
        denied = await worker.decide({"say": 1, "lie": lie})
        took = time.monotonic() - started
        behind = [await worker.decide({"say": number}) for number in range(3)]
        return denied, took, behind

    denied, took, behind = lying(scenario)
    assert (denied.effect, denied.reasons[0].code) == ("deny", "policy_error")
    assert denied.error is not None and took < BUDGET_SECONDS
    assert [(each.effect, each.reasons[0].code) for each in behind] == [("deny", "said_so")] * 3


@pytest.mark.parametrize("lie", ["twice", "another id"])
def test_an_answer_too_many_answers_nobody(lying, lie):
    async def scenario(worker):
        asked = [worker.decide({"say": 1, "lie": lie}), worker.decide({"say": 2})]
        return [await each for each in map(asyncio.ensure_future, asked)]

    assert [each.effect for each in lying(scenario)] == ["deny"] * 2


@pytest.mark.row("G")
@pytest.mark.parametrize("depth", [100, 1_000, 10_000, 100_000])
def test_a_document_however_deep_is_judged_or_denied_and_nothing_breaks(lying, depth):
    deep = leaf = []
    for _ in range(depth):
        leaf.append([])
        leaf = leaf[0]

    async def scenario(worker):
        answer = await worker.decide({"say": deep})
        return answer, await worker.decide({"say": 1})

    answer, after = lying(scenario)
    assert answer.effect == "deny" and (answer.error is None) == (depth == 100)
    assert after.reasons[0].code == "said_so"


def test_a_deep_document_is_not_encoded_in_part():
    deep = leaf = {}
    for _ in range(10_000):
        leaf["a"] = {}
        leaf = leaf["a"]
    with pytest.raises(TypeError):
        encode({"context": deep})


def answers(effect, revision="r1"):
    provenance = {"version": "1.22.4", "bundles": {"b": {"revision": revision}}}
    result = {"effect": effect, "reasons": [{"code": f"says_{effect}"}]}
    return reply({"provenance": provenance, "result": result})


@pytest.mark.requirement("GW-04")
@pytest.mark.row("T16", "T17", "T19")
@pytest.mark.parametrize("pause", [None, 0.02])
def test_an_opa_that_answers_twice_answers_the_first_question_only(pause):
    pytest.importorskip("opa_client", reason="needs the extra opa (opa-python-client)")

    async def twice(writer):
        writer.write(answers("deny"))
        if pause is not None:
            await writer.drain()
            await asyncio.sleep(pause)
        writer.write(answers("allow"))
        await writer.drain()
        said.set()

    said = asyncio.Event()

    async def main():
        async with scripted() as server:
            made = engine(server.port)
            await made.start()
            server.steps += [twice, answers("deny"), twice, answers("deny")]
            found = []
            for turn in range(4):
                found.append(await made.decide({"say": 1}))
                if turn % 2 == 0:  # what comes unasked has come, however busy the machine is
                    await said.wait()
                    said.clear()
                    for _ in range(10):
                        await asyncio.sleep(0)
            await made.stop()
            return found

    assert [each.effect for each in asyncio.run(main())] == ["deny"] * 4


def test_a_good_opa_is_good(anyone=ANSWER):
    pytest.importorskip("opa_client", reason="needs the extra opa (opa-python-client)")

    async def main():
        async with scripted() as server:
            made = engine(server.port)
            await made.start()
            answer = await made.decide({"say": 1})
            await made.stop()
            return answer

    assert asyncio.run(main()).effect == anyone["result"]["effect"]
