"""``sidecar twin sync``: a snapshot of production's state for twins.

Rules
1. All of a snapshot is written, or nothing; no value of a row is ever printed.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from processors.redact.masker import names_secret
from sidecar.cli.options import common, emit, talk
from sidecar.plain import plain
from sidecar.telemetry import configure_logging
from sidecar.twins.snapshot import Snapshot
from sidecar.twins.state.files import rows_in
from sidecar.twins.sync.driver import synchronise
from sidecar.twins.sync.files import load_sync

_PATH = click.Path(path_type=Path)


@click.command("sync")
@click.argument("file", type=_PATH, metavar="SYNC")
@click.option("--out", type=_PATH, required=True, help="Folder of the snapshots, one a version.")
@common()
def sync(
    file: Path,
    out: Path,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> None:
    """Read the state of production from databases, HTTP and files into a new snapshot for --state.

    Sources are only read. Fields that a twin declares secret become canaries.

    \b
    Example:
      $ sidecar twin sync sync.yaml --out world
      world/3: version 3, taken 2026-01-05T09:00:00.000Z
        orders   1204 rows  sql shop
        refunds    17 rows  file refunds.csv  secrets: iban
    """
    configure_logging()
    loaded = load_sync(file)
    made = asyncio.run(synchronise(loaded, out))
    for name in _undeclared(made, out):
        talk(f"{name} looks like a secret and is not declared one: its values are in the snapshot")
    value = {"folder": str(out / str(made.version)), **msgspec.to_builtins(made)}
    emit(value, output, lambda: "\n".join(_lines(value)))


def _lines(value: dict[str, Any]) -> Iterator[str]:
    yield plain(f"{value['folder']}: version {value['version']}, taken {value['taken_at']}")
    width = max(map(len, value["entities"]))
    for name, part in value["entities"].items():
        hidden = f"  secrets: {', '.join(part['secrets'])}" if part["secrets"] else ""
        yield plain(f"  {name:<{width}} {part['rows']:>6} rows  {part['source']}{hidden}")


def _undeclared(made: Snapshot, out: Path) -> Iterator[str]:
    for name, part in made.entities.items():
        rows = rows_in(out / str(made.version) / f"{name}.json", "")
        fields = dict.fromkeys(field for row in rows for field in row)
        for field in fields:
            if names_secret(field) and field not in part.secrets:
                yield f"{name}.{field}"
