"""A ``sync.yaml`` from disk, rows of files, and snapshots onto the disk.

Rules
1. A snapshot is written whole beside the others and then takes its name: one that was interrupted
   is none.
2. A version is never written again; the next has the next number.
"""

import contextlib
import csv
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sidecar import clock
from sidecar.canonical import digest, sha256
from sidecar.errors import SidecarError
from sidecar.expression.document import convert, report
from sidecar.twins import timeline
from sidecar.twins.files import load_twins, read_document
from sidecar.twins.group import TwinGroup
from sidecar.twins.snapshot import FILE, Part, Snapshot, digest_of
from sidecar.twins.state.files import rows_in, versions
from sidecar.twins.sync.plan import Sync
from sidecar.twins.sync.rows import BadRows

_CSV_BYTES_MAX = 1 << 28


class LoadedSync(Struct, frozen=True, kw_only=True):
    """A sync file without problems, its twins, and the folder that its paths start at."""

    sync: Sync
    group: TwinGroup
    folder: Path

    def digest(self) -> str:
        """``sha256:<hex>`` of the file's content."""
        return digest(msgspec.to_builtins(self.sync), domain="agenttwin-sync/1")


class Read(Struct, frozen=True, kw_only=True):
    """The rows of one entity, ready to be written."""

    source: str
    taken_at_ns: int
    rows: Sequence[Mapping[str, Any]]
    secrets: tuple[str, ...]


def load_sync(path: Path) -> LoadedSync:
    """Read a sync file and its twins. Raises SidecarError that lists every problem."""
    document = read_document(path, {})
    sync = convert(document, Sync)
    group = load_twins([path.parent / name for name in sync.twins], root=path.parent).group
    report(document, [*group.problems(), *sync.problems(group)])
    return LoadedSync(sync=sync, group=group, folder=path.parent)


def file_rows(path: Path, key: str) -> list[Any]:
    """The rows of a .json, .json.gz or .csv file. Raises BadRows, SidecarError."""
    if path.suffix.lower() != ".csv":
        return list(rows_in(path, key))
    try:
        if path.stat().st_size > _CSV_BYTES_MAX:
            raise BadRows("it is larger than a twin's state may be")
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True, restkey="", restval=None)
            names = list(reader.fieldnames or ())
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadRows(f"it cannot be read: {error}") from None
    if not names:  # an export that broke off is no state without rows
        raise BadRows("it is empty: not even a head names the columns")
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise BadRows(f"its head names {twice!r:.80} twice")
    for index, row in enumerate(rows):
        if "" in row or None in row.values():
            raise BadRows(f"row {index} has not as many values as the head has names")
    return rows


def write_snapshot(loaded: LoadedSync, read: Mapping[str, Read], out: Path) -> Snapshot:
    """Write the next version into ``out``. Raises SidecarError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with _folder(out) as folder:
            parts = {name: _written(folder, name, one) for name, one in read.items()}
            made = Snapshot(
                version=0,
                taken_at=timeline.text(min(one.taken_at_ns for one in read.values())),
                sync=loaded.sync.sync,
                sync_digest=loaded.digest(),
                digest=digest_of(parts),
                entities=parts,
            )
            while True:
                made = msgspec.structs.replace(made, version=(versions(out) or [0])[-1] + 1)
                text = json.dumps(msgspec.to_builtins(made), indent=1, ensure_ascii=False)
                _write(folder / FILE, text.encode() + b"\n")
                if _named(folder, out / str(made.version)):
                    break
    except OSError as error:
        raise SidecarError(
            f"the snapshot cannot be written: {error.strerror}",
            where=str(out),
            do="Make room there, or name another folder with --out.",
        ) from None
    return made


@contextlib.contextmanager
def _folder(out: Path) -> Iterator[Path]:
    """A folder beside the versions that is gone where it was not renamed."""
    folder = out / f".new-{clock.new_id()}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)


def _named(folder: Path, name: Path) -> bool:
    """Give it its name; False where another synchronisation has taken that meanwhile."""
    try:
        folder.rename(name)
    except OSError as error:
        # A folder that is there and no snapshot would never make room: that is told.
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY) and (name / FILE).is_file():
            return False
        raise
    return True


def _written(folder: Path, name: str, one: Read) -> Part:
    try:
        lines = [
            json.dumps(row, ensure_ascii=False, sort_keys=True, allow_nan=False) for row in one.rows
        ]
    except ValueError:
        what = f"{name}: a row has a number that is none (NaN or infinite)"
        raise SidecarError(what, where=one.source) from None
    data = ("[\n" + ",\n".join(lines) + "\n]\n").encode()
    _write(folder / f"{name}.json", data)
    return Part(
        source=one.source,
        taken_at=timeline.text(one.taken_at_ns),
        rows=len(one.rows),
        digest=sha256(data),
        secrets=one.secrets,
    )


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
