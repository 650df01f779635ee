"""Connections kept for reads: only one whose last request came wholly to its end is used again."""

import asyncio

import pytest

from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.rules import Target

SECOND = 1_000_000_000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def served(steps, scenario):
    """What ``scenario(egress, target)`` gives, and how many requests each connection had.

    ``steps``: what is written after each request of a connection, the last one for all others.
    """
    had, writers = [], []

    async def serve(reader, writer):
        mine = len(had)
        had.append(0)
        writers.append(writer)
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(steps[min(had[mine], len(steps) - 1)])
                had[mine] += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    target = Target(name="up", url=f"http://127.0.0.1:{port}", allow_cidrs=("127.0.0.0/8",))
    egress = Egress()
    try:
        return await scenario(egress, target), had
    finally:
        await egress.close()
        server.close()
        for writer in writers:
            writer.close()
        await asyncio.sleep(0)


def read(egress, target, path="/x", headers=(), deadline_ns=2 * SECOND):
    return egress.request(target, "GET", path, headers, deadline_ns=deadline_ns, reuse=True)


def test_reads_one_after_the_other_share_a_connection_and_reads_at_once_do_not():
    async def scenario(egress, target):
        one = [await read(egress, target), await read(egress, target)]
        return one + list(await asyncio.gather(read(egress, target), read(egress, target)))

    replies, had = asyncio.run(served([OK], scenario))
    assert [reply.body for reply in replies] == [b"ok"] * 4
    assert had == [3, 1]


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        OK + b"evil",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
def test_what_comes_after_an_answer_is_no_answer_to_the_next_request(answer):
    async def scenario(egress, target):
        replies = []
        for _ in range(3):
            try:
                replies.append((await read(egress, target)).body)
            except EgressFailed:  # what follows came in time to spoil the answer itself
                replies.append(None)
        return replies

    replies, had = asyncio.run(served([answer], scenario))
    assert set(replies) <= {b"ok", None} and had == [1, 1, 1]


def test_a_connection_whose_request_was_given_up_is_not_used_again():
    async def scenario(egress, target):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await read(egress, target)
        with pytest.raises(EgressFailed) as caught:
            await read(egress, target, deadline_ns=SECOND // 10)
        return caught.value.reason

    half = b"HTTP/1.1 200 OK\r\nContent-Le"
    reason, had = asyncio.run(served([half, b"ngth: 2\r\n\r\nok"], scenario))
    assert (reason, had) == ("up: no whole answer in time", [1, 1])


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/x", (("accept", "a\r\nevil: b"),)),
        ("/x", (("accept", "a\nb"),)),
        ("/x", (("acc\rept", "a"),)),
        ("/x", (("accept", "a\0"),)),
        *((path, ()) for path in ("/a b", "/a\r\nevil: b", "/a#b", "/\u00e9", "/a\tb")),
    ],
)
def test_what_would_be_read_as_another_request_is_not_sent(path, headers):
    async def scenario(egress, target):
        with pytest.raises(EgressFailed) as caught:
            await read(egress, target, path, headers)
        return caught.value.sent

    sent, had = asyncio.run(served([OK], scenario))
    assert (sent, had) == (False, [])
