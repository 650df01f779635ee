"""``sidecar gallery``: six runs that go wrong, each beside the same errand done well.

Rules
1. Without a side it exits 0 when every run comes to what the gallery says of it; with one, as the
   assertions on that side do.
2. It needs no network, no model and no configuration.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from sidecar import clock
from sidecar.cli.options import common, emit, profiled, talk
from sidecar.errors import SidecarError
from sidecar.gallery.pairs import PAIRS, Pair
from sidecar.outcome import Exits, Outcome, worst

_NAMES = [pair.name for pair in PAIRS]


@click.group()
def command() -> None:
    """List the gallery's pairs, and run them.

    \b
    Example:
      $ sidecar gallery run deathloop --html deathloop.html
    """


@command.command("list")
@profiled()
@common()
def list_(
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """List the pairs: a run that goes wrong, and what tells it from one that does not.

    \b
    Example:
      $ sidecar gallery list
      deathloop  An agent repeats what just failed … (max_repeats, budget_within)
    """
    told = [{"name": one.name, "title": one.title, "family": list(one.family)} for one in PAIRS]
    value = {**exits.told(Outcome.OK), "pairs": told}
    lines = [f"{one.name:<15} {one.title} ({', '.join(one.family)})" for one in PAIRS]
    emit(value, output, lambda: "\n".join(lines))
    return exits.code(Outcome.OK)


@command.command("run")
@click.argument("names", nargs=-1, type=click.Choice(_NAMES), metavar="[NAME]...")
@click.option(
    "--side",
    type=click.Choice(["before", "after", "counterfactual"]),
    default=None,
    help="Tell this side alone, and exit as the assertions on it do.",
)
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path),
    default=None,
    metavar="PATH",
    help="A page of one pair; of several, a folder with a page each.",
)
@profiled()
@common()
def run(
    names: Sequence[str],
    side: str | None,
    page: Path | None,
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """Judge the pairs' runs; where one has a declared change, replay it with that change.

    \b
    Example:
      $ sidecar gallery run deathloop
      deathloop: as described
        before          fail  first offence at 12
        after           pass  parts at 3
        counterfactual  pass  parts at 3
    """
    # Imported here: `list` does without the server's extra.
    from sidecar.cli.gallery_run import Shown, shown, side_told, sides_of
    from sidecar.evaluate.assertions.conclude import word_of

    pairs = [one for one in PAIRS if not names or one.name in names]
    if side is not None and not any(side in sides_of(one) for one in pairs):
        raise SidecarError(f"none of these has the side {side}", where="--side")
    found: list[Shown] = [shown(one, exits, clock.now_ns()) for one in pairs]
    if page is not None:
        _pages(found, page, exits)
    if side is None:
        good = all(one.as_described for one in found)
        outcome, word = (Outcome.OK, "as_described") if good else (Outcome.FAILED, "otherwise")
    else:
        outcome = worst(one.told.end for each in found for one in each.sides if one.name == side)
        word = word_of(outcome)
    told = [
        {
            "name": one.pair.name,
            "title": one.pair.title,
            "family": list(one.pair.family),
            "as_described": one.as_described,
            "sides": [side_told(each) for each in one.sides],
        }
        for one in found
    ]
    emit({**exits.told(outcome, word), "pairs": told}, output, lambda: _text(told, side))
    return exits.code(outcome)


def _text(told: Sequence[dict[str, Any]], only: str | None) -> str:
    lines = []
    for pair in told:
        lines.append(f"{pair['name']}: {'as described' if pair['as_described'] else 'otherwise'}")
        for side in pair["sides"]:
            if only not in (None, side["side"]):
                continue
            line = f"  {side['side']:<15} {side['outcome']:<5}"
            if side["first_offence"] is not None:
                line += f" first offence at {side['first_offence']}"
            if side["first_divergence"] is not None:
                line += f" parts at {_seq(side['first_divergence'])}"
            lines.append(line.rstrip())
            lines += [
                f"    {one['status']:<5} {one['id']}: {one['detail']}" for one in side["assertions"]
            ]
    return "\n".join(lines)


def _seq(first: dict[str, Any]) -> int:
    found: int = next(first[side] for side in ("seq_l", "seq_r") if first[side] is not None)
    return found


def _write(place: Path, text: str) -> None:
    try:
        place.write_text(text, encoding="utf-8")
    except OSError:
        if place.is_file():  # half a page is none
            place.unlink()
        raise


def _pages(found: Sequence[Any], page: Path, exits: Exits) -> None:
    """The viewer's pages: before and after side by side, and what is beside them."""
    from sidecar.evaluate.assertions.conclude import word_of
    from sidecar.gate.report.asserted import asserted_report
    from sidecar.gate.report.exhibit import tapes_of
    from sidecar.gate.report.render import render

    several = len(found) > 1
    try:
        if several:
            page.mkdir(parents=True, exist_ok=True)
        for one in found:
            pair: Pair = one.pair
            end = worst(each.told.end for each in one.sides)
            report = asserted_report(
                [
                    # Not the file's name: it is where it was unpacked to, this time.
                    replace(each.told.judged, name=f"{pair.name}/{each.name}", role=each.name)
                    for each in one.sides
                ],
                outcome=word_of(end),
                exit_code=exits.code(end),
                profile=exits.profile,
                command="gallery run",
                title=pair.title,
            )
            exhibit = tapes_of([each.tape for each in one.sides], one.sides[1].diff)
            place = page / f"{pair.name}.html" if several else page
            _write(place, render(report, "html", shown=exhibit))
    except OSError as error:
        raise SidecarError(
            f"the page cannot be written: {error.strerror}", where=str(page)
        ) from None
    talk(f"wrote {page}")
