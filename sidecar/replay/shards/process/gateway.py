"""Episodes of agent processes, through a gateway of this worker's own, kept up between shards."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from multiprocessing import util

from sidecar import clock
from sidecar.replay.driver import Company, Job, ReplayPlan, company
from sidecar.replay.shards.layout import Place, Shard
from sidecar.replay.shards.model import Done, Order, refuse_other_policy
from sidecar.replay.shards.packed import Kept, packed
from sidecar.replay.shards.process.twins import layout_of, request_of, worker_name
from sidecar.replay.stage.driver import StagePorts
from sidecar.store.episodes import KeptEpisode

Ports = Callable[[], AbstractAsyncContextManager[StagePorts]]


class GatewayWorker:
    """Runs shards of one order, ``concurrency`` episodes at once."""

    def __init__(self, order: Order, plan: ReplayPlan, ports: Ports, concurrency: int) -> None:
        self._order = order
        self._plan = plan
        self._ports = ports
        self._concurrency = concurrency
        self._layout = layout_of(plan)
        self._kept = Kept(order=order, layout=self._layout, deterministic=plan.deterministic)
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._company: Company | None = None
        # A worker process leaves without the interpreter's own farewell.
        util.Finalize(self, self.close, exitpriority=10)

    def run(self, shard: Shard) -> Done:
        """The episodes of a shard."""
        return self._runner.run(self._run(shard))

    def close(self) -> None:
        """Stop the gateway. Safe to call twice."""
        self._company = None
        self._runner.run(self._stack.aclose())
        self._runner.close()

    async def _run(self, shard: Shard) -> Done:
        started_ns = clock.monotonic_ns()
        if self._company is None:
            ports = await self._stack.enter_async_context(self._ports())
            refuse_other_policy(self._order, ports.policy.revision)
            self._company = await self._stack.enter_async_context(
                company(self._plan, ports, concurrency=self._concurrency)
            )
        records = await self._company.run([self._job(self._layout.at(n)) for n in shard.places])
        name = worker_name()
        made = tuple(
            KeptEpisode(place=place, worker=name, digest=one.digest, content=packed(one))
            for place, one in zip(shard.places, self._kept.left(shard, records), strict=True)
        )
        took_ns = clock.monotonic_ns() - started_ns
        return Done(shard=shard.number, worker=name, took_ns=took_ns, episodes=made)

    def _job(self, place: Place) -> Job:
        plan, case = self._plan, self._plan.cases[place.case]
        return Job(
            case=case,
            side=place.side,
            run=place.run,
            agent=plan.baseline if place.side == "baseline" else plan.candidate,
            request=request_of(plan, case.request(), place),
        )
