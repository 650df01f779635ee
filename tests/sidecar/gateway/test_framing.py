"""Requests on the raw socket: what could be read in two ways is refused and reaches no tool."""

import asyncio
import json

import pytest
from gateway_rig import AllowAll, rig

BODY = b'{"amount": 20, "currency": "EUR"}'
TARGET = "/payments/orders/17/refunds"


async def exchange(port, data, *, more=None):
    """Send bytes, read until the server closes or two seconds pass; all that came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    received = b""
    try:
        async with asyncio.timeout(10):
            while chunk := await reader.read(65536):
                received += chunk
                if more is not None and received.endswith(b"\r\n\r\n"):
                    writer.write(more)
                    more = None
                elif _complete(received):
                    break
    finally:
        writer.close()
    return received


def _complete(received):
    continued = b"HTTP/1.1 100 Continue\r\n\r\n"
    head, found, body = received.removeprefix(continued).partition(b"\r\n\r\n")
    if not found:
        return False
    lengths = [line for line in head.lower().splitlines() if line.startswith(b"content-length:")]
    return bool(lengths) and len(body) >= int(lengths[0].split(b":")[1])


def status(received):
    return int(received.split(b" ")[1]) if received else None


def head_of(rig, *lines, method="POST", target=TARGET, key="k", host=True):
    given = [
        f"{method} {target} HTTP/1.1",
        *([f"Host: 127.0.0.1:{rig.server.port}"] if host else []),
        f"Authorization: Bearer {rig.agent}",
        *([f"Idempotency-Key: {key}"] if key else []),
        "Content-Type: application/json",
        *lines,
    ]
    return ("\r\n".join(given) + "\r\n\r\n").encode("latin-1")


LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


def run(folder, scenario, **options):
    async def main():
        async with rig(folder, policy=AllowAll(), **options) as each:
            return await scenario(each)

    return asyncio.run(main())


def test_whole_and_chunked_bodies_are_taken(tmp_path):
    async def scenario(each):
        whole = await exchange(each.server.port, head_of(each, LENGTH) + BODY)
        chunked = await exchange(
            each.server.port, head_of(each, "Transfer-Encoding: chunked", key="k2") + CHUNKED
        )
        assert (status(whole), status(chunked)) == (201, 201)
        assert each.shop.effects() == 2
        assert {body for _, _, _, body in each.shop.seen} == {BODY}
        assert all("transfer-encoding" not in headers for _, _, headers, _ in each.shop.seen)

    run(tmp_path, scenario)


REFUSED = {
    "length and coding": (["Content-Length: 5", "Transfer-Encoding: chunked"], CHUNKED),
    "two lengths": ([LENGTH, "Content-Length: 5"], BODY),
    "the same length twice": ([LENGTH, LENGTH], BODY),
    "a negative length": (["Content-Length: -1"], BODY),
    "a signed length": ([f"Content-Length: +{len(BODY)}"], BODY),
    "an unknown coding": (["Transfer-Encoding: xchunked"], CHUNKED),
    "stacked codings": (["Transfer-Encoding: gzip, chunked"], CHUNKED),
    "a coding twice": (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], CHUNKED),
    "a coded body": (["Content-Encoding: gzip", LENGTH], BODY),
    "two hosts": (["Host: other", LENGTH], BODY),
    "two credentials": (["Authorization: Bearer x", LENGTH], BODY),
    "two keys": (["Idempotency-Key: other", LENGTH], BODY),
    "a key with _": (["Idempotency_Key: other", LENGTH], BODY),
    "a token with _": (["Approval_Token: x", LENGTH], BODY),
    "a folded header": (["X-A: b", " c", LENGTH], BODY),
    "a space before the colon": (["X-A : b", LENGTH], BODY),
    "a NUL in a value": (["X-A: b\x00c", LENGTH], BODY),
    "a bare LF": (["X-A: b\nX-B: c", LENGTH], BODY),
    "an upgrade": (["Upgrade: websocket", LENGTH], BODY),
    "another expectation": (["Expect: 200-ok", LENGTH], BODY),
    "a method override argument": (
        ["Content-Length: 20"],
        b'{"_method": "DELETE"}'[:20],
    ),
}


@pytest.mark.row("D", "CVE-2026-34525")
@pytest.mark.requirement("GW-05")
def test_what_can_be_read_in_two_ways_is_refused(tmp_path):
    async def scenario(each):
        for name, (lines, body) in REFUSED.items():
            received = await exchange(each.server.port, head_of(each, *lines) + body)
            assert status(received) in (400, 415, 417), (name, received[:200])
        assert each.shop.requests == 0

    run(tmp_path, scenario)


TARGETS = {
    "an authority alone": "payments.example:80",
    "a fragment": "/payments/orders/17/refunds#x",
    "an escaped slash": "/payments/orders/17%2Frefunds",
    "an escaped backslash": "/payments/orders/17%5Crefunds",
    "a way up": "/payments/../admin",
    "an escaped way up": "/payments/%2e%2e/%2e%2e/admin",
    "an empty segment": "//payments/orders/17/refunds",
    "a parameter": "/payments/orders;x=1/17/refunds",
    "a NUL": "/payments/orders/%00/refunds",
    "no path": "/payments",
    "a reserved name": "/v1/orders/17/refunds",
}


@pytest.mark.requirement("GW-05")
def test_only_one_spelling_of_a_target_reaches_a_tool(tmp_path):
    async def scenario(each):
        for name, target in TARGETS.items():
            received = await exchange(each.server.port, head_of(each, LENGTH, target=target) + BODY)
            assert status(received) in (400, 404), (name, received[:200])
        assert each.shop.requests == 0
        fine = await exchange(
            each.server.port, head_of(each, LENGTH, target="/payments/orders/%31%37/refunds") + BODY
        )
        assert status(fine) == 201 and each.shop.seen[0][1] == "/orders/17/refunds"

    run(tmp_path, scenario)


def test_a_host_that_is_none_is_refused(tmp_path):
    async def scenario(each):
        for host in ("a/?x=", "a@b", "a b", "", "[::1", "a:99999999"):
            data = head_of(each, f"Host: {host}", LENGTH, host=False) + BODY
            assert status(await exchange(each.server.port, data)) == 400, host
        assert each.shop.requests == 0

    run(tmp_path, scenario)


def test_methods_that_are_not_served_are_refused(tmp_path):
    async def scenario(each):
        for method in ("TRACE", "CONNECT", "OPTIONS", "PURGE"):
            received = await exchange(each.server.port, head_of(each, method=method))
            assert status(received) in (400, 405), method
        assert each.shop.requests == 0

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-01")
def test_a_body_is_asked_for_only_when_the_head_is_good(tmp_path):
    async def scenario(each):
        good = head_of(each, LENGTH, "Expect: 100-continue")
        received = await exchange(each.server.port, good, more=BODY)
        assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 ")
        large = head_of(each, "Content-Length: 999999", "Expect: 100-continue")
        assert status(await exchange(each.server.port, large)) == 413
        stranger = good.replace(each.agent.encode(), b"nobody")
        assert status(await exchange(each.server.port, stranger)) == 401

    run(tmp_path, scenario, body_bytes_max=1000)


def test_a_body_beyond_the_limit_is_413_declared_or_not(tmp_path):
    async def scenario(each):
        big = json.dumps({"note": "x" * 2000}).encode()
        declared = head_of(each, f"Content-Length: {len(big)}") + big
        assert status(await exchange(each.server.port, declared)) == 413
        chunked = head_of(each, "Transfer-Encoding: chunked")
        data = chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(big), big)
        assert status(await exchange(each.server.port, data)) == 413
        promised = await exchange(each.server.port, head_of(each, "Content-Length: 999999"))
        assert status(promised) == 413 and b"connection: close" in promised.lower()
        assert each.shop.requests == 0

    run(tmp_path, scenario, body_bytes_max=1000)


def test_a_body_that_does_not_come_whole_reaches_no_tool(tmp_path):
    async def scenario(each):
        _, writer = await asyncio.open_connection("127.0.0.1", each.server.port)
        writer.write(head_of(each, LENGTH) + BODY[:5])
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert (await each.ask("GET", "/payments/orders/17")).status == 200
        assert [method for method, _, _, _ in each.shop.seen] == ["GET"]

    run(tmp_path, scenario)


def test_an_answer_keeps_its_own_headers_and_gets_ours(tmp_path):
    async def scenario(each):
        reply = await each.ask("GET", "/payments/orders/17")
        assert reply.headers["server"] == "sidecar"
        assert reply.headers["content-type"].startswith("application/json")
        assert len(reply.headers["gateway-receipt"]) == 32
        large = await each.ask("GET", "/payments/orders/slow")
        assert len(large.body) == 200_000

    run(tmp_path, scenario)


def test_health_needs_no_key_and_tells_nothing(tmp_path):
    async def scenario(each):
        received = await exchange(
            each.server.port, b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        )
        assert status(received) == 200 and received.endswith(b"ok\n")

    run(tmp_path, scenario)
