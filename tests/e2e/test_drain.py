"""SIGTERM drains: a call on its way is finished, one that waits for a person is parked, and nothing
acknowledged is lost."""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

sys.path.insert(0, str(Path(__file__).parent))
from sidecar_process import CONFIG, SidecarProcess

pytestmark = pytest.mark.full  # minutes on two cores: real processes and servers

TOOLS = """\
policy: {{deadline: 5s}}
gateway:
  listen: "127.0.0.1:0"
  accept_ephemeral_ledger: true
  upstreams: [{{name: pay, url: "http://127.0.0.1:{port}", allow_cidrs: ["127.0.0.1/32"]}}]
  tools:
    - name: refund
      upstream: pay
      match: {{method: POST, path: /refunds}}
      cost: {{amount: "arguments.amount", currency: "arguments.currency"}}
"""
SECONDS = 60


class Upstream:
    """Answers when it is let; ``reached`` is set once a call is there."""

    def __init__(self):
        self.reached, self.let, self.effects = asyncio.Event(), asyncio.Event(), 0

    async def handle(self, request):
        await request.read()
        self.reached.set()
        await self.let.wait()
        self.effects += 1
        return web.json_response({"refund_id": "R-1"}, status=201)

    async def __aenter__(self):
        app = web.Application()
        app.router.add_post("/refunds", self.handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()


def configured(folder, port):
    rest = CONFIG.replace('gateway: {listen: "127.0.0.1:0"}\n', "")
    return SidecarProcess(folder, rest + TOOLS.format(port=port))


async def call(http, sidecar, key, *, amount, idempotency_key, **headers):
    url = f"http://{sidecar.addresses['gateway.listen']}/pay/refunds"
    sent = {"Authorization": f"Bearer {key}", "Idempotency-Key": idempotency_key, **headers}
    body = {"amount": amount, "currency": "EUR"}
    async with http.post(url, json=body, headers=sent) as answer:
        return answer.status, await answer.json(), answer.headers.copy()


async def drained(folder, scenario):
    async with Upstream() as upstream:
        sidecar = configured(folder, upstream.port)
        key = sidecar.key()
        sidecar.start()
        try:
            async with aiohttp.ClientSession() as http:
                return await scenario(upstream, sidecar, key, http)
        finally:
            upstream.let.set()
            code = await asyncio.to_thread(sidecar.stop)
            assert code in (0, None)


@pytest.mark.requirement("DEP-01")
def test_a_call_on_its_way_is_finished_and_answered(tmp_path):
    async def scenario(upstream, sidecar, key, http):
        going = asyncio.create_task(call(http, sidecar, key, amount=5, idempotency_key="k1"))
        await asyncio.wait_for(upstream.reached.wait(), SECONDS)
        sidecar.process.send_signal(signal.SIGTERM)
        done, _ = await asyncio.wait({going}, timeout=1)
        assert not done, "it was cut off"
        upstream.let.set()
        status, body, headers = await asyncio.wait_for(going, SECONDS)
        assert (status, body) == (201, {"refund_id": "R-1"})
        assert headers["Gateway-Receipt"]
        assert await asyncio.to_thread(sidecar.process.wait, SECONDS) == 0
        calls = json.loads(
            await asyncio.to_thread(sidecar.run, "calls", "list", "--output", "json")
        )
        assert [each["state"] for each in calls] == ["completed"]
        await asyncio.to_thread(sidecar.run, "audit", "verify")
        assert upstream.effects == 1

    asyncio.run(drained(tmp_path, scenario))


def test_a_call_that_waits_for_a_person_is_parked(tmp_path):
    async def scenario(upstream, sidecar, key, http):
        waiting = {"Prefer": "wait=55"}
        held = asyncio.create_task(
            call(http, sidecar, key, amount=5000, idempotency_key="k2", **waiting)
        )
        while True:
            command = ("approvals", "list", "--output", "json")
            listed = json.loads(await asyncio.to_thread(sidecar.run, *command))
            if listed:
                break
        began = time.monotonic()
        sidecar.process.send_signal(signal.SIGTERM)
        status, body, _ = await asyncio.wait_for(held, SECONDS)
        assert (status, body["code"]) == (202, "approval_required")
        assert await asyncio.to_thread(sidecar.process.wait, SECONDS) == 0
        assert time.monotonic() - began < 30, "it waited the whole time out"
        listed = json.loads(await asyncio.to_thread(sidecar.run, *command))
        assert [each["status"] for each in listed] == ["pending"]
        assert upstream.effects == 0

    asyncio.run(drained(tmp_path, scenario))
