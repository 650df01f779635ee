"""States of the approval pages in ledger.db."""

import sqlite3

from sidecar.store.pages import PageRow

_COLUMNS = "digest, kind, owner, sealed, used_at_ns, expires_at_ns"


def keep(connection: sqlite3.Connection, row: tuple[object, ...], now_ns: int, most: int) -> None:
    """Add a state; those that ran out go, and the least lately used of its kind beyond ``most``."""
    connection.execute("DELETE FROM page_state WHERE expires_at_ns <= ?", (now_ns,))
    connection.execute(
        f"INSERT INTO page_state ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608
        row,
    )
    connection.execute(
        "DELETE FROM page_state WHERE digest IN (SELECT digest FROM page_state WHERE kind = ?"
        " ORDER BY used_at_ns DESC, rowid DESC LIMIT -1 OFFSET ?)",
        (row[1], most),
    )


def find(connection: sqlite3.Connection, kind: str, digest: str, now_ns: int) -> PageRow | None:
    """A state that has not run out."""
    row: PageRow | None = connection.execute(
        "SELECT owner, sealed, used_at_ns, expires_at_ns FROM page_state"
        " WHERE digest = ? AND kind = ? AND expires_at_ns > ?",
        (digest, kind, now_ns),
    ).fetchone()
    return row


def use(connection: sqlite3.Connection, digest: str, now_ns: int, expires_at_ns: int) -> None:
    """Note that a state is used; it runs out later, never one that is gone."""
    connection.execute(
        "UPDATE page_state SET used_at_ns = ?1, expires_at_ns = ?2"
        " WHERE digest = ?3 AND expires_at_ns > ?1",
        (now_ns, expires_at_ns, digest),
    )


def take(connection: sqlite3.Connection, kind: str, digest: str, now_ns: int) -> PageRow | None:
    """A state that has not run out, which is gone from then on."""
    row: PageRow | None = connection.execute(
        "DELETE FROM page_state WHERE digest = ? AND kind = ?"
        " RETURNING owner, sealed, used_at_ns, expires_at_ns",
        (digest, kind),
    ).fetchone()
    return row if row is not None and row[3] > now_ns else None


def drop(connection: sqlite3.Connection, digest: str, owner: str) -> None:
    """Drop a state, and all of an owner where one is named."""
    connection.execute(
        "DELETE FROM page_state WHERE digest = ?1 OR (?2 != '' AND owner = ?2)", (digest, owner)
    )
