"""What a listener of ours does with peers that err, dawdle or stay, over raw sockets."""

import asyncio
import json
import logging
import socket
import time

import pytest
from aiohttp import web

from sidecar.listen.address import split_address
from sidecar.listen.fault import ConnectionLimits, Fault
from sidecar.listen.http import Listener, Manners

SECRET = "sk_agent_0123456789abcdef_Zm9vYmFyYmF6"
HEAD = b"POST /x HTTP/1.1\r\nHost: x\r\n"
AUTH = f"Authorization: Bearer {SECRET}".encode()
MALFORMED = {
    "not ASCII in a value": HEAD + AUTH + b"\xe2\x80\xa6\x01\r\nContent-Length: 0\r\n\r\n",
    "NUL in a value": HEAD + AUTH + b"\0\r\n\r\n",
    "value beyond 8 KiB": HEAD + AUTH + b"x" * 9000 + b"\r\n\r\n",
    "no colon": HEAD + AUTH.replace(b":", b"") + b"\r\n\r\n",
    "space before colon": HEAD + AUTH.replace(b":", b" :") + b"\r\n\r\n",
    "bare LF": HEAD + AUTH + b"\r\nContent-Length: 3\n\nabc\r\n\r\n",
    "words after the version": b"GET / HTTP/1.1 " + SECRET.encode() + b"\r\n\r\n",
    "odd method": SECRET.encode() + b"() / HTTP/1.1\r\n\r\n",
    "two lengths": HEAD + AUTH + b"\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "bad chunk": HEAD
    + AUTH
    + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    + SECRET.encode()
    + b"\r\n",
}


async def reading(request):
    await request.read()
    return web.Response(text="read\n")


async def failing(_):
    raise KeyError(SECRET)


async def late(_):
    raise TimeoutError(SECRET)


async def missing(_):
    raise web.HTTPNotFound(text=SECRET, reason=SECRET)


class Rig:
    """A listener over a handler; ``told`` is what it recorded."""

    def __init__(self, serve=reading, *, host="127.0.0.1", render=None, **limits):
        self.told = []
        given = {} if render is None else {"render": render}
        manners = Manners(
            record=lambda reason, error: self.told.append((reason, error)),
            limits=ConnectionLimits(**limits),
            **given,
        )
        self.listener = Listener(serve, host, 0, manners)
        self.host = host

    async def __aenter__(self):
        await self.listener.start()
        return self

    async def __aexit__(self, *_):
        await self.listener.stop()

    def connect(self):
        return asyncio.open_connection(self.host, self.listener.port)

    async def ask(self, sent):
        reader, writer = await self.connect()
        writer.write(sent)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.close()

    @property
    def reasons(self):
        return [reason for reason, _ in self.told]


def application():
    app = web.Application()
    app.router.add_post("/x", reading)
    return app


@pytest.mark.parametrize("serve", [lambda: reading, application], ids=["handler", "application"])
@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_a_fixed_problem_and_is_logged_nowhere(serve, sent, caplog, capsys):
    caplog.set_level(logging.DEBUG)

    async def scenario():
        async with Rig(serve()) as rig:
            answer = await rig.ask(sent)
        head, _, body = answer.partition(b"\r\n\r\n")
        problem = json.loads(body)
        assert b" 400 " in head.split(b"\r\n")[0]
        assert problem["status"] == 400
        assert b"application/problem+json" in head
        assert b"Server: sidecar" in head
        assert SECRET.encode() not in answer and b"aiohttp" not in answer
        assert rig.reasons in (["request_malformed"], ["body_malformed"])

    asyncio.run(scenario())
    said = "".join(capsys.readouterr()) + "".join(map(str, caplog.records)) + caplog.text
    assert SECRET not in said
    assert "Traceback" not in said


WHOLE = HEAD + b"Content-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("serve", "status", "code"),
    [
        (failing, 500, "internal_fault"),
        (late, 500, "internal_fault"),
        (missing, 404, "request_refused"),
    ],
)
def test_whatever_a_handler_raises_is_an_answer_of_ours(serve, status, code, caplog, capsys):
    async def scenario():
        async with Rig(serve) as rig:
            answer = await rig.ask(WHOLE)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == code
        assert SECRET.encode() not in answer
        assert rig.reasons == [code]

    asyncio.run(scenario())
    assert SECRET not in "".join(capsys.readouterr()) + caplog.text


def test_a_listener_may_answer_in_a_form_of_its_own():
    def render(fault: Fault, media_type: str):
        return "text/x-own", f"{fault.reason} {media_type}".encode()

    async def scenario():
        async with Rig(failing, render=render) as rig:
            answer = await rig.ask(HEAD + b"Content-Type: a/b\r\nContent-Length: 0\r\n\r\n")
        assert answer.endswith(b"internal_fault a/b")
        assert b"text/x-own" in answer

    asyncio.run(scenario())


SLOW = {
    "nothing at all": (b"", b"", ["head_slow"]),
    "half a head": (HEAD, b"HTTP/1.1 408 ", ["head_slow"]),
    "half a body": (HEAD + b"Content-Length: 9\r\n\r\nabc", b"HTTP/1.1 408 ", ["body_slow"]),
    "half a second head": (WHOLE + HEAD, b"HTTP/1.1 200 ", []),
}


@pytest.mark.parametrize(("sent", "answer", "reasons"), SLOW.values(), ids=SLOW)
def test_a_slow_peer_is_dropped(sent, answer, reasons):
    async def scenario():
        async with Rig(head_seconds=0.2, body_seconds=0.2, idle_seconds=0.4) as rig:
            got = await rig.ask(sent)
        assert got.startswith(answer)
        assert bool(got) == bool(answer)
        assert rig.reasons in (reasons, ["head_slow"])

    asyncio.run(scenario())


def test_a_head_that_trickles_after_an_answer_is_dropped_too():
    async def scenario():
        async with Rig(head_seconds=0.2, idle_seconds=60) as rig:
            reader, writer = await rig.connect()
            writer.write(WHOLE)
            assert b"200 OK" in await reader.readuntil(b"read\n")
            writer.write(b"POST ")
            rest = await asyncio.wait_for(reader.read(), 10)
            writer.close()
        assert rest.startswith(b"HTTP/1.1 408 ")
        assert rig.reasons == ["head_slow"]

    asyncio.run(scenario())


def test_an_idle_connection_is_closed_and_a_quick_one_served_again():
    async def scenario():
        async with Rig(head_seconds=60, idle_seconds=0.3) as rig:
            reader, writer = await rig.connect()
            for _ in range(2):
                writer.write(WHOLE)
                assert b"200 OK" in await reader.readuntil(b"read\n")
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        assert rig.reasons == []

    asyncio.run(scenario())


def test_a_peer_that_does_not_take_its_answer_is_dropped():
    async def large(_):
        return web.Response(body=bytes(64 * 1024**2))

    async def scenario():
        async with Rig(large, answer_seconds=0.3) as rig:
            _, writer = await rig.connect()
            writer.transport.pause_reading()
            writer.write(WHOLE)
            deadline = time.monotonic() + 10
            while not rig.told and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
            writer.close()
        assert rig.reasons == ["answer_slow"]

    asyncio.run(scenario())


def test_a_peer_that_leaves_while_its_answer_comes_is_no_fault_of_ours_and_a_failing_answer_is():
    async def endless(request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(bytes(1024))
            await asyncio.sleep(0)

    async def broken(request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"begun")
        raise KeyError(SECRET)

    async def told(serve, *, leave):
        async with Rig(serve) as rig:
            reader, writer = await rig.connect()
            writer.write(WHOLE)
            await reader.readuntil(b"\r\n\r\n")
            if leave:
                writer.transport.abort()
            deadline = time.monotonic() + 10
            while not rig.told and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
            writer.close()
        return rig.reasons

    assert asyncio.run(told(endless, leave=True)) == ["peer_gone"]
    assert asyncio.run(told(broken, leave=False)) == ["internal_fault"]


def test_connections_beyond_the_bound_are_refused_and_counted():
    async def scenario():
        async with Rig(connections_max=2) as rig:
            held = [await rig.connect() for _ in range(2)]
            for reader, writer in held:
                writer.write(WHOLE)
                await reader.readuntil(b"read\n")
            assert (await rig.ask(b"")).startswith(b"HTTP/1.1 503 ")
            assert rig.reasons == ["connections_full"]
            for _, writer in held:
                writer.close()
                await writer.wait_closed()
            deadline = time.monotonic() + 10
            while rig.listener._runner.server.full and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
            answer = await rig.ask(WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert b"200 OK" in answer

    asyncio.run(scenario())


def test_a_stop_cuts_half_open_requests_and_waits_for_whole_ones():
    released = asyncio.Event()

    async def held(request):
        await request.read()
        await released.wait()
        return web.Response(text="done\n")

    async def scenario():
        rig = Rig(held, stop_seconds=0.2)
        async with rig:
            whole, whole_writer = await rig.connect()
            whole_writer.write(WHOLE)
            _, half_head = await rig.connect()
            half_head.write(HEAD)
            half_body, half_writer = await rig.connect()
            half_writer.write(HEAD + b"Content-Length: 9\r\n\r\nabc")
            while len(rig.listener._runner.server.connections) < 3:
                await asyncio.sleep(0.02)
            stopping = asyncio.create_task(rig.listener.stop())
            assert await asyncio.wait_for(half_body.read(), 5) is not None
            assert not stopping.done()
            released.set()
            assert b"done" in await asyncio.wait_for(whole.read(), 5)
            await asyncio.wait_for(stopping, 5)
            for writer in (whole_writer, half_head, half_writer):
                writer.close()

    asyncio.run(scenario())


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_an_ipv6_address_is_listened_on():
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("there is no IPv6 loopback here")

    async def scenario():
        async with Rig(host=split_address("[::1]:0")[0]) as rig:
            answer = await rig.ask(WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert b"200 OK" in answer

    asyncio.run(scenario())
