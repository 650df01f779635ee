"""Large, packed and many bodies: they cost their sender time, and nobody else."""

import asyncio
import gzip
import json
import os
import signal
import time

import aiohttp
import grpc
import pytest

from sidecar.otlp.errors import Undecodable
from sidecar.otlp.limits import LIMITS
from sidecar.receive.client import Checker
from sidecar.receive.config import Config
from sidecar.receive.status import Refused
from sidecar.receive.worker import Admission

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
NOTHING = gzip.compress(b"")


def json_body(size):
    """An ordinary request, as an SDK writes it, of about ``size`` bytes."""
    attributes = [{"key": f"k{n}", "value": {"stringValue": "v" * 100}} for n in range(8)]
    span = {"spanId": "051581bf3cb55c13", "name": "chat", "attributes": attributes}
    span["traceId"] = "5b8aa5a2d2c872e8321cf37308d69df2"
    spans = [span] * (size // len(json.dumps(span)))
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


class Pulse:
    """How long the loop, which answers tool calls too, was ever away."""

    async def __aenter__(self):
        self.worst = 0.0
        self._task = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *_):
        await asyncio.sleep(0)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _beat(self):
        while True:
            before = time.monotonic()
            try:
                await asyncio.sleep(0.01)
            finally:
                self.worst = max(self.worst, time.monotonic() - before)


@pytest.mark.requirement("REC-02")
def test_the_loop_answers_while_a_large_json_body_is_looked_at(kit):
    packed = gzip.compress(json_body(17 * 1024**2))
    assert len(packed) < 300_000
    headers = {
        "Authorization": f"Bearer {kit.key()}",
        "Content-Type": "application/json",
        "Content-Encoding": "gzip",
    }

    async def scenario():
        async with (
            kit.http() as url,
            aiohttp.ClientSession() as session,
            Pulse() as pulse,
            session.post(url + "/v1/traces", data=packed, headers=headers) as response,
        ):
            return response.status, await response.read(), pulse

    status, body, pulse = asyncio.run(scenario())
    assert status == 200, body
    assert pulse.worst < 1.0
    assert len(kit.records()) == 1


@pytest.mark.parametrize("members", [65, 300_000])
def test_a_body_of_empty_gzip_members_is_refused_at_once(kit, members):
    metadata = (("authorization", f"Bearer {kit.key()}"),)

    async def scenario():
        async with kit.grpc() as target, grpc.aio.insecure_channel(target) as channel:
            export = channel.unary_unary(EXPORT)
            async with Pulse() as pulse:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await export(NOTHING * members, metadata=metadata, timeout=30)
            return caught.value, pulse

    error, pulse = asyncio.run(scenario())
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "gzip members" in error.details()
    assert pulse.worst < 1.0


def test_a_few_gzip_members_are_one_body():
    admission = Admission(Config())
    for cut in (1, 7, 100_000):
        body = admission.body("gzip")
        packed = b"".join(gzip.compress(bytes([n]) * 40_000) for n in range(5)) + NOTHING
        for start in range(0, len(packed), cut):
            body.feed(packed[start : start + cut])
        assert body.whole() == b"".join(bytes([n]) * 40_000 for n in range(5))
        body.close()


def test_inflating_takes_time_by_the_bytes_and_others_get_their_turn():
    admission = Admission(Config())
    packed = gzip.compress(os.urandom(19 * 1024**2), 1)

    async def scenario():
        body = admission.message(packed)
        async with Pulse() as pulse:
            await admission.feed(body, packed)
        assert len(body.whole()) == 19 * 1024**2
        return pulse.worst

    assert asyncio.run(scenario()) < 0.5


def test_a_dead_checker_tells_the_sender_to_come_back_and_is_replaced():
    async def scenario():
        checker = Checker()
        body = json_body(200_000)
        try:
            first = await checker.check("traces", "json", body, LIMITS)
            os.kill(checker.pid, signal.SIGKILL)
            with pytest.raises(Refused) as caught:
                await checker.check("traces", "json", body, LIMITS)
            again = await checker.check("traces", "json", body, LIMITS)
            with pytest.raises(Undecodable):
                await checker.check("traces", "json", b"[", LIMITS)
        finally:
            await checker.close()
            await checker.close()
        return first, caught.value, again

    first, refusal, again = asyncio.run(scenario())
    assert first == again and first.accepted > 100
    assert (refusal.reason, refusal.retry_after_s) == ("busy", 1)


def test_a_sender_that_leaves_disturbs_no_other():
    async def scenario():
        admission = Admission(Config())
        body = json_body(500_000)
        try:
            gone = [
                asyncio.create_task(admission.check("traces", "json", body, "key:1"))
                for _ in range(4)
            ]
            await asyncio.sleep(0)
            for task in gone[::2]:
                task.cancel()
            found = await asyncio.gather(*gone, return_exceptions=True)
            return found, await admission.check("traces", "json", body, "key:1")
        finally:
            await admission.stop()

    (left, kept, gone, last), after = asyncio.run(scenario())
    assert isinstance(left, asyncio.CancelledError) and isinstance(gone, asyncio.CancelledError)
    assert kept == last == after


def test_twelve_large_bodies_of_one_sender_do_not_keep_another_waiting():
    async def scenario():
        admission = Admission(Config())
        large, small = json_body(4 * 1024**2 - 5000), json_body(200_000)
        try:
            many = [
                asyncio.create_task(admission.check("traces", "json", large, "key:greedy"))
                for _ in range(12)
            ]
            await asyncio.sleep(0)
            await admission.check("traces", "json", small, "key:other")
            done = [task for task in many if task.done()]
            for task in many:
                task.cancel()
            return await asyncio.gather(*many, return_exceptions=True), done
        finally:
            await admission.stop()

    found, done = asyncio.run(scenario())
    refused = [each for each in found if isinstance(each, Refused)]
    assert {each.reason for each in refused} == {"busy"} and len(refused) in (4, 5)
    assert len([task for task in done if task not in refused]) <= 4 + 2
