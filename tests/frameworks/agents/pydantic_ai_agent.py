"""A pydantic-ai agent with two tools and a model behind an OpenAI-compatible endpoint."""

import os
import random
import sys
import time

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=os.environ["MODEL_URL"], api_key="sk-a-key-of-nobody-000000")
agent = Agent(OpenAIChatModel("scripted-1", provider=provider), system_prompt="Be brief.")


@agent.tool_plain
def look_up(order: int) -> dict:
    """An order."""
    return {"order": order, "total": 25.0 * order, "at": time.time()}


@agent.tool_plain
async def rate(currency: str) -> str:
    """What a currency costs."""
    return f"{currency} {random.random():.3f}"


if __name__ == "__main__":
    print(agent.run_sync(sys.argv[1]).output)
