"""Revisions in the order in which they were published, for those who follow along.

Rules
1. A place is the row's id, which only grows; what is at or before it has been seen.
2. Every revision is told, not only the newest: the outcome may have changed between two looks.
"""

from pathlib import Path
from typing import Any

from sidecar.store.asked import encodable
from sidecar.store.sqlite.connection import open_database, translating
from sidecar.store.traces import TraceQuery, TraceSummary

_COLUMNS = (
    *("trace_id", "project", "revision", "service", "service_version", "started_ns", "ended_ns"),
    *("steps", "completeness", "outcome", "contradictions", "published_ns"),
)


class SqlitePublished:
    """The published revisions of traces.db, read only."""

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)
        self._connection = open_database(path, read_only=True)

    def place(self) -> int:
        """The place of the last revision there is, 0 where there is none."""
        with translating(self._path):
            (last,) = self._connection.execute("SELECT MAX(row_id) FROM trace").fetchone()
        return int(last or 0)

    def after(self, place: int, query: TraceQuery) -> tuple[int, list[TraceSummary]]:
        """The next place, and the matching revisions up to it; ``limit`` bounds one look."""
        if not encodable(query.project, query.service, query.outcome):
            return max(place, self.place()), []
        conditions = (
            ("project = ?", query.project),
            ("service = ?", query.service),
            ("outcome = ?", query.outcome),
        )
        used = [(text, value) for text, value in conditions if value is not None]
        where = " AND ".join(["row_id > ?", *(text for text, _ in used)])
        end = self.place()
        with translating(self._path):
            rows = self._connection.execute(
                f"SELECT row_id, {', '.join(_COLUMNS)} FROM trace WHERE {where}"  # noqa: S608
                " AND row_id <= ? ORDER BY row_id LIMIT ?",
                (place, *(value for _, value in used), end, query.limit),
            ).fetchall()
        next_place = rows[-1][0] if len(rows) == query.limit else max(place, end)
        return next_place, [_summary(row[1:]) for row in rows]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _summary(row: tuple[Any, ...]) -> TraceSummary:
    found = dict(zip(_COLUMNS, row, strict=True))
    version, names = found.pop("service_version"), found.pop("contradictions")
    codes = tuple(name for name in names.split(",") if name)
    return TraceSummary(**found, version=version, contradictions=codes)
