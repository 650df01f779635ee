"""Published traces on Postgres, for readers.

Rules
1. What a revision says is read from the table of its day, and from no other.
2. What cannot be in the store is not asked for.
"""

from typing import Any

import zstandard

from processors.model.trace import AgentTrace
from sidecar.errors import SidecarError
from sidecar.store.asked import bounded
from sidecar.store.postgres.connection import Database, Record
from sidecar.store.postgres.text import storable
from sidecar.store.traces import TraceQuery, TraceSummary, decode_trace

SUMMARY = (
    "trace_id, project, revision, service, service_version, started_ns, ended_ns, steps,"
    " completeness, outcome, contradictions, published_ns"
)
_SUMMARY_NAMES = SUMMARY.split(", ")
_CURSOR = "SELECT position FROM cursor WHERE name = $1"
_WHICH = (
    "SELECT project, row_id, published_ns FROM trace WHERE trace_id = $1"
    " AND ($2::text IS NULL OR project = $2)"
    " AND (revision = $3 OR ($3::integer IS NULL AND newest))"
    " UNION ALL SELECT t.project, t.row_id, t.published_ns FROM superseded s JOIN trace t"
    " ON t.project = s.project AND t.trace_id = s.by_id AND t.newest"
    " WHERE s.trace_id = $1 AND $3::integer IS NULL AND ($2::text IS NULL OR s.project = $2)"
)
# The day is named by its moment, so that only its table is opened and locked.
_CONTENT = "SELECT content FROM trace_content WHERE published_ns = $1 AND row_id = $2"


class PostgresTraces:
    """Published traces, read only.

    With ``source`` it tells what that pipeline dropped, else what all of them did.
    """

    def __init__(self, database: Database, *, source: str | None = None) -> None:
        self._database = database
        self._source = source
        self._decompress = zstandard.ZstdDecompressor().decompress

    def cursor(self, name: str) -> int:
        """The position of a source's cursor, 0 if it was never read."""
        return int(self._value(_CURSOR, name) or 0)

    def dropped(self) -> dict[str, int]:
        """What the pipeline set aside or left out since the store was made, by reason."""
        rows = self._rows(
            "SELECT reason, sum(items)::bigint FROM dropped"
            " WHERE $1::text IS NULL OR source = $1 GROUP BY reason",
            self._source,
        )
        return {row[0]: row[1] for row in rows}

    def list_traces(self, query: TraceQuery) -> list[TraceSummary]:
        """The newest revision of each matching trace, newest start first."""
        values: list[object] = []
        where = ["newest"]
        start_ns, trace_id = query.after or (None, None)
        if not storable(query.project, query.service, query.outcome, trace_id):
            return []
        for text, value in (
            ("project = {}", query.project),
            ("service = {}", query.service),
            ("started_ns >= {}", bounded(query.since_ns)),
            ("started_ns < {}", bounded(query.until_ns)),
            ("outcome = {}", query.outcome),
        ):
            if value is not None:
                values.append(value)
                where.append(text.format(f"${len(values)}"))
        if query.after is not None:  # the first part alone is what an index can use
            values += (bounded(start_ns), trace_id)
            start, name = f"${len(values) - 1}", f"${len(values)}"
            where.append(f"started_ns <= {start} AND (started_ns < {start} OR trace_id > {name})")
        values.append(query.limit)
        rows = self._rows(
            f"SELECT {SUMMARY} FROM trace WHERE {' AND '.join(where)}"  # noqa: S608 (fixed texts)
            f" ORDER BY started_ns DESC, trace_id LIMIT ${len(values)}",
            *values,
        )
        return [summary(row) for row in rows]

    def revisions(self, trace_id: str, project: str) -> list[TraceSummary]:
        """All revisions of a trace, oldest first; none where there is no such trace."""
        if not storable(trace_id, project):
            return []
        rows = self._rows(
            f"SELECT {SUMMARY} FROM trace WHERE trace_id = $1 AND project = $2 ORDER BY revision",  # noqa: S608
            *(trace_id, project),
        )
        return [summary(row) for row in rows]

    def get_trace(
        self, trace_id: str, project: str | None = None, revision: int | None = None
    ) -> AgentTrace | None:
        """One revision, by default the newest, of the run it is part of.

        Raises SidecarError where two projects have it.
        """
        if not storable(trace_id, project) or not 0 <= (revision or 0) < 2**31:
            return None
        rows = self._rows(_WHICH, trace_id, project, revision)
        if len(rows) > 1:
            names = ", ".join(sorted(row[0] for row in rows))
            raise SidecarError(
                f"projects {names} each have this trace", where=trace_id, do="Name one: --project."
            )
        content = self._value(_CONTENT, rows[0][2], rows[0][1]) if rows else None
        return None if content is None else decode_trace(self._decompress(content))

    def close(self) -> None:
        """Nothing is held."""

    def _rows(self, statement: str, *values: object) -> list[Record]:
        rows: list[Record] = self._database.read_sync(lambda c: c.fetch(statement, *values))
        return rows

    def _value(self, statement: str, *values: object) -> Any:
        return self._database.read_sync(lambda c: c.fetchval(statement, *values))


def summary(row: Record) -> TraceSummary:
    """A row with the columns of ``SUMMARY``."""
    found = {name: row[name] for name in _SUMMARY_NAMES}
    codes = tuple(name for name in found.pop("contradictions").split(",") if name)
    version = found.pop("service_version")
    return TraceSummary(**found, version=version, contradictions=codes)
