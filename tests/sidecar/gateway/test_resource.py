"""Tokens at the gateway are meant for it, clients are told where to get one, and none goes on."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey
from mcp_rig import gated

from sidecar import clock
from sidecar.config import load
from sidecar.egress.client import Egress
from sidecar.errors import SidecarError
from sidecar.gateway.config import Match, Tool
from sidecar.identity.config import ClaimGrant, Provider
from sidecar.identity.http import KeySource, OidcTokens

RESOURCE = "https://gateway.example"
ADD = {"name": "add", "inputSchema": {"type": "object"}}
TOOLS = (Tool(name="add", upstream="crm", class_="read", match=Match(tool="add")),)
pytestmark = pytest.mark.requirement("MCP-01")


class Place:
    """An MCP server that keeps what it is sent, and the keys of an identity provider."""

    def __init__(self):
        self.key = RSAKey.generate_key(2048, {"kid": "k1"})
        self.sent = []

    async def answer(self, request):
        if request.path == "/keys":
            return web.json_response({"keys": [self.key.as_dict(private=False)]})
        said = await request.json()
        self.sent.append((said["method"], dict(request.headers), await request.text()))
        result = {"tools": [ADD]} if said["method"] == "tools/list" else {"content": []}
        return web.json_response({"jsonrpc": "2.0", "id": said["id"], "result": result})

    def token(self, *audience):
        payload = {"iss": self.issuer, "aud": list(audience), "sub": "bot", "role": "agent",
                   "exp": int(time.time()) + 60}  # fmt: skip
        return jwt.encode({"alg": "RS256", "kid": "k1"}, payload, self.key)


@asynccontextmanager
async def place():
    made = Place()
    runner = web.ServerRunner(web.Server(made.answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    made.issuer = f"http://127.0.0.1:{made.port}"
    try:
        yield made
    finally:
        await runner.cleanup()


def run(folder, scenario, *, resource=RESOURCE):
    async def main():
        async with asyncio.timeout(20), place() as made:
            provider = Provider(
                name="corp", issuer=made.issuer, audience="everything of ours",
                jwks_url=f"{made.issuer}/keys", allow_cidrs=("127.0.0.0/8",),
                grants=(ClaimGrant(claim="role", value="agent", project="default", kind="agent"),),
            )  # fmt: skip
            egress = Egress()
            source = KeySource(provider, egress, clock.monotonic_ns)
            tokens = OidcTokens([(provider, source)], clock.now_ns, {})
            async with gated(
                folder, made.port, {"tools": [ADD]}, configured=TOOLS,
                resource=resource, issuers=[made.issuer],
            ) as each:  # fmt: skip
                each.tokens, each.place = tokens, made
                await scenario(each)
            await tokens.stop()
            await egress.close()

    asyncio.run(main())


def listing():
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "add", "arguments": {}, "_meta": meta}}  # fmt: skip
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "add"}
    return body, headers


@pytest.mark.row("CVE-2026-44428", "CVE-2026-32871")
def test_a_token_opens_the_resource_it_is_meant_for_and_goes_no_further(tmp_path):
    async def scenario(each):
        body, headers = listing()

        async def status(*audience):
            token = each.place.token(*audience)
            return (await each.post(body, headers=headers, credential=token))[0]

        assert await status(f"{RESOURCE}/mcp/crm") == 200
        assert await status("other", RESOURCE) == 200
        for other in (
            "everything of ours", f"{RESOURCE}/mcp/erp", f"{RESOURCE}/", "https://other.example",
            RESOURCE.upper(), "",
        ):  # fmt: skip
            assert await status(other) == 401, other
        sent = [item for item in each.place.sent if item[0] == "tools/call"]
        assert len(sent) == 2
        for _, received, text in sent:
            assert "Authorization" not in received and "eyJ" not in f"{received}{text}"
        assert (await each.post(body, headers=headers))[0] == 200  # a key is a key

    run(tmp_path, scenario)


def test_without_a_resource_a_token_is_for_what_its_provider_says(tmp_path):
    async def scenario(each):
        body, headers = listing()
        for audience, status in (("everything of ours", 200), (RESOURCE, 401)):
            token = each.place.token(audience)
            assert (await each.post(body, headers=headers, credential=token))[0] == status
        answer = await each.http.post(each.url, json=body)
        assert answer.headers["www-authenticate"] == 'Bearer realm="sidecar"'
        root = each.url.removesuffix("/mcp/crm")
        answer = await each.http.get(f"{root}/.well-known/oauth-protected-resource/mcp/crm")
        assert answer.status_code == 404

    run(tmp_path, scenario, resource="")


def test_a_client_without_a_credential_is_told_where_to_get_one(tmp_path):
    async def scenario(each):
        root = each.url.removesuffix("/mcp/crm")
        known = f"{RESOURCE}/.well-known/oauth-protected-resource"
        answer = await each.http.post(each.url, json={})
        said = f'Bearer realm="sidecar", resource_metadata="{known}/mcp/crm"'
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, said)
        bad = {"Authorization": "Bearer nonsense"}
        answer = await each.http.post(f"{root}/v1/actions", json={}, headers=bad)
        said = f'Bearer realm="sidecar", error="invalid_token", resource_metadata="{known}"'
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, said)
        for path in ("", "/mcp/crm", "/mcp/nobody-knows-this-one"):
            answer = await each.http.get(f"{root}/.well-known/oauth-protected-resource{path}")
            assert answer.json() == {
                "resource": RESOURCE + path, "resource_name": "AgentTwin gateway",
                "bearer_methods_supported": ["header"],
                "authorization_servers": [each.place.issuer],
            }  # fmt: skip
        for path in ("/mcp/", "/mcp/a/b", "x", "/v1/actions", '/mcp/"x'):
            answer = await each.http.get(f"{root}/.well-known/oauth-protected-resource{path}")
            assert answer.status_code == 404, path

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "url", ["gateway.example", "https://g.example/", "https://u@g", "https://g?x"]
)
def test_a_resource_is_scheme_and_authority(tmp_path, url):
    (tmp_path / "sidecar.yaml").write_text(f"gateway: {{resource: '{url}'}}")
    with pytest.raises(SidecarError) as refused:
        load(str(tmp_path / "sidecar.yaml"))
    assert "gateway.resource is no http(s)://host[:port]" in str(refused.value)
