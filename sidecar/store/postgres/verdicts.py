"""Verdicts on Postgres.

Rules
1. A verdict is inserted once; the same id again is an error, never a change.
2. Reads are scoped by project where one is given.
"""

from processors.model.verdict import Verdict
from sidecar.store.asked import bounded
from sidecar.store.postgres.connection import Database
from sidecar.store.postgres.text import storable
from sidecar.store.verdicts import (
    SUMMARY,
    VerdictQuery,
    VerdictSummary,
    decode_verdict,
    verdict_row,
)

_ADD = (
    f"INSERT INTO verdict ({SUMMARY}, digest, content)"  # noqa: S608 (fixed texts only)
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
)
# The bounds are what an index can use; starts_with decides.
_GET = (
    "SELECT content FROM verdict WHERE verdict_id >= $1 AND verdict_id <= $1 || chr(1114111)"
    " AND starts_with(verdict_id, $1) AND ($2::text IS NULL OR project = $2) LIMIT 2"
)


class PostgresVerdicts:
    """Verdicts of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_verdict(self, verdict: Verdict) -> None:
        """Keep it; durable when this returns."""
        values = verdict_row(verdict)
        self._database.transact_sync(lambda c: c.execute(_ADD, *values))

    def get_verdict(self, verdict_id: str, project: str | None = None) -> Verdict | None:
        """The verdict of that id, or of the one id that starts so."""
        if not verdict_id or not storable(verdict_id, project):
            return None
        rows = self._database.read_sync(lambda c: c.fetch(_GET, verdict_id, project))
        return decode_verdict(rows[0][0]) if len(rows) == 1 else None

    def list_verdicts(self, query: VerdictQuery) -> list[VerdictSummary]:
        """Matching verdicts, newest first."""
        values: list[object] = []
        where = ["true"]
        moment_ns, after_id = query.after or (None, None)
        if not storable(query.project, query.suite, after_id):
            return []
        for text, value in (("project = {}", query.project), ("suite = {}", query.suite)):
            if value is not None:
                values.append(value)
                where.append(text.format(f"${len(values)}"))
        if query.after is not None:
            values += (bounded(moment_ns), after_id)
            where.append(f"(created_at_ns, verdict_id) < (${len(values) - 1}, ${len(values)})")
        values.append(query.limit)
        rows = self._database.read_sync(
            lambda c: c.fetch(
                f"SELECT {SUMMARY} FROM verdict WHERE {' AND '.join(where)}"  # noqa: S608
                f" ORDER BY created_at_ns DESC, verdict_id DESC LIMIT ${len(values)}",
                *values,
            )
        )
        return [VerdictSummary(**dict(row)) for row in rows]

    def close(self) -> None:
        """Nothing is held."""
