"""``sidecar scenario lint``: each scenario can be passed, and none is passed by doing nothing.

Rules
1. Exit 0 without a problem, 1 with one; a suite that cannot be read at all is exit 3.
2. Every remark has file and line; notes fail nothing.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from sidecar.cli.options import common, emit, profiled
from sidecar.expression.document import Document, read
from sidecar.outcome import Exits, Outcome
from sidecar.plain import plain
from sidecar.replay import linting
from sidecar.replay.linting import Remark
from sidecar.twins.files import LoadedSuite, load_suite


class Linted(Struct, frozen=True):
    """A suite's file, how many scenarios it has, and what was found with its line."""

    file: str
    scenarios: int
    remarks: tuple[tuple[Remark, int | None], ...]


@click.command("lint")
@click.argument(
    "suites", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SUITE..."
)
@click.option(
    "--since",
    type=click.Path(path_type=Path),
    default=None,
    help="An earlier SUITE: what changed must have a new version.",
)
@profiled()
@common()
def lint(
    suites: tuple[Path, ...],
    since: Path | None,
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """Check scenarios without an agent: their reference paths, the null agent, contradictions.

    \b
    Example:
      $ sidecar scenario lint suite.yaml
      suite.yaml:31: problem: outside-window: an agent that calls nothing and answers 'OK.' fails …
      9 scenarios: 1 problem, 2 notes
    """
    before = load_suite(since) if since is not None else None
    found = [_linted(path, before) for path in suites]
    bad = sum(remark.severity == "problem" for one in found for remark, _ in one.remarks)
    end = Outcome.FAILED if bad else Outcome.OK
    value = {**exits.told(end), "suites": [_value(one) for one in found]}
    emit(value, output, lambda: "\n".join(_lines(found, bad)))
    return exits.code(end)


def _linted(path: Path, before: LoadedSuite | None) -> Linted:
    loaded = load_suite(path)
    document = read(path.read_text("utf-8"), name=str(path))
    remarks = linting.lint(loaded.suite, loaded.group)
    if before is not None:
        remarks += linting.versions(loaded.suite, before.suite)
    placed = sorted(((one, _line(document, one)) for one in remarks), key=lambda one: one[1] or 0)
    return Linted(str(path), len(loaded.suite.scenarios), tuple(placed))


def _line(document: Document, remark: Remark) -> int | None:
    return document.line(remark.path)


def _value(one: Linted) -> dict[str, Any]:
    return {
        "file": one.file,
        "scenarios": one.scenarios,
        "remarks": [
            {
                "line": line,
                "path": remark.path,
                "scenario": remark.scenario,
                "severity": remark.severity,
                "text": remark.text,
            }
            for remark, line in one.remarks
        ],
    }


def _lines(found: Sequence[Linted], bad: int) -> list[str]:
    lines = [
        plain(f"{one.file}:{line}: {remark.severity}: {remark.scenario}: {remark.text}")
        for one in found
        for remark, line in one.remarks
    ]
    total = sum(one.scenarios for one in found)
    notes = sum(len(one.remarks) for one in found) - bad
    return [*lines, f"{total} scenarios: {bad} problems, {notes} notes"]
