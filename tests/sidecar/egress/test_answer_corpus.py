"""The framing corpus of answers on the raw socket: an answer is whole and read in one way, or it is
a failure that says it was sent; and what a pooled connection says unasked answers nobody."""

import asyncio
import time
import tracemalloc
from contextlib import asynccontextmanager

import pytest

from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.rules import Target

SECOND = 1_000_000_000
HEAD = b"HTTP/1.1 200 OK\r\n"
OK = HEAD + b"Content-Length: 2\r\n\r\nok"
STRAY = HEAD + b"Content-Length: 5\r\n\r\nstray"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"2\r\nok\r\n0\r\n\r\n"

# name: (method, the bytes, status and body)
PASSED = {
    "a length": ("GET", OK, (200, b"ok")),
    "chunks": ("GET", CHUNKED + END, (200, b"ok")),
    "an extension": ("GET", CHUNKED + END.replace(b"2\r\n", b"2;a=b\r\n"), (200, b"ok")),
    "trailers": ("GET", CHUNKED + END[:-2] + b"X-T: 1\r\n\r\n", (200, b"ok")),
    "HTTP/1.0 until the end": ("GET", b"HTTP/1.0 200 OK\r\n\r\nok", (200, b"ok")),
    "no reason": ("GET", b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", (200, b"ok")),
    "lines ended by LF (RFC 9112 §2.2)": (
        *("GET", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
        (200, b"ok"),
    ),
    "an offer to upgrade": (
        *("GET", HEAD + b"Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nok"),
        (200, b"ok"),
    ),
    "a length to HEAD": ("HEAD", HEAD + b"Content-Length: 9\r\n\r\n", (200, b"")),
    "a length with 304": (
        *("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
        (304, b""),
    ),
    "two answers at once: the first": ("GET", OK + STRAY, (200, b"ok")),
}
BROKEN = {
    "HTTP/2.0 on a line": ("GET", OK.replace(b"1.1", b"2.0")),
    "HTTP/1.2": ("GET", OK.replace(b"1.1", b"1.2")),
    "a coding in HTTP/1.0": ("GET", CHUNKED.replace(b"1.1", b"1.0") + END),
    "a coding that is not undone": ("GET", CHUNKED.replace(b"chunked", b"gzip, chunked") + END),
    "an unknown coding": ("GET", CHUNKED.replace(b"chunked", b"xchunked") + END),
    "an empty coding": (*("GET", HEAD + b"Transfer-Encoding: \r\nContent-Length: 2\r\n\r\nok"),),
    "a coding and a length": (
        *("GET", HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n" + END),
    ),
    "the same length twice": ("GET", OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n")),
    "a list of lengths": ("GET", OK.replace(b"2\r\n", b"2, 2\r\n")),
    "a length with a sign": ("GET", OK.replace(b" 2\r\n", b" +2\r\n")),
    "more than its length": ("GET", OK + b" and more"),
    "a body with 204": ("GET", OK.replace(b"200 OK", b"204 No Content")),
    "chunks with 204": ("GET", (CHUNKED + END).replace(b"200 OK", b"204 No Content")),
    "a body to HEAD": ("HEAD", OK),
    "a status of four digits": ("GET", OK.replace(b"200", b"2000")),
    "a header without a colon": ("GET", OK.replace(b"\r\n\r\n", b"\r\nFoo\r\n\r\n")),
    "a header without a name": ("GET", OK.replace(b"\r\n\r\n", b"\r\n: x\r\n\r\n")),
    "a CR in a value": ("GET", OK.replace(b"\r\n\r\n", b"\r\nX: a\rb\r\n\r\n")),
    "300 headers": ("GET", OK.replace(b"\r\n\r\n", b"\r\nX: a" * 300 + b"\r\n\r\n")),
    "a size ended by LF": ("GET", CHUNKED + END.replace(b"2\r\n", b"2\n")),
    "a size in 0x": ("GET", CHUNKED + b"0x" + END),
    "a size beyond 64 bits": ("GET", CHUNKED + b"10000000000000000" + END),
    "a trailer that is a length": ("GET", CHUNKED + END[:-2] + b"Content-Length: 9\r\n\r\n"),
    "trailers without end": ("GET", CHUNKED + END[:-2] + b"X-T: 1\r\n" * 300_000),
    "an extension of megabytes": ("GET", CHUNKED + b"2;" + b"a" * 20_000_000 + END[1:]),
    "a body to 100": ("GET", b"HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\nabc" + OK),
    "a change of protocol": ("GET", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
    "101 and no protocol": ("GET", b"HTTP/1.1 101 Switching Protocols\r\n\r\n"),
}


@asynccontextmanager
async def serving(talk):
    """A server whose connections ``talk(reader, writer)``; yields its port and their number."""
    made, tasks = [], []

    async def serve(reader, writer):
        made.append(writer)
        tasks.append(asyncio.current_task())
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], made
    finally:
        server.close()
        for writer in made:
            writer.transport.abort()
        await asyncio.gather(*tasks)


def target(port):
    return Target(name="up", url=f"http://127.0.0.1:{port}", allow_cidrs=("127.0.0.0/8",))


async def answered(answer, method, reuse):
    """What one request gets from a server that says this and closes."""

    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    egress = Egress()
    try:
        async with serving(talk) as (port, _):
            reply = await egress.request(
                target(port), method, "/", deadline_ns=10 * SECOND, reuse=reuse
            )
            return reply.status, reply.body
    except EgressFailed as error:
        return error
    finally:
        await egress.close()


@pytest.mark.row("D")
@pytest.mark.parametrize("reuse", [False, True])
def test_an_answer_is_read_in_one_way_or_not_at_all(reuse):
    async def scenario():
        for name, (method, answer, wanted) in PASSED.items():
            assert (name, await answered(answer, method, reuse)) == (name, wanted)
        for name, (method, answer) in BROKEN.items():
            found = await answered(answer, method, reuse)
            assert isinstance(found, EgressFailed) and found.sent, (name, found)

    asyncio.run(scenario())


@pytest.mark.row("D")
def test_framing_without_end_is_hung_up_on_before_it_costs_time_or_memory():
    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED + b"2;")
        while True:
            writer.write(b"a" * 65536)
            await writer.drain()

    async def scenario():
        egress = Egress()
        async with serving(talk) as (port, _):
            with pytest.raises(EgressFailed, match="more framing than body") as caught:
                await egress.request(target(port), "GET", "/", deadline_ns=20 * SECOND)
        await egress.close()
        return caught.value

    tracemalloc.start()
    started = time.monotonic()
    failure = asyncio.run(scenario())
    took, (_, peak) = time.monotonic() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert failure.sent and took < 5 and peak < 32 * 1024**2


@pytest.mark.row("D")
def test_small_chunks_are_no_fault():
    body = b"x" * 100_000
    answer = CHUNKED + b"1\r\nx\r\n" * len(body) + b"0\r\n\r\n"
    assert asyncio.run(answered(answer, "GET", reuse=False)) == (200, body)


@pytest.mark.row("D")
@pytest.mark.parametrize("stray", [STRAY, STRAY[:20], b"\r\n", b"garbage"])
def test_what_a_pooled_connection_says_unasked_answers_nobody(stray):
    """An upstream that is made to say one answer more would give it to whoever asks next."""

    async def talk(reader, writer):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
            await heard.wait()
            writer.write(stray)
            if await reader.read() == b"":
                hung_up.set()

    async def scenario():
        egress, bodies = Egress(), []
        async with serving(talk) as (port, made):
            for _ in range(3):
                heard.clear()
                hung_up.clear()
                reply = await egress.request(
                    target(port), "GET", "/", deadline_ns=5 * SECOND, reuse=True
                )
                bodies.append(reply.body)
                heard.set()
                await asyncio.wait_for(hung_up.wait(), 5)
            await egress.close()
            return bodies, len(made)

    heard, hung_up = asyncio.Event(), asyncio.Event()
    assert asyncio.run(scenario()) == ([b"ok"] * 3, 3)


@pytest.mark.row("D")
def test_an_upstream_that_answers_before_it_has_read_leaves_no_half_request_for_the_next():
    seen = []

    async def talk(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head.split(b" ")[1])
        writer.write(OK)
        await writer.drain()
        while part := await reader.read(65536):
            if b"GET /second" in part:
                seen.append("behind a body")

    async def scenario():
        egress = Egress()
        async with serving(talk) as (port, made):
            ask = {"deadline_ns": 5 * SECOND, "reuse": True}
            first = await egress.request(target(port), "GET", "/first", (), b"x" * 9_000_000, **ask)
            second = await egress.request(target(port), "GET", "/second", **ask)
            await egress.close()
            return first.body, second.body, len(made)

    assert asyncio.run(scenario()) == (b"ok", b"ok", 2)
    assert seen == [b"/first", b"/second"]


@pytest.mark.row("D")
def test_pools_share_no_connection():
    async def talk(reader, writer):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
            await writer.drain()

    async def scenario():
        egress = Egress()
        async with serving(talk) as (port, made):
            for pool in ("one", "other", "one", "other"):
                await egress.request(
                    target(port), "GET", "/", deadline_ns=5 * SECOND, reuse=True, pool=pool
                )
            await egress.close()
            return len(made)

    assert asyncio.run(scenario()) == 2


@pytest.mark.row("D")
def test_why_an_answer_cannot_be_read_quotes_nothing_of_it():
    said = b"card 4111-1111"
    quoted = {
        "no answer at all": said + b"\r\n\r\n",
        "a body where an answer should stand": b"{" + said + b"}",
        "a header without a colon": HEAD + said + b"\r\n\r\n",
        "a value with a CR": HEAD + b"X: a\r" + said + b"\r\n\r\n",
        "a length that is none": HEAD + b"Content-Length: " + said + b"\r\n\r\n",
        "a size that is none": CHUNKED + said + b"\r\n",
        "a chunk without an end": CHUNKED + b"2\r\nok" + said + b"\r\n",
        "a trailer without a colon": CHUNKED + END[:-2] + said + b"\r\n\r\n",
        "more than its length": OK + said,
        "less than its length": HEAD + b"Content-Length: 99\r\n\r\n" + said,
        "half a chunk": CHUNKED + b"63\r\n" + said,
        "half a head": HEAD + said,
    }

    async def scenario():
        for name, answer in quoted.items():
            found = await answered(answer, "GET", False)
            assert isinstance(found, EgressFailed) and found.sent, (name, found)
            assert "4111" not in found.reason and "card" not in found.reason, (name, found.reason)

    asyncio.run(scenario())
