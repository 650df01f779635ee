"""``sidecar tape diff``: two recorded runs compared.

Rules
1. 0 identical, 1 they differ, 2 nothing can be concluded (incomparable, partial, tainted, broken),
   3 no tape. What can be seen of a partial or tainted tape is shown; the exit stays 2.
2. It needs no store, no running sidecar and no server's extra.
"""

import sys
from pathlib import Path

import click

from sidecar.cli.options import common, profiled, say
from sidecar.cli.tape_diff_view import (
    Side,
    diff_markdown,
    diff_text,
    diff_told,
    side_by_side,
)
from sidecar.gate.report.compared import compared_report
from sidecar.gate.report.exhibit import tapes_of
from sidecar.gate.report.render import form_of, render
from sidecar.outcome import Exits
from sidecar.plain import plain_lines
from sidecar.replay.diff import compare
from sidecar.replay.diff.model import ENDS
from sidecar.tape.files import known_codecs, read_tape

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("left", type=_FILE)
@click.argument("right", type=_FILE)
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True, help="At most.")
@profiled()
@common(outputs=("text", "json", "markdown", "junit", "sarif", "github", "html"))
def diff(
    left: Path,
    right: Path,
    limit: int,
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """Compare two tapes: where each agent first does something else, and what follows.

    An order that the events' causes permit is no difference. Exits 0 when identical, 1 when they
    differ, 2 when nothing can be concluded: other codecs or redactors, a partial tape. Text on a
    terminal stands side by side; --limit is of the changes (the events, side by side).

    \b
    Example:
      $ sidecar tape diff good.tape bad.tape
      good.tape and bad.tape differ: 1 of 1 agents
      agent refunds: 3 events in common, then input_changed (ARGS) at seq 3 and 3
        /amount: 49 and 94
    """
    tapes = read_tape(left), read_tape(right)
    found = compare(*tapes, known_codecs(tapes[0]))
    sides = Side(str(left), tapes[0]), Side(str(right), tapes[1])
    if output in ("json", "junit", "sarif", "github", "html"):
        own = diff_told(found, sides, limit, exits)
        named = (sides[0].name, tapes[0]), (sides[1].name, tapes[1])
        report = compared_report(found, *named, exits=exits)
        say(render(report, form_of(output), own=own, shown=tapes_of(tapes, found)))
    elif output == "markdown":
        say(plain_lines(diff_markdown(found, sides, limit)))
    else:
        say(plain_lines(diff_text(found, sides, limit)))
        if sys.stdout.isatty():
            side_by_side(found, sides, limit)
    return exits.code(ENDS[found.outcome])
