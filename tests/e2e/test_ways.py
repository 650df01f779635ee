"""Every way into a real ``sidecar serve``: proxies, an action by name, MCP, and Envoy's check."""

import asyncio
import json
import threading

import grpc
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_rig import Crm, definitions_of, served
from sidecar_process import CONFIG, SidecarProcess

from sidecar.gateway.authz import client as envoy

GATEWAY = """\
gateway:
  listen: "127.0.0.1:0"
  accept_ephemeral_ledger: true
  ext_authz: {{on: true}}
  authzen: {{on: true}}
  resource: "https://gateway.example"
  body_bytes_max: 4194304
  upstreams: [{{name: web, url: "http://127.0.0.1:{port}", allow_cidrs: ["127.0.0.0/8"]}}]
  mcp:
    - {{name: crm, url: "http://127.0.0.1:{port}/mcp", allow_cidrs: ["127.0.0.0/8"],
       definitions: crm.tools.json}}
  tools:
    - {{name: find_customer, upstream: crm, match: {{tool: find_customer}}, class: read}}
    - {{name: look, upstream: web, match: {{method: GET, path: "/none/{{what}}"}}, class: read}}
    - {{name: measure, upstream: web, match: {{method: POST, path: "/none/{{what}}"}}, class: read}}
    - {{name: customers, upstream: crm, match: {{resource: "crm://customers/*"}}, class: read}}
"""


@pytest.fixture
def crm():
    """The port of a CRM in a thread, and its definitions."""
    told, stop, ready = {}, threading.Event(), threading.Event()

    def serve():
        async def life():
            made = Crm().server()
            made.resource("crm://customers/{name}", name="a customer")(
                lambda name: f"file of {name}"
            )
            async with served(made) as port:
                told.update(port=port, definitions=await definitions_of(port))
                ready.set()
                await asyncio.to_thread(stop.wait)

        asyncio.run(life())

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(20)
    yield told
    stop.set()
    thread.join()


@pytest.fixture
def sidecar(tmp_path, crm):
    (tmp_path / "crm.tools.json").write_text(json.dumps(crm["definitions"]))
    lines = [line for line in CONFIG.splitlines() if not line.startswith("gateway:")]
    config = "\n".join(lines) + "\n" + GATEWAY.format(port=crm["port"])
    process = SidecarProcess(tmp_path, config)
    process.key_text = process.key()
    process.start()
    yield process
    assert process.stop() == 0, process.errors()[-2000:]


def check(key, port, path):
    made = envoy._class("CheckRequest")()
    http = made.attributes.request.http
    http.method, http.host, http.path = "GET", f"127.0.0.1:{port}", path
    http.headers["authorization"] = f"Bearer {key}"
    return made.SerializeToString()


@pytest.mark.full
@pytest.mark.requirement("GW-01")
@pytest.mark.requirement("EXT-01")
def test_every_way_in_leads_to_the_same_gateway(sidecar, crm):
    key, here = sidecar.key_text, f"http://{sidecar.addresses['gateway.listen']}"
    bearer = {"Authorization": f"Bearer {key}"}
    own = f"http://127.0.0.1:{crm['port']}/none/x"
    receipts = set()

    def seen(answer):
        assert answer.status_code == 404, answer.text  # the tool's own word: it has no such page
        assert answer.headers["gateway-decision"]
        receipts.add(answer.headers["gateway-receipt"])

    with httpx2.Client(trust_env=False) as plain:
        seen(plain.get(f"{here}/web/none/x", headers=bearer))
        action = {"tool": "look", "arguments": {"what": "x"}}
        seen(plain.post(f"{here}/v1/actions", headers=bearer, json=action))
    proxy = here.replace("http://", f"http://agent:{key}@")
    with httpx2.Client(proxy=proxy, trust_env=False) as proxied:
        seen(proxied.get(own))
    assert len(receipts) == 3

    async def by_mcp():
        async with httpx2.AsyncClient(headers=bearer) as http:
            transport = streamable_http_client(f"{here}/mcp/crm", http_client=http)
            async with Client(transport, mode="2026-07-28", cache=None) as client:
                found = await client.list_tools()
                answer = await client.call_tool("find_customer", {"name": "Ada"})
                return [tool.name for tool in found.tools], answer.content[0].text

    names, text = asyncio.run(by_mcp())
    assert "find_customer" in names and text == "customer Ada"
    with grpc.insecure_channel(sidecar.addresses["control.grpc"]) as channel:
        ask = channel.unary_unary(f"/{envoy.SERVICE}/Check")
        answers = [ask(check(key, crm["port"], path)) for path in ("/none/x", "/admin")]
    codes = [envoy._class("CheckResponse").FromString(each).status.code for each in answers]
    assert codes == [0, 7]


@pytest.mark.full
@pytest.mark.requirement("GW-01")
def test_what_stands_beside_calls_is_served_too(sidecar, crm):
    here = f"http://{sidecar.addresses['gateway.listen']}"
    bearer = {"Authorization": f"Bearer {sidecar.key_text}"}
    with httpx2.Client(trust_env=False) as plain:
        refused = plain.post(f"{here}/mcp/crm", json={})
        where = refused.headers["www-authenticate"].rpartition('resource_metadata="')[2][:-1]
        assert where.startswith("https://gateway.example/")
        told = plain.get(here + where.removeprefix("https://gateway.example")).json()
        assert told["resource"] == "https://gateway.example/mcp/crm"
        # A body that memory is not asked to hold reaches the tool, which has no such page.
        large = {**bearer, "Content-Type": "application/octet-stream"}
        answer = plain.post(f"{here}/web/none/x", headers=large, content=bytes(3 * 1024**2))
        assert answer.status_code == 404 and answer.headers["gateway-receipt"], answer.text
        key_id = sidecar.key_text.split("_")[2]
        question = {
            "subject": {"type": "agent", "id": f"key:{key_id}"},
            "resource": {"type": "tool", "id": "look"},
            "action": {"name": "call", "properties": {"arguments": {"what": "x"}}},
        }
        said = plain.post(f"{here}/access/v1/evaluation", headers=bearer, json=question).json()
        assert said["decision"] is True, said

    async def by_mcp():
        async with httpx2.AsyncClient(headers=bearer) as http:
            transport = streamable_http_client(f"{here}/mcp/crm", http_client=http)
            async with Client(transport, mode="2026-07-28", cache=None) as client:
                read = await client.read_resource("crm://customers/ada")
                found = await client.list_resource_templates()
                return read.contents[0].text, len(found.resource_templates)

    assert asyncio.run(by_mcp()) == ("file of ada", 1)
