"""Open traces on Postgres, for the pipelines of many sidecars, and what they publish.

Rules
1. Parts and the cursor that passes them are one transaction; it moves from where it was read.
2. Parts are compressed, then sealed, bound to project, trace and kind; never inside a transaction.
3. A revision is added when ``content_digest`` differs from the newest's, and only then.
4. Parts are deleted only together, and only after their trace is published (``bounds``).
5. What exporters are to send goes into the outbox in the transaction that publishes it.
6. A transaction locks open traces first, then the order of numbers, and nothing after that.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import zstandard

from sidecar.store.envelope import Sealers
from sidecar.store.postgres.again import in_order, whole
from sidecar.store.postgres.bounds import admitted, expire, hold, tally
from sidecar.store.postgres.building import Building
from sidecar.store.postgres.connection import Connection, Database, Record
from sidecar.store.postgres.outbox import put
from sidecar.store.postgres.retention import (
    add_day,
    day_of,
    prune_contents,
    prune_revisions,
)
from sidecar.store.postgres.revisions import revise
from sidecar.store.postgres.runs import Opened, opened, redirect, remember, save, sessions_of
from sidecar.store.postgres.text import kept
from sidecar.store.postgres.traces import PostgresTraces
from sidecar.store.traces import (
    Bounds,
    CursorMove,
    CursorMoved,
    Due,
    Expiry,
    Intake,
    OpenTrace,
    Part,
    PartKind,
    Publication,
    Quarantined,
    Retention,
    open_trace,
)

_MOVE = (
    "INSERT INTO cursor AS c SELECT $1, $3::bigint"
    " WHERE $2::bigint = 0 OR EXISTS (SELECT FROM cursor WHERE name = $1)"
    " ON CONFLICT (name) DO UPDATE SET position = $3 WHERE c.position = $2 RETURNING 1"
)
_PARTS = (
    "SELECT part.open_id, part.kind, run_key.key, sealed, items, bytes"
    " FROM unnest($1::bigint[], $2::text[]) AS n (open_id, project)"
    " JOIN part ON part.open_id = n.open_id"
    " LEFT JOIN run_key ON run_key.project = n.project AND run_key.key = part.key"
    " AND run_key.open_id = part.open_id ORDER BY part_id"
)
# What is due is read ahead in one go, as long as it is little: a trace a time would mostly wait.
_AHEAD_BYTES = 8 * 1024**2
_BASES = (
    "SELECT DISTINCT open_id, base_trace_id, base_revision FROM run_key"
    " WHERE open_id = ANY ($1::bigint[]) AND base_revision IS NOT NULL ORDER BY base_trace_id"
)
_ADD_PARTS = (
    "INSERT INTO part (open_id, kind, key, items, bytes, sealed)"
    " SELECT open_id, kind, key, items, bytes, sealed"
    " FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bytea[])"
    " WITH ORDINALITY AS n (open_id, kind, key, items, bytes, sealed, place) ORDER BY place"
)
_QUARANTINE = (
    "INSERT INTO quarantine (source, seq, project, reason, stored_ns, sealed)"
    " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (source, seq) DO NOTHING"
)
_PUBLISHED = (
    "UPDATE open_trace o SET published_version = n.version, fault = n.fault,"
    " dirty_ns = o.touched_ns FROM unnest($1::bigint[], $2::bigint[], $3::text[])"
    " AS n (open_id, version, fault) WHERE o.open_id = n.open_id"
)
_SENT = (
    "INSERT INTO export_sent AS s VALUES ($1, $2)"
    " ON CONFLICT (open_id) DO UPDATE SET digests = s.digests || excluded.digests"
)
_SealedPart = tuple[Part, bytes]


class PostgresOpenTraces(PostgresTraces):
    """The pipeline's side: takes in, tells what is due, publishes.

    ``source`` names this pipeline among those that share the database.
    """

    def __init__(
        self,
        database: Database,
        *,
        sealers: Sealers,
        bounds: Bounds | None = None,
        source: str = "pipeline",
    ) -> None:
        super().__init__(database)
        self._bounds = bounds or Bounds()
        self._sealers = sealers
        self._compressor = zstandard.ZstdCompressor(level=1)
        self._pipeline = source
        self._building = Building(database)
        self._days: set[int] = set()
        self._ahead: dict[tuple[int, int], list[Record]] = {}

    async def take_in(self, intake: Intake) -> None:
        """Store parts and move the cursor in one transaction. Raises CursorMoved."""
        parts = [(part, self._sealed_part(part)) for part in intake.parts]
        aside = [(item, self._sealed_record(item)) for item in intake.quarantined]
        await self._database.run(
            whole(lambda connection: self._take_in(connection, intake, parts, aside))
        )

    def due(self, due: Due) -> list[OpenTrace]:
        """Open traces to publish that no other pipeline builds, the longest silent first.

        A trace touched in the future (the clock was set back) counts as silent.
        """
        rows = self._building.due(due)
        if not rows:
            return []
        self._ahead = self._read_ahead(rows)
        bases: dict[int, list[tuple[str, int]]] = {}
        for open_id, trace_id, revision in self._rows(_BASES, [row[0] for row in rows]):
            bases.setdefault(open_id, []).append((trace_id, revision))
        return [open_trace(tuple(row), bases.get(row[0], ()), self._bounds) for row in rows]

    def parts(self, opened: OpenTrace) -> list[tuple[PartKind, bytes]]:
        """Kind and payload of the parts of an open trace, in order of intake. Raises SealBroken.

        Of traces that were put together there may be more than one trace may have: no more than
        that is read.
        """
        open_sealed = self._sealers(opened.project).open
        found: list[tuple[PartKind, bytes]] = []
        room, room_bytes = self._bounds.trace_items_max, self._bounds.trace_bytes_max
        # A part of another trace has no key here: it does not open.
        rows = self._ahead.pop((opened.open_id, opened.version), None)
        if rows is None:
            rows = self._rows(_PARTS, [opened.open_id], [opened.project])
        for _, kind, key, sealed, items, size in rows:
            room, room_bytes = room - items, room_bytes - size
            if found and kind == "telemetry" and min(room, room_bytes) < 0:
                continue
            binding = _binding(opened.project, key or "", kind)
            found.append((kind, self._decompress(open_sealed(sealed, binding))))
        return found

    def _read_ahead(self, due: Sequence[Record]) -> dict[tuple[int, int], list[Record]]:
        """The parts of the first of what is due, by open trace and version."""
        size, some = 0, []
        for row in due:
            size += row["sealed_bytes"]
            if size > _AHEAD_BYTES:
                break
            some.append(row)
        found: dict[tuple[int, int], list[Record]] = {}
        if some:
            versions = {row["open_id"]: row["version"] for row in some}
            for part in self._rows(_PARTS, [*versions], [row["project"] for row in some]):
                found.setdefault((part[0], versions[part[0]]), []).append(part)
        return found

    async def publish(self, publications: Sequence[Publication]) -> int:
        """Add revisions where content changed; the number added. Idempotent."""
        for day in {day_of(each.now_ns) for each in publications if each.traces} - self._days:
            await self._database.run(lambda connection, day=day: add_day(connection, day))  # type: ignore[misc]
            self._days.add(day)
        added = await self._database.run(
            whole(lambda connection: self._publish(connection, publications))
        )
        await self._building.done(each.open_id for each in publications)
        return added

    async def expire(self, now_ns: int, limit: int) -> int:
        """Forget the telemetry of up to ``limit`` published traces; the number of traces.

        It goes when it has expired, or when all that is held is too much: then the oldest.
        """
        expiry = Expiry(now_ns=now_ns, limit=limit, bounds=self._bounds)
        return await self._database.run(whole(lambda c: expire(c, self._pipeline, expiry)))

    async def prune(self, retention: Retention) -> int:
        """Delete published revisions that are too old, some at a time; the number deleted."""
        gone = await self._database.run(
            whole(lambda c: prune_revisions(c, self._pipeline, retention))
        )
        if gone < retention.limit:
            await self._database.run(whole(lambda c: prune_contents(c, retention)))
        return gone

    def facts_digest(self, project: str, trace_id: str) -> str | None:
        """``facts_digest`` of a trace's newest revision."""
        found: str | None = self._value(
            "SELECT facts_digest FROM trace WHERE trace_id = $1 AND project = $2 AND newest",
            *(trace_id, project),
        )
        return found

    def sent(self, open_id: int) -> bytes:
        """The digests of what of an open trace has been put into the outbox, 16 bytes each."""
        return bytes(
            self._value("SELECT digests FROM export_sent WHERE open_id = $1", open_id) or b""
        )

    def close(self) -> None:
        """Let go of what is being built."""
        self._building.close()

    async def _take_in(
        self,
        connection: Connection,
        intake: Intake,
        parts: Sequence[_SealedPart],
        aside: Sequence[tuple[Quarantined, bytes]],
    ) -> None:
        await _move(connection, intake.move)
        for item, sealed in aside:
            await connection.execute(
                _QUARANTINE,
                *(item.source, item.seq, item.project, kept(item.reason), intake.now_ns, sealed),
            )
        dropped = Counter(intake.dropped)
        if parts:
            dropped["trace_over_limit"] += await self._add_parts(connection, parts, intake.now_ns)
        await tally(connection, self._pipeline, dropped)
        if intake.exports:
            await put(connection, intake.exports, self._sealers, intake.now_ns)

    async def _add_parts(
        self, connection: Connection, parts: Sequence[_SealedPart], now_ns: int
    ) -> int:
        """Store what there is room for; the items for which there was none."""
        expires: dict[tuple[str, str], int] = {}
        for part, _ in parts:
            expires.setdefault((part.project, part.key), part.expires_ns)
        rows = await opened(connection, expires)
        stored: list[tuple[Opened, Part, bytes]] = []
        lost = 0
        for part, sealed in parts:
            row = rows[part.project, part.key]
            if not admitted(row, part, self._bounds, now_ns):
                lost += part.items
                continue
            row.touch(now_ns)
            items, size = _room_taken(part)
            row.items += items
            row.bytes += size
            row.sealed_bytes += len(sealed)
            stored.append((row, part, sealed))
        made = await save(connection, {row.open_id: row for row in rows.values()}.values())
        if stored:
            await connection.execute(_ADD_PARTS, *_part_columns(stored))
        clues = [(p.project, word, row.open_id) for row, p, _ in stored for word in p.clues]
        merged = await remember(connection, clues, now_ns)
        size = sum(len(sealed) for _, _, sealed in stored)
        await hold(connection, self._pipeline, size, made - merged)
        return lost

    async def _publish(self, connection: Connection, publications: Sequence[Publication]) -> int:
        news = await _not_yet_published(connection, publications)
        if not news:
            return 0
        await connection.execute(
            _PUBLISHED,
            [each.open_id for each, _ in news],
            [each.version for each, _ in news],
            [each.fault and kept(each.fault) for each, _ in news],
        )
        faults = Counter(
            "no_step" if each.fault == "no_step" else "trace_fault"
            for each, _ in news
            if each.fault is not None
        )
        await tally(connection, self._pipeline, faults)
        for each, _ in news:
            if each.sent:
                await connection.execute(_SENT, each.open_id, each.sent)
        sessions = await sessions_of(connection, [each.open_id for each, _ in news if each.traces])
        now_ns = max(each.now_ns for each, _ in news)
        clues = [(project, word, each.open_id) for each, project in news for word in each.clues]
        await hold(connection, self._pipeline, 0, -await remember(connection, clues, now_ns))
        return await self._reveal(connection, [each for each, _ in news], sessions)

    async def _reveal(
        self,
        connection: Connection,
        news: Sequence[Publication],
        sessions: dict[int, list[tuple[str, str]]],
    ) -> int:
        """Add the revisions and what leaves with them: numbered, so in order and last."""
        if not any(each.traces or each.exports for each in news):
            return 0
        await in_order(connection)
        revised = await revise(
            connection,
            [
                (trace, digests, each.now_ns)
                for each in news
                for trace, digests in zip(each.traces, each.digests, strict=True)
            ],
        )
        await redirect(
            connection,
            [
                (project, key, each.traces[0].trace_id)
                for each in news
                for project, key in sessions.get(each.open_id, ())
            ],
        )
        for each in news:
            ids = {
                trace.trace_id
                for trace in each.traces
                if (trace.project, trace.trace_id) in revised
            }
            leaving = [item for item in each.exports if item.if_revised in ids | {None}]
            if leaving:
                await put(connection, leaving, self._sealers, each.now_ns)
        return sum(revised.values())

    def _sealed_part(self, part: Part) -> bytes:
        compressed = self._compressor.compress(part.payload)
        binding = _binding(part.project, part.key, part.kind)
        return self._sealers(part.project).seal(compressed, binding)

    def _sealed_record(self, item: Quarantined) -> bytes:
        binding = _binding(item.project, item.source, str(item.seq))
        return self._sealers(item.project).seal(item.payload, binding)


async def _move(connection: Connection, move: CursorMove) -> None:
    if not await connection.fetchval(_MOVE, move.name, move.before, move.after):
        raise CursorMoved(f"cursor {move.name} no longer stands at {move.before}")


async def _not_yet_published(
    connection: Connection, publications: Sequence[Publication]
) -> list[tuple[Publication, str]]:
    """Lock the open traces; of the publications those that are news, each with its project."""
    rows = await connection.fetch(
        "SELECT open_id, published_version, project FROM open_trace"
        " WHERE open_id = ANY ($1::bigint[]) ORDER BY open_id FOR UPDATE",
        [each.open_id for each in publications],
    )
    published = {row[0]: row[1] for row in rows}
    projects = {row[0]: row[2] for row in rows}
    news: dict[int, tuple[Publication, str]] = {}
    for each in publications:
        if published.get(each.open_id, each.version) < each.version:
            published[each.open_id] = each.version
            news[each.open_id] = (each, projects[each.open_id])
    return list(news.values())


def _part_columns(stored: Sequence[tuple[Opened, Part, bytes]]) -> list[list[Any]]:
    rooms = [_room_taken(part) for _, part, _ in stored]
    return [
        [row.open_id for row, _, _ in stored],
        [part.kind for _, part, _ in stored],
        [part.key for _, part, _ in stored],
        [items for items, _ in rooms],
        [size for _, size in rooms],
        [sealed for _, _, sealed in stored],
    ]


def _room_taken(part: Part) -> tuple[int, int]:
    """Items and bytes that a part takes of its trace's room."""
    return (part.items, len(part.payload)) if part.kind == "telemetry" else (0, 0)


def _binding(project: str, key: str, kind: str) -> bytes:
    return "\n".join(("part/1", project, key, kind)).encode()
