"""Streams of langchain-openai: chat completions, at once and asynchronously."""

import asyncio
import os

from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="scripted-1", base_url=os.environ["MODEL_URL"])
print("|".join(chunk.text for chunk in model.stream("weather?")))


async def main():
    print("|".join([chunk.text async for chunk in model.astream("and tomorrow?")]))


asyncio.run(main())
