"""``sidecar scenario fuzz --rare``: how likely scenarios fail under the faults they declare.

Rules
1. Exit code 0 without ``--rare-max``; with it 0 where every probability is shown to be below, 1
   where one is shown to be above, 2 where an interval holds it, or a scenario is mostly void.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from sidecar.analyse.fuzz.rarely import Asked, Rarity, rarities
from sidecar.cli.options import on_terminal

SCHEMA = "rare/1.0.0"
_VOID_MOST = 0.5


def run(asked: Asked) -> list[Rarity]:
    """The estimates. Raises SidecarError where no fault has a probability."""
    with _progress() as told:
        found = []
        for one in rarities(asked):
            found.append(one)
            told()
        return found


def code(found: Sequence[Rarity], most: float | None) -> int:
    """The exit code against a greatest probability."""
    if most is None:
        return 0
    if any(one.estimate.lower > most for one in found):
        return 1
    unsure = (one.estimate.upper > most or one.estimate.void > _VOID_MOST for one in found)
    return 2 if any(unsure) else 0


def as_record(suite: str, found: Sequence[Rarity], *, seed: int) -> dict[str, Any]:
    """The document."""
    return {
        "schema": SCHEMA,
        "suite": suite,
        "seed": seed,
        "scenarios": msgspec.to_builtins(list(found)),
    }


def text(suite: str, found: Sequence[Rarity], *, seed: int) -> Iterator[str]:
    """Lines for a terminal."""
    yield f"{suite}: how likely an episode fails, faults as declared; 95 % intervals, seed {seed}"
    for one in found:
        made = one.estimate
        least = "few failed: at most" if made.method == "bound" else f"{made.lower:.2g} to"
        yield f"  {one.scenario}: {made.probability:.2g} ({least} {made.upper:.2g})"
        yield (
            f"    {made.failed} of {made.episodes} episodes failed, after {made.pilot} of a pilot;"
            f" as much as {made.plain:.3g} episodes as declared would tell"
        )
        for each in made.failures:
            yield f"    {each.name}: {each.probability:.2g} ({each.episodes} episodes)"
        for tilt in made.tilts:
            yield f"    {tilt.rule}: declared {tilt.declared:g}, drawn {tilt.drawn:.3g}"
        if made.void:
            yield f"    void: {made.void:.2g} of episodes"


@contextmanager
def _progress() -> Iterator[Any]:
    if not on_terminal():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scenarios", total=None)
        yield lambda: bar.advance(task)
