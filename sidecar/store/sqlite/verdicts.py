"""Verdicts in traces.db.

Rules
1. A verdict is inserted once; the same id again is an error, never a change.
2. Reads are scoped by project where one is given.
"""

from pathlib import Path
from typing import Any

from processors.model.verdict import Verdict
from sidecar.store.asked import bounded, encodable
from sidecar.store.sqlite.connection import open_database, translating
from sidecar.store.verdicts import (
    SUMMARY,
    VerdictQuery,
    VerdictSummary,
    decode_verdict,
    verdict_row,
)


class SqliteVerdicts:
    """Verdicts of one store; ``read_only`` for commands that only look."""

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self._path = str(path)
        self._connection = open_database(path, read_only=read_only)

    def add_verdict(self, verdict: Verdict) -> None:
        """Keep it; durable when this returns."""
        with translating(self._path):
            self._connection.execute(
                f"INSERT INTO verdict ({SUMMARY}, digest, content)"  # noqa: S608 (fixed texts only)
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                verdict_row(verdict),
            )

    def get_verdict(self, verdict_id: str, project: str | None = None) -> Verdict | None:
        """The verdict of that id, or of the one id that starts so."""
        if not encodable(verdict_id, project):
            return None
        rows = self._rows(
            "SELECT content FROM verdict WHERE substr(verdict_id, 1, ?) = ?"
            " AND (project = ? OR ? IS NULL) LIMIT 2",
            (len(verdict_id), verdict_id, project, project),
        )
        return decode_verdict(rows[0][0]) if len(rows) == 1 and verdict_id else None

    def list_verdicts(self, query: VerdictQuery) -> list[VerdictSummary]:
        """Matching verdicts, newest first."""
        moment_ns, after_id = query.after or (None, None)
        if not encodable(query.project, query.suite, after_id):
            return []
        rows = self._rows(
            f"SELECT {SUMMARY} FROM verdict"  # noqa: S608 (fixed texts only)
            " WHERE (?1 IS NULL OR project = ?1) AND (?2 IS NULL OR suite = ?2)"
            " AND (?4 IS NULL OR (created_at_ns, verdict_id) < (?4, ?5))"
            " ORDER BY created_at_ns DESC, verdict_id DESC LIMIT ?3",
            (query.project, query.suite, query.limit, bounded(moment_ns), after_id),
        )
        names = SUMMARY.split(", ")
        return [VerdictSummary(**dict(zip(names, row, strict=True))) for row in rows]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, text: str, values: tuple[object, ...]) -> list[Any]:
        with translating(self._path):
            return self._connection.execute(text, values).fetchall()
