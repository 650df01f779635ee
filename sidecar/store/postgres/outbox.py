"""The outbox on Postgres: filled by every pipeline's transactions, emptied by one sender a lane.

Rules
1. ``put`` runs inside the transaction that publishes, in the order of the commits; with no exporter
   nothing is kept.
2. A cursor only grows. One that was moved past by a full queue is not set back.
3. One sidecar at a time sends for an exporter: it holds a lock that goes with its connection, and
   moves the cursor on that connection. To the others nothing waits, until they get it.
4. A place belongs to every sidecar that has its exporter. It goes when the last of them is started
   without it; one that is gone for good keeps it for ``SEEN_DAYS`` more, within the queue's bytes.
"""

from collections.abc import Iterable, Sequence

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
from sidecar.store.postgres.again import in_order, whole
from sidecar.store.postgres.connection import WRITE_SECONDS, Connection, Database
from sidecar.store.postgres.session import Session

SEEN_DAYS = 7
"""How long the place of an exporter is kept that only a sidecar not seen since has."""

_ROW_BYTES = 64
_TRIM_ROWS = 256
_NOTHING_FOLLOWS = 2**63 - 1
_SENDS = (
    "SELECT pg_try_advisory_lock("
    "hashtextextended('agenttwin export ' || current_schema() || ' ' || $1::text, 0))"
)
_ADD_ITEMS = (
    "INSERT INTO export_item (project, signal, items, end_offset, stored_ns, sealed)"
    " SELECT project, signal, items, end_offset, $5, sealed"
    " FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $6::bytea[])"
    " WITH ORDINALITY AS n (project, signal, items, end_offset, sealed, place) ORDER BY place"
)
_HEAD = (
    "SELECT coalesce((SELECT end_offset FROM export_item ORDER BY seq DESC LIMIT 1),"
    " (SELECT max(end_offset) FROM export_cursor), 0)"
)
# An item of the window is read while what precedes it is less than the bytes wanted.
_AFTER = (
    "SELECT seq, project, signal, items, sealed FROM (SELECT seq, project, signal, items, sealed,"
    " sum(octet_length(sealed)) OVER (ORDER BY seq) - octet_length(sealed) AS before"
    " FROM export_item WHERE seq > $1 ORDER BY seq LIMIT $2) AS ahead WHERE before < $3"
    " ORDER BY seq"
)
_ADVANCE = (
    "UPDATE export_cursor SET seq = $2, end_offset ="
    " coalesce((SELECT end_offset FROM export_item WHERE export_item.seq = $2), end_offset)"
    " WHERE name = $1 AND seq < $2 RETURNING 1"
)
_SEEN = (
    "INSERT INTO export_seen SELECT name, $2, clock_timestamp() FROM unnest($1::text[]) AS n (name)"
    " ON CONFLICT (name, source) DO UPDATE SET seen_at = excluded.seen_at"
)
_SEEN_STILL = (
    "UPDATE export_seen SET seen_at = clock_timestamp() WHERE name = $1 AND source = $2"
    " AND seen_at < clock_timestamp() - interval '1 hour'"
)
_SEEN_NO_MORE = (
    "DELETE FROM export_seen WHERE source = $2 AND name <> ALL ($1::text[])"
    " OR seen_at < clock_timestamp() - make_interval(days => $3)"
)
_FORGET = (
    "DELETE FROM export_cursor c WHERE NOT EXISTS (SELECT FROM export_seen WHERE name = c.name)"
    " RETURNING seq"
)
_TRIM = (
    "DELETE FROM export_item WHERE seq <= (SELECT min(seq) FROM export_cursor)"
    " AND seq < (SELECT min(seq) FROM export_item) + $1"
)


def prepare_outbox(database: Database, lanes: Sequence[Lane], *, source: str = "pipeline") -> int:
    """Make a sidecar's cursors those of ``lanes``; items forgotten with those nobody has any more.

    An exporter that is new starts with the oldest item that is kept. ``source`` names the sidecar
    among those that share the database.
    """
    return database.run_sync(whole(lambda connection: _prepare(connection, lanes, source)))


async def put(
    connection: Connection, items: Iterable[Outgoing], sealers: Sealers, now_ns: int
) -> None:
    """Append items, then hold every exporter to its bytes. The last thing a transaction does."""
    if not await connection.fetchval("SELECT EXISTS (SELECT FROM export_cursor)"):
        return
    compress = zstandard.ZstdCompressor(level=1).compress
    rows = []
    for item in items:
        aad = binding(item.project, item.signal, item.items)
        rows.append((item, sealers(item.project).seal(compress(item.payload), aad)))
    await in_order(connection)
    head = int(await connection.fetchval(_HEAD))
    offsets = []
    for _, sealed in rows:
        head += len(sealed) + _ROW_BYTES
        offsets.append(head)
    await connection.execute(
        _ADD_ITEMS,
        [item.project for item, _ in rows],
        [item.signal for item, _ in rows],
        [item.items for item, _ in rows],
        *(offsets, now_ns, [sealed for _, sealed in rows]),
    )
    await _bound(connection, head)
    await connection.execute(_TRIM, _TRIM_ROWS)


class PostgresOutbox:
    """The exporters' side: reads what waits, moves cursors."""

    def __init__(self, database: Database, *, sealers: Sealers, source: str = "pipeline") -> None:
        self._database = database
        self._sealers = sealers
        self._source = source
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._session = Session[str](database)

    def position(self, name: str) -> int:
        """The last item an exporter has passed; beyond all while another sidecar sends for it."""
        return self._session.run_sync(lambda connection: self._position(connection, name))

    def sends(self, name: str) -> bool:
        """Whether this is still the one to send for an exporter, as far as is known unasked."""
        return self._session.holds(name)

    def items_after(self, seq: int, *, count_max: int, bytes_max: int) -> list[Waiting]:
        """The items that follow ``seq``, of about ``bytes_max`` stored bytes; at least one."""
        if seq == _NOTHING_FOLLOWS:
            return []

        async def read(connection: Connection) -> list[Waiting]:
            rows = await connection.fetch(_AFTER, seq, count_max, bytes_max)
            return [self._waiting(*row) for row in rows]

        return self._database.read_sync(read)

    async def advance(self, step: Advance) -> bool:
        """Move a cursor and count; False when a full queue or another sidecar has moved it, or
        another sidecar sends now."""

        async def move(connection: Connection) -> bool:
            if not await self._leads(connection, step.name):
                return False
            return await whole(lambda connection: _advance(connection, step))(connection)

        return await self._session.run(move, seconds=WRITE_SECONDS)

    def close(self) -> None:
        """Let go of the exporters."""
        self._session.close()

    async def _position(self, connection: Connection, name: str) -> int:
        await connection.execute(_SEEN_STILL, name, self._source)
        if not await self._leads(connection, name):
            return _NOTHING_FOLLOWS
        found = await connection.fetchval("SELECT seq FROM export_cursor WHERE name = $1", name)
        return int(found or 0)

    async def _leads(self, connection: Connection, name: str) -> bool:
        if name not in self._session.held and await connection.fetchval(_SENDS, name):
            self._session.held.add(name)
        return name in self._session.held

    def _waiting(self, seq: int, project: str, signal: str, items: int, sealed: bytes) -> Waiting:
        aad = binding(project, signal, items)  # type: ignore[arg-type]
        try:
            payload = self._decompress(self._sealers(project).open(sealed, aad))
        except (SealBroken, zstandard.ZstdError):
            payload = None
        return Waiting(seq=seq, project=project, signal=signal, items=items, payload=payload)  # type: ignore[arg-type]


class PostgresExportProgress:
    """How the exporters do, for metrics; read only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def progress(self) -> list[Progress]:
        """One entry an exporter, by name."""
        return self._database.read_sync(_progress)

    def close(self) -> None:
        """Nothing is held."""


async def _progress(connection: Connection) -> list[Progress]:
    head = int(await connection.fetchval(_HEAD))
    cursors = await connection.fetch(
        "SELECT name, end_offset, (SELECT stored_ns FROM export_item"
        " WHERE seq > export_cursor.seq ORDER BY seq LIMIT 1) FROM export_cursor ORDER BY name"
    )
    tallies: dict[str, list[Tally]] = {}
    for name, signal, fate, items in await connection.fetch(
        "SELECT name, signal, fate, items FROM export_tally ORDER BY signal, fate"
    ):
        tallies.setdefault(name, []).append(Tally(signal=signal, fate=fate, items=items))
    return [
        Progress(
            name=name,
            waiting_bytes=head - offset if oldest is not None else 0,
            oldest_ns=oldest,
            tallies=tuple(tallies.get(name, ())),
        )
        for name, offset, oldest in cursors
    ]


async def _prepare(connection: Connection, lanes: Sequence[Lane], source: str) -> int:
    await in_order(connection)
    names = [lane.name for lane in lanes]
    await connection.execute(_SEEN_NO_MORE, names, source, SEEN_DAYS)
    await connection.execute(_SEEN, names, source)
    left = [row[0] for row in await connection.fetch(_FORGET)]
    forgotten = 0
    if left:
        forgotten = await connection.fetchval(
            "SELECT count(*) FROM export_item WHERE seq > $1", min(left)
        )
    head = int(await connection.fetchval(_HEAD))
    row = await connection.fetchrow(
        "SELECT seq - 1, end_offset - octet_length(sealed) - $1::bigint FROM export_item"
        " ORDER BY seq LIMIT 1",
        _ROW_BYTES,
    )
    if row is None:
        row = await connection.fetchrow(
            "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence("
            "'export_item', 'seq')::regclass), 0), $1::bigint",
            head,
        )
    assert row is not None
    for lane in lanes:
        await connection.execute(
            "INSERT INTO export_cursor VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (name) DO UPDATE SET bytes_max = excluded.bytes_max",
            *(lane.name, row[0], row[1], lane.bytes_max),
        )
    if not await connection.fetchval("SELECT EXISTS (SELECT FROM export_cursor)"):
        await connection.execute("DELETE FROM export_item")
    return int(forgotten)


async def _advance(connection: Connection, step: Advance) -> bool:
    if not await connection.fetchval(_ADVANCE, step.name, step.seq):
        return False
    await _count(connection, step.name, step.tallies)
    await connection.execute(_TRIM, _TRIM_ROWS)
    return True


async def _bound(connection: Connection, head: int) -> None:
    """Move the cursor of each exporter that lags too far to the first place near enough."""
    late = await connection.fetch(
        "SELECT name, seq, bytes_max FROM export_cursor WHERE $1 - end_offset > bytes_max", head
    )
    for name, seq, bytes_max in late:
        place = await connection.fetchrow(
            "SELECT seq, end_offset FROM export_item WHERE seq > $1 AND end_offset >= $2"
            " ORDER BY seq LIMIT 1",
            *(seq, head - bytes_max),
        )
        if place is None:
            continue
        lost = await connection.fetch(
            "SELECT signal, sum(items)::bigint FROM export_item WHERE seq > $1 AND seq <= $2"
            " GROUP BY signal",
            *(seq, place[0]),
        )
        await connection.execute(
            "UPDATE export_cursor SET seq = $2, end_offset = $3 WHERE name = $1", name, *place
        )
        await _count(
            connection, name, [Tally(signal=row[0], fate=QUEUE_FULL, items=row[1]) for row in lost]
        )


async def _count(connection: Connection, name: str, tallies: Iterable[Tally]) -> None:
    for tally in tallies:
        await connection.execute(
            "INSERT INTO export_tally AS t VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (name, signal, fate) DO UPDATE SET items = t.items + excluded.items",
            *(name, tally.signal, tally.fate, tally.items),
        )
