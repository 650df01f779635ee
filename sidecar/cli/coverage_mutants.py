"""``sidecar coverage --mutants``: whether a suite notices what is made wrong on purpose.

Rules
1. Survivors come first, each with what would notice it.
2. Progress is drawn on a terminal only.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from sidecar.analyse.mutants.judging import Score
from sidecar.analyse.mutants.model import Judged, Target
from sidecar.analyse.mutants.operators import BY_NAME
from sidecar.app.mutating import mutation_score
from sidecar.cli.options import on_terminal
from sidecar.config import Loaded
from sidecar.replay.driver import ReplayPlan

SCHEMA = "mutants/1.0.0"
Progress = Callable[[int, int], None]


def run(
    plan: ReplayPlan,
    loaded: Loaded,
    *,
    seed: int,
    targets: Sequence[Target],
    operators: Sequence[str],
) -> Score:
    """The score of a plan's suite. Raises SidecarError."""
    with _progress() as progress:
        return asyncio.run(
            mutation_score(
                plan,
                loaded,
                seed=seed,
                targets=targets,
                operators=operators,
                progress=progress,
            )
        )


def as_record(found: Score, *, seed: int) -> dict[str, Any]:
    """The document: counts, and every mutant with its end."""
    value: dict[str, Any] = msgspec.to_builtins(found)
    value["judged"] = [
        {
            **msgspec.to_builtins(one),
            "id": one.mutant.id,
            "says": BY_NAME[one.mutant.operator].says,
            "would_kill": BY_NAME[one.mutant.operator].kill if one.ending == "survived" else "",
        }
        for one in found.judged
    ]
    return {"schema": SCHEMA, "seed": seed, **value}


def text(found: Score, *, seed: int) -> Iterator[str]:
    """Lines for a terminal."""
    told = found.killed + found.survived
    share = f" ({found.score:.1%})" if found.score is not None else ""
    yield (
        f"{found.suite}: {found.killed} of {told} mutants killed{share}, "
        f"{found.equivalent} equivalent, {found.void} void; {found.cases} cases, "
        f"{found.runs} runs, seed {seed}"
    )
    for each in found.targets:
        yield (
            f"  {each.name:<7} {each.killed} killed, {each.survived} survived, "
            f"{each.equivalent} equivalent, {each.void} void"
        )
    for one in _ended(found, "survived"):
        operator = BY_NAME[one.mutant.operator]
        where = f"in {one.acted} cases" if one.acted else one.why
        yield f"  SURVIVED  {one.mutant.id}: {operator.says} ({where})"
        yield f"    would be killed by: {operator.kill}"
    for one in _ended(found, "void"):
        yield f"  void      {one.mutant.id}: {one.why}"
    yield from (
        f"  {one.ending:<9} {one.mutant.id}: {one.by or one.why}"
        for one in found.judged
        if one.ending in ("killed", "equivalent")
    )
    yield from (f"  left out  {name}: {why}" for name, why in found.unusable.items())
    yield from (f"  note      {note}" for note in found.notes)


def markdown(found: Score, *, seed: int) -> Iterator[str]:
    """A page."""
    lines = text(found, seed=seed)
    yield f"# Mutants of {found.suite}"
    yield ""
    yield next(lines)
    yield ""
    yield "| operator | killed | survived | equivalent | void |"
    yield "|---|---|---|---|---|"
    for each in found.operators:
        yield f"| {each.name} | {each.killed} | {each.survived} | {each.equivalent} | {each.void} |"
    for ending, title in (("survived", "Survivors"), ("void", "Void")):
        chosen = list(_ended(found, ending))
        if chosen:
            yield ""
            yield f"## {title}"
            yield ""
        for one in chosen:
            operator = BY_NAME[one.mutant.operator]
            yield f"- `{one.mutant.id}`: {operator.says}. Would be killed by: {operator.kill}"


def _ended(found: Score, ending: str) -> Iterator[Judged]:
    return (one for one in found.judged if one.ending == ending)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    if not on_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("mutants", total=None)

        def tell(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        yield tell
