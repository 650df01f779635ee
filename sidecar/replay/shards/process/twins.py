"""Episodes of callable agents on the twins of one worker: worlds are opened once and rolled back.

Rules
1. An episode's record depends on its place in the plan and on nothing else: no time, no id, no
   worker, none of the episodes before it.
2. A world that leaked is not used again.
"""

import os
import socket
from typing import Any

from msgspec import structs

from sidecar import clock
from sidecar.replay.direct import EndedAgent, Of, record_direct
from sidecar.replay.driver import ReplayPlan
from sidecar.replay.record import EpisodeRecord, Side
from sidecar.replay.shards.layout import Layout, Place, Shard
from sidecar.replay.shards.model import Done, Order
from sidecar.replay.shards.packed import Kept, packed
from sidecar.replay.shards.process import called
from sidecar.replay.shards.process.confined import confinement
from sidecar.store.episodes import KeptEpisode
from sidecar.twins.scenario import drawn_seed


def worker_name() -> str:
    """Which process this is, among those of all machines."""
    return f"{socket.gethostname()}:{os.getpid()}"


class TwinWorker:
    """Runs shards of one order; ``plan`` has been held against its pins."""

    def __init__(self, order: Order, plan: ReplayPlan, *, alone: bool) -> None:
        self._plan = plan
        self._layout = layout_of(plan)
        self._kept = Kept(order=order, layout=self._layout, deterministic=plan.deterministic)
        folder, seconds = order.asked.folder, plan.deadline_s
        references = {"baseline": plan.baseline, "candidate": plan.candidate}
        self._agents: dict[Side, EndedAgent] = {
            side: called.ended(called.load(references[side].text[3:], folder), seconds)
            for side in self._layout.sides
        }
        self._worlds = plan.group.open()
        self._confinement = confinement()
        if alone:  # after all that is loaded: agents may read files, and reach nothing
            self._confinement.move_out()

    def run(self, shard: Shard) -> Done:
        """The episodes of a shard."""
        started_ns = clock.monotonic_ns()
        name = worker_name()
        records = [self._record(self._layout.at(place)) for place in shard.places]
        made = tuple(
            KeptEpisode(place=place, worker=name, digest=one.digest, content=packed(one))
            for place, one in zip(shard.places, self._kept.left(shard, records), strict=True)
        )
        took_ns = clock.monotonic_ns() - started_ns
        return Done(shard=shard.number, worker=name, took_ns=took_ns, episodes=made)

    def _record(self, place: Place) -> EpisodeRecord:
        case = self._plan.cases[place.case]
        of = Of(
            case=case,
            side=place.side,
            run=place.run,
            request=request_of(self._plan, case.request(), place),
        )
        with self._confinement.confined() as tried:
            record = record_direct(of, self._agents[place.side], self._plan.group, self._worlds)
        if tried:
            record = structs.replace(record, void=f"egress_denied: {tried[0]}")
        if record.void is not None:
            self._worlds = self._plan.group.open()
        return record


def layout_of(plan: ReplayPlan) -> Layout:
    """The episodes of a plan; a recorded side has none."""
    sides: tuple[Side, ...] = ("baseline", "candidate")
    run = tuple(
        side
        for side in sides
        if (plan.baseline if side == "baseline" else plan.candidate).kind != "recorded"
    )
    return Layout(cases=len(plan.cases), sides=run, runs=plan.repeats)


def request_of(plan: ReplayPlan, request: dict[str, Any], place: Place) -> dict[str, Any]:
    """What the agent of one run is given: where runs are samples, each has a seed of its own, and
    both sides the same."""
    if plan.deterministic or place.run == 1:
        return request
    return {**request, "seed": drawn_seed(request["seed"], f"sample|{place.run}")}
