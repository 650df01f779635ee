"""OPA's own compliance cases, put to the embedded engine as the gateway puts its questions.

A case's query becomes the rule ``data.agenttwin.v1.decide``, its modules the bundle, its input the
document: the child of the gateway answers, over its frames, killable like any other.
"""

import asyncio
import gzip
import json
import re
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.client import Child
from sidecar.gateway.policy.fold import fold
from sidecar.gateway.policy.process import ANSWER, DECIDE, LAST, LOAD, TREE
from sidecar.gateway.policy.rego import read_module

CORPUS = Path(__file__).parents[3] / "shared/corpora/rego/opa-compliance-v1.jsonl.gz"
SECONDS = 5.0
_CRASHED, _SILENT = -1, -2


class Said(Struct, frozen=True):
    """What the engine said: ``agrees`` with OPA, or not; ``silent`` where it was no error."""

    agrees: bool
    silent: bool
    text: str


def cases():
    """Every case with an ``id`` of its own: the note, numbered from the second on."""
    if not CORPUS.is_file():
        pytest.skip("needs the corpus of OPA's compliance cases beside the checkout")
    seen = {}
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            seen[case["note"]] = number = seen.get(case["note"], 0) + 1
            yield {**case, "id": case["note"] if number == 1 else f"{case['note']}#{number}"}


def calls(case, name):
    """Whether a module or the query says the name of that built-in."""
    text = "\n".join([*case.get("modules", []), case["query"]])
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text) is not None


def fails(case):
    """Whether OPA answers with an error."""
    return "want_error" in case or "want_error_code" in case


def as_input(case):
    """(whether it can be sent, the document): ``input_term`` is Rego, and may be a set."""
    if "input_term" not in case:
        return True, case.get("input", {})
    try:
        return True, json.loads(case["input_term"])
    except ValueError:
        return False, None


async def ask_all(asked, *, folded=False):
    """What the engine says to each case, in order.

    ``folded``: with its modules as the gateway's children hold them.
    """
    child, found = await Child.start(), []
    try:
        for case in asked:
            status, answer = await _ask_case(child, case, folded)
            found.append(_judge(case, status, answer))
            if status in (LAST, _CRASHED, _SILENT):
                await _end(child)
                child = await Child.start()
    finally:
        await _end(child)
    return found


async def _ask_case(child, case, folded):
    texts = enumerate(case.get("modules", []))
    modules = [[f"module_{number}.rego", text] for number, text in texts]
    modules.append(["query.rego", _question(case)])
    bundle = {"modules": modules, "data": case.get("data") or {}, "warm": False}
    status, answer = await _ask(child, LOAD, json.dumps(bundle).encode())
    if status == ANSWER and folded:
        bundle["modules"] = await _folded(child, bundle)
        status, answer = await _ask(child, LOAD, json.dumps(bundle).encode())
    if status != ANSWER:
        return status, answer
    return await _ask(child, DECIDE, json.dumps(as_input(case)[1]).encode())


async def _folded(child, bundle):
    status, trees = await _ask(child, TREE, b"")
    assert status == ANSWER
    modules = [read_module(tree) for tree in json.loads(trees)]
    made = make_bundle([Module(*module) for module in bundle["modules"]], [])
    made = replace(made, data=bundle["data"])
    folded = fold(made, modules, entries=["data.agenttwin.v1.decide"])
    return [[module.path, module.text] for module in folded.bundle.modules]


def _question(case):
    wanted = case.get("want_result")
    names = sorted(wanted[0]) if wanted else re.findall(r"(?<![\w.])x\b", case["query"])[:1]
    bindings = ", ".join(f'"{name}": {name}' for name in names)
    return f"package agenttwin.v1\n\ndecide := [{{{bindings}}} | {case['query']}]\n"


async def _ask(child, kind, payload):
    heard = asyncio.get_running_loop().create_future()
    child.on_frame = lambda _child, _id, status, text: heard.set_result((status, text))
    child.on_lost = lambda _child: heard.done() or heard.set_result((_CRASHED, b"it crashed"))
    child.send(1, kind, payload)
    try:
        return await asyncio.wait_for(heard, SECONDS)
    except TimeoutError:
        return _SILENT, b"it hung"


async def _end(child):
    child.on_lost = child.on_frame = lambda *_: None
    child.kill()
    await child.ended()


def _judge(case, status, answer):
    text = answer.decode("utf-8", "replace")
    if status != ANSWER:
        return Said(agrees=fails(case) and status > _CRASHED, silent=False, text=text)
    if fails(case):
        return Said(agrees=False, silent=True, text=text)
    same = _unordered(json.loads(text)) == _unordered(case.get("want_result"))
    return Said(agrees=same, silent=not same, text=text)


def _unordered(value):
    """Sets are arrays in JSON, in an order of the engine's own."""
    if isinstance(value, list):
        return sorted((_unordered(item) for item in value), key=lambda it: json.dumps(it))
    if isinstance(value, dict):
        return {key: _unordered(value[key]) for key in sorted(value)}
    return value
