"""A streamed run of pydantic-ai with a tool, and one with structured output."""

import asyncio
import os

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Weather(BaseModel):
    city: str
    degrees: float


provider = OpenAIProvider(base_url=os.environ["MODEL_URL"])
agent = Agent(OpenAIChatModel("scripted-1", provider=provider), system_prompt="be short")


async def main():
    async with agent.run_stream("weather?") as run:
        print("|".join([text async for text in run.stream_text(delta=True, debounce_by=None)]))
    found = await agent.run("weather of Oslo?", output_type=Weather)
    print(repr(found.output))


asyncio.run(main())
