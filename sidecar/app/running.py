"""A replay in shards from its beginning to its result, for the command line and for tests.

Rules
1. A run is begun in the store before anything is run, so that whatever happens it can be resumed.
2. Its result is read from what is kept, when all of it is there, one record at a time: what a
   coordinator needs grows with the shards that are under way and with the cases, not with records.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count, groupby, takewhile
from pathlib import Path

import msgspec
from msgspec import Struct

from sidecar import clock
from sidecar.app.episodes import ExecutorName, executor_of, order_of, plan_of
from sidecar.config import Loaded
from sidecar.errors import ExitCode, SidecarError
from sidecar.replay.driver import ReplayPlan, pins_of
from sidecar.replay.record import EpisodeRecord
from sidecar.replay.run import ReplayResult
from sidecar.replay.shards.driver import Coordinator, Told, check_again
from sidecar.replay.shards.layout import count_of
from sidecar.replay.shards.model import Asked, Order
from sidecar.replay.shards.packed import unpacked
from sidecar.store.episodes import KeptEpisode, ReplayRun
from sidecar.store.ports import Episodes
from sidecar.store.sqlite.backend import SqliteBackend

PART = "part"


class Begun(Struct, frozen=True, kw_only=True):
    """A run that is in the store. ``notes`` are what people should know of its plan."""

    run: ReplayRun
    order: Order
    plan: ReplayPlan
    notes: Sequence[str] = ()


def drawn(
    asked: Asked, loaded: Loaded, *, name: str = "", share: tuple[int, int] = (1, 0)
) -> Begun:
    """A run that is kept nowhere yet. ``share``: of how many machines this is which.

    Raises SidecarError.
    """
    plan, notes = plan_of(asked, loaded)
    machines, index = share
    order = order_of(asked, plan, loaded)
    order = msgspec.structs.replace(order, machines=machines, index=index)
    run = ReplayRun(
        run_id=name or clock.new_id(),
        project=asked.project,
        plan_digest=plan.suite_digest,
        shards=order.shards,
        content=msgspec.json.encode(order),
        created_at_ns=clock.now_ns(),
    )
    return Begun(run=run, order=order, plan=plan, notes=notes)


def begin(book: Episodes, wanted: Begun) -> Begun:
    """Begin a run, or go on with the one of its name. Raises SidecarError."""
    run = book.begin_run(wanted.run)
    kept = _order(run)
    if _asks(kept) != _asks(wanted.order):
        raise SidecarError(
            "a run of this name is there, and it is of another plan", where=run.run_id
        )
    return msgspec.structs.replace(wanted, run=run, order=kept)


def resume(book: Episodes, name: str, loaded: Loaded) -> Begun:
    """A run that was begun before. Raises SidecarError."""
    run = book.find_run(name)
    if run is None:
        raise SidecarError(
            "there is no such run", where=name, do="A run says its name when it is interrupted."
        )
    if run.verdict_id is not None:
        raise SidecarError(
            f"the run has ended with verdict {run.verdict_id}",
            where=name,
            do=f"See sidecar gate show {run.verdict_id}.",
        )
    order = _order(run)
    plan, notes = plan_of(order.asked, loaded)
    return Begun(run=run, order=order, plan=plan, notes=notes)


def conduct(
    book: Episodes, begun: Begun, executor: ExecutorName | None, jobs: int, told: Told
) -> None:
    """Run what is left of a run, and a drawn part of it again. Raises SidecarError."""
    with closing(executor_of(executor, begun.order, jobs)) as workers:
        Coordinator(book, begun.run.run_id, begun.order, told).run(workers)
        alone = workers.alone
    if not begun.plan.deterministic or (begun.order.way == "gateway" and not alone):
        return  # each agent process is a worker of its own there, and each case has run twice
    other: ExecutorName = "ray" if executor == "ray" else "process"
    with closing(executor_of(other, begun.order, jobs)) as workers:
        check_again(book, begun.run.run_id, begun.order, workers)


def result_of(begun: Begun, kept: Callable[[int], Iterable[KeptEpisode]]) -> ReplayResult:
    """The result of what is kept: episodes from a place on, in order. Raises SidecarError (exit 2)
    where some are missing."""
    plan = begun.plan
    return ReplayResult(
        pins=pins_of(plan, begun.order.policy_revision, begun.run.created_at_ns),
        runs=_Runs(begun, kept),
        started_at_ns=begun.run.created_at_ns,
        files=plan.files,
    )


def of_book(book: Episodes, begun: Begun) -> Callable[[int], Iterable[KeptEpisode]]:
    """What one store keeps of a run."""
    return lambda place: book.episodes_of(begun.run.run_id, after=place - 1)


def of_parts(folder: Path, begun: Begun) -> Callable[[int], Iterable[KeptEpisode]]:
    """What machines that shared nothing left in one folder. Raises SidecarError (exit 2) for a part
    of another plan."""
    if not folder.is_dir():
        raise SidecarError("there are no parts", where=str(folder), do="Run them with --shards.")
    books = [_part(path, begun.order) for path in sorted(folder.iterdir()) if path.is_dir()]
    return lambda place: heapq.merge(
        *(book.episodes_of(PART, after=place - 1) for book in books), key=lambda one: one.place
    )


@contextmanager
def part_book(folder: Path) -> Iterator[Episodes]:
    """The store of one part, made where there is none. Raises SidecarError."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SidecarError(
            f"the folder cannot be made: {error.strerror}", where=str(folder), do="Check --parts."
        ) from None
    with closing(SqliteBackend(folder).episodes(write=True)) as book:
        yield book


def _part(path: Path, wanted: Order) -> Episodes:
    book = SqliteBackend(path).episodes(write=False)
    run = book.find_run(PART)
    if run is None or _asks(_order(run).pins()) != _asks(wanted.pins()):
        raise SidecarError(
            "it is a part of another plan" if run else "it holds no part of a replay",
            where=str(path),
            do="Merge with the suite, references and options that the parts were run with.",
            code=ExitCode.UNDECIDED,
        )
    return book


def _asks(order: Order) -> Order:
    """An order without when and from where it was asked."""
    asked = msgspec.structs.replace(order.asked, now_ns=0, folder="", store=None, config=None)
    return msgspec.structs.replace(order, asked=asked, machines=1)


def _order(run: ReplayRun) -> Order:
    return msgspec.json.decode(run.content, type=Order)


class _Runs(Collection[EpisodeRecord]):
    """The runs of a replay as they are kept, read anew each time: one at a time, in order."""

    def __init__(self, begun: Begun, kept: Callable[[int], Iterable[KeptEpisode]]) -> None:
        self._order = begun.order
        self._recorded = {one.case: one for one in begun.plan.recorded}
        self._kept = kept
        _all_there(self._order, kept(0))

    def __len__(self) -> int:
        return len(self._recorded) + self._order.episodes

    def __contains__(self, one: object) -> bool:
        return any(one == run for run in self)

    def __iter__(self) -> Iterator[EpisodeRecord]:
        kept = (unpacked(one.content) for one in self._kept(0))
        for case, runs in groupby(kept, key=lambda one: one.case):
            if case in self._recorded:
                yield self._recorded[case]
            yield from runs


def _all_there(order: Order, kept: Iterable[KeptEpisode]) -> None:
    there = sum(1 for _ in takewhile(_in_turn(), kept))
    if there != order.episodes:
        shard, shards = there // order.size, count_of(order.episodes, order.size)
        raise SidecarError(
            f"episode {there} of {order.episodes} is missing: shard {shard} of {shards}",
            do="Run the part that has it, and merge again.",
            code=ExitCode.UNDECIDED,
        )


def _in_turn() -> Callable[[KeptEpisode], bool]:
    numbers = count()
    return lambda one: one.place == next(numbers)
