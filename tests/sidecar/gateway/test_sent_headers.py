"""Headers on their way to a tool: the listed ones and ours, whatever an agent puts beside them."""

import asyncio

import msgspec
import pytest
from gateway_rig import AllowAll, rig
from test_framing_corpus import BODY, LENGTH, sent, written

from sidecar.gateway.config import Credential

HOSTILE = (
    "X-Api-Key: mine",
    "x_api_key: mine",
    "X-Upstream-Authorization: Bearer mine",
    "X-Upstream-Credential: mine",
    "Proxy-Authorization: Bearer mine",
    "Cookie: session=mine",
    "Forwarded: for=127.0.0.1;host=evil.example",
    "X-Forwarded-For: 127.0.0.1",
    "X-Forwarded-Host: evil.example",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Prefix: /admin",
    "X-Forwarded-User: root",
    "X_Forwarded_For: 127.0.0.1",
    "X-Real-IP: 127.0.0.1",
    "X-Original-URL: /admin",
    "X-Rewrite-URL: /admin",
    "X-HTTP-Method-Override: DELETE",
    "X-Method-Override: DELETE",
    "X-HTTP-Method: DELETE",
    "X-Gateway-Internal: 1",
    "X-Mcp-Init-Host: internal.example",
    "X-Envoy-Internal: true",
    "X-Agenttwin-Decision: allow",
    "X-Agenttwin-Enforcement: observe",
    "Gateway-Decision: 1",
    "Gateway-Receipt: 1",
    "Gateway-Identity: agent=root",
    "Approval-Token-Hint: x",
    "Confirm-Distinct: ?0",
    "Baggage: user=root",
    "TE: trailers",
    "Trailer: X-T",
    "Keep-Alive: timeout=600",
    "Via: 1.1 evil",
    "Accept-Encoding: gzip, gzip",
    "Connection: X-Api-Key, Idempotency-Key, Content-Type, Content-Length, Accept",
)


def run(folder, scenario, **options):
    async def main():
        async with rig(folder, policy=AllowAll(), **options) as each:
            await scenario(each)

    asyncio.run(main())


@pytest.mark.requirement("GW-05")
@pytest.mark.row("CVE-2026-110279", "GHSA-g53w-w6mj-hrpp", "CVE-2026-110278")
def test_a_tool_gets_the_listed_headers_and_ours_and_nothing_else_of_an_agents(tmp_path):
    async def scenario(each):
        secret = tmp_path / "secret"
        secret.write_text("ours")
        upstreams = each.gateway._ports.registry.upstreams
        ours = Credential(header="X-Api-Key", file=str(secret))
        upstreams["payments"] = msgspec.structs.replace(upstreams["payments"], credential=ours)
        lines = ("Idempotency-Key: k", LENGTH, "Accept: text/plain", *HOSTILE)
        request = written(each, [*lines, "Prefer: wait=1"], BODY)
        request = request.replace(b"Connection: ", b"Connection: close, ")
        received = await sent(each.server.port, request)
        assert received.startswith(b"HTTP/1.1 201 "), received
        ((_, _, headers, body),) = each.shop.seen
        key = headers.pop("idempotency-key")
        assert key.startswith("agw_") and body == BODY
        assert headers == {
            "host": f"127.0.0.1:{each.shop.port}",
            "accept": "text/plain",
            "accept-encoding": "identity",
            "connection": "close",
            "content-type": "application/json",
            "content-length": str(len(BODY)),
            "x-api-key": "ours",
        }
        assert each.agent not in str(headers)

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-05")
@pytest.mark.row("CVE-2026-48710")
def test_an_agent_names_neither_the_host_nor_the_port_of_a_tool(tmp_path):
    async def scenario(each):
        for host in ("evil.example", "payments", "127.0.0.1:1", "[::1]:80"):
            lines = (f"Host: {host}", "Connection: close")
            request = written(each, lines, method="GET", target="/payments/orders/17", host=False)
            assert (await sent(each.server.port, request)).startswith(b"HTTP/1.1 200 "), host
        hosts = {headers["host"] for _, _, headers, _ in each.shop.seen}
        assert hosts == {f"127.0.0.1:{each.shop.port}"}

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-05")
@pytest.mark.parametrize("spelling", ["query", "form", "json"])
def test_the_method_that_is_judged_is_the_method_that_counts(tmp_path, spelling):
    """A tool's framework may take ``_method`` for the method: it is not sent on."""

    async def scenario(each):
        target, lines, body = "/payments/orders/17/notes", [], b'{"_method": "DELETE"}'
        if spelling == "query":
            target, body = target + "?_method=DELETE", b"{}"
        if spelling == "form":
            body = b"_method=DELETE"
        lines = [f"Content-Length: {len(body)}", "Connection: close"]
        request = written(each, lines, body, target=target)
        if spelling == "form":
            request = request.replace(b"application/json", b"application/x-www-form-urlencoded")
        received = await sent(each.server.port, request)
        assert b'"code": "method_override"' in received and each.shop.seen == []

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-05")
def test_a_call_with_effects_has_a_connection_of_its_own_and_reads_share_theirs(tmp_path):
    connections, tasks = [], []

    async def talk(reader, writer):
        connections.append(0)
        while head := await reader.readuntil(b"\r\n\r\n"):
            connections[-1] += 1
            lines = head.lower().split(b"\r\n")
            lengths = [line for line in lines if line.startswith(b"content-length")]
            await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")

    async def serve(reader, writer):
        tasks.append(asyncio.current_task())
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with rig(
            tmp_path,
            policy=AllowAll(),
            upstream_url=url,
            gateways=1,  # each has connections of its own
        ) as each:
            for number in range(3):
                assert (await each.refund("17", key=f"k{number}")).status == 201
            assert connections == [1, 1, 1]
            for _ in range(3):
                assert (await each.ask("GET", "/payments/orders/17")).status == 201
            assert connections == [1, 1, 1, 3]
        server.close()
        await asyncio.gather(*tasks)

    asyncio.run(main())


@pytest.mark.requirement("GW-05")
@pytest.mark.row("E")
def test_a_header_leaves_as_the_bytes_it_came_as(tmp_path):
    heads = []

    async def serve(reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with rig(tmp_path, policy=AllowAll(), upstream_url=url) as each:
            lines = ("Accept-Language: caf\xe9, \xc3\xa9, \xa0", "Connection: close")
            request = written(each, lines, method="GET", target="/payments/orders/17")
            assert (await sent(each.server.port, request)).startswith(b"HTTP/1.1 200 ")
        server.close()

    asyncio.run(main())
    assert b"accept-language: caf\xe9, \xc3\xa9, \xa0\r\n" in heads[0]
