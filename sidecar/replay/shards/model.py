"""What goes to a worker and what comes back: an order, a shard, and its episodes.

Rules
1. An order says how the plan is made again, and pins what it must come to: a worker whose plan has
   another digest, or a tool of another class, runs nothing.
2. What comes back is bytes: a coordinator keeps episodes without looking into them.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from processors.model.names import SideEffectClass
from sidecar.errors import ExitCode, SidecarError
from sidecar.replay.shards.layout import Shard, count_of, shard_at
from sidecar.store.episodes import KeptEpisode

Way = Literal["twins", "gateway"]


class Asked(Struct, frozen=True, kw_only=True):
    """What the command line named; paths are absolute, ``folder`` is the working directory.

    ``now_ns`` is when the replay was asked for: a query's ``since`` counts from there.
    """

    suite: str
    baseline: str | None
    candidate: str
    folder: str
    now_ns: int
    twins: tuple[str, ...] = ()
    state: str = ""
    config: str | None = None
    store: str | None = None
    project: str = "default"
    deterministic: bool = False
    deadline: str = ""
    agent: str = ""
    runs: int = 0
    through: Literal["", "gateway", "twins"] = ""


class Order(Struct, frozen=True, kw_only=True):
    """A run's pins. ``keep`` says whose records are kept whole: those of all episodes, or of those
    that showed something and a drawn sample of the others.

    Of machines that share no store, the ``index``-th of ``machines`` has every so-many-th shard.
    ``one_gateway``: where its gateway listens is configured, so that there can be only one.
    """

    asked: Asked
    way: Way
    plan_digest: str
    tools: dict[str, SideEffectClass]
    episodes: int
    size: int
    seed: int
    keep: Literal["all", "findings"] = "all"
    policy_revision: str = ""
    machines: int = 1
    index: int = 0
    one_gateway: bool = False

    @property
    def shards(self) -> int:
        """How many shards this machine has, numbered from 0."""
        return len(range(self.index, count_of(self.episodes, self.size), self.machines))

    def shard(self, number: int) -> Shard:
        """One of this machine's shards."""
        return shard_at(self.index + number * self.machines, self.episodes, self.size)

    def pins(self) -> "Order":
        """The same for every machine."""
        return replace(self, index=0)


class Done(Struct, frozen=True, kw_only=True):
    """What came of a shard. ``worker`` names the process that ran it."""

    shard: int
    worker: str
    took_ns: int
    episodes: tuple[KeptEpisode, ...]


Work = Callable[[Order, Shard], Done]


def refuse_other_plan(order: Order, digest: str, tools: Mapping[str, SideEffectClass]) -> None:
    """Raises SidecarError (exit 2) where a plan is not the one that was pinned."""
    for name, class_ in order.tools.items():
        here = tools.get(name, "unknown")
        if here != class_:
            raise SidecarError(
                f"the tool {name!r} was pinned as {class_}, here it is {here}",
                where=order.asked.suite,
                do="Begin a new run: what has another side-effect class is not replayed.",
                code=ExitCode.UNDECIDED,
            )
    if digest != order.plan_digest:
        raise SidecarError(
            "the suite, its twins or an agent is not the one that was pinned when the run began",
            where=order.asked.suite,
            do="Restore it, or begin a new run.",
            code=ExitCode.UNDECIDED,
        )


def refuse_other_policy(order: Order, revision: str) -> None:
    """Raises SidecarError (exit 2) where policy is not the one that was pinned."""
    if revision != order.policy_revision:
        raise SidecarError(
            f"policy is {revision}, and {order.policy_revision} was pinned when the run began",
            where="configuration key policy",
            do="Restore it, or begin a new run.",
            code=ExitCode.UNDECIDED,
        )


class Lost(Exception):
    """A shard came to nothing because its worker died: deliver it again."""


class Executor(Protocol):
    """Where shards are run. ``alone``: in processes of their own, which are confined for good."""

    places: int
    alone: bool

    def submit(self, shard: Shard) -> "Future[Done]":
        """Have a shard run. The future raises Lost where its worker died."""
        ...

    def close(self) -> None:
        """End the workers; what they have under way is dropped."""
        ...
