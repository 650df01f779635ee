"""``sidecar twin draft``: a twin from captured traffic, and how true it is to runs it has not seen.

Rules
1. Exit 0 where a twin is written, 2 where the runs hold nothing to draft from, 3 otherwise.
2. A folder that holds a twin already is left alone, unless ``--force``.
3. The same runs give the same files, byte for byte.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from sidecar.analyse.draft.draft import draft
from sidecar.analyse.draft.heldout import SHARE, HeldOut, held_out
from sidecar.analyse.draft.model import SUPPORT, Asked, Draft, asked_of
from sidecar.analyse.draft.written import written
from sidecar.app.loading import load_config
from sidecar.cli.given_runs import format_option, given_runs
from sidecar.cli.numbers import FiniteRange
from sidecar.cli.options import common, emit, profiled, to_json
from sidecar.errors import ExitCode, SidecarError
from sidecar.outcome import Exits, Outcome
from sidecar.plain import plain
from sidecar.twins.files import load_twins

TWIN, REPORT = "twin.yaml", "draft.json"


@click.command("draft")
@click.argument(
    "tapes", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TAPES..."
)
@click.option(
    "-o",
    "--to",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for twin.yaml and draft.json.",
)
@click.option("--name", default="drafted", show_default=True, help="The twin's name.")
@click.option(
    "--support",
    type=click.IntRange(1, 1000),
    default=SUPPORT,
    show_default=True,
    help="How many observations a rule needs.",
)
@click.option(
    "--hold-out",
    type=FiniteRange(0, 0.9),
    default=SHARE,
    show_default=True,
    help="Share of the runs that are held out to measure; 0 measures nothing.",
)
@click.option(
    "--read", "reads", multiple=True, metavar="TOOL", help="A tool that reads; may be repeated."
)
@click.option("--force", is_flag=True, help="Write over a twin that is there.")
@format_option
@profiled()
@common()
def draft_(
    tapes: tuple[Path, ...],
    to: Path,
    name: str,
    support: int,
    hold_out: float,
    reads: tuple[str, ...],
    force: bool,
    form: str,
    capture: str,
    exits: Exits,
    config: str | None,
    store: str | None,
    output: str,
) -> int:
    """Draft a twin from captured traffic, each rule with what it rests on.

    TAPES are tapes or folders of them, OTLP captures, tau-bench results. What was seen too seldom,
    or contradicts itself, is left out and answers TwinGap. Tools of the configuration keep their
    class, match and upstream; of any other a name like get_… says that it reads. Whole runs are
    held out, a draft of the others is measured on them, and the draft of all is written.

    \b
    Example:
      $ sidecar twin draft tapes/ -o drafted/
      drafted/twin.yaml: 4 tools from 120 runs, 612 calls; 1 tool answers TwinGap alone
      held out: 24 runs, 131 calls: 118 answered, 118 as recorded, 13 gaps
    """
    place = to / TWIN
    if place.exists() and not force:
        raise SidecarError(
            "there is a twin already", where=str(place), do="Name another folder, or --force."
        )
    runs = given_runs(tapes, form, capture)
    asked = asked_of(load_config(config, store).config.gateway.tools)
    asked |= {name: replace(asked.get(name, Asked()), class_="read") for name in reads}
    try:
        made = draft(runs, name=name, asked=asked, support=support)
    except ValueError as error:
        raise SidecarError(
            str(error),
            where=", ".join(map(str, tapes)),
            do="Record with content: --capture redacted or full.",
            code=ExitCode.UNDECIDED,
        ) from None
    measured = held_out(runs, share=hold_out, asked=asked, support=support)
    value = {**exits.told(Outcome.OK), **_value(made, measured, place)}
    _write(to, made, value)
    emit(value, output, lambda: "\n".join(map(plain, _lines(made, measured, place))))
    return exits.code(Outcome.OK)


def _write(to: Path, made: Draft, value: dict[str, Any]) -> None:
    try:
        to.mkdir(parents=True, exist_ok=True)
        (to / TWIN).write_text(written(made), encoding="utf-8")
        (to / REPORT).write_text(to_json(value) + "\n", encoding="utf-8")
    except OSError as error:
        raise SidecarError(
            f"it cannot be written: {error.strerror}", where=str(to), do="Name another folder."
        ) from None
    load_twins([to / TWIN])  # what is written is read as any twin is, or it is told why not


def _value(made: Draft, measured: HeldOut | None, place: Path) -> dict[str, Any]:
    return {
        "twin": str(place),
        "runs": made.runs,
        "calls": made.calls,
        "as_of": made.as_of,
        "tools": made.tools(),
        "rules": msgspec.to_builtins(made.rules),
        "left_out": msgspec.to_builtins(made.left_out),
        "held_out": None if measured is None else msgspec.to_builtins(measured),
    }


def _lines(made: Draft, measured: HeldOut | None, place: Path) -> Iterator[str]:
    tools = made.tools()
    alone = [name for name, rules in tools.items() if not rules]
    more = f"; answers TwinGap alone: {', '.join(alone)}" if alone else ""
    yield f"{place}: {len(tools)} tools from {made.runs} runs, {made.calls} calls{more}"
    yield f"  {len(made.rules)} rules, {len(made.left_out)} left out"
    for one in made.left_out:
        yield f"  left out: {one.part}: {one.what}: {one.why}"
    if measured is None:
        yield "held out: nothing; too few runs, or --hold-out 0"
        return
    yield (
        f"held out: {measured.runs} runs, {measured.calls} calls, on a draft of the other"
        f" {measured.drafted_from}: {measured.answered} answered, {measured.equal} as recorded,"
        f" {measured.gaps} gaps, {measured.given} given, {measured.unknown} not compared"
    )
    for tool in measured.fidelity.tools:
        off = tool.results - tool.matches["exact"]
        if off or tool.gaps:
            yield f"  {tool.tool}: {tool.results} answered, {off} otherwise, {tool.gaps} gaps"
