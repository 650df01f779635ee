"""Rows of a Postgres by one SELECT, asked page by page through the probes' own way in.

Rules
1. Asked is a role that cannot write, by a process of its own, at an address that egress vetted
   (``probe.sql``).
2. A page holds what one answer may; the next begins behind the last key. Each page sees the
   database as it is then: what must be of one moment is for the query to see to.
3. A page that is too large is asked for again with half the rows.
"""

from typing import Any

from sidecar import clock
from sidecar.egress.rules import TargetRefused
from sidecar.probe.plan import SqlAsk
from sidecar.probe.sql.client import SqlAsker
from sidecar.probe.sql.worker import WorkerFailed
from sidecar.twins.sync.plan import SqlSource
from sidecar.twins.sync.rows import BadRows

PAGE_ROWS = 500
_TOO_LARGE = frozenset({"answer_too_large", "too_many_rows"})


async def postgres_rows(
    asker: SqlAsker, sql: SqlSource, key: str, *, rows_max: int, ends_ns: int
) -> list[dict[str, Any]]:
    """At most ``rows_max`` and one page, until the monotonic time ``ends_ns``; ``key`` is the
    column that names a row. Raises BadRows.
    """
    found: list[dict[str, Any]] = []
    page_rows = PAGE_ROWS
    while len(found) <= rows_max:
        last = found[-1][key] if found else None
        told = await _page(asker, sql, key, last, page_rows, ends_ns)
        if told is None:
            page_rows //= 2
            if not page_rows:
                raise BadRows("one row is larger than an answer may be")
            continue
        whole = len(told) >= page_rows + (last is not None)
        if told and key not in told[0]:
            known = ", ".join(sorted(told[0]))
            raise BadRows(f"the query has no column {key!r}, which names the row; known: {known}")
        if any(row[key] is None for row in told):
            raise BadRows(f"a row has no {key}, which names the row")
        # A page begins with the last row again, so that another of its key is not passed over.
        found += told[1:] if found and told and told[0][key] == last else told
        if not whole:
            break
    return found


async def _page(
    asker: SqlAsker, sql: SqlSource, key: str, last: Any, rows: int, ends_ns: int
) -> list[dict[str, Any]] | None:
    """``rows`` rows from ``last`` on, and it; None where they are too large."""
    column = '"' + key.replace('"', '""') + '"'
    place = len(sql.parameters) + 1
    behind = f" WHERE {column} >= ${place} OR {column} IS NULL" if last is not None else ""
    limit = rows + (last is not None)
    query = (
        f"SELECT * FROM ({sql.query}\n) AS synchronised{behind} "  # noqa: S608 - the operator's own
        f"ORDER BY {column} NULLS FIRST LIMIT {limit}"
    )
    values = (*sql.parameters, *(() if last is None else (last,)))
    left_ns = ends_ns - clock.monotonic_ns()
    if left_ns <= 0:
        raise BadRows("the deadline passed")
    ask = SqlAsk(database=sql.database, query=query, values=values)
    try:
        told = await asker.told(ask, left_ns)
    except WorkerFailed as failed:
        raise BadRows(f"the database was not asked: {failed.code}") from None
    except TargetRefused as error:
        raise BadRows(f"the database is not to be dialled: {error}") from None
    except TimeoutError:
        raise BadRows("the database gave no whole answer in time") from None
    if told.code in _TOO_LARGE:
        return None
    if told.code:
        raise BadRows(f"the database was asked in vain: {told.code}")
    return told.rows
