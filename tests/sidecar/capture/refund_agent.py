"""An agent as people write them: a model by the real client, tools that run at the same time, and
the time, dice, environment and files it reads. Copied beside its data by the tests that run it."""

import asyncio
import json
import os
import random
import sys
import time
import uuid
from pathlib import Path

from openai import AsyncOpenAI

from sidecar.sdk.driver import tool

HERE = Path(__file__).parent
PROMPT = "You refund orders. Be brief."


@tool
async def look_up(order):
    """An order's file."""
    await asyncio.sleep(0.002 * (3 - order))
    return json.loads((HERE / "orders" / f"{order}.json").read_text())


@tool(name="rate")
async def rate_of(currency):
    await asyncio.sleep(0.001)
    return {"currency": currency, "rate": random.uniform(1, 2)}


@tool
def refund(order, amount):
    return {"refunded": order, "amount": amount, "at": time.time()}


TOOLS = {"look_up": look_up, "rate": rate_of, "refund": refund}


async def main(ask):
    client = AsyncOpenAI(base_url=os.environ["MODEL_URL"], api_key="sk-a-key-of-nobody-000000")
    run = uuid.uuid4()
    budget = time.monotonic() + 60
    note = random.choice(["kindly", "promptly"])
    messages = [
        {"role": "system", "content": f"{PROMPT} Answer {note}. Run {run}."},
        {"role": "user", "content": ask},
    ]
    model = os.environ.get("MODEL", "scripted-1")
    for _ in range(4):
        answer = await client.chat.completions.create(model=model, messages=messages)
        said = answer.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        if not said.tool_calls:
            break
        results = await asyncio.gather(*map(call, said.tool_calls))
        for one, result in zip(said.tool_calls, results, strict=True):
            text = json.dumps(result)
            messages.append({"role": "tool", "tool_call_id": one.id, "content": text})
        assert time.monotonic() < budget
    policy = (HERE / "policy.txt").read_text()
    (HERE / "sent.txt").write_text(f"{said.content} {policy}")
    print(said.content, (HERE / "sent.txt").read_text())
    await client.close()


async def call(wanted):
    function = TOOLS[wanted.function.name]
    arguments = json.loads(wanted.function.arguments)
    result = function(**arguments)
    return await result if asyncio.iscoroutine(result) else result


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
