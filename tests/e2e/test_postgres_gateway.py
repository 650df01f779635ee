"""Sidecars on one Postgres: a call and its approval across two, and a database that dies."""

import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from gateway_rig import REFUND, Shop
from postgres_rig import Server

sys.path.insert(0, str(Path(__file__).parent))
from sidecar_process import SidecarProcess

pytestmark = pytest.mark.full  # minutes on two cores: real processes and servers

SECONDS = 60
CONFIG = """\
seal: {{key_file: seal-key}}
store: {{url: "{url}", local: data}}
receive: {{grpc: "", http: ""}}
gateway:
  listen: "127.0.0.1:0"
  upstreams: [{{name: payments, url: "http://127.0.0.1:{shop}", allow_cidrs: [127.0.0.0/8]}}]
  tools:
    - name: issue_refund
      upstream: payments
      class: irreversible
      match: {{method: POST, path: "/orders/{{order_id}}/refunds"}}
      timeout: 2s
      cost: {{amount: arguments.amount, currency: arguments.currency}}
control: {{listen: "127.0.0.1:0", grpc: "127.0.0.1:0"}}
metrics: {{listen: "127.0.0.1:0"}}
"""


class Fleet:
    """Two sidecars with one seal key on one database, and the shop behind them."""

    def __init__(self, server, shop, folder):
        self.server, self.shop, self.sidecars = server, shop, []
        url, key = server.url(server.new_database()), os.urandom(32).hex()
        for name in ("a", "b"):
            (folder / name).mkdir()
            (folder / name / "seal-key").write_text(key)
            self.sidecars.append(
                SidecarProcess(folder / name, CONFIG.format(url=url, shop=shop.port))
            )

    async def start(self):
        await asyncio.to_thread(self.sidecars[0].start)  # it makes the schemas
        await asyncio.to_thread(self.sidecars[1].start)
        self.agent, self.approver = await asyncio.gather(
            *(asyncio.to_thread(self.sidecars[0].key, kind) for kind in ("agent", "approver"))
        )

    async def stop(self):
        await asyncio.gather(*(asyncio.to_thread(each.stop) for each in self.sidecars))

    async def refund(self, sidecar, order, *, key, amount=20, **headers):
        body = {"amount": amount, "currency": "EUR"}
        sent = {"Idempotency-Key": key, **headers}
        path = REFUND.format(order)
        return await self.ask(sidecar, "gateway.listen", "POST", path, self.agent, body, sent)

    async def control(self, sidecar, method, path, body=None):
        return await self.ask(sidecar, "control.listen", method, path, self.approver, body, {})

    async def ask(self, sidecar, listener, method, path, credential, body, headers):
        url = f"http://{self.sidecars[sidecar].addresses[listener]}{path}"
        sent = {"Authorization": f"Bearer {credential}", **headers}
        async with self.http.request(method, url, json=body, headers=sent) as response:
            return response.status, json.loads(await response.read()), response.headers


@asynccontextmanager
async def fleet(folder):
    server, shop = await asyncio.to_thread(Server), Shop(folder / "shop.db")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, server.stop)
        await shop.start()
        stack.push_async_callback(shop.stop)
        made = await asyncio.to_thread(Fleet, server, shop, folder)
        stack.push_async_callback(made.stop)
        await made.start()
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as made.http:
            yield made


async def until(found):
    async with asyncio.timeout(SECONDS):
        while not (value := await found()):
            await asyncio.sleep(0.05)
        return value


def test_two_sidecars_share_keys_approvals_and_answers_and_outlive_their_database(tmp_path):
    async def main():
        async with fleet(tmp_path) as made:
            await one_call_and_its_answer_from_the_other(made)
            await a_call_waiting_in_one_is_approved_in_the_other(made)
            await the_database_dies_and_comes_back(made)

    asyncio.run(main())


async def one_call_and_its_answer_from_the_other(made):
    status, body, _ = await made.refund(0, "17", key="k1")
    assert (status, body["order"]) == (201, "17")
    status, again, headers = await made.refund(1, "17", key="k1")
    assert (status, again) == (201, body) and headers["Idempotent-Replayed"] == "true"
    assert made.shop.effects("17") == 1


async def a_call_waiting_in_one_is_approved_in_the_other(made):
    waits = made.refund(1, "18", key="k2", amount=500, Prefer="wait=30")
    waiting = asyncio.ensure_future(waits)

    async def pending():
        _, listed, _ = await made.control(0, "GET", "/v1/approvals?status=pending")
        return listed["approvals"]

    (request,) = await until(pending)
    path = f"/v1/approvals/{request['approval_id']}/approve"
    vote = {"reason": "checked", "shown_digest": request["shown_digest"]}
    status, _, _ = await made.control(0, "POST", path, vote)
    assert status == 200
    status, body, _ = await waiting
    assert (status, body["order"]) == (201, "18") and made.shop.effects("18") == 1


async def the_database_dies_and_comes_back(made):
    made.server.kill()
    for sidecar in (0, 1):
        status, body, _ = await made.refund(sidecar, "19", key=f"k3-{sidecar}")
        assert status == 503, body
    assert made.shop.effects("19") == 0  # fail closed: nothing was sent
    await asyncio.to_thread(made.server.start)
    for sidecar in (0, 1):

        async def served(sidecar=sidecar):
            status, _, _ = await made.refund(sidecar, "19", key=f"k3-{sidecar}")
            assert status in (201, 503)
            return status == 201

        await until(served)
    assert made.shop.effects("19") == 2
    verified = await asyncio.to_thread(made.sidecars[0].run, "audit", "verify")
    assert "entries" in verified


@pytest.mark.full
def test_a_killed_sidecars_call_is_taken_up_by_the_one_that_is_left(tmp_path):
    async def main():
        async with fleet(tmp_path) as made:
            sent = asyncio.ensure_future(made.refund(0, "hang", key="k1"))

            async def arrived():
                return made.shop.effects("hang")

            await until(arrived)
            made.sidecars[0].process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(made.sidecars[0].reap)
            with pytest.raises(aiohttp.ClientError):
                await sent

            async def taken_up():
                _, listed, _ = await made.control(1, "GET", "/v1/calls")
                return listed["calls"][0]["state"] == "unknown"

            await until(taken_up)
            status, body, _ = await made.refund(1, "hang", key="k1")
            assert (status, body["code"]) == (409, "outcome_unknown")
            assert made.shop.effects("hang") == 1

    asyncio.run(main())


def test_a_lone_sidecar_that_starts_again_knows_at_once_what_its_killed_process_left(tmp_path):
    async def main():
        async with fleet(tmp_path) as made:
            alone, other = made.sidecars
            await asyncio.to_thread(other.stop)
            sent = asyncio.ensure_future(made.refund(0, "hang", key="k1"))

            async def arrived():
                return made.shop.effects("hang")

            await until(arrived)
            alone.process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(alone.reap)
            with pytest.raises(aiohttp.ClientError):
                await sent
            await asyncio.to_thread(alone.start)
            status, body, _ = await made.refund(0, "hang", key="k1")
            assert (status, body["code"]) == (409, "outcome_unknown")
            assert made.shop.effects("hang") == 1

    asyncio.run(main())
