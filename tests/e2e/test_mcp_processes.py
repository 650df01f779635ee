"""MCP over two sidecar processes on one Postgres: a carried state is worth one call, and a call
that was cancelled while it was sent is known to the other process."""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
from mcp_rig import Crm, definitions_of, served
from postgres_rig import Server

sys.path.insert(0, str(Path(__file__).parent))
from sidecar_process import SidecarProcess

pytestmark = [pytest.mark.full, pytest.mark.requirement("MCP-01"), pytest.mark.row("K")]

CONFIG = """\
seal: {{key_file: seal-key}}
store: {{url: "{url}", local: data}}
receive: {{grpc: "", http: ""}}
gateway:
  listen: "127.0.0.1:0"
  mcp:
    - name: crm
      url: "http://127.0.0.1:{crm}/mcp"
      allow_cidrs: [127.0.0.0/8]
      definitions: definitions.json
  tools:
    - {{name: find_customer, upstream: crm, class: read, match: {{tool: find_customer}}}}
    - {{name: add_note, upstream: crm, class: {kind}, match: {{tool: add_note}}, timeout: 20s}}
control: {{listen: "127.0.0.1:0", grpc: "127.0.0.1:0"}}
metrics: {{listen: "127.0.0.1:0"}}
"""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
}
HEADERS = {
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "add_note",
    "Accept": "application/json, text/event-stream",
}


class Pair:
    """Two sidecars with one seal key on one database, before one MCP server."""

    async def call(self, sidecar, number, *, meta=(), **params):
        """What an ``add_note`` gives: its result or its error."""
        asked = {
            "jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": {"name": "add_note", "arguments": {"customer": "Ada", "text": "called"},
                       "_meta": {**META, **dict(meta)}, **params},
        }  # fmt: skip
        url = f"http://{self.sidecars[sidecar].addresses['gateway.listen']}/mcp/crm"
        headers = {**HEADERS, "Authorization": f"Bearer {self.agent}"}
        answer = await self.http.post(url, json=asked, headers=headers)
        text = answer.text
        if answer.headers["content-type"].startswith("text/event-stream"):
            text = [line[6:] for line in text.splitlines() if line.startswith("data: ")][-1]
        return json.loads(text)

    async def control(self, sidecar, method, path, body=None):
        url = f"http://{self.sidecars[sidecar].addresses['control.listen']}{path}"
        headers = {"Authorization": f"Bearer {self.approver}"}
        return (await self.http.request(method, url, json=body, headers=headers)).json()


def run(folder, scenario, kind):
    async def main():
        async with AsyncExitStack() as stack:
            crm, made = Crm(), Pair()
            server = await asyncio.to_thread(Server)
            stack.push_async_callback(asyncio.to_thread, server.stop)
            port = await stack.enter_async_context(served(crm.server()))
            definitions = json.dumps(await definitions_of(port))
            database = await asyncio.to_thread(server.new_database)
            url, key = server.url(database), os.urandom(32).hex()
            made.crm, made.sidecars = crm, []
            for name in ("a", "b"):
                (folder / name).mkdir()
                (folder / name / "seal-key").write_text(key)
                (folder / name / "definitions.json").write_text(definitions)
                config = CONFIG.format(url=url, crm=port, kind=kind)
                made.sidecars.append(SidecarProcess(folder / name, config))
                await asyncio.to_thread(made.sidecars[-1].start)
                stack.push_async_callback(asyncio.to_thread, made.sidecars[-1].stop)
            made.agent, made.approver = [
                await asyncio.to_thread(made.sidecars[0].key, each)
                for each in ("agent", "approver")
            ]
            made.http = await stack.enter_async_context(httpx2.AsyncClient(timeout=40))
            await scenario(made)

    asyncio.run(main())


def test_a_state_is_worth_one_call_whichever_process_it_is_brought_to(tmp_path):
    async def scenario(made):
        asked = (await made.call(0, 1))["result"]
        assert asked["resultType"] == "input_required", asked
        (listed,) = (await made.control(1, "GET", "/v1/approvals?status=pending"))["approvals"]
        vote = {"reason": "checked", "shown_digest": listed["shown_digest"]}
        await made.control(1, "POST", f"/v1/approvals/{listed['approval_id']}/approve", vote)
        carried = {
            "requestState": asked["requestState"],
            "inputResponses": {"approve": {"action": "accept"}},
        }
        found = await asyncio.gather(
            *(made.call(number % 2, number, **carried) for number in range(2, 22))
        )
        assert made.crm.notes == [("Ada", "called")]
        told = {each["result"]["content"][0]["text"] for each in found if "result" in each}
        refused = {each["error"]["data"]["code"] for each in found if "error" in each}
        assert told == {"noted 1"} and refused <= {"in_flight"}
        changed = {**carried, "requestState": carried["requestState"][:-2] + "xx"}
        wrong = await made.call(1, 30, **changed)
        assert wrong["error"]["data"]["code"] == "request_state_invalid"

    run(tmp_path, scenario, "irreversible")


def test_a_call_that_was_cancelled_while_sent_is_known_to_the_other_process(tmp_path):
    async def scenario(made):
        keyed = {"agenttwin/idempotencyKey": "note-1"}
        made.crm.hold.clear()
        sent = asyncio.ensure_future(made.call(0, 1, meta=keyed))
        await made.crm.begun.wait()
        sent.cancel()
        await asyncio.gather(sent, return_exceptions=True)
        again = await made.call(1, 2, meta=keyed)
        assert again["error"]["data"]["code"] == "in_flight", again
        made.crm.hold.set()
        async with asyncio.timeout(30):
            while "result" not in (again := await made.call(1, 3, meta=keyed)):
                assert again["error"]["data"]["code"] == "in_flight", again
                await asyncio.sleep(0.05)
        assert again["result"]["content"][0]["text"] == "noted 1"
        assert made.crm.notes == [("Ada", "called")]

    run(tmp_path, scenario, "write")
