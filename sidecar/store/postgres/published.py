"""Revisions in the order in which they were published, for those who follow along.

Rules
1. A place is the row's number, which only grows in the order of the commits (``again.in_order``);
   what is at or before it has been seen.
2. Every revision is told, not only the newest: the outcome may have changed between two looks.
"""

from sidecar.store.postgres.connection import Connection, Database
from sidecar.store.postgres.text import storable
from sidecar.store.postgres.traces import SUMMARY, summary
from sidecar.store.traces import TraceQuery, TraceSummary

_LAST = "SELECT row_id FROM trace ORDER BY row_id DESC LIMIT 1"
_AFTER = (
    f"SELECT row_id, {SUMMARY} FROM trace WHERE row_id > $1 AND row_id <= $2"  # noqa: S608 (fixed texts)
    " AND ($3::text IS NULL OR project = $3) AND ($4::text IS NULL OR service = $4)"
    " AND ($5::text IS NULL OR outcome = $5) ORDER BY row_id LIMIT $6"
)


class PostgresPublished:
    """The published revisions, read only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def place(self) -> int:
        """The place of the last revision there is, 0 where there is none."""
        return self._database.read_sync(_place)

    def after(self, place: int, query: TraceQuery) -> tuple[int, list[TraceSummary]]:
        """The next place, and the matching revisions up to it; ``limit`` bounds one look."""

        if not storable(query.project, query.service, query.outcome):
            return max(place, self.place()), []

        async def read(connection: Connection) -> tuple[int, list[TraceSummary]]:
            end = await _place(connection)
            wanted = (query.project, query.service, query.outcome, query.limit)
            rows = await connection.fetch(_AFTER, place, end, *wanted)
            next_place = rows[-1][0] if len(rows) == query.limit else max(place, end)
            return next_place, [summary(row) for row in rows]

        return self._database.read_sync(read)

    def close(self) -> None:
        """Nothing is held."""


async def _place(connection: Connection) -> int:
    return int(await connection.fetchval(_LAST) or 0)
