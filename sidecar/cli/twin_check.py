"""``sidecar twin check``: what is wrong with twins and suites, all at once, with file and line.

Rules
1. Exit 0 without a problem, 1 with one, 3 where a file cannot be read at all. Warnings fail
   nothing, but for ``--warn-exit``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from sidecar.cli.options import common, emit, profiled
from sidecar.outcome import Exits, Outcome
from sidecar.plain import plain
from sidecar.twins.check.files import Checked, Finding, check_files


@click.command("check")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE..."
)
@profiled(warn=True)
@common()
def check(
    files: tuple[Path, ...],
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """Check twins, suites and sync files (with the twins they name): problems, and what is left
    open.

    A problem must be repaired; a warning tells what is declared and never used, or not declared.
    Code that a twin names is loaded and runs.

    \b
    Example:
      $ sidecar twin check twin.yaml suite.yaml
      twin.yaml:9: problem: tools.0.response.body there is no entity 'order'
      twin.yaml:4: warning: entities.orders its rows have no schema: any row is taken
      1 twin, 1 suite: 1 problem, 1 warning
    """
    found = check_files(files)
    end = _outcome(found)
    value = {**exits.told(end), **_value(found)}
    emit(value, output, lambda: "\n".join(_lines(found)))
    return exits.code(end)


def _outcome(found: Checked) -> Outcome:
    if found.unopened:
        return Outcome.USAGE
    if found.count("problem"):
        return Outcome.FAILED
    return Outcome.WARNED if found.count("warning") else Outcome.OK


def _value(found: Checked) -> dict[str, Any]:
    twins = [
        {"twin": one.name, "version": one.declaration.version, "digest": one.digest()}
        for one in found.twins
    ]
    counted = {"suites": found.suites, "syncs": found.syncs}
    return {"twins": twins, **counted, "findings": msgspec.to_builtins(found.findings)}


def _lines(found: Checked) -> Iterator[str]:
    for one in found.findings:
        yield plain(f"{_place(one)}: {one.severity}: {one.path} {one.text}".replace("  ", " "))
    some = {"twin": len(found.twins), "suite": found.suites, "sync file": found.syncs}
    looked = [_counted(number, word) for word, number in some.items() if number] or ["0 twins"]
    counts = [_counted(found.count(word), word) for word in ("problem", "warning")]
    yield f"{', '.join(looked)}: {', '.join(counts)}"


def _place(one: Finding) -> str:
    return one.file if one.line is None else f"{one.file}:{one.line}"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
