"""A run of openai-agents over the responses endpoint, at once with a tool, and streamed."""

import asyncio
import os

from agents import Agent, Runner, function_tool, set_default_openai_client
from openai import AsyncOpenAI


@function_tool
def look(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


agent = Agent(name="weather", instructions="be short", tools=[look], model="scripted-1")


async def main():
    set_default_openai_client(AsyncOpenAI(base_url=os.environ["MODEL_URL"]))
    print((await Runner.run(agent, "weather?")).final_output)
    run = Runner.run_streamed(agent, "and tomorrow?")
    print("|".join([event.type async for event in run.stream_events()]))
    print(run.final_output)


asyncio.run(main())
