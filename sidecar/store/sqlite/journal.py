"""The journal in SQLite: sealed requests, appended in group commits, deleted when consumed.

Rules
1. ``append`` returns after the commit that holds the entry (one fsync for all that is queued).
2. Compress, then seal; both on the writer thread, never on the event loop.
3. What is kept never exceeds ``bytes_max`` stored bytes, nor what waits in memory ``_WAITING_MAX``.
4. Only ``trim`` deletes, and only up to the position it is given: the pipeline's durable cursor.
"""

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args

import zstandard

from sidecar.errors import StoreUnavailable
from sidecar.store.envelope import SealBroken, Sealers
from sidecar.store.journal import (
    DamagedRecord,
    Encoding,
    JournalEntry,
    JournalFull,
    JournalRecord,
    Signal,
    binding,
)
from sidecar.store.sqlite.connection import migrate, open_database, translating
from sidecar.store.sqlite.scripts import JOURNAL, scripts
from sidecar.store.sqlite.writer import Writer

# A commit writes and checksums whole pages: large ones cost a small request more than it has bytes,
# small ones make a long chain of a large request.
PAGE_BYTES = 8192
# Roughly what a row costs beside its sealed bytes.
_ROW_BYTES = 128
_WAITING_MAX = 256 * 1024**2
_RETRY_AFTER_S = 5
_TRIM_ROWS = 256
_CHECKPOINT_BYTES = 32 * 1024**2
# Small requests of several senders share a commit: what it costs is most of what such a one costs.
# A sender alone never waits for others, nor does a large request.
_LINGER_SECONDS, _LINGER_BYTES_MAX = 0.002, 256 * 1024
# A sender waits: for a lock of somebody else, and behind a group that waited for it in vain.
_LOCK_WAIT_MS = 1500


class SqliteJournal:
    """A Sink over one database file; one process writes it."""

    def __init__(
        self, path: Path | str, *, sealers: Sealers, bytes_max: int, new_id: Callable[[], str]
    ) -> None:
        self._path = str(path)
        self._sealers = sealers
        self._bytes_max = bytes_max
        self._compress = zstandard.ZstdCompressor(level=1).compress
        connection = open_database(path, page_bytes=PAGE_BYTES)
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()  # an older file's own
        connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_BYTES // page_bytes}")
        connection.execute(f"PRAGMA busy_timeout={_LOCK_WAIT_MS}")
        migrate(connection, scripts(JOURNAL), path)
        self._head = self._tail = 0
        self._measured = False
        self._waiting = 0
        self._writer = Writer(connection, self._path, linger=self._linger)
        self.journal_id = self._writer.run_sync(partial(_identify, new_id=new_id))
        self._writer.run_sync(self._measure)

    @property
    def bytes_held(self) -> int:
        """Stored bytes of the records that are kept."""
        return self._head - self._tail

    async def append(self, entry: JournalEntry) -> None:
        """Returns when the entry is durable. Raises JournalFull or StoreUnavailable."""
        size = len(entry.payload)
        if self._waiting + size > _WAITING_MAX and self._waiting:
            raise JournalFull(retry_after_s=1)
        if self.bytes_held >= self._bytes_max:
            raise JournalFull(_RETRY_AFTER_S)
        self._waiting += size
        try:
            await self._writer.run(partial(self._insert, entry))
        except StoreUnavailable:
            # The running totals may count what was rolled back.
            self._measured = False
            raise
        finally:
            self._waiting -= size

    async def trim(self, through: int) -> int:
        """Delete records up to and including ``through``, some at a time; bytes freed."""
        try:
            return await self._writer.run(partial(self._delete, through))
        except StoreUnavailable:
            self._measured = False
            raise

    async def check(self) -> None:
        """Raises StoreUnavailable where nothing can be appended."""
        await self._writer.check()

    def close(self) -> None:
        """Finish what is queued, then close."""
        self._writer.close()

    def _linger(self, held_last: int) -> float:
        alone = held_last < 2
        return 0 if alone or self._waiting > _LINGER_BYTES_MAX else _LINGER_SECONDS

    def _insert(self, entry: JournalEntry, connection: sqlite3.Connection) -> None:
        if not self._measured:
            self._measure(connection)
        sealed = self._sealers(entry.project).seal(self._compress(entry.payload), binding(entry))
        size = len(sealed) + _ROW_BYTES
        if self.bytes_held + size > self._bytes_max:
            raise JournalFull(_RETRY_AFTER_S)
        connection.execute(
            "INSERT INTO record (project, principal, signal, encoding, received_ns, end_offset,"
            " sealed) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                *(entry.project, entry.principal, entry.signal, entry.encoding),
                *(entry.received_ns, self._head + size, sealed),
            ),
        )
        self._head += size

    def _delete(self, through: int, connection: sqlite3.Connection) -> int:
        row = connection.execute("SELECT seq FROM record ORDER BY seq LIMIT 1").fetchone()
        if row is None or row[0] > through:
            return 0
        last, offset = connection.execute(
            "SELECT seq, end_offset FROM record WHERE seq <= ? ORDER BY seq DESC LIMIT 1",
            (min(through, row[0] + _TRIM_ROWS - 1),),
        ).fetchone()
        connection.execute("DELETE FROM record WHERE seq <= ?", (last,))
        connection.execute("UPDATE tail SET seq = ?, end_offset = ?", (last, offset))
        freed, self._tail = offset - self._tail, offset
        return int(freed)

    def _measure(self, connection: sqlite3.Connection) -> None:
        (self._tail,) = connection.execute("SELECT end_offset FROM tail").fetchone()
        row = connection.execute(
            "SELECT end_offset FROM record ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        self._head = row[0] if row else self._tail
        self._measured = True


class SqliteJournalReader:
    """The records of a journal, read from another process or thread than its writer's."""

    def __init__(self, path: Path | str, *, sealers: Sealers) -> None:
        self._path = str(path)
        self._sealers = sealers
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._connection = open_database(path, read_only=True)
        with translating(self._path):
            (found,) = self._connection.execute("SELECT journal_id FROM tail").fetchone()
        self.journal_id: str = found

    def records_after(
        self, seq: int, *, count_max: int, bytes_max: int
    ) -> list[JournalRecord | DamagedRecord]:
        """The records that follow ``seq``, up to about ``bytes_max`` decompressed bytes."""
        found: list[JournalRecord | DamagedRecord] = []
        size = 0
        with translating(self._path):
            rows = self._connection.execute(
                "SELECT seq, project, principal, signal, encoding, received_ns, sealed"
                " FROM record WHERE seq > ? ORDER BY seq LIMIT ?",
                (seq, count_max),
            )
            for row in rows:
                record = self._open(row)
                found.append(record)
                size += len(record.entry.payload) if isinstance(record, JournalRecord) else 0
                if size >= bytes_max:
                    break
            rows.close()
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _open(
        self, row: tuple[int, str, str, Signal, Encoding, int, bytes]
    ) -> JournalRecord | DamagedRecord:
        seq, project, principal, signal, encoding, received_ns, sealed = row
        entry = JournalEntry(
            project=project,
            principal=principal,
            signal=signal,
            encoding=encoding,
            payload=sealed,
            received_ns=received_ns,
        )
        try:
            if signal not in get_args(Signal) or encoding not in get_args(Encoding):
                raise SealBroken("the row names no known signal and encoding")
            opened = self._decompress(self._sealers(project).open(sealed, binding(entry)))
        except (SealBroken, zstandard.ZstdError) as error:
            return DamagedRecord(seq=seq, project=project, reason=str(error), sealed=sealed)
        return JournalRecord(
            seq=seq,
            entry=JournalEntry(
                project=project,
                principal=principal,
                signal=signal,
                encoding=encoding,
                payload=opened,
                received_ns=received_ns,
            ),
        )


def _identify(connection: sqlite3.Connection, new_id: Callable[[], str]) -> str:
    connection.execute("INSERT OR IGNORE INTO tail VALUES (1, ?, 0, 0)", (new_id(),))
    (found,) = connection.execute("SELECT journal_id FROM tail").fetchone()
    return str(found)
