"""An upstream that says 1xx: a few times it is waited for, without end it is hung up on."""

import asyncio
import time
import tracemalloc

import pytest

from sidecar.egress.client import INTERIM_MAX, Egress, EgressFailed
from sidecar.egress.rules import Target

SECOND = 1_000_000_000
WAIT = b"HTTP/1.1 103 Early Hints\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def asked(answer, *, repeat=False, reuse=False, times=1):
    """The replies of an upstream that answers so; ``repeat``: until it is hung up on."""
    sent = []

    async def serve(reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
                while repeat:
                    await writer.drain()
                    writer.write(answer)
                    sent.append(len(answer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    target = Target(name="up", url=f"http://127.0.0.1:{port}", allow_cidrs=("127.0.0.0/8",))
    egress = Egress()
    try:
        replies = [
            await egress.request(target, "GET", "/x", deadline_ns=20 * SECOND, reuse=reuse)
            for _ in range(times)
        ]
        return [(reply.status, reply.body) for reply in replies]
    finally:
        await egress.close()
        server.close()


@pytest.mark.parametrize("reuse", [False, True])
def test_a_few_are_waited_for_with_each_request(reuse):
    found = asyncio.run(asked(WAIT * INTERIM_MAX + OK, reuse=reuse, times=3))
    assert found == [(200, b"ok")] * 3


@pytest.mark.row("D")
@pytest.mark.requirement("GW-05")
@pytest.mark.parametrize("reuse", [False, True])
def test_a_flood_is_hung_up_on_before_it_costs_time_or_memory(reuse):
    tracemalloc.start()
    started = time.monotonic()
    with pytest.raises(EgressFailed, match="1xx without end") as caught:
        asyncio.run(asked(WAIT * 2000, repeat=True, reuse=reuse))
    took, (_, peak) = time.monotonic() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.sent
    assert took < 5 and peak < 64 * 1024**2


def test_one_more_than_a_few_is_a_failure():
    with pytest.raises(EgressFailed, match="1xx without end"):
        asyncio.run(asked(WAIT * (INTERIM_MAX + 1) + OK))
