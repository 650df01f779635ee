"""A policy that cannot be refreshed, or is out of its time, decides on for a while and then not."""

import asyncio

import pytest
from policy_release_rig import RULES_ALLOW, living, release

from sidecar.errors import SidecarError
from sidecar.gateway.policy.live.driver import PolicyWatch
from sidecar.gateway.policy.live.freshness import DAY_NS, Freshness

SECOND = 10**9
CALL = {"resource": {"id": "pay"}}


class Clocks:
    """A wall clock that may be set, and one that only goes on."""

    def __init__(self):
        self.wall, self.steady = 1_800_000_000 * SECOND, 77 * SECOND

    def go(self, ns):
        self.wall, self.steady = self.wall + ns, self.steady + ns

    @property
    def now(self):
        return self.wall, self.steady


def test_what_could_not_be_refreshed_is_stale_from_the_first_failure_on():
    clocks, fresh = Clocks(), Freshness(DAY_NS)
    fresh.refreshed(None)
    clocks.go(100 * DAY_NS)
    assert fresh.stale_ns(*clocks.now) == 0 and not fresh.too_old(*clocks.now)
    fresh.failed(clocks.steady)
    clocks.go(DAY_NS)
    fresh.failed(clocks.steady)
    assert fresh.stale_ns(*clocks.now) == DAY_NS and not fresh.too_old(*clocks.now)
    clocks.go(1)
    assert fresh.too_old(*clocks.now)
    fresh.refreshed(None)
    assert not fresh.too_old(*clocks.now)


@pytest.mark.row("G")
def test_a_clock_that_is_set_back_makes_nothing_young_again():
    clocks, fresh = Clocks(), Freshness(DAY_NS)
    fresh.refreshed(clocks.wall // SECOND + 60)
    clocks.go(59 * SECOND)
    assert fresh.stale_ns(*clocks.now) == 0
    clocks.go(2 * SECOND)
    assert fresh.stale_ns(*clocks.now) == SECOND
    clocks.wall -= 10 * DAY_NS
    clocks.go(DAY_NS)
    assert fresh.stale_ns(*clocks.now) == DAY_NS + SECOND and fresh.too_old(*clocks.now)
    # found again as it is, which its own time makes no younger
    fresh.refreshed((1_800_000_000 * SECOND) // SECOND + 60)
    assert fresh.too_old(*clocks.now)
    fresh.refreshed(clocks.wall // SECOND + 600)
    assert not fresh.too_old(*clocks.now)


def test_a_bundle_that_is_long_out_of_its_time_when_it_is_first_looked_at_is_as_old_as_it_is():
    clocks, fresh = Clocks(), Freshness(DAY_NS)
    fresh.refreshed(clocks.wall // SECOND - 2 * 86_400)
    assert fresh.too_old(*clocks.now)


@pytest.mark.requirement("GW-04")
@pytest.mark.row("G")
def test_a_policy_that_cannot_be_refreshed_decides_on_until_it_is_too_old():
    clocks, there = Clocks(), [SidecarError("the signature is bad")]

    def load():
        if isinstance(there[0], Exception):
            raise there[0]
        return there[0]

    async def scenario(policy):
        watch, seen = PolicyWatch(policy, load, 60), []

        async def look(ns=0):
            clocks.go(ns)
            await watch.look()
            answer = await policy.decide(CALL)
            visible = await policy.visible(CALL)
            assert (answer.error is None) == (visible.error is None)
            seen.append((answer.effect, policy.stale_ns // SECOND, policy.too_old))

        await look()
        await look(DAY_NS)
        await look(SECOND)
        there[0] = release(RULES_ALLOW)
        await look()
        there[0] = release("package nothing\n")  # it is no policy: not refreshed either
        await look()
        await look(SECOND)
        return seen

    seen = living(
        scenario, RULES_ALLOW, now_ns=lambda: clocks.wall, steady_ns=lambda: clocks.steady
    )
    assert seen == [
        ("allow", 0, False), ("allow", 86_400, False), ("deny", 86_401, True),
        ("allow", 0, False), ("allow", 0, False), ("allow", 1, False),
    ]  # fmt: skip


def test_a_watch_that_fails_otherwise_makes_stale_too():
    clocks = Clocks()

    async def scenario(policy):
        def load():
            raise RuntimeError("a fault of ours")

        watch = PolicyWatch(policy, load, 0.001)
        await watch.start()
        async with asyncio.timeout(10):
            while not policy._fresh._failed_ns:
                await asyncio.sleep(0.001)
        await watch.stop()
        clocks.go(2 * DAY_NS)
        return (await policy.decide(CALL)).error

    told = living(
        scenario, RULES_ALLOW, now_ns=lambda: clocks.wall, steady_ns=lambda: clocks.steady
    )
    assert "for too long" in told
