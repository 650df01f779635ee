"""A real MCP client over streamable HTTP, whose event stream stays open all along (vcrpy#989)."""

import subprocess
import sys

import pytest
from wires_rig import Twice, events

pytestmark = pytest.mark.full

SERVER = """
import socket, uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")

@server.tool(name="add")
async def add(a: int, b: int) -> int:
    return a + b

listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
uvicorn.Server(config).run([listening])
"""


class McpServer:
    """A server of the official SDK, in a process of its own: an agent has none in its own."""

    asked = ()

    def __enter__(self):
        command = [sys.executable, "-c", SERVER]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/mcp"
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()


async def agent(server):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with (
        streamable_http_client(server.url) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        tools = await session.list_tools()
        found = await session.call_tool("add", {"a": 1, "b": 2})
        return [tool.name for tool in tools.tools], found.content[0].text


@pytest.mark.requirement("TAP-02")
@pytest.mark.row("R7")
def test_an_mcp_client_and_its_open_stream_are_recorded_and_played(tmp_path):
    run = Twice(tmp_path, agent)
    with McpServer() as server:
        run.record(server)
    assert run.seen == [(["add"], "3")]
    calls = [event.name.partition(" ")[0] for event in events(run.tape, "tool_call")]
    assert sorted(calls) == ["DELETE", "GET", "POST", "POST", "POST", "POST"]
    assert run.replay().drift is None
    assert run.seen[1] == run.seen[0]
