"""A twin's world from a folder of snapshots: one file an entity, ``<entity>.json`` or ``.json.gz``.

**Rules**
1. A file holds a list of rows, or an object of rows by key; a row that does not name its key gets
   it.
2. The rows take the place of the twin's own and are checked as those are; they are in its digest.
3. A folder that says nothing of any entity is a mistake, and refused.
"""

import gzip
import zlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from sidecar.errors import SidecarError
from sidecar.twins.group import TwinGroup
from sidecar.twins.twin import Twin

_BYTES_MAX = 1 << 28


def with_state(group: TwinGroup, folder: Path) -> TwinGroup:
    """The same twins with the folder's rows. Raises SidecarError."""
    twins, named = [], 0
    for twin in group.twins.values():
        entities = dict(twin.declaration.entities)
        for name, entity in entities.items():
            path = _file(folder, name)
            if path is not None:
                rows = _rows(path, entity.key)
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
    return TwinGroup(twins)


def _file(folder: Path, entity: str) -> Path | None:
    paths = (folder / f"{entity}.json", folder / f"{entity}.json.gz")
    return next((path for path in paths if path.is_file()), None)


def _rows(path: Path, key: str) -> tuple[dict[str, Any], ...]:
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
