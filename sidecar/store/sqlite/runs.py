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
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from sidecar.store.traces import Part

KEYS_MAX = 256
_WORDS_MAX = 256


class Noted(Struct, frozen=True):
    """The clues of an open trace."""

    project: str
    open_id: int
    clues: Sequence[bytes]


class Place(Struct, frozen=True):
    """The open trace of a key, with what it holds."""

    open_id: int
    items: int
    size: int


def found(connection: sqlite3.Connection, project: str, key: str) -> Place | None:
    """The open trace of a key; None where there is none yet."""
    row = connection.execute(
        "SELECT open_trace.open_id, items, bytes FROM run_key JOIN open_trace USING (open_id)"
        " WHERE run_key.project = ? AND run_key.key = ?",
        (project, key),
    ).fetchone()
    return Place(*row) if row else None


def touch(connection: sqlite3.Connection, open_id: int, now_ns: int) -> None:
    """More of an open trace has come: its version is raised."""
    connection.execute(
        "UPDATE open_trace SET version = version + 1, touched_ns = ?,"
        " dirty_ns = CASE WHEN version > published_version THEN dirty_ns ELSE ? END"
        " WHERE open_id = ?",
        (now_ns, now_ns, open_id),
    )


def opened(
    connection: sqlite3.Connection, part: Part, known: Mapping[bytes, int], now_ns: int
) -> int:
    """The id of the open trace of a new key: one that shares a clue with it, else one made for it.

    ``known`` are those of its clues that lead somewhere. A published trace whose parts have expired
    becomes the base of what comes after.
    """
    open_id = _joined(connection, part, next(iter(known.values())), now_ns) if known else None
    if open_id is None:
        open_id = connection.execute(
            "INSERT INTO open_trace (project, key, version, touched_ns, dirty_ns, expires_ns)"
            " VALUES (?, ?, 1, ?, ?, ?)",
            (part.project, part.key, now_ns, now_ns, part.expires_ns),
        ).lastrowid
    assert open_id is not None
    # The trace that the key was last published in, and that one's newest revision.
    connection.execute(
        "INSERT INTO run_key SELECT :project, :key, :open_id, base.id,"
        " (SELECT revision FROM trace WHERE trace_id = base.id AND project = :project"
        " AND newest = 1) FROM (SELECT coalesce((SELECT by_id FROM superseded"
        " WHERE project = :project AND trace_id = :key), :key) AS id) AS base",
        {"project": part.project, "key": part.key, "open_id": open_id},
    )
    return open_id


def _joined(connection: sqlite3.Connection, part: Part, open_id: int, now_ns: int) -> int | None:
    """The open trace that a new key joins, due again (rule 3); None where it is full (rule 4)."""
    (keys,) = connection.execute(
        "SELECT count(*) FROM run_key WHERE open_id = ?", (open_id,)
    ).fetchone()
    if keys >= KEYS_MAX:
        return None
    touch(connection, open_id, now_ns)
    connection.execute(
        "UPDATE open_trace SET fault = NULL, expires_ns = min(expires_ns, ?) WHERE open_id = ?",
        (part.expires_ns, open_id),
    )
    return open_id


def led(connection: sqlite3.Connection, project: str, clues: Sequence[bytes]) -> dict[bytes, int]:
    """Those of the clues that lead to an open trace, in their order, and to which."""
    rows: dict[bytes, int] = {}
    for start in range(0, len(clues), _WORDS_MAX):
        words = list(clues[start : start + _WORDS_MAX])
        # Few lengths for all, so that the statements stay prepared: the last word repeats.
        words += [words[-1]] * ((1 << (len(words) - 1).bit_length()) - len(words))
        rows.update(
            connection.execute(
                "SELECT word, open_id FROM clue WHERE project = ? AND word IN"  # noqa: S608 (marks)
                f" ({','.join('?' * len(words))})",
                (project, *words),
            ).fetchall()
        )
    return {word: rows[word] for word in clues if word in rows}


def remember(
    connection: sqlite3.Connection,
    noted: Noted,
    known: Mapping[bytes, int],
    now_ns: int,
) -> int:
    """Note an open trace's clues, merging those it shares them with; the id of what it is then.

    ``known`` is what ``led`` says of them.
    """
    open_id = noted.open_id
    missing = [(noted.project, word, open_id) for word in noted.clues if word not in known]
    if missing:
        connection.executemany("INSERT OR IGNORE INTO clue VALUES (?, ?, ?)", missing)
    for other in dict.fromkeys(known.values()):
        if other != open_id:
            open_id = _merge(connection, open_id, other, now_ns)
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
