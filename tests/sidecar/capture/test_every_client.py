"""One agent that asks by every client, in tasks, a pool and a thread, recorded by the command."""

import pytest
from agent_rig import AgentFolder
from model_rig import ModelServer, Reply, message_stream, sse

from sidecar.tape.files import read_tape

pytestmark = [
    pytest.mark.full,
    pytest.mark.requirement("TAP-02"),
    pytest.mark.requirement("REP-01"),
]
AGENT = """
import asyncio, json, os, threading, urllib.request
from concurrent.futures import ThreadPoolExecutor
import aiohttp, anthropic, httpx, requests

URL = os.environ["URL"]
print(json.load(urllib.request.urlopen(f"{URL}/a")), requests.get(f"{URL}/a").json())

async def main():
    async with aiohttp.ClientSession(URL) as session:
        async def one(n):
            async with session.get("/a", params={"n": n}) as answer:
                return await answer.json()
        print(await asyncio.gather(*map(one, range(5))))
        async with session.get("/events") as answer:
            async for line in answer.content:
                print(line)

asyncio.run(main())
with ThreadPoolExecutor(3) as pool:
    print(list(pool.map(lambda n: requests.get(f"{URL}/a", {"n": n}).json(), range(4))))

def post():
    print(httpx.post(f"{URL}/b", json={"x": 1}).status_code)

thread = threading.Thread(target=post)
thread.start()
thread.join()
try:
    requests.get("http://nowhere.invalid/")
except requests.ConnectionError as error:
    print(type(error).__name__, error)
asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
with anthropic.Anthropic(base_url=URL).messages.stream(**asked) as stream:
    print(list(stream.text_stream))
"""


@pytest.mark.parametrize("capture", ["full", "redacted"])
def test_every_client_of_an_agent_comes_back_with_equal_digests(tmp_path, capture):
    agent = AgentFolder(tmp_path)
    agent.write(AGENT)
    with ModelServer() as server:
        server.on("GET", "/a", lambda asked: Reply({"path": asked.path}))
        server.on("POST", "/b", Reply({}, status=201))
        server.on("GET", "/events", sse({"n": 1}, {"n": 2}))
        server.say(message_stream("It ", "rains."))
        agent.environment = {"URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-abcdefghijklmnop"}
        ran = agent.record(capture=capture)
        assert ran.code == 0, ran.err
    agent.environment = {}
    exact = read_tape(tmp_path / "run.tape").seal.exact_digest
    for _ in range(3):
        again = agent.replay()
        assert again.code == 0, again.err
        assert again.json["exact_digest"] == exact
        assert again.json["broken"] == {}
        assert again.err.startswith(ran.out)  # what the agent prints
