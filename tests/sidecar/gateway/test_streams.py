"""Answers that are passed on while they come: events, keep-alives, broken ends, callers that go."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from gateway_rig import AllowAll, rig

from sidecar.gateway.stream.boundary import KEEP_ALIVE, Boundary

TARGET = "/payments/orders/17"


class Tool:
    """An upstream whose answer's parts the test gives one by one."""

    def __init__(self, content_type="text/event-stream"):
        self.content_type = content_type
        self.parts = asyncio.Queue()
        self.gone = asyncio.Event()

    async def handle(self, request):
        await request.read()
        answer = web.StreamResponse(headers={"Content-Type": self.content_type, "X-Kept": "yes"})
        await answer.prepare(request)
        try:
            while (part := await self.parts.get()) is not None:
                if part == "break":
                    request.transport.abort()
                    return answer
                await answer.write(part)
        except (ConnectionError, asyncio.CancelledError):
            self.gone.set()
            raise
        return answer


def run(folder: Path, scenario, *, tool=None, **options):
    async def main():
        upstream = tool() if tool else Tool()
        runner = web.ServerRunner(
            web.Server(upstream.handle, access_log=None, handler_cancellation=True)
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            async with asyncio.timeout(20):
                async with rig(folder, policy=AllowAll(), upstream_url=url, **options) as each:
                    await scenario(each, upstream)
        finally:
            upstream.parts.put_nowait(None)
            await runner.cleanup()

    asyncio.run(main())


def asked(each, method="GET", target=TARGET, **headers):
    url = f"http://127.0.0.1:{each.server.port}{target}"
    headers = {"Authorization": f"Bearer {each.agent}", **headers}
    return each.http.request(method, url, headers=headers)


@pytest.mark.row("T52")
@pytest.mark.requirement("GW-01")
def test_each_event_is_passed_on_as_it_comes(tmp_path):
    async def scenario(each, tool):
        tool.parts.put_nowait(b"data: one\n\n")
        async with asked(each) as answer:
            assert await answer.content.readany() == b"data: one\n\n"
            tool.parts.put_nowait(b"data: two\n")
            assert await answer.content.readany() == b"data: two\n"
            tool.parts.put_nowait(b"\n")
            tool.parts.put_nowait(None)
            assert await answer.read() == b"\n"
            assert answer.headers["X-Accel-Buffering"] == "no"
            assert (answer.headers["X-Kept"], answer.headers["Server"]) == ("yes", "sidecar")
            assert answer.headers["Gateway-Decision"]

    run(tmp_path, scenario)


@pytest.mark.row("T53")
@pytest.mark.requirement("GW-01")
def test_a_silent_stream_is_kept_alive_between_events_and_never_within_one(tmp_path):
    async def scenario(each, tool):
        tool.parts.put_nowait(b"data: a\n\n")
        async with asked(each) as answer:
            assert await answer.content.readexactly(9) == b"data: a\n\n"
            assert await answer.content.readexactly(len(KEEP_ALIVE)) == KEEP_ALIVE
            tool.parts.put_nowait(b"data: half")
            seen = b""
            while not seen.endswith(b"data: half"):
                seen += await answer.content.readany()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):  # ten times the pause
                    await answer.content.readany()
            tool.parts.put_nowait(b"\n\n")
            tool.parts.put_nowait(None)
            assert (await answer.read()).startswith(b"\n\n")

    run(tmp_path, scenario, keep_alive_seconds=0.02)


@pytest.mark.requirement("GW-01")
def test_a_stream_that_breaks_off_does_not_end_as_if_it_were_whole(tmp_path):
    async def scenario(each, tool):
        tool.parts.put_nowait(b"data: one\n\n")
        async with asked(each) as answer:
            assert await answer.content.readany() == b"data: one\n\n"
            tool.parts.put_nowait("break")
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-01")
def test_a_read_whose_caller_goes_away_is_given_up(tmp_path):
    async def scenario(each, tool):
        tool.parts.put_nowait(b"data: one\n\n")
        async with asked(each) as answer:
            await answer.content.readany()
            answer.close()
        async with asyncio.timeout(5):
            await tool.gone.wait()

    run(tmp_path, scenario, tool_changes={})


@pytest.mark.requirement("IDM-01")
def test_a_call_with_effects_runs_on_when_its_caller_goes_away_and_is_replayed(tmp_path):
    async def scenario(each, tool):
        tool.parts.put_nowait(b"data: one\n\n")
        target, key = "/payments/orders/17/refunds", {"Idempotency-Key": "k"}
        async with asked(each, "POST", target, **key) as answer:
            await answer.content.readany()
            answer.close()
        tool.parts.put_nowait(b"data: two\n\n")
        tool.parts.put_nowait(None)
        async with asked(each, "POST", target, **key, Prefer="wait=5") as answer:
            assert await answer.read() == b"data: one\n\ndata: two\n\n"
            assert answer.headers["Idempotent-Replayed"] == "true"

    run(tmp_path, scenario)


def test_an_answer_in_lines_of_json_is_passed_on_without_words_of_ours(tmp_path):
    async def scenario(each, tool):
        tool.parts.put_nowait(b'{"n": 1}\n')
        async with asked(each) as answer:
            assert await answer.content.readany() == b'{"n": 1}\n'
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await answer.content.readany()
            tool.parts.put_nowait(None)
            assert await answer.read() == b""

    run(tmp_path, scenario, tool=lambda: Tool("application/x-ndjson"), keep_alive_seconds=0.02)


@pytest.mark.parametrize(
    ("said", "between"),
    [
        ([], True),
        ([b"data: a\n"], False),
        ([b"data: a\n", b"\n"], True),
        ([b"data: a\r\n\r\n"], True),
        ([b"data: a\r\r"], True),
        ([b"data: a\n\n", b"d"], False),
    ],
)
def test_words_of_ours_stand_only_between_events(said, between):
    boundary = Boundary()
    for part in said:
        boundary.see(part)
    assert boundary.between_events is between
