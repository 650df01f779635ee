"""What keeps traces.db within its bounds: room in a trace, room for all, and age.

Rules
1. Telemetry for which its trace has no room is counted in the trace and in ``dropped``; a receipt
   always has room.
2. Telemetry of published traces goes when it expires, or sooner, the oldest first, where all of it
   together is too much; what is not published yet stays.
3. A published revision goes when it is older than its project keeps them, and what hangs on it goes
   with it; what items of datasets say that were made from runs goes at an age of its own.
4. Each step is a small transaction: nobody waits long for the write lock.
"""

import sqlite3
from collections.abc import Mapping

from sidecar.store.sqlite.runs import Place, forget
from sidecar.store.traces import Bounds, Expiry, Part, Retention

_PROJECTS = (
    "WITH RECURSIVE found (name) AS (SELECT min(project) FROM {table} UNION ALL"
    " SELECT (SELECT min(project) FROM {table} WHERE project > found.name) FROM found"
    " WHERE name IS NOT NULL) SELECT name FROM found WHERE name IS NOT NULL"
)


def admitted(
    connection: sqlite3.Connection, part: Part, place: Place, bounds: Bounds, now_ns: int
) -> bool:
    """Whether there is room for a part in its trace; where there is none, it is counted as lost."""
    if part.kind != "telemetry":
        return True
    size = place.size + len(part.payload)
    if place.items + part.items <= bounds.trace_items_max and size <= bounds.trace_bytes_max:
        return True
    # The first loss is news, of which a revision tells; the thousandth is not.
    connection.execute(
        "UPDATE open_trace SET lost = lost + ?, version = version + (lost = 0),"
        " touched_ns = CASE lost WHEN 0 THEN ? ELSE touched_ns END,"
        " dirty_ns = CASE WHEN version > published_version THEN dirty_ns ELSE ? END"
        " WHERE open_id = ?",
        (part.items, now_ns, now_ns, place.open_id),
    )
    tally(connection, {"trace_over_limit": part.items})
    return False


def room_taken(part: Part) -> tuple[int, int]:
    """Items and bytes that a part takes of its trace's room."""
    return (part.items, len(part.payload)) if part.kind == "telemetry" else (0, 0)


def tally(connection: sqlite3.Connection, dropped: Mapping[str, int]) -> None:
    """Add to what was dropped, by reason."""
    connection.executemany(
        "INSERT INTO dropped VALUES (?, ?)"
        " ON CONFLICT (reason) DO UPDATE SET items = items + excluded.items",
        [(reason, items) for reason, items in dropped.items() if items],
    )


def expire(expiry: Expiry, connection: sqlite3.Connection) -> int:
    """Forget the telemetry of some published traces; how many."""
    gone = connection.execute(
        "SELECT open_id FROM open_trace WHERE expires_ns <= ? AND version = published_version"
        " ORDER BY expires_ns LIMIT ?",
        (expiry.now_ns, expiry.limit),
    ).fetchall()
    forget(connection, gone)
    if len(gone) < expiry.limit:
        gone += _make_room(connection, expiry)
    return len(gone)


def _make_room(connection: sqlite3.Connection, expiry: Expiry) -> list[tuple[int]]:
    bounds = expiry.bounds
    size, traces = connection.execute("SELECT bytes, traces FROM held").fetchone()
    if size <= bounds.held_bytes_max and traces <= bounds.open_traces_max:
        return []
    rows = connection.execute(
        "SELECT open_id, (SELECT total(length(sealed)) FROM part"
        " WHERE part.open_id = open_trace.open_id) FROM open_trace"
        " WHERE version = published_version ORDER BY expires_ns LIMIT ?",
        (expiry.limit,),
    ).fetchall()
    gone: list[tuple[int]] = []
    for open_id, held in rows:
        if size <= bounds.held_bytes_max and traces <= bounds.open_traces_max:
            break
        gone.append((open_id,))
        size, traces = size - held, traces - 1
    forget(connection, gone)
    tally(connection, {"content_over_limit": len(gone)})
    return gone


def prune(retention: Retention, connection: sqlite3.Connection) -> int:
    """Delete some published revisions that are too old, and what hangs on them; how many."""
    gone = 0
    for (project,) in connection.execute(_PROJECTS.format(table="trace")).fetchall():
        before_ns = retention.before_ns(project)
        if gone < retention.limit and before_ns is not None:
            gone += _prune(connection, project, before_ns, retention.limit - gone)
    for (project,) in connection.execute(_PROJECTS.format(table="quarantine")).fetchall():
        before_ns = retention.before_ns(project)
        if before_ns is not None:
            connection.execute(
                "DELETE FROM quarantine WHERE row_id IN (SELECT row_id FROM quarantine"
                " WHERE project = ? AND stored_ns < ? LIMIT ?)",
                (project, before_ns, retention.limit),
            )
    _erase_items(connection, retention)
    return gone


def _erase_items(connection: sqlite3.Connection, retention: Retention) -> None:
    for (project,) in connection.execute(_PROJECTS.format(table="dataset_version")).fetchall():
        before_ns = retention.items_before_ns(project)
        if before_ns is not None:
            connection.execute(
                "UPDATE dataset_item SET content = NULL WHERE rowid IN (SELECT rowid FROM"
                " dataset_item WHERE project = ? AND captured = 1 AND added_at_ns < ?"
                " AND content IS NOT NULL LIMIT ?)",
                (project, before_ns, retention.limit),
            )


def _prune(connection: sqlite3.Connection, project: str, before_ns: int, limit: int) -> int:
    rows = connection.execute(
        "SELECT row_id, trace_id, newest FROM trace WHERE project = ? AND published_ns < ?"
        " ORDER BY published_ns LIMIT ?",
        (project, before_ns, limit),
    ).fetchall()
    connection.executemany("DELETE FROM trace WHERE row_id = ?", [(row[0],) for row in rows])
    for _, trace_id, newest in rows:
        if newest:
            _forget_trace(connection, project, trace_id)
    return len(rows)


def _forget_trace(connection: sqlite3.Connection, project: str, trace_id: str) -> None:
    """Of a trace that is listed no more: redirects to it, and telemetry that still waits."""
    opened = connection.execute(
        "SELECT open_id FROM run_key JOIN open_trace USING (open_id)"
        " WHERE run_key.project = ? AND run_key.key = ? AND version = published_version",
        (project, trace_id),
    ).fetchall()
    forget(connection, opened)
    connection.execute(
        "DELETE FROM superseded WHERE project = ? AND by_id = ?", (project, trace_id)
    )
