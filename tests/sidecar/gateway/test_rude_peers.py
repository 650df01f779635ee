"""Clients and tools that dawdle, break off or talk out of turn: nobody else waits for them, nothing
is sent in part, and no effect is made twice."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from gateway_rig import AllowAll, rig
from test_framing_corpus import BODY, LENGTH, STATUS, sent, written

from sidecar.listen.fault import ConnectionLimits

KEYED = ["Idempotency-Key: k", LENGTH]


def run(folder, scenario, **options):
    async def main():
        async with asyncio.timeout(30), rig(folder, policy=AllowAll(), **options) as each:
            await scenario(each)

    asyncio.run(main())


@asynccontextmanager
async def tool(talk):
    """A tool that ``talk(reader, writer, head)``s once it has a head."""
    tasks = []

    async def serve(reader, writer):
        tasks.append(asyncio.current_task())
        try:
            await talk(reader, writer, await reader.readuntil(b"\r\n\r\n"))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.wait(tasks, timeout=5)


def before_tool(folder, talk, scenario, **options):
    async def main():
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(tool(talk))
            made = rig(folder, policy=AllowAll(), upstream_url=url, **options)
            each = await stack.enter_async_context(made)
            async with asyncio.timeout(30):
                await scenario(each)

    asyncio.run(main())


@pytest.mark.row("D")
@pytest.mark.requirement("IDM-01")
def test_a_client_that_closes_its_half_has_gone_and_its_call_is_made_and_kept(tmp_path):
    async def scenario(each):
        reader, writer = await asyncio.open_connection("127.0.0.1", each.server.port)
        writer.write(written(each, KEYED, BODY))
        writer.write_eof()
        await reader.read()
        writer.close()
        again = [*KEYED, "Prefer: wait=5", "Connection: close"]
        received = await sent(each.server.port, written(each, again, BODY))
        assert received.startswith(b"HTTP/1.1 201 ") and each.shop.effects() == 1

    run(tmp_path, scenario)


@pytest.mark.row("D")
@pytest.mark.requirement("GW-05")
def test_uploads_that_break_off_or_dawdle_reach_no_tool_and_leave_nothing(tmp_path):
    async def scenario(each):
        for cut in range(1, len(BODY)):
            _, writer = await asyncio.open_connection("127.0.0.1", each.server.port)
            lines = KEYED if cut % 2 else ["Idempotency-Key: k", "Transfer-Encoding: chunked"]
            whole = BODY if cut % 2 else b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
            writer.write(written(each, lines, whole[:cut]))
            await writer.drain()
            writer.transport.abort() if cut % 3 else writer.close()
        late = await sent(each.server.port, written(each, KEYED, BODY[:5]))
        assert b" 408 " in late.split(b"\r\n")[0], late
        assert each.shop.requests == 0
        assert (await each.refund("17", key="k")).status == 201  # the key is still free
        assert each.shop.requests == 1

    run(tmp_path, scenario, limits=ConnectionLimits(body_seconds=0.3))


@pytest.mark.row("D")
def test_half_heads_on_many_connections_hold_up_nobody(tmp_path):
    async def scenario(each):
        slow = [await asyncio.open_connection("127.0.0.1", each.server.port) for _ in range(40)]
        for number, (_, writer) in enumerate(slow):
            writer.write(b"POST /payments/orders/17/refunds HTTP/1.1\r\nX-A: %d" % number)
        assert (await each.ask("GET", "/payments/orders/17")).status == 200
        for reader, writer in slow:
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 408 "), answer
            writer.close()

    limits = ConnectionLimits(connections_max=50, head_seconds=0.4)
    run(tmp_path, scenario, limits=limits)


@pytest.mark.row("D")
@pytest.mark.requirement("GW-05")
def test_what_follows_a_call_while_it_is_on_its_way_is_read_after_it(tmp_path):
    async def scenario(each):
        each.shop.delay = 0.05
        call = written(each, KEYED, BODY)
        received = await sent(each.server.port, call + b"GARBAGE\r\n\r\n" + call)
        assert [int(each) for each in STATUS.findall(received)] in ([201, 400], [400], [])
        assert each.shop.effects() <= 1
        each.shop.delay = 0
        again = written(each, [*KEYED, "Prefer: wait=5", "Connection: close"], BODY)
        assert (await sent(each.server.port, again)).startswith(b"HTTP/1.1 201 ")
        assert each.shop.effects() == 1

    run(tmp_path, scenario)


@pytest.mark.row("D", "T52")
@pytest.mark.requirement("GW-01")
def test_a_client_that_takes_no_answer_is_cut_off_and_its_tool_is_not_drained(tmp_path):
    poured, gone = [0], asyncio.Event()

    async def talk(reader, writer, head):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        try:
            while True:
                writer.write(b"data: " + b"x" * 65_536 + b"\n\n")
                await writer.drain()
                poured[0] += 65_536
        finally:
            gone.set()

    async def scenario(each):
        _, writer = await asyncio.open_connection("127.0.0.1", each.server.port, limit=1024)
        writer.write(written(each, (), method="GET", target="/payments/orders/17"))
        await asyncio.wait_for(gone.wait(), 10)
        writer.transport.abort()
        assert poured[0] < 16 * 1024**2

    before_tool(tmp_path, talk, scenario, limits=ConnectionLimits(answer_seconds=0.3))


@pytest.mark.row("D", "T59")
@pytest.mark.requirement("GW-05")
def test_a_tool_that_trickles_is_given_up_when_its_time_is_over(tmp_path):
    """What comes resets no clock: the time of a call is for the whole of it."""

    async def talk(reader, writer, head):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def scenario(each):
        loop = asyncio.get_running_loop()
        begun = loop.time()
        reply = await each.ask("GET", "/payments/orders/17")
        assert (reply.status, reply.json["code"]) == (504, "upstream_timeout")
        assert loop.time() - begun < 3  # the tool has one second

    before_tool(tmp_path, talk, scenario)


@pytest.mark.row("D")
@pytest.mark.requirement("IDM-01")
@pytest.mark.parametrize("status", [b"201 Created", b"500 Oops", b"413 Too Large"])
def test_an_answer_before_the_request_was_read_is_its_answer_or_nobody_knows(tmp_path, status):
    heads = []

    async def talk(reader, writer, head):
        heads.append(head)
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}" % status)
        await writer.drain()

    async def scenario(each):
        body = {"amount": 20, "currency": "EUR", "note": "x" * 900_000}
        found = []
        for _ in range(2):
            reply = await each.ask("POST", "/payments/orders/17/refunds", key="k", json=body)
            found.append((reply.status, "code" in reply.body.decode()))
        told = int(status[:3])
        assert found[0][0] in (told, 409), found
        if told != 413:  # which says that nothing was done, so that the next attempt is made
            assert len(heads) == 1 and found[1][0] in (told, 409), found

    before_tool(tmp_path, talk, scenario)
