"""Open traces of one run become one open trace; what was published of them apart redirects.

Rules
1. Two open traces of a project that share a clue are one from then on: the union of what was
   there, whatever the order in which clues and parts come, and however often.
2. All of it happens inside the caller's transaction: with the cursor, or with the publication.
3. A merged trace is due again after a silence of its own: of many traces that come together one
   by one, not each makes all be built again. A publication of what it was made of changes nothing
   any more.
4. At most ``KEYS_MAX`` keys come together: what a run would need beyond stays apart.
5. A trace published as part of another is listed no more and redirects to it; its revisions stay.
   Published on its own again, it is its own again.
"""

import sqlite3
from collections.abc import Iterable

KEYS_MAX = 256


def touched(
    connection: sqlite3.Connection, project: str, key: str, expires_ns: int, now_ns: int
) -> int:
    """The id of the open trace of a key, its version raised; made where there is none.

    A published trace whose parts have expired becomes the base of what comes after.
    """
    row = connection.execute(
        "SELECT open_id FROM run_key WHERE project = ? AND key = ?", (project, key)
    ).fetchone()
    if row is not None:
        connection.execute(
            "UPDATE open_trace SET version = version + 1, touched_ns = ?,"
            " dirty_ns = CASE WHEN version > published_version THEN dirty_ns ELSE ? END"
            " WHERE open_id = ?",
            (now_ns, now_ns, row[0]),
        )
        return int(row[0])
    made = connection.execute(
        "INSERT INTO open_trace (project, key, version, touched_ns, dirty_ns, expires_ns)"
        " VALUES (?, ?, 1, ?, ?, ?)",
        (project, key, now_ns, now_ns, expires_ns),
    ).lastrowid
    assert made is not None
    base_id, revision = _base(connection, project, key)
    connection.execute(
        "INSERT INTO run_key VALUES (?, ?, ?, ?, ?)", (project, key, made, base_id, revision)
    )
    return made


def _base(connection: sqlite3.Connection, project: str, key: str) -> tuple[str, int | None]:
    """The trace that a key was last published in, and its newest revision."""
    row = connection.execute(
        "SELECT by_id FROM superseded WHERE project = ? AND trace_id = ?", (project, key)
    ).fetchone()
    base_id = str(row[0]) if row else key
    row = connection.execute(
        "SELECT revision FROM trace WHERE trace_id = ? AND project = ? AND newest = 1",
        (base_id, project),
    ).fetchone()
    return base_id, int(row[0]) if row else None


def remember(
    connection: sqlite3.Connection, open_id: int, clues: Iterable[bytes], now_ns: int
) -> int:
    """Note an open trace's clues, merging those it shares them with; the id of what it is then."""
    row = connection.execute(
        "SELECT project FROM open_trace WHERE open_id = ?", (open_id,)
    ).fetchone()
    if row is None:
        return open_id
    for word in clues:
        found = connection.execute(
            "SELECT open_id FROM clue WHERE project = ? AND word = ?", (row[0], word)
        ).fetchone()
        if found is None:
            connection.execute("INSERT INTO clue VALUES (?, ?, ?)", (row[0], word, open_id))
        elif found[0] != open_id:
            open_id = _merge(connection, open_id, int(found[0]), now_ns)
    return open_id


def _merge(connection: sqlite3.Connection, left: int, right: int, now_ns: int) -> int:
    keys = connection.execute(
        "SELECT count(*) FROM run_key WHERE open_id IN (?, ?)", (left, right)
    ).fetchone()[0]
    if keys > KEYS_MAX:
        return left
    kept, gone = min(left, right), max(left, right)
    for table in ("part", "run_key", "clue"):
        connection.execute(
            f"UPDATE {table} SET open_id = ? WHERE open_id = ?",  # noqa: S608 (fixed names)
            (kept, gone),
        )
    # SQLite makes text of joined blobs; they are bytes still.
    connection.execute(
        "INSERT INTO export_sent SELECT ?, digests FROM export_sent WHERE open_id = ?"
        " ON CONFLICT (open_id) DO UPDATE SET digests = CAST(digests || excluded.digests AS BLOB)",
        (kept, gone),
    )
    connection.execute("DELETE FROM export_sent WHERE open_id = ?", (gone,))
    connection.execute(
        "UPDATE open_trace SET version = open_trace.version + 1, fault = NULL, touched_ns = :now,"
        " lost = open_trace.lost + other.lost, dirty_ns = min("
        "iif(open_trace.version > open_trace.published_version, open_trace.dirty_ns, :now),"
        " iif(other.version > other.published_version, other.dirty_ns, :now)),"
        " expires_ns = min(open_trace.expires_ns, other.expires_ns)"
        " FROM open_trace AS other WHERE open_trace.open_id = :kept AND other.open_id = :gone",
        {"now": now_ns, "kept": kept, "gone": gone},
    )
    connection.execute("DELETE FROM open_trace WHERE open_id = ?", (gone,))
    return kept


def supersede(
    connection: sqlite3.Connection, project: str, trace_id: str, trace_ids: Iterable[str]
) -> None:
    """A trace is published under ``trace_id``: the other ids of it redirect there."""
    connection.execute(
        "DELETE FROM superseded WHERE project = ? AND trace_id = ?", (project, trace_id)
    )
    for other in trace_ids:
        if other == trace_id:
            continue
        connection.execute(
            "INSERT OR REPLACE INTO superseded VALUES (?, ?, ?)", (project, other, trace_id)
        )
        connection.execute(
            "UPDATE trace SET newest = 0 WHERE trace_id = ? AND project = ? AND newest = 1",
            (other, project),
        )


def published(connection: sqlite3.Connection, open_id: int, trace_ids: Iterable[str]) -> None:
    """Keys that are no trace ids (sessions) lead to the trace that was made of them."""
    first = next(iter(trace_ids), None)
    if first is not None:
        connection.execute(
            "INSERT OR REPLACE INTO superseded SELECT project, key, ? FROM run_key"
            " WHERE open_id = ? AND key LIKE 'log:%'",
            (first, open_id),
        )


def forget(connection: sqlite3.Connection, gone: list[tuple[int]]) -> None:
    """Forget open traces whole: parts, keys, clues and what was sent of them."""
    for table in ("part", "run_key", "clue", "export_sent", "open_trace"):
        connection.executemany(
            f"DELETE FROM {table} WHERE open_id = ?",  # noqa: S608 (fixed names)
            gone,
        )
