"""Answers of tools on the raw socket: passed on as they are, or a failure; never half, never read
in another way than they came."""

import asyncio
import gzip

import pytest
from gateway_rig import AllowAll, rig

BOMB = gzip.compress(gzip.compress(b"\0" * 10_000_000))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
PASSED = {
    "with a length": (HEAD + b"Content-Length: 2\r\n\r\nok", b"ok"),
    "chunked": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok"),
    "chunked with extensions and trailers": (
        HEAD
        + b"Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
        + b"2;a=b\r\nok\r\n0\r\nX-T: 1\r\n\r\n",
        b"ok",
    ),
    "until the end": (HEAD + b"Connection: close\r\n\r\nok", b"ok"),
    "after an interim answer": (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + HEAD + b"Content-Length: 2\r\n\r\nok",
        b"ok",
    ),
    "a folded header (RFC 9112 lets a proxy unfold it)": (
        HEAD + b"X-A: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
        b"ok",
    ),
    "coded": (
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 24\r\n\r\n" + b"\x1f\x8b" + b"x" * 22,
        b"\x1f\x8b" + b"x" * 22,
    ),
    "coded twice": (
        HEAD + b"Content-Encoding: gzip, gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB,
        BOMB,
    ),
}
BROKEN = {
    "shorter than its length": HEAD + b"Content-Length: 10\r\n\r\nok",
    "no end of chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    "a chunk cut short": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nok",
    "a chunk's size that is none": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n"
    ),
    "a chunk without its line": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nokX0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\nok",
    "length and coding": (
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    ),
    "a NUL in a header": HEAD + b"X-A: a\0b\r\nContent-Length: 2\r\n\r\nok",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "a head without end": HEAD + b"X-A: " + b"a" * 100_000,
    "interim answers without end": b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
    "a change of protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
}


def run(folder, answers, scenario):
    async def main():
        async def serve(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            lengths = [line for line in lines if line.startswith(b"content-length")]
            await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)
            calls.append(head)
            name = head.split(b" ")[1].decode().split("/")[2]
            try:
                writer.write(list(answers.values())[int(name)])
                await writer.drain()
            except ConnectionError:
                pass
            writer.close()

        calls = []
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            async with rig(
                folder, policy=AllowAll(), upstream_url=f"http://127.0.0.1:{port}"
            ) as each:
                await scenario(each, calls)
        finally:
            server.close()
            await server.wait_closed()

    asyncio.run(main())


@pytest.mark.row("D", "T54", "T55")
@pytest.mark.requirement("GW-01")
def test_a_whole_answer_is_passed_on_as_the_bytes_it_is(tmp_path):
    async def scenario(each, _):
        for index, (name, (_, body)) in enumerate(PASSED.items()):
            url = f"http://127.0.0.1:{each.server.port}/payments/orders/{index}"
            headers = {"Authorization": f"Bearer {each.agent}", "Accept-Encoding": "identity"}
            async with each.http.get(url, headers=headers, auto_decompress=False) as answer:
                got = await answer.content.read()
            assert (answer.status, got) == (200, body), name
            assert not {"Trailer", "X-T", "Transfer-Encoding"} & set(answer.headers), name
            assert answer.headers.get("X-A", "a b") == "a b", name
            assert answer.headers["Content-Length"] == str(len(body)), name

    run(tmp_path, {name: raw for name, (raw, _) in PASSED.items()}, scenario)


@pytest.mark.row("D")
@pytest.mark.requirement("GW-05")
def test_an_answer_that_breaks_the_rules_is_a_failure_and_may_have_had_an_effect(tmp_path):
    async def scenario(each, calls):
        for index, name in enumerate(BROKEN):
            read = await each.ask("GET", f"/payments/orders/{index}")
            assert (read.status, read.json["code"]) == (502, "upstream_broken"), (name, read)
            made = await each.refund(str(index), key=f"k{index}")
            assert (made.status, made.json["code"]) == (409, "outcome_unknown"), (name, made)
            before = len(calls)
            again = await each.refund(str(index), key=f"k{index}")
            assert again.json["code"] == "outcome_unknown" and len(calls) == before, name

    run(tmp_path, BROKEN, scenario)
