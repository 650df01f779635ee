"""traces.db: published traces for readers, open traces for the pipeline.

Rules
1. Parts and the cursor that passes them are one transaction; it moves from where it was read.
2. Parts are compressed, then sealed, bound to project, trace and kind.
3. A revision is added when ``content_digest`` differs from the newest's, and only then.
4. Parts are deleted only together, and only after their trace is published (``bounds``).
5. What exporters are to send goes into the outbox in the transaction that publishes it.
6. What belongs to one run comes together by its clues (``runs``).
"""

import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import zstandard

from processors.model.trace import AgentTrace
from sidecar.errors import SidecarError
from sidecar.store.asked import bounded, encodable
from sidecar.store.envelope import Sealers
from sidecar.store.sqlite.bounds import admitted, expire, prune, room_taken, tally
from sidecar.store.sqlite.connection import migrate, open_database, translating
from sidecar.store.sqlite.outbox import put
from sidecar.store.sqlite.presence import Presence
from sidecar.store.sqlite.runs import (
    Noted,
    found,
    led,
    opened,
    published,
    remember,
    supersede,
    touch,
)
from sidecar.store.sqlite.scripts import TRACES, scripts
from sidecar.store.sqlite.writer import Writer
from sidecar.store.traces import (
    Bounds,
    CursorMove,
    CursorMoved,
    Digests,
    Due,
    Expiry,
    Intake,
    OpenTrace,
    Part,
    PartKind,
    Publication,
    Retention,
    TraceQuery,
    TraceSummary,
    decode_trace,
    encode_trace,
    open_trace,
    summarise,
)

_HEAD = (
    *("trace_id", "project", "revision", "service", "version", "started_ns", "ended_ns"),
    *("steps", "completeness", "outcome"),
)
_ASKED_MAX = 64
_SUMMARY = (
    "trace_id, project, revision, service, service_version, started_ns, ended_ns, steps,"
    " completeness, outcome, contradictions, published_ns"
)
_INSERT = (
    "INSERT INTO trace (trace_id, project, revision, service, service_version, started_ns,"
    " ended_ns, steps, completeness, outcome, contradictions, published_ns, newest, facts_digest,"
    " content_digest, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)"
)


def migrate_traces(path: Path | str) -> None:
    """Make or upgrade traces.db; to be called once before readers open it."""
    connection = open_database(path)
    try:
        migrate(connection, scripts(TRACES), path)
    finally:
        connection.close()


class SqliteTraces:
    """Published traces, read only."""

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)
        self._connection = open_database(path, read_only=True)
        self._presence = Presence(path)
        self._decompress = zstandard.ZstdDecompressor().decompress

    def cursor(self, name: str) -> int:
        """The position of a source's cursor, 0 if it was never read."""
        with translating(self._path):
            self._presence.check()
            row = self._connection.execute(
                "SELECT position FROM cursor WHERE name = ?", (name,)
            ).fetchone()
        return int(row[0]) if row else 0

    def dropped(self) -> dict[str, int]:
        """What the pipeline set aside or left out since the store was made, by reason."""
        with translating(self._path):
            return dict(self._connection.execute("SELECT reason, items FROM dropped").fetchall())

    def list_traces(self, query: TraceQuery) -> list[TraceSummary]:
        """The newest revision of each matching trace, newest start first."""
        start_ns, trace_id = query.after or (None, None)
        if not encodable(query.project, query.service, query.outcome, trace_id):
            return []
        conditions: list[tuple[str, tuple[object, ...]]] = [
            ("project = ?", (query.project,)),
            ("service = ?", (query.service,)),
            ("started_ns >= ?", (bounded(query.since_ns),)),
            ("started_ns < ?", (bounded(query.until_ns),)),
            ("outcome = ?", (query.outcome,)),
        ]
        if query.after is not None:  # the first part alone is what an index can use
            start_ns = bounded(start_ns)
            placed = "started_ns <= ? AND (started_ns < ? OR trace_id > ?)"
            conditions.append((placed, (start_ns, start_ns, trace_id)))
        used = [(text, values) for text, values in conditions if None not in values]
        where = " AND ".join(["newest = 1", *(text for text, _ in used)])
        with translating(self._path):
            self._presence.check()
            rows = self._connection.execute(
                f"SELECT {_SUMMARY} FROM trace WHERE {where}"  # noqa: S608 (fixed texts only)
                " ORDER BY started_ns DESC, trace_id LIMIT ?",
                (*(value for _, values in used for value in values), query.limit),
            ).fetchall()
        return [_summary(row) for row in rows]

    def revisions(self, trace_id: str, project: str) -> list[TraceSummary]:
        """All revisions of a trace, oldest first; none where there is no such trace."""
        if not encodable(trace_id, project):
            return []
        with translating(self._path):
            self._presence.check()
            rows = self._connection.execute(
                f"SELECT {_SUMMARY} FROM trace WHERE trace_id = ? AND project = ?"  # noqa: S608
                " ORDER BY revision",
                (trace_id, project),
            ).fetchall()
        return [_summary(row) for row in rows]

    def get_trace(
        self, trace_id: str, project: str | None = None, revision: int | None = None
    ) -> AgentTrace | None:
        """One revision, by default the newest, of the run it is part of.

        Raises SidecarError where two projects have it.
        """
        if not encodable(trace_id, project):
            return None
        revision = bounded(revision)
        with translating(self._path):
            self._presence.check()
            rows = self._connection.execute(
                "SELECT project, content FROM trace WHERE trace_id = ?"
                " AND (project = ? OR ? IS NULL) AND (revision = ? OR (? IS NULL AND newest = 1))"
                " UNION ALL SELECT trace.project, content FROM superseded CROSS JOIN trace"
                " ON trace.project = superseded.project AND trace.trace_id = superseded.by_id"
                " AND newest = 1 WHERE superseded.trace_id = ? AND ? IS NULL"
                " AND (superseded.project = ? OR ? IS NULL)",
                (
                    *(trace_id, project, project, revision, revision),
                    *(trace_id, revision, project, project),
                ),
            ).fetchall()
        if len(rows) > 1:
            names = ", ".join(sorted(row[0] for row in rows))
            raise SidecarError(
                f"projects {names} each have this trace", where=trace_id, do="Name one: --project."
            )
        return decode_trace(self._decompress(rows[0][1])) if rows else None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class SqliteOpenTraces(SqliteTraces):
    """The pipeline's side: takes in, tells what is due, publishes. One writer thread."""

    def __init__(self, path: Path | str, *, sealers: Sealers, bounds: Bounds | None = None) -> None:
        migrate_traces(path)
        super().__init__(path)
        self._bounds = bounds or Bounds()
        self._sealers = sealers
        self._compressor = zstandard.ZstdCompressor(level=1)
        self._writer = Writer(open_database(path), self._path)

    async def take_in(self, intake: Intake) -> None:
        """Store parts and move the cursor in one transaction. Raises CursorMoved."""
        await self._writer.run(partial(self._take_in, intake))

    def due(self, due: Due) -> list[OpenTrace]:
        """Open traces to publish, the longest silent first.

        A trace touched in the future (the clock was set back) counts as silent.
        """
        with translating(self._path):
            rows = self._connection.execute(
                "SELECT open_id, project, key, version, touched_ns, lost, items, bytes"
                " FROM open_trace"
                " WHERE version > published_version"
                " AND (touched_ns <= ? OR dirty_ns <= ? OR touched_ns > ?)"
                " ORDER BY touched_ns LIMIT ?",
                (
                    due.now_ns - due.idle_ns,
                    due.now_ns - due.open_max_ns,
                    due.now_ns + due.idle_ns,
                    due.limit,
                ),
            ).fetchall()
        bases = self._bases([row[0] for row in rows])
        return [open_trace(row, bases.get(row[0], ()), self._bounds) for row in rows]

    def _bases(self, open_ids: Sequence[int]) -> dict[int, list[tuple[str, int]]]:
        bases: dict[int, list[tuple[str, int]]] = {}
        for start in range(0, len(open_ids), _ASKED_MAX):
            some = list(open_ids[start : start + _ASKED_MAX])
            some += [some[-1]] * (_ASKED_MAX - len(some))  # one length: it stays prepared
            with translating(self._path):
                rows = self._connection.execute(
                    "SELECT DISTINCT open_id, base_trace_id,"  # noqa: S608 (marks)
                    f" base_revision FROM run_key WHERE open_id IN ({','.join('?' * _ASKED_MAX)})"
                    " AND base_revision IS NOT NULL ORDER BY base_trace_id",
                    some,
                ).fetchall()
            for open_id, base, revision in rows:
                bases.setdefault(open_id, []).append((str(base), int(revision)))
        return bases

    def parts(self, opened: OpenTrace) -> list[tuple[PartKind, bytes]]:
        """Kind and payload of the parts of an open trace, in order of intake. Raises SealBroken.

        Of traces that were put together there may be more than one trace may have: no more than
        that is read.
        """
        with translating(self._path):
            rows = self._connection.execute(
                "SELECT part.kind, run_key.key, sealed, items, bytes FROM part"
                " LEFT JOIN run_key ON run_key.project = ? AND run_key.key = part.key"
                " AND run_key.open_id = part.open_id WHERE part.open_id = ? ORDER BY part_id",
                (opened.project, opened.open_id),
            ).fetchall()
        open_sealed = self._sealers(opened.project).open
        found: list[tuple[PartKind, bytes]] = []
        room, room_bytes = self._bounds.trace_items_max, self._bounds.trace_bytes_max
        for (
            kind,
            key,
            sealed,
            items,
            size,
        ) in rows:  # a part of another trace has no key here: it does not open
            room, room_bytes = room - items, room_bytes - size
            if found and kind == "telemetry" and min(room, room_bytes) < 0:
                continue
            binding = _binding(opened.project, key or "", kind)
            found.append((kind, self._decompress(open_sealed(sealed, binding))))
        return found

    async def publish(self, publications: Sequence[Publication]) -> int:
        """Add revisions where content changed; the number added. Idempotent."""
        return await self._writer.run(partial(self._publish, publications))

    async def expire(self, now_ns: int, limit: int) -> int:
        """Forget the telemetry of up to ``limit`` published traces; the number of traces.

        It goes when it has expired, or when all that is held is too much: then the oldest.
        """
        expiry = Expiry(now_ns=now_ns, limit=limit, bounds=self._bounds)
        return await self._writer.run(partial(expire, expiry))

    async def prune(self, retention: Retention) -> int:
        """Delete published revisions that are too old, some at a time; the number deleted."""
        return await self._writer.run(partial(prune, retention))

    def facts_digest(self, project: str, trace_id: str) -> str | None:
        """``facts_digest`` of a trace's newest revision."""
        with translating(self._path):
            row = self._connection.execute(
                "SELECT facts_digest FROM trace WHERE trace_id = ? AND project = ? AND newest = 1",
                (trace_id, project),
            ).fetchone()
        return str(row[0]) if row else None

    def sent(self, open_id: int) -> bytes:
        """The digests of what of an open trace has been put into the outbox, 16 bytes each."""
        with translating(self._path):
            row = self._connection.execute(
                "SELECT digests FROM export_sent WHERE open_id = ?", (open_id,)
            ).fetchone()
        return bytes(row[0]) if row else b""

    def close(self) -> None:
        """Finish what is queued, then close both connections."""
        self._writer.close()
        super().close()

    def _take_in(self, intake: Intake, connection: sqlite3.Connection) -> None:
        _move(connection, intake.move)
        for item in intake.quarantined:
            connection.execute(
                "INSERT OR IGNORE INTO quarantine (source, seq, project, reason, stored_ns, sealed)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (
                    *(item.source, item.seq, item.project, item.reason, intake.now_ns),
                    self._sealers(item.project).seal(
                        item.payload, _binding(item.project, item.source, str(item.seq))
                    ),
                ),
            )
        tally(connection, intake.dropped)
        for part in intake.parts:
            self._take_part(connection, part, intake.now_ns)
        if intake.exports:
            put(connection, intake.exports, self._sealers, intake.now_ns)

    def _take_part(self, connection: sqlite3.Connection, part: Part, now_ns: int) -> None:
        place = found(connection, part.project, part.key)
        if place is not None and not admitted(connection, part, place, self._bounds, now_ns):
            return
        sealed = self._sealers(part.project).seal(
            self._compressor.compress(part.payload), _binding(part.project, part.key, part.kind)
        )
        known = led(connection, part.project, part.clues)
        if place is None:
            open_id = opened(connection, part, known, now_ns)
        else:
            open_id = place.open_id
            touch(connection, open_id, now_ns)
        connection.execute(
            "INSERT INTO part (open_id, kind, sealed, key, items, bytes) VALUES (?, ?, ?, ?, ?, ?)",
            (open_id, part.kind, sealed, part.key, *room_taken(part)),
        )
        remember(connection, Noted(part.project, open_id, part.clues), known, now_ns)

    def _publish(self, publications: Sequence[Publication], connection: sqlite3.Connection) -> int:
        added = 0
        for publication in publications:
            changed = connection.execute(
                "UPDATE open_trace SET published_version = ?, fault = ?, dirty_ns = touched_ns"
                " WHERE open_id = ? AND published_version < ? RETURNING project",
                (
                    *(publication.version, publication.fault),
                    *(publication.open_id, publication.version),
                ),
            ).fetchall()
            if not changed:
                continue  # published already, by this version or a later one
            ((project,),) = changed
            if publication.fault is not None:
                no_step = publication.fault == "no_step"
                tally(connection, {"no_step" if no_step else "trace_fault": 1})
            revised = set()
            for trace, digests in zip(publication.traces, publication.digests, strict=True):
                if self._revise(connection, trace, digests, publication.now_ns):
                    revised.add(trace.trace_id)
            added += len(revised)
            self._send(connection, publication, revised)
            published(connection, publication.open_id, (t.trace_id for t in publication.traces))
            remember(
                connection,
                Noted(project, publication.open_id, publication.clues),
                led(connection, project, publication.clues),
                publication.now_ns,
            )
        return added

    def _send(
        self, connection: sqlite3.Connection, publication: Publication, revised: set[str]
    ) -> None:
        leaving = [
            item
            for item in publication.exports
            if item.if_revised is None or item.if_revised in revised
        ]
        if leaving:
            put(connection, leaving, self._sealers, publication.now_ns)
        if publication.sent:
            _remember_sent(connection, publication.open_id, publication.sent)

    def _revise(
        self, connection: sqlite3.Connection, trace: AgentTrace, digests: Digests, now_ns: int
    ) -> int:
        supersede(connection, trace.project, trace.trace_id, trace.trace_ids)
        row = connection.execute(
            "SELECT row_id, revision, content_digest FROM trace"
            " WHERE trace_id = ? AND project = ? ORDER BY revision DESC LIMIT 1",
            (trace.trace_id, trace.project),
        ).fetchone()
        if row is not None and row[2] == digests.content:
            connection.execute("UPDATE trace SET newest = 1 WHERE row_id = ?", (row[0],))
            return 0
        revision = row[1] + 1 if row else 1
        if row is not None:
            connection.execute("UPDATE trace SET newest = 0 WHERE row_id = ?", (row[0],))
        summary = summarise(trace, revision=revision, published_ns=now_ns)
        connection.execute(
            _INSERT,
            (
                *(summary.trace_id, summary.project, revision, summary.service, summary.version),
                *(summary.started_ns, summary.ended_ns, summary.steps, summary.completeness),
                *(
                    summary.outcome,
                    ",".join(summary.contradictions),
                    now_ns,
                    digests.facts,
                    digests.content,
                ),
                self._compressor.compress(encode_trace(trace, revision)),
            ),
        )
        return 1


def _move(connection: sqlite3.Connection, move: CursorMove) -> None:
    connection.execute("INSERT OR IGNORE INTO cursor VALUES (?, 0)", (move.name,))
    moved = connection.execute(
        "UPDATE cursor SET position = ? WHERE name = ? AND position = ?",
        (move.after, move.name, move.before),
    ).rowcount
    if not moved:
        raise CursorMoved(f"cursor {move.name} no longer stands at {move.before}")


def _remember_sent(connection: sqlite3.Connection, open_id: int, digests: bytes) -> None:
    row = connection.execute(
        "SELECT digests FROM export_sent WHERE open_id = ?", (open_id,)
    ).fetchone()
    before = bytes(row[0]) if row else b""
    connection.execute(
        "INSERT OR REPLACE INTO export_sent VALUES (?, ?)", (open_id, before + digests)
    )


def _binding(project: str, key: str, kind: str) -> bytes:
    return "\n".join(("part/1", project, key, kind)).encode()


def _summary(row: tuple[Any, ...]) -> TraceSummary:
    *head, contradictions, published_ns = row
    names = tuple(name for name in contradictions.split(",") if name)
    return TraceSummary(
        **dict(zip(_HEAD, head, strict=True)), contradictions=names, published_ns=published_ns
    )
