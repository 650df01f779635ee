"""What a recipe does not find is not undone: the upstream may still be at work on it."""

import asyncio
import json
import multiprocessing

import pytest
from aiohttp import web
from crash_life import AGENT, one_call, request
from gateway_rig import RECONCILE, Settings, Shop, rig
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sidecar.gateway.settling import CONFIRM_NS, Settling
from sidecar.store.ledger import Claim

CONTEXT = multiprocessing.get_context("forkserver")
GENEROUS = structs.replace(RECONCILE, settle="30s")


class LateShop(Shop):
    """Refunds ``late…`` take effect after ``late`` seconds, whether or not the caller is there."""

    late = 3.0

    async def start(self, port=0):
        handlers = web.Server(self._handle, access_log=None, handler_cancellation=False)
        self._runner = web.ServerRunner(handlers)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.port = self._runner.addresses[0][1]

    async def _refund(self, request, arguments):
        self.arrived = True
        await asyncio.sleep(self.late)
        return await super()._refund(request, arguments)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


def live(folder, scenario, **options):
    async def main():
        shop = LateShop(folder / "late.db")
        await shop.start()
        try:
            url = f"http://127.0.0.1:{shop.port}"
            async with rig(folder, upstream_url=url, **options) as each:
                await scenario(each, shop)
        finally:
            await shop.stop()

    asyncio.run(main())


@pytest.mark.row("T33")
@pytest.mark.requirement("IDM-01")
def test_a_call_that_timed_out_and_is_still_on_its_way_is_not_sent_again(tmp_path):
    async def scenario(each, shop):
        said = [await each.refund("late", key="a") for _ in range(2)]
        assert [(one.status, one.json["code"]) for one in said] == [(409, "outcome_unknown")] * 2
        assert 1 <= said[1].json["retry_after"] <= 30 and said[1].json["next_action"] == "retry"
        await until(shop.effects)
        done = await each.refund("late", key="a")
        assert (done.status, done.json["reconciled"], shop.effects()) == (200, True, 1)

    live(tmp_path, scenario, tool_changes={"reconcile": GENEROUS})


@pytest.mark.requirement("IDM-01")
def test_a_clock_that_jumps_during_a_call_does_not_end_it(tmp_path):
    async def scenario(each, shop):
        shop.late = 1.0
        first = asyncio.ensure_future(each.refund("late", key="a"))
        await until(lambda: getattr(shop, "arrived", False))
        each.gateway._desk = structs.replace(  # the wall clock, an hour on
            each.gateway._desk, now_ns=lambda: each.gateway._now_ns() + 3_600_000_000_000
        )
        second = await each.refund("late", key="a")
        assert (second.status, second.json["code"]) == (409, "in_flight")
        assert (await first).status == 201
        assert (await each.refund("late", key="a")).headers["idempotent-replayed"] == "true"
        assert shop.effects() == 1

    settings = Settings(accept_ephemeral_ledger=True)
    live(tmp_path, scenario, tool_changes={"reconcile": GENEROUS}, settings=settings)


def life(folder, port):
    asyncio.run(one_call(folder, port, "irreversible", reconcile=GENEROUS))


@pytest.mark.row("T40")
@pytest.mark.requirement("IDM-02")
def test_a_call_killed_on_its_way_is_not_made_again_by_the_next_life(tmp_path):
    async def main():
        shop = LateShop(tmp_path / "late.db")
        await shop.start()
        try:
            process = CONTEXT.Process(target=life, args=(tmp_path, shop.port))
            process.start()
            await until(lambda: getattr(shop, "arrived", False))
            process.kill()
            await asyncio.to_thread(process.join, 20)
            reply = await one_call(tmp_path, shop.port, "irreversible", reconcile=GENEROUS)
            assert (reply.status, json.loads(reply.body)["next_action"]) == (409, "retry")
            assert shop.effects() == 0
            await until(shop.effects)
            reply = await one_call(tmp_path, shop.port, "irreversible", reconcile=GENEROUS)
            assert (reply.status, shop.effects()) == (200, 1)
        finally:
            await shop.stop()

    assert request("irreversible").method == "POST" and AGENT.kind == "agent"
    asyncio.run(main())


def claim(number):
    return Claim(
        claim_id=number, project="p", principal="a", tool="t", key_hash="h", fingerprint="f",
        state="unknown", owner="o", lease_until_ns=0, fence=1, attempt=1, call_id="c",
        updated_at_ns=0, expires_at_ns=0,
    )  # fmt: skip


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**11), min_size=1, max_size=30))
def test_not_done_counts_only_after_the_settle_time_and_said_twice_apart(settle_ns, steps):
    settling, now_ns, said = Settling(), 5, []
    settling.meet(claim(1), now_ns)
    for step in steps:
        now_ns += step
        left_ns = settling.not_done(claim(1), settle_ns, now_ns)
        if now_ns >= 5 + settle_ns:
            said.append(now_ns)
        counts = bool(said) and now_ns - said[0] >= CONFIRM_NS
        assert (left_ns == 0) == counts
    assert settling.not_done(claim(2), settle_ns, now_ns) > 0  # another's is its own


def test_what_is_known_is_forgotten():
    settling = Settling()
    assert settling.not_done(claim(1), 0, 0) == CONFIRM_NS
    settling.forget(claim(1))
    assert settling.not_done(claim(1), 0, CONFIRM_NS) == CONFIRM_NS
