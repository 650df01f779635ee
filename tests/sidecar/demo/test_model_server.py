"""The model server speaks the wire format that the real openai client reads."""

import asyncio
import json

import openai
import pytest
from aiohttp import web

from sidecar.demo import model_server, prompts, script
from sidecar.demo.toolbox import TOOLS

OFFERED = [tool.for_model() for tool in TOOLS]


def ask(scenario):
    async def main():
        runner = web.AppRunner(model_server.application(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        try:
            async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
                await scenario(client)
        finally:
            await runner.cleanup()

    asyncio.run(main())


def messages(text):
    return [
        {"role": "system", "content": prompts.system_prompt("1.2.4")},
        {"role": "user", "content": text},
    ]


async def complete(client, text="Refund ORD-1", **more):
    return await client.chat.completions.create(
        **{"model": script.MODEL, "messages": messages(text), "tools": OFFERED, **more}
    )


def test_a_tool_call_has_an_id_arguments_and_usage():
    async def scenario(client):
        completion = await complete(client)
        choice = completion.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.tool_calls[0].function.name == "get_order"
        assert json.loads(choice.message.tool_calls[0].function.arguments) == {"order_id": "ORD-1"}
        usage = completion.usage
        assert usage.prompt_tokens > usage.completion_tokens > 0
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens

    ask(scenario)


def test_ids_are_fresh_without_a_seed_and_repeat_under_one():
    async def scenario(client):
        def identity(completion):
            return completion.id, completion.choices[0].message.tool_calls[0].id

        assert identity(await complete(client)) != identity(await complete(client))
        assert identity(await complete(client, seed=3)) == identity(await complete(client, seed=3))
        assert identity(await complete(client, seed=3)) != identity(await complete(client, seed=4))

    ask(scenario)


def test_refusals_have_openai_s_shape():
    async def scenario(client):
        with pytest.raises(openai.NotFoundError):
            await complete(client, model="gpt-4o")
        with pytest.raises(openai.BadRequestError, match="does not stream"):
            await complete(client, stream=True)
        with pytest.raises(openai.BadRequestError, match="messages"):
            await complete(client, messages="hello")

    ask(scenario)
