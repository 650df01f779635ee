"""The outbox in traces.db: filled by the pipeline's transactions, emptied by the exporters'.

Rules
1. ``put`` runs inside the transaction that publishes; with no exporter nothing is kept.
2. A cursor only grows. One that was moved past by a full queue is not set back.
3. Bytes are counted by running offsets, so that no table is summed.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import zstandard

from sidecar.store.envelope import SealBroken, Sealers
from sidecar.store.outbox import (
    QUEUE_FULL,
    Advance,
    Lane,
    Outgoing,
    Progress,
    Tally,
    Waiting,
    binding,
)
from sidecar.store.sqlite.connection import open_database, translating
from sidecar.store.sqlite.writer import Writer

_ROW_BYTES = 64
_TRIM_ROWS = 256


def prepare_outbox(path: Path | str, lanes: Sequence[Lane]) -> int:
    """Make the cursors those of ``lanes``, before anybody runs; items forgotten with the others.

    An exporter that is new starts with the oldest item that is kept.
    """
    connection = open_database(path)
    try:
        with translating(path):
            connection.execute("BEGIN IMMEDIATE")
            forgotten = _prepare(connection, lanes)
            connection.execute("COMMIT")
            return forgotten
    finally:
        connection.close()


def put(
    connection: sqlite3.Connection, items: Iterable[Outgoing], sealers: Sealers, now_ns: int
) -> None:
    """Append items, then hold every exporter to its bytes."""
    if connection.execute("SELECT 1 FROM export_cursor LIMIT 1").fetchone() is None:
        return
    compress = zstandard.ZstdCompressor(level=1).compress
    head = _head(connection)
    for item in items:
        aad = binding(item.project, item.signal, item.items)
        sealed = sealers(item.project).seal(compress(item.payload), aad)
        head += len(sealed) + _ROW_BYTES
        connection.execute(
            "INSERT INTO export_item (project, signal, items, end_offset, stored_ns, sealed)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (item.project, item.signal, item.items, head, now_ns, sealed),
        )
    _bound(connection, head)
    _trim(connection)


class SqliteOutbox:
    """The exporters' side: reads what waits, moves cursors. One writer thread."""

    def __init__(self, path: Path | str, *, sealers: Sealers) -> None:
        self._path = str(path)
        self._sealers = sealers
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._connection = open_database(path, read_only=True)
        self._writer = Writer(open_database(path), self._path)

    def position(self, name: str) -> int:
        """The last item an exporter has passed."""
        with translating(self._path):
            row = self._connection.execute(
                "SELECT seq FROM export_cursor WHERE name = ?", (name,)
            ).fetchone()
        return int(row[0]) if row else 0

    def sends(self, name: str) -> bool:  # noqa: ARG002 (all are ours)
        """Always: a file has one sidecar."""
        return True

    def items_after(self, seq: int, *, count_max: int, bytes_max: int) -> list[Waiting]:
        """The items that follow ``seq``, up to about ``bytes_max`` opened bytes; at least one."""
        found: list[Waiting] = []
        size = 0
        with translating(self._path):
            rows = self._connection.execute(
                "SELECT seq, project, signal, items, sealed FROM export_item"
                " WHERE seq > ? ORDER BY seq LIMIT ?",
                (seq, count_max),
            )
            for number, project, signal, items, sealed in rows:
                payload = self._open(project, binding(project, signal, items), sealed)
                found.append(
                    Waiting(
                        seq=number, project=project, signal=signal, items=items, payload=payload
                    )
                )
                size += len(payload or b"")
                if size >= bytes_max:
                    break
            rows.close()
        return found

    async def advance(self, step: Advance) -> bool:
        """Move a cursor and count; False when it has been moved further by a full queue."""
        return await self._writer.run(partial(_advance, step))

    def close(self) -> None:
        """Finish what is queued, then close both connections."""
        self._writer.close()
        self._connection.close()

    def _open(self, project: str, aad: bytes, sealed: bytes) -> bytes | None:
        try:
            return self._decompress(self._sealers(project).open(sealed, aad))
        except (SealBroken, zstandard.ZstdError):
            return None


class SqliteExportProgress:
    """How the exporters do, for metrics; read only."""

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)
        self._connection = open_database(path, read_only=True)

    def progress(self) -> list[Progress]:
        """One entry an exporter, by name."""
        with translating(self._path):
            head = _head(self._connection)
            cursors = self._connection.execute(
                "SELECT name, end_offset, (SELECT stored_ns FROM export_item"
                " WHERE seq > export_cursor.seq ORDER BY seq LIMIT 1)"
                " FROM export_cursor ORDER BY name"
            ).fetchall()
            return [
                Progress(
                    name=name,
                    waiting_bytes=head - offset if oldest is not None else 0,
                    oldest_ns=oldest,
                    tallies=self._tallies(name),
                )
                for name, offset, oldest in cursors
            ]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _tallies(self, name: str) -> tuple[Tally, ...]:
        rows = self._connection.execute(
            "SELECT signal, fate, items FROM export_tally WHERE name = ? ORDER BY signal, fate",
            (name,),
        )
        return tuple(Tally(signal=signal, fate=fate, items=items) for signal, fate, items in rows)


def _prepare(connection: sqlite3.Connection, lanes: Sequence[Lane]) -> int:
    head = _head(connection)
    names = [lane.name for lane in lanes]
    forgotten = 0
    for name, place in connection.execute("SELECT name, seq FROM export_cursor").fetchall():
        if name not in names:
            connection.execute("DELETE FROM export_cursor WHERE name = ?", (name,))
            waited = "SELECT COUNT(*) FROM export_item WHERE seq > ?"
            forgotten = max(forgotten, connection.execute(waited, (place,)).fetchone()[0])
    oldest = connection.execute(
        "SELECT seq - 1, end_offset - length(sealed) - ? FROM export_item ORDER BY seq LIMIT 1",
        (_ROW_BYTES,),
    ).fetchone()
    seq, offset = oldest or (_last_seq(connection), head)
    for lane in lanes:
        connection.execute(
            "INSERT INTO export_cursor VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET bytes_max = excluded.bytes_max",
            (lane.name, seq, offset, lane.bytes_max),
        )
    if not lanes:
        connection.execute("DELETE FROM export_item")
    return forgotten


def _advance(step: Advance, connection: sqlite3.Connection) -> bool:
    moved = connection.execute(
        "UPDATE export_cursor SET seq = ?, end_offset ="
        " (SELECT end_offset FROM export_item WHERE export_item.seq = ?)"
        " WHERE name = ? AND seq < ?",
        (step.seq, step.seq, step.name, step.seq),
    ).rowcount
    if not moved:
        return False
    _count(connection, step.name, step.tallies)
    _trim(connection)
    return True


def _bound(connection: sqlite3.Connection, head: int) -> None:
    """Move the cursor of each exporter that lags too far to the first place near enough."""
    late = connection.execute(
        "SELECT name, seq, bytes_max FROM export_cursor WHERE ? - end_offset > bytes_max", (head,)
    ).fetchall()
    for name, seq, bytes_max in late:
        place = connection.execute(
            "SELECT seq, end_offset FROM export_item WHERE seq > ? AND end_offset >= ?"
            " ORDER BY seq LIMIT 1",
            (seq, head - bytes_max),
        ).fetchone()
        if place is None:
            continue
        lost = connection.execute(
            "SELECT signal, SUM(items) FROM export_item WHERE seq > ? AND seq <= ? GROUP BY signal",
            (seq, place[0]),
        ).fetchall()
        connection.execute(
            "UPDATE export_cursor SET seq = ?, end_offset = ? WHERE name = ?", (*place, name)
        )
        tallies = [Tally(signal=signal, fate=QUEUE_FULL, items=items) for signal, items in lost]
        _count(connection, name, tallies)


def _count(connection: sqlite3.Connection, name: str, tallies: Iterable[Tally]) -> None:
    connection.executemany(
        "INSERT INTO export_tally VALUES (?, ?, ?, ?)"
        " ON CONFLICT (name, signal, fate) DO UPDATE SET items = items + excluded.items",
        [(name, tally.signal, tally.fate, tally.items) for tally in tallies],
    )


def _trim(connection: sqlite3.Connection) -> None:
    connection.execute(
        "DELETE FROM export_item WHERE seq <= (SELECT MIN(seq) FROM export_cursor)"
        " AND seq < (SELECT MIN(seq) FROM export_item) + ?",
        (_TRIM_ROWS,),
    )


def _head(connection: sqlite3.Connection) -> int:
    row = connection.execute(
        "SELECT end_offset FROM export_item ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    if row is None:
        row = connection.execute("SELECT MAX(end_offset) FROM export_cursor").fetchone()
    return int(row[0] or 0)


def _last_seq(connection: sqlite3.Connection) -> int:
    row = connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = 'export_item'"
    ).fetchone()
    return int(row[0]) if row else 0
