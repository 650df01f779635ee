"""``sidecar replay`` in shards: begun, joined, resumed, cut into parts, merged."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from processors.model.verdict import Verdict
from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar import clock
from sidecar.app import opening
from sidecar.app.agreeing import agreed
from sidecar.app.concluding import Kept, keep
from sidecar.app.episodes import runs_straight
from sidecar.app.planning import DRAFT, shipped
from sidecar.app.running import (
    PART,
    Begun,
    begin,
    conduct,
    drawn,
    of_book,
    of_parts,
    part_book,
    result_of,
    resume,
)
from sidecar.cli.options import on_terminal, say, talk, to_json
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.identity.projects import project_name
from sidecar.replay.query import PREFIX
from sidecar.replay.shards.driver import Told
from sidecar.replay.shards.model import Asked
from sidecar.store.ports import Episodes

_NAMED = ("baseline", "candidate", "project", "agent", "deadline", "runs", "deterministic")


def in_shards(loaded: Loaded, more: dict[str, Any]) -> bool:
    """Whether what is asked for is a run in shards: named as one, or of callables on twins."""
    if any(more[name] is not None for name in ("executor", "runs", "parts")):
        return True
    return runs_straight(loaded, (more["candidate"], more["baseline"]), more["through"] or "")


def named(
    suite: str | None,
    twins: tuple[Path, ...],
    config: str | None,
    store: str | None,
    more: dict[str, Any],
) -> dict[str, Any]:
    """All options as one mapping."""
    return {**more, "suite": suite, "twins": twins, "config": config, "store": store}


def replay_shards(loaded: Loaded, told: dict[str, Any], more: dict[str, Any], how: Kept) -> Verdict:
    """The verdict on a run, kept with its evidence. Raises SidecarError."""
    wanted = None
    if more["resumed"] is not None:
        _nothing_besides(told)
    else:
        wanted = drawn(_asked(loaded, told), loaded)
    with opening.open_episodes(loaded) as book:
        begun = wanted or resume(book, more["resumed"], loaded)
        for note in begun.notes:
            talk(note)
        if more["parts"] is not None:
            result = result_of(begun, of_parts(more["parts"], begun))
            return keep(loaded, begun.plan, result, how)
        begun = begin(book, begun)
        _conduct(book, begun, more, f"sidecar replay --resume {begun.run.run_id}")

        def concluded() -> Verdict:
            return keep(loaded, begun.plan, result_of(begun, of_book(book, begun)), how)

        return agreed(book, begun, concluded, partial(_of_another, loaded))


def _of_another(loaded: Loaded, verdict_id: str) -> Verdict:
    with opening.open_verdicts(loaded) as verdicts:
        verdict = verdicts.get_verdict(verdict_id)
    if verdict is None:
        raise SidecarError(
            f"another coordinator concluded the run, and its verdict {verdict_id} is gone",
            do="See sidecar gate list.",
        )
    talk(f"another coordinator concluded the run; evidence: {verdict.evidence.get('folder', '')}")
    return verdict


def replay_part(loaded: Loaded, told: dict[str, Any], more: dict[str, Any]) -> int:
    """One part of a replay, kept in a folder of its own for whoever merges them."""
    shards, index, parts = more["shards"], more["shard_index"], more["parts"]
    if index is None or index >= shards:
        raise SidecarError(
            f"a part from 0 to {shards - 1} is wanted", where="--shard-index", do="Name it."
        )
    if parts is None:
        raise SidecarError("parts need a folder", where="--parts", do="Name one they all reach.")
    wanted = drawn(_asked(loaded, told), loaded, name=PART, share=(shards, index))
    with part_book(parts / f"{index:06d}") as book:
        begun = begin(book, wanted)
        _conduct(book, begun, more, "the same command")
        done = book.run_progress(PART).episodes_done
    say(
        to_json({"part": index, "parts": shards, "episodes": done})
        if more["output"] == "json"
        else f"part {index} of {shards}: {done} of {begun.order.episodes} episodes"
    )
    return 0


def _conduct(book: Episodes, begun: Begun, more: dict[str, Any], again: str) -> None:
    try:
        with _progress(book, begun) as told:
            conduct(book, begun, more["executor"], more["jobs"] or 0, told)
    except BaseException:
        talk(f"what is done is kept; go on with: {again}")
        raise


def _nothing_besides(told: dict[str, Any]) -> None:
    """A run has its plan: naming another beside it is a mistake."""
    for name in ("suite", "twins", *_NAMED):
        if told[name]:
            raise SidecarError(
                f"a run that is resumed has its plan: {name} is given too",
                where="--resume",
                do="Leave it out.",
            )


def _asked(loaded: Loaded, more: dict[str, Any]) -> Asked:
    suite, twins, config = more["suite"], more["twins"], more["config"]
    for name, value in (("SUITE", suite), ("--candidate", more["candidate"])):
        if not value:
            raise SidecarError("it is missing", where=name, do="See sidecar replay --help.")
    if more["deadline"]:
        try:
            duration_ns(more["deadline"], least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            raise SidecarError(str(error), where="--deadline") from None
    return Asked(
        suite=suite if suite.startswith(PREFIX) else str(Path(suite).absolute()),
        baseline=more["baseline"],
        candidate=more["candidate"],
        folder=str(Path.cwd()),
        now_ns=clock.now_ns(),
        twins=tuple(str(one if one == DRAFT else shipped(one).absolute()) for one in twins),
        state=str(more["state"].absolute()) if more["state"] else "",
        config=config and str(Path(config).absolute()),
        store=more["store"],
        project=_project(loaded, more["project"]),
        through=more["through"] or "",
        deterministic=more["deterministic"],
        deadline=more["deadline"],
        agent=more["agent"],
        runs=more["runs"] or 0,
    )


def _project(loaded: Loaded, named: str | None) -> str:
    if named is None:
        return loaded.config.projects[0].name
    return project_name(named, where="--project")


@contextmanager
def _progress(book: Episodes, begun: Begun) -> Iterator[Told]:
    """A bar with the time that is left on a terminal; nothing where nobody looks."""
    if not on_terminal():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:-1], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        done = book.run_progress(begun.run.run_id).episodes_done
        mine = sum(len(begun.order.shard(n).places) for n in range(begun.order.shards))
        task = bar.add_task("episodes", total=mine, completed=done)
        yield lambda more: bar.advance(task, more)
