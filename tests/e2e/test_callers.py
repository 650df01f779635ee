"""A real sidecar whose every listener speaks TLS and asks who is calling: by key, by certificate,
by a token of a real provider; and no agent that approves, by any of them."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import grpc
import pytest

from sidecar._pb.v1 import approval_pb2, sidecar_pb2
from tests.oidc_rig import real_provider
from tests.tls_rig import Authority, write

sys.path.insert(0, str(Path(__file__).parent))
from sidecar_process import SidecarProcess
from tenancy_world import EXPORT, spans, trace_id

pytestmark = pytest.mark.full  # minutes on two cores: real processes and servers

AGENT, PERSON, NOBODY = "spiffe://shop/agent", "ana.people.internal", "spiffe://shop/nobody"
TLS = (
    '{cert_file: server.pem, key_file: server.key, client_ca_file: clients.pem, client_auth: "%s"}'
)
OPTIONAL, REQUIRED = TLS % "optional", TLS % "required"
CONFIG = f"""\
seal: {{key_file: seal-key}}
store: {{url: "sqlite:///data"}}
projects: [{{name: a}}, {{name: b}}]
identity:
  mtls:
    - {{san: "{AGENT}", project: a, kind: agent, name: bot}}
    - {{san: "{PERSON}", project: a, kind: approver, name: ana}}
  oidc:
    - name: corp
      issuer: "http://localhost:PORT/"
      audience: web
      allow_cidrs: ["127.0.0.0/8", "::1/128"]
      grants:
        - {{claim: email, value: refund-bot@example.com, project: a, kind: agent}}
        - {{claim: email, value: alice@example.com, project: a, role: reviewer}}
    - name: gone
      issuer: "http://localhost:1/"
      audience: web
      allow_cidrs: ["127.0.0.0/8", "::1/128"]
      grants: [{{claim: sub, value: alice, project: a, role: owner}}]
receive:
  grpc: "127.0.0.1:0"
  http: "127.0.0.1:0"
  grpc_tls: {REQUIRED}
  http_tls: {OPTIONAL}
gateway: {{listen: "127.0.0.1:0", tls: {OPTIONAL}}}
control: {{listen: "127.0.0.1:0", grpc: "127.0.0.1:0", tls: {OPTIONAL}, grpc_tls: {REQUIRED}}}
metrics: {{listen: "127.0.0.1:0", tls: {{cert_file: server.pem, key_file: server.key}}}}
"""
# What each caller may do; "not found" tells that it may.
EXPECTED = {
    "agent": {"telemetry": True, "tools": True, "read": False, "decide": False},
    "person": {"telemetry": False, "tools": False, "read": True, "decide": True},
    "nobody": dict.fromkeys(("telemetry", "tools", "read", "decide"), False),
}


class Callers:
    """Requests of a caller that shows a certificate, a bearer credential, or both."""

    def __init__(self, addresses, authority, contexts, pairs):
        self.addresses, self.authority = addresses, authority
        self.contexts, self.pairs = contexts, pairs

    def address(self, listener):
        return "localhost:" + self.addresses[listener].rpartition(":")[2]

    async def http(self, listener, method, path, certificate, bearer, **more):
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        connector = aiohttp.TCPConnector(ssl=self.contexts[certificate])
        url = f"https://{self.address(listener)}{path}"
        headers |= more.pop("headers", {})
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, url, headers=headers, **more) as answer,
        ):
            return answer.status

    async def grpc(self, listener, method, message, certificate, bearer):
        chain, key = self.pairs[certificate] if certificate else (None, None)
        credentials = grpc.ssl_channel_credentials(self.authority.pem, key, chain)
        metadata = (("authorization", f"Bearer {bearer}"),) if bearer else ()
        async with grpc.aio.secure_channel(self.address(listener), credentials) as channel:
            try:
                await channel.unary_unary(method)(message, metadata=metadata, timeout=15)
            except grpc.aio.AioRpcError as error:
                return error.code().name
        return "OK"

    async def may(self, *shown):
        """What a caller may do, told alike by both wires."""
        told = await self.told(*shown)
        refused = {401, 403, "UNAUTHENTICATED", "PERMISSION_DENIED"}
        allowed = {200, 404, "OK", "NOT_FOUND"}
        assert all(each in refused | allowed for both in told.values() for each in both), told
        said = {name: {each in allowed for each in both} for name, both in told.items()}
        assert all(len(both) == 1 for both in said.values()), told
        return {name: both.pop() for name, both in said.items()}

    async def told(self, certificate=None, bearer=None, grpc_certificate=None):
        """What each listener answers."""
        shown = (certificate, bearer)
        over_grpc = (grpc_certificate or certificate, bearer)
        data = spans(trace_id("a", 1), "work", 1)
        vote = approval_pb2.DenyRequest(approval_id="none", reason="x").SerializeToString()
        return {
            "telemetry": (
                await self.http("receive.http", "POST", "/v1/traces", *shown, data=data,
                                headers={"Content-Type": "application/x-protobuf"}),
                await self.grpc("receive.grpc", EXPORT, data, *over_grpc),
            ),
            "tools": (await self.http("gateway.listen", "GET", "/shop/orders/1", *shown),),
            "read": (
                await self.http("control.listen", "GET", "/v1/traces", *shown),
                await self.grpc("control.grpc", "/sidecar.v1.SidecarService/GetVersion", b"",
                                *over_grpc),
            ),
            "decide": (
                await self.http("control.listen", "POST", "/v1/approvals/none/deny", *shown,
                                json={"reason": "x"}),
                await self.grpc("control.grpc", "/sidecar.v1.ApprovalService/Deny", vote,
                                *over_grpc),
            ),
        }  # fmt: skip


def unsigned(**claims):
    parts = ({"alg": "RS256", "kid": "k"}, claims, {})
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts
    )


async def scenario(folder):
    authority, clients = Authority(), Authority("clients")
    write(folder, authority.issue("ip:127.0.0.1", "dns:localhost"))
    (folder / "clients.pem").write_bytes(clients.pem)
    (folder / "ca.pem").write_bytes(authority.pem)
    names = {"agent": f"uri:{AGENT}", "person": f"dns:{PERSON}", "nobody": f"uri:{NOBODY}"}
    pairs = {who: clients.issue(name, client=True) for who, name in names.items()}
    contexts = {who: authority.trusting(folder, *pair) for who, pair in pairs.items()}
    contexts[None] = authority.trusting(folder)
    async with real_provider(folder) as provider:
        process = SidecarProcess(folder, CONFIG.replace("PORT", str(provider.port)))
        try:
            await asyncio.to_thread(process.start)
            callers = Callers(process.addresses, authority, contexts, pairs)
            for who, expected in EXPECTED.items():
                assert await callers.may(who) == expected, who
            tokens = {
                "agent": await provider.implicit_token("refund-bot"),
                "person": await provider.implicit_token("alice"),
                "nobody": await provider.implicit_token("mallory"),
            }
            for who, expected in EXPECTED.items():
                # A listener that requires a certificate asks for a credential all the same.
                assert await callers.may(None, tokens[who], "nobody") == expected, who
            # A bearer credential is the one that counts.
            assert await callers.may("person", tokens["agent"]) == EXPECTED["agent"]
            assert await callers.may("person", "sk_approver_x") == EXPECTED["nobody"]
            keys = {kind: await asyncio.to_thread(process.key, kind, "a")
                    for kind in ("agent", "approver")}  # fmt: skip
            assert await callers.may("nobody", keys["agent"]) == EXPECTED["agent"]
            assert await callers.may("agent", keys["approver"]) == EXPECTED["person"]
            # Who cannot be told from a stranger now may come again; nothing is done meanwhile.
            lost = unsigned(iss="http://localhost:1/", aud="web", sub="alice")
            answers = await callers.told(None, lost, "nobody")
            assert {each for both in answers.values() for each in both} == {503, "UNAVAILABLE"}
            # Health needs nobody's credential, but TLS.
            assert await callers.http("metrics.listen", "GET", "/healthz", None, None) == 200
            with pytest.raises(grpc.aio.AioRpcError):
                await ask_without_certificate(callers)
            assert (await asyncio.to_thread(approve, folder, callers, keys["approver"])) == (
                3, "there is no such approval in this project"
            )  # fmt: skip
        finally:
            await asyncio.to_thread(process.stop)
        assert "Traceback" not in process.errors()


async def ask_without_certificate(callers):
    credentials = grpc.ssl_channel_credentials(callers.authority.pem)
    async with grpc.aio.secure_channel(callers.address("control.grpc"), credentials) as channel:
        call = channel.unary_unary("/sidecar.v1.SidecarService/GetVersion")
        await call(sidecar_pb2.GetVersionRequest().SerializeToString(), timeout=5)


def approve(folder, callers, key):
    """The command over TLS, which verifies the listener by ``client.ca_file``."""
    environment = {**os.environ, "SIDECAR_CLIENT_KEY": key, "SIDECAR_CLIENT_CA_FILE": "ca.pem"}
    environment["SIDECAR_CLIENT_URL"] = f"https://{callers.address('control.listen')}"
    command = [sys.executable, "-m", "sidecar", "approvals", "approve", "none", "--reason", "x"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stderr.partition(" (")[0].removeprefix("error: ").strip()


@pytest.mark.requirement("REC-05")
@pytest.mark.requirement("GW-07")
@pytest.mark.requirement("OPS-01")
def test_every_listener_asks_over_tls_and_no_credential_makes_an_agent_an_approver(tmp_path):
    asyncio.run(scenario(tmp_path))


@pytest.mark.requirement("OPS-01")
@pytest.mark.parametrize("gone", ["server.pem", "clients.pem"])
def test_a_certificate_that_is_missing_stops_the_start_and_is_named(tmp_path, gone):
    write(tmp_path, Authority().issue("dns:localhost"))
    (tmp_path / "clients.pem").write_bytes(Authority().pem)
    (tmp_path / gone).unlink()
    process = SidecarProcess(tmp_path, CONFIG.replace("PORT", "2"))
    with pytest.raises(AssertionError):
        process.start()
    assert process.process.wait(30) == 3
    process.stop()
    said = process.errors()
    assert gone in said and "cannot be read" in said and "Traceback" not in said
