"""A twin's world from a folder: one file an entity, ``<entity>.json`` or ``.json.gz``; or a
snapshot that ``sidecar twin sync`` made.

**Rules**
1. A file holds a list of rows, or an object of rows by key; a row that does not name its key gets
   it.
2. The rows take the place of the twin's own and are checked as those are; they are in its digest.
3. A folder that says nothing of any entity is a mistake, and refused.
4. Of a folder of snapshots (``1``, ``2``, …) the latest counts; one whose files are not those it
   was made with is refused.
"""

import gzip
import re
import zlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from sidecar.canonical import sha256
from sidecar.errors import SidecarError
from sidecar.twins.group import TwinGroup
from sidecar.twins.snapshot import FILE, Snapshot, read_snapshot
from sidecar.twins.twin import Twin

_BYTES_MAX = 1 << 28
_VERSION = re.compile(r"[1-9][0-9]{0,8}\Z")


def with_state(group: TwinGroup, folder: Path) -> TwinGroup:
    """The same twins with the folder's rows. Raises SidecarError."""
    found = versions(folder)
    if found:
        folder = folder / str(found[-1])
    snapshot = _snapshot(folder)
    twins, named = [], 0
    for twin in group.twins.values():
        entities = dict(twin.declaration.entities)
        for name, entity in entities.items():
            told = group.told_entity(twin.name, name)
            path = _file(folder, told) or _file(folder, name)
            if path is not None:
                rows = rows_in(path, entity.key)
                entities[name] = structs.replace(entity, rows=rows)
                named += 1
        made = Twin(structs.replace(twin.declaration, entities=entities), twin.code)
        if made.problems:
            first = made.problems[0]
            raise SidecarError(f"a row does not fit: {first}", where=str(folder))
        twins.append(made)
    if not named:
        known = ", ".join(one for twin in twins for one in twin.declaration.entities)
        raise SidecarError(
            "the folder has no state of these twins",
            where=str(folder),
            do=f"Put in <entity>.json or .json.gz of: {known}.",
        )
    return TwinGroup(twins, snapshot)


def versions(folder: Path) -> list[int]:
    """The versions of snapshots in a folder, oldest first."""
    try:
        names = [each.name for each in folder.iterdir() if (each / FILE).is_file()]
    except OSError:
        return []
    return sorted(int(name) for name in names if _VERSION.match(name))


def _snapshot(folder: Path) -> Snapshot | None:
    """What the folder is a snapshot of; None where it is none. Raises SidecarError."""
    path = folder / FILE
    if not path.is_file():
        return None
    do = "Take another one: sidecar twin sync."
    try:
        found = read_snapshot(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SidecarError(f"it is no snapshot: {error}", where=str(path), do=do) from None
    for name, part in found.entities.items():
        file = folder / f"{name}.json"
        if not file.is_file() or sha256(file.read_bytes()) != part.digest:
            what = "it is not what the snapshot was made with"
            raise SidecarError(what, where=str(file), do=do)
    return found


def _file(folder: Path, entity: str) -> Path | None:
    paths = (folder / f"{entity}.json", folder / f"{entity}.json.gz")
    return next((path for path in paths if path.is_file()), None)


def rows_in(path: Path, key: str) -> tuple[dict[str, Any], ...]:
    """The rows of a file. Raises SidecarError."""
    try:
        with path.open("rb") as file:
            packed = path.suffix == ".gz"
            text = (gzip.GzipFile(fileobj=file) if packed else file).read(_BYTES_MAX + 1)
        value = msgspec.json.decode(text)
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, RecursionError) as error:
        raise SidecarError(f"it cannot be read: {error}", where=str(path)) from None
    if len(text) > _BYTES_MAX:
        raise SidecarError("it is larger than a twin's state may be", where=str(path))
    if isinstance(value, dict) and all(isinstance(row, dict) for row in value.values()):
        return tuple({key: name, **row} for name, row in value.items())
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return tuple(value)
    raise SidecarError("it is neither a list of rows nor an object of rows", where=str(path))
