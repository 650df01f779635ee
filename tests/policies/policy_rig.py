"""Documents put to the embedded engine as the gateway puts them, both entry points each."""

import asyncio
import json

from sidecar.gateway.policy.client import Child
from sidecar.gateway.policy.document import encode, part
from sidecar.gateway.policy.driver import inspect
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.process import ANSWER, DECIDE, LAST, LIST, LOAD


async def embedded_answers(folder, inputs, *, inspected=True, folded=True):
    """What the engine says to each: decide, list, decide, list, …; None undefined, or "error".

    ``folded``: as the gateway's children hold the bundle."""
    bundle = load_bundle(folder)
    if inspected:
        found = await inspect(bundle)
        assert found.findings == ()
        child, bundle = found.child, found.folded if folded else found.bundle
        inputs = [part(made, found.members if folded else None) for made in inputs]
    else:
        child = await Child.start()
    await child.load(bundle, warm=False)
    found, done = {}, asyncio.Event()

    def keep(_child, identity, status, payload):
        found[identity] = (status, payload)
        if len(found) == 2 * len(inputs):
            done.set()

    child.on_frame = keep
    for number, made in enumerate(inputs):
        child.send(2 * number + 1, DECIDE, encode(made))
        child.send(2 * number + 2, LIST, encode(made))
    await asyncio.wait_for(done.wait(), 30)
    child.kill()
    await child.ended()
    return [_value(*found[identity]) for identity in sorted(found)]


def _value(status, payload):
    if status != ANSWER:
        return "error"
    return None if payload == b'"<undefined>"' else json.loads(payload)


async def rule_answers(text, names, documents):
    """What the engine says to rules ``data.seams.<name>`` on each document, row by row."""
    child, found = await Child.start(), []
    try:
        for name in names:
            question = f"package agenttwin.v1\n\ndecide := data.seams.{name}\n"
            modules = [["seams.rego", text], ["question.rego", question]]
            bundle = {"modules": modules, "data": {}, "warm": False}
            await _told(child, LOAD, json.dumps(bundle).encode())
            row = []
            for each in documents:
                status, payload = await _told(child, DECIDE, json.dumps(each).encode())
                row.append(_value(status, payload))
                if status == LAST:
                    child.kill()
                    await child.ended()
                    child = await Child.start()
                    await _told(child, LOAD, json.dumps(bundle).encode())
            found.append(row)
    finally:
        child.on_frame = child.on_lost = lambda *_: None
        child.kill()
        await child.ended()
    return found


async def _told(child, kind, payload):
    heard = asyncio.get_running_loop().create_future()
    child.on_frame = lambda _child, _id, status, text: heard.set_result((status, text))
    child.send(1, kind, payload)
    return await asyncio.wait_for(heard, 10)
