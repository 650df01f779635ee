"""Faults as a caller meets them: a real HTTP connection to the gateway in twin mode."""

import asyncio
import json
import os
from contextlib import asynccontextmanager

import aiohttp
import pytest
from fault_rig import SHOP, fired, rule
from gateway_rig import AllowAll

from sidecar.gateway.config import Approvals
from sidecar.replay.stage.driver import Stage, StagePorts
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.ledger import SqliteLedger
from sidecar.twins.episode import Setting
from sidecar.twins.group import Beginning, GroupEpisode, TwinGroup

GROUP = TwinGroup([SHOP])
REFUND = "/shop/orders/o1/refunds"
READ = "/shop/orders/o1"
UNKNOWN = (409, "outcome_unknown")


@asynccontextmanager
async def staged(folder):
    ledger = SqliteLedger(folder / "ledger.db", lambda _: Sealer(b"k" * 32, os.urandom))
    ports = StagePorts(
        ledger=ledger, policy=AllowAll(), approvals=Approvals(), episode_key=os.urandom(32)
    )
    stage = Stage(GROUP, ports, "default")
    await stage.start()
    try:
        yield stage
    finally:
        await stage.stop()
        ledger.close()


class Caller:
    """An agent of one episode in which these faults strike."""

    def __init__(self, stage, name, *faults):
        self.episode = GroupEpisode(GROUP, GROUP.open(), Setting(agent="a", faults=faults))
        self.episode.begin(Beginning())
        self._token = stage.open(name, self.episode, (), agent="a")
        where = stage.addresses
        self._base = f"http://{where.host}:{where.gateway_port}"

    async def ask(self, method, path, **more):
        headers = {"Authorization": f"Bearer {self._token}", "Idempotency-Key": "k1"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, self._base + path, **more) as reply,
        ):
            return reply.status, await reply.read(), reply.headers

    async def refund(self):
        return await self.ask("POST", REFUND, json={"amount": 20})

    def refunds(self):
        return self.episode.episodes["shop"].world.count("refunds")


EFFECTS = [
    # the fault of an effect, its keys, the status, the gateway's code, refunds that are there
    (rule("timeout_before"), *UNKNOWN, 0),
    (rule("timeout_after"), *UNKNOWN, 1),
    (rule("hang"), *UNKNOWN, 0),
    (rule("dropped_connection", phase="after"), *UNKNOWN, 1),
    (rule("crash_between_effect_and_receipt"), *UNKNOWN, 1),
    (rule("truncated"), *UNKNOWN, 1),
    (rule("slow", delay="31s"), *UNKNOWN, 1),
    (rule("http_503"), *UNKNOWN, 0),
    (rule("http_429"), 429, None, 0),
    (rule("lie_failure"), 500, None, 1),
    (rule("partial_write"), 500, None, 1),
    (rule("permission_revoked"), 403, None, 0),
    (rule("duplicate_delivery"), 201, None, 1),
]


@pytest.mark.requirement("TWN-02")
def test_what_a_caller_of_the_gateway_sees_of_a_fault_and_what_the_world_holds_then(tmp_path):
    async def scenario():
        async with staged(tmp_path) as stage:
            for number, (fault, status, code, there) in enumerate(EFFECTS):
                caller = Caller(stage, f"episode-{number}", fault)
                seen, body, _ = await caller.refund()
                assert seen == status, (fault.fault, body)
                if code is not None:
                    assert json.loads(body)["code"] == code, fault.fault
                assert caller.refunds() == there, fault.fault
                assert fired(caller.episode) == [(fault.fault, f"{fault.fault}:refund")]
                await stage.take(f"episode-{number}")
                assert caller.episode.close()

    asyncio.run(scenario())


@pytest.mark.requirement("TWN-02")
def test_bytes_that_are_wrong_reach_the_caller_as_they_are(tmp_path):
    async def scenario():
        async with staged(tmp_path) as stage:

            async def read(name, **more):
                caller = Caller(stage, name, rule(name, tool="get_order", **more))
                status, body, headers = await caller.ask("GET", READ)
                await stage.take(name)
                return status, body, headers["content-type"]

            status, body, kind = await read("malformed_json")
            assert (status, kind) == (200, "application/json")
            with pytest.raises(json.JSONDecodeError):
                json.loads(body)
            status, body, _ = await read("truncated")
            assert status == 502 and b"kettle" not in body  # not half an answer: none
            status, body, _ = await read("cross_tenant_row")
            assert (status, json.loads(body)["owner"]) == (200, "bob")
            for name, more, seen in (
                ("missing_field", {"field": "memo"}, None),
                ("wrong_type", {"field": "memo"}, ["kettle"]),
                ("injected_content", {"field": "memo", "text": "Obey."}, "kettle Obey."),
            ):
                status, body, _ = await read(name, **more)
                assert (status, json.loads(body).get("memo")) == (200, seen)

    asyncio.run(scenario())


@pytest.mark.requirement("TWN-02")
def test_a_service_that_is_down_is_known_not_to_have_acted(tmp_path):
    crash = rule("crash_between_effect_and_receipt", tool="get_order", window="10s")

    async def scenario():
        async with staged(tmp_path) as stage:
            caller = Caller(stage, "down", crash)
            status, _, _ = await caller.ask("GET", READ)
            assert status >= 500
            status, body, _ = await caller.refund()
            assert status in (502, 503) and json.loads(body)["code"] != "outcome_unknown"
            assert caller.refunds() == 0
            await stage.take("down")

    asyncio.run(scenario())
