"""Schemas and backups of a Postgres database, by its own tools.

Rules
1. A backup is one snapshot of both schemas, made by ``pg_dump``: what restores it is Postgres' own.
2. The password goes to the tool by its environment, never by an argument that others can read.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sidecar.errors import SidecarError, StoreUnavailable
from sidecar.store.location import Location
from sidecar.store.migrate import Applied, Migration
from sidecar.store.upkeep import SchemaState

DUMP = "store.dump"
_PG_DUMP = "pg_dump"


def state(name: str, known: Sequence[Migration], applied: Applied) -> SchemaState:
    """What a schema has, and what it would get."""
    more = tuple(each.name for each in known[applied.number :])
    return SchemaState(name=name, number=applied.number, newest=len(known), pending=more)


def dump(location: Location, schemas: Sequence[str], target: Path) -> None:
    """Write both schemas as they are at one moment into ``target``. Raises SidecarError."""
    program = shutil.which(_PG_DUMP)
    if program is None:
        raise SidecarError(
            f"{_PG_DUMP} is not on the PATH",
            where=location.shown,
            do="Install the client programs of the server's Postgres version (postgresql-client),"
            " or back the database up as you do the others you run.",
        )
    password = {"PGPASSWORD": location.password} if location.password else {}
    done = subprocess.run(  # noqa: S603 (fixed words, a file of ours and the configured URL)
        [
            *(program, "--format=custom", "--no-owner", "--no-privileges", "--no-password"),
            *(f"--schema={name}" for name in schemas),
            *(f"--file={target / DUMP}", f"--dbname={location.url}"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **password, "LC_MESSAGES": "C"},
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        raise StoreUnavailable(
            f"the backup was not made: {said}",
            where=location.shown,
            do=f"Use the {_PG_DUMP} of the server's version or a newer one.",
        )
