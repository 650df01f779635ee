"""A replay from what the command line named: its plan, its workers, its executors.

Rules
1. A worker makes the plan again from the order and holds it against the pins before it runs
   anything.
2. What a worker is (the twins it opened, the gateway it started) stays with its process for as
   long as it is given shards of the same order.
"""

import asyncio
import importlib.metadata
import sys
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from os import chdir, cpu_count
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from sidecar.app import planning, replaying
from sidecar.app.loading import load_config
from sidecar.app.planning import Named
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.receive.memory import keep_objects
from sidecar.replay.driver import ReplayPlan
from sidecar.replay.planning import Asked as Planned
from sidecar.replay.reference import RECORDED, AgentRef, read_reference
from sidecar.replay.shards.inline import Inline
from sidecar.replay.shards.layout import Shard, size_of
from sidecar.replay.shards.model import (
    Asked,
    Done,
    Executor,
    Order,
    Way,
    refuse_other_plan,
)
from sidecar.replay.shards.process.gateway import GatewayWorker
from sidecar.replay.shards.process.pool import ProcessPool, end_with_the_coordinator
from sidecar.replay.shards.process.twins import TwinWorker, layout_of
from sidecar.replay.shards.ray import RayExecutor
from sidecar.replay.worker import takes_tools

ExecutorName = Literal["inline", "process", "ray"]
Through = Literal["", "gateway", "twins"]
WHOLE_UP_TO = 2000
_INLINE_UP_TO = 200


def plan_of(asked: Asked, loaded: Loaded) -> tuple[ReplayPlan, Sequence[str]]:
    """The plan, and what people should know of it. Raises SidecarError."""
    named = Named(
        suite=asked.suite,
        twins=tuple(Path(one) for one in asked.twins),
        state=Path(asked.state) if asked.state else None,
        now_ns=asked.now_ns,
    )
    made = planning.plan_of(loaded, named, _planned(asked, loaded))
    return replace(made.plan, runs=asked.runs), made.notes


def order_of(asked: Asked, plan: ReplayPlan, loaded: Loaded) -> Order:
    """The pins of a plan. Raises SidecarError where its two sides go different ways."""
    way = _way(plan)
    layout = layout_of(plan)
    episodes = len(layout)
    return Order(
        asked=asked,
        way=way,
        plan_digest=plan.suite_digest,
        tools=plan.group.tools,
        episodes=episodes,
        size=size_of(episodes, way, len(layout.sides) * layout.runs),
        seed=plan.seed,
        keep="all" if episodes <= WHOLE_UP_TO else "findings",
        policy_revision=asyncio.run(replaying.policy_revision(loaded)) if way == "gateway" else "",
        one_gateway=way == "gateway" and bool(loaded.config.replay.gateway),
    )


def executor_of(name: ExecutorName | None, order: Order, jobs: int) -> Executor:
    """Where the shards of an order run. Raises SidecarError."""
    if order.one_gateway and name not in (None, "inline"):
        raise SidecarError(
            "replay.gateway names one address, and each process would listen there",
            where="--executor",
            do="Use inline, or leave replay.gateway out.",
        )
    if name is None:
        small = order.one_gateway or (order.way == "gateway" and order.episodes < _INLINE_UP_TO)
        name = "inline" if small else "process"
    if name == "ray":
        return RayExecutor(work, order, jobs)
    if name == "inline":
        return Inline(partial(work, alone=False, concurrency=jobs or _cores()), order)
    places = max(1, min(jobs or _cores(), _cores(), order.shards))
    each = -(-(jobs or places) // places)
    return ProcessPool(partial(work, concurrency=each), order, places)


def work(order: Order, shard: Shard, *, alone: bool = True, concurrency: int = 1) -> Done:
    """Run a shard in this process; ``alone``: it is a worker's own."""
    return _worker(msgspec.json.encode(order), alone, concurrency).run(shard)


@lru_cache(maxsize=1)
def _worker(encoded: bytes, alone: bool, concurrency: int) -> TwinWorker | GatewayWorker:
    order = msgspec.json.decode(encoded, type=Order)
    if alone:
        chdir(order.asked.folder)
    loaded = load_config(order.asked.config, order.asked.store)
    plan, _ = plan_of(order.asked, loaded)
    refuse_other_plan(order, plan.suite_digest, plan.group.tools)
    made: TwinWorker | GatewayWorker
    if order.way == "twins":
        made = TwinWorker(order, plan, alone=alone)
    else:
        made = GatewayWorker(order, plan, lambda: replaying.replay_ports(loaded), concurrency)
    if alone:
        keep_objects()
        end_with_the_coordinator()
    return made


def _cores() -> int:
    return cpu_count() or 1


def _way(plan: ReplayPlan) -> Way:
    kinds = {plan.baseline.kind, plan.candidate.kind} - {"recorded"}
    if "tape" in kinds:
        raise SidecarError(
            "a tape is played once: it has no runs and no shards",
            where="--baseline, --candidate",
            do="Leave out --runs, --executor and --shards.",
        )
    if "call" not in kinds:
        return "gateway"
    spoken = [case.id for case in plan.cases if case.user is not None]
    if spoken:
        raise SidecarError(
            f"the scenario {spoken[0]!r} has a user who answers, and a callable on the twins has no"
            " turns",
            where="--candidate",
            do="Add --through gateway.",
        )
    return "twins"


def runs_straight(loaded: Loaded, references: Sequence[str | None], through: Through) -> bool:
    """Whether the agents of a replay are callables that a worker calls straight on the twins.

    Not where the configuration names a policy: what is decided in production is decided in a
    replay. Nor beside an agent that goes through the gateway: the two could not be compared.
    Raises SidecarError where ``through`` cannot be had.
    """
    run = [one for one in references if one and one != RECORDED]
    handed = bool(run) and all(map(_is_handed, run))
    if through == "twins" and not handed:
        raise SidecarError(
            "only callables that take (request, call) run straight on the twins",
            where="--through twins",
            do="Leave it out.",
        )
    if through:
        return through == "twins"
    policy = loaded.config.policy
    return handed and not policy.bundle and policy.engine == "embedded"


def _is_handed(text: str) -> bool:
    if not text.startswith("py:"):
        return False
    return _takes_tools(_reference(text, "REF").argv)


def _planned(asked: Asked, loaded: Loaded) -> Planned:
    straight = runs_straight(loaded, (asked.candidate, asked.baseline), asked.through)

    def agent(text: str, option: str) -> AgentRef:
        found = _reference(text, option)
        return replace(found, kind="call") if straight and found.kind == "py" else found

    return Planned(
        project=asked.project,
        candidate=agent(asked.candidate, "--candidate"),
        baseline=agent(asked.baseline, "--baseline") if asked.baseline else None,
        deterministic=asked.deterministic,
        deadline=asked.deadline,
        agent=asked.agent,
        program_version=importlib.metadata.version("agenttwin-sidecar"),
    )


def _reference(text: str, option: str) -> AgentRef:
    return read_reference(text, option=option, python=sys.executable)


@cache
def _takes_tools(argv: tuple[str, ...]) -> bool:
    return takes_tools(argv)
