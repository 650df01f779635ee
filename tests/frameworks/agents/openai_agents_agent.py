"""An agent of the OpenAI Agents SDK with two tools and a model behind a compatible endpoint."""

import asyncio
import os
import random
import sys
import time

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def look_up(order: int) -> dict:
    """An order."""
    return {"order": order, "total": 25.0 * order, "at": time.time()}


@function_tool
async def rate(currency: str) -> str:
    """What a currency costs."""
    return f"{currency} {random.random():.3f}"


async def main(ask):
    client = AsyncOpenAI(base_url=os.environ["MODEL_URL"], api_key="sk-a-key-of-nobody-000000")
    model = OpenAIChatCompletionsModel(model="scripted-1", openai_client=client)
    agent = Agent(name="refunds", instructions="Be brief.", model=model, tools=[look_up, rate])
    found = await Runner.run(agent, ask)
    print(found.final_output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
