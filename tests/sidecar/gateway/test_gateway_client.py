"""The gateway's HTTP upstreams: credentials, idempotency header, what comes back, failures."""

import asyncio

import pytest
from aiohttp import web

from sidecar.egress.client import Egress
from sidecar.gateway.client import HttpUpstreams
from sidecar.gateway.config import Credential, Idempotency, Match, Tool, Upstream
from sidecar.gateway.registry import Registry
from sidecar.gateway.upstream import UpstreamFailed, UpstreamRequest

TOOL = Tool(
    name="pay",
    upstream="payments",
    match=Match(method="POST", path="/pay"),
    idempotency=Idempotency(header="PayPal-Request-Id"),
)


def request(**changes):
    wanted = {
        "tool": "pay",
        "class_": "irreversible",
        "upstream": "payments",
        "method": "POST",
        "path": "/pay",
        "query_raw": "a=%20",
        "headers": (("content-type", "application/json"), ("authorization", "Bearer agents-own")),
        "body": b'{"a":1}',
        "idempotency_key": "agw_1",
        "timeout_ns": 2_000_000_000,
        "call_id": "c",
    }
    return UpstreamRequest(**{**wanted, **changes})


def serving(credential, scenario):
    seen = []

    async def answer(received):
        seen.append((received.raw_path, dict(received.headers), await received.read()))
        return web.Response(
            status=201,
            text="done",
            headers={"Set-Cookie": "a=b", "X-Kept": "yes", "Connection": "X-Gone", "X-Gone": "1"},
        )

    async def main():
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        upstream = Upstream(
            name="payments",
            url=f"http://127.0.0.1:{port}",
            allow_cidrs=("127.0.0.0/8",),
            credential=credential,
        )
        upstreams = HttpUpstreams(Registry.from_config((upstream,), (TOOL,), {}), Egress())
        try:
            return await scenario(upstreams)
        finally:
            await upstreams.close()
            await runner.cleanup()

    return asyncio.run(main()), seen


def test_the_upstream_gets_our_credential_and_key_and_the_agent_nothing_of_browsers(tmp_path):
    secret = tmp_path / "payments"
    secret.write_text("Bearer first\n")

    async def scenario(upstreams):
        reply = await upstreams.send(request())
        secret.write_text("Bearer second\n")
        await upstreams.send(request(idempotency_key=None))
        return reply

    reply, seen = serving(Credential(header="Authorization", file=str(secret)), scenario)
    assert (reply.status, reply.body) == (201, b"done")
    names = {name for name, _ in reply.headers}
    assert "x-kept" in names
    assert not names & {"set-cookie", "server", "connection", "x-gone", "content-length"}
    (path, headers, body), (_, later, _) = seen
    assert (path, body) == ("/pay?a=%20", b'{"a":1}')
    lower = {name.lower(): value for name, value in headers.items()}
    assert (lower["authorization"], lower["paypal-request-id"]) == ("Bearer first", "agw_1")
    assert "Bearer second" in later.values() and "agw_1" not in later.values()


@pytest.mark.parametrize("content", [None, "", "two\nlines", "caf\u00e9"])
def test_without_a_usable_credential_nothing_is_sent(tmp_path, content, capsys):
    secret = tmp_path / "payments"
    if content is not None:
        secret.write_text(content)

    async def scenario(upstreams):
        with pytest.raises(UpstreamFailed) as caught:
            await upstreams.send(request())
        return caught.value

    failure, seen = serving(Credential(header="Authorization", file=str(secret)), scenario)
    assert not failure.sent and str(secret) not in failure.reason and seen == []
    logged = "".join(capsys.readouterr())
    assert str(secret) in logged  # where the operator looks, and not the agent
    assert not content or content not in failure.reason + logged


def test_an_unknown_upstream_is_a_failure_that_sent_nothing():
    async def scenario(upstreams):
        with pytest.raises(UpstreamFailed) as caught:
            await upstreams.send(request(upstream="other"))
        return caught.value

    failure, _ = serving(None, scenario)
    assert not failure.sent
