"""The audit chain in ledger.db: append inside the caller's transaction, one signed head a commit.

**Rules**
1. An entry is appended in the transaction of what it records: neither exists without the other.
2. The previous hash is read in that transaction, so two processes on one file make one chain.
3. The head is signed once a commit, as its last statement; nothing is appended without a signer,
   and nothing that a revoked key signed.
"""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from sidecar.canonical import canonical
from sidecar.errors import StoreUnavailable
from sidecar.store.ledger import (
    GENESIS,
    AuditEntry,
    AuditHead,
    Checkpoint,
    Signer,
    checkpoint_document,
    entry_hash,
    head_document,
)
from sidecar.store.reading import APPROVAL_KINDS, LOOKED_BACK
from sidecar.store.sqlite import vault

_ENTRY = "seq, at_ns, project, kind, body, prev, hash"
_BEGIN = (
    "SELECT coalesce(entry.seq, 0), coalesce(entry.hash, ?), EXISTS (SELECT 1 FROM key_change),"
    " EXISTS (SELECT 1 FROM signing_key WHERE revoked_at_ns IS NOT NULL)"
    " FROM (SELECT 1) LEFT JOIN (SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1) entry"
)
"""All that is asked once a commit in one statement: each costs a turn of the interpreter."""
_HEAD = "head.seq, head.hash, head.signed_at_ns, head.kid, head.signature"

Entry = tuple[int, int, str, str, str, str, str]
"""The values of ``_ENTRY``."""
Write = Callable[[sqlite3.Connection, Entry], None]


class Chain:
    """Appends entries on the writer's connection; ``sign_head`` runs before each commit."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._signer: Signer | None = None
        self._last_ns: int | None = None
        self._end: tuple[int, str] | None = None
        self._noted = False
        self._revoked: frozenset[str] = frozenset()

    def use_signer(self, signer: Signer) -> None:
        """Sign heads with this key from now on."""
        self._signer = signer

    def append(
        self,
        connection: sqlite3.Connection,
        *,
        at_ns: int,
        project: str,
        kind: str,
        body: str,
        kid: str | None = None,
        write: "Write | None" = None,
    ) -> int:
        """The new entry's place. ``body`` is the RFC 8785 text of an object, ``kid`` the key that
        signed what is in it; ``write`` puts the entry in with what belongs to it."""
        self._begin(connection, at_ns)
        if kid in self._revoked:
            raise StoreUnavailable("the key that signed this is revoked", where=self._path)
        return self._add(
            connection, at_ns=at_ns, project=project, kind=kind, body=body, write=write
        )

    def sign(self, data: bytes) -> tuple[str, bytes]:
        """Sign a document of the gateway's: by which key, and the signature."""
        if self._signer is None:
            raise StoreUnavailable("the ledger has no signing key yet", where=self._path)
        return self._signer.kid, self._signer.sign(data)

    def checkpoint(self, connection: sqlite3.Connection, now_ns: int) -> Checkpoint | None:
        """Sign the end of the chain once more, to be kept elsewhere; None if it has not moved."""
        signer = self._begin(connection, now_ns)
        seq, hash_ = last(connection)
        signature = signer.sign(checkpoint_document(seq, hash_, now_ns))
        made = Checkpoint(seq=seq, hash=hash_, at_ns=now_ns, kid=signer.kid, signature=signature)
        cursor = connection.execute(
            "INSERT INTO audit_checkpoint (seq, hash, at_ns, kid, signature)"
            " SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?1 > 0 ON CONFLICT DO NOTHING",
            (made.seq, made.hash, made.at_ns, made.kid, made.signature),
        )
        return made if cursor.rowcount > 0 else None

    def look_again(self) -> None:
        """What was read of keys and of the chain's end in this transaction, or noted there, is not
        so any more."""
        self._end = None
        self._noted = False

    def _begin(self, connection: sqlite3.Connection, at_ns: int) -> Signer:
        """The key that signs this commit. What was done to keys goes into the chain before anything
        else, and which are revoked is read, both once a commit."""
        signer = self._signer
        if signer is None:
            raise StoreUnavailable("the ledger has no signing key yet", where=self._path)
        if not self._noted:
            self._noted = True
            seq, hash_, changed, some_revoked = connection.execute(_BEGIN, (GENESIS,)).fetchone()
            self._end = (seq, hash_)
            self._revoked = vault.revoked(connection) if some_revoked else frozenset()
            if changed and signer.kid not in self._revoked:
                self._note_keys(connection, at_ns)
        if signer.kid in self._revoked:
            raise StoreUnavailable("the ledger's signing key is revoked", where=self._path)
        return signer

    def _note_keys(self, connection: sqlite3.Connection, at_ns: int) -> None:
        rows = connection.execute(
            "SELECT change_id, what, project, key_id, kind FROM key_change ORDER BY change_id"
        ).fetchall()
        for _, what, project, key_id, kind in rows:
            body = canonical({"key_id": key_id, "kind": kind}).decode()
            self._add(connection, at_ns=at_ns, project=project, kind=what, body=body)
        if rows:
            connection.execute("DELETE FROM key_change WHERE change_id <= ?", (rows[-1][0],))

    def _add(
        self,
        connection: sqlite3.Connection,
        *,
        at_ns: int,
        project: str,
        kind: str,
        body: str,
        write: "Write | None" = None,
    ) -> int:
        last_seq, prev = self._end or last(connection)
        seq = last_seq + 1
        hash_ = entry_hash(prev, seq=seq, at_ns=at_ns, project=project, kind=kind, body=body)
        (write or _insert)(connection, (seq, at_ns, project, kind, body, prev, hash_))
        self._last_ns = at_ns
        self._end = (seq, hash_)
        return seq

    def sign_head(self, connection: sqlite3.Connection) -> None:
        """Sign the end of the chain if it moved in this transaction."""
        signer = self._signer
        if self._last_ns is None or signer is None:
            return
        at_ns, self._last_ns = self._last_ns, None
        seq, hash_ = self._end or last(connection)  # an undone job left nothing behind
        signature = signer.sign(head_document(seq, hash_, at_ns))
        connection.execute(
            "INSERT OR REPLACE INTO audit_head (id, seq, hash, signed_at_ns, kid, signature)"
            " VALUES (1, ?, ?, ?, ?, ?)",
            (seq, hash_, at_ns, signer.kid, signature),
        )


def _insert(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.execute(f"INSERT INTO audit ({_ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?)", entry)  # noqa: S608


def read_checkpoints(connection: sqlite3.Connection, after: int, limit: int) -> list[Checkpoint]:
    """Checkpoints of places that follow ``after``, in order."""
    rows = connection.execute(
        "SELECT seq, hash, at_ns, kid, signature FROM audit_checkpoint WHERE seq > ?"
        " ORDER BY seq LIMIT ?",
        (after, limit),
    )
    names = Checkpoint.__struct_fields__
    return [Checkpoint(**dict(zip(names, row, strict=True))) for row in rows]


def last(connection: sqlite3.Connection) -> tuple[int, str]:
    """Place and hash of the last entry; 0 and the genesis hash for an empty chain."""
    row = connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return (int(row[0]), str(row[1])) if row else (0, GENESIS)


def latest(connection: sqlite3.Connection) -> int:
    """The latest moment that the newest entries tell; 0 for an empty chain.

    What was done to keys does not count: it is put into the chain at another moment than it was
    done.
    """
    (found,) = connection.execute(
        "SELECT coalesce(max(at_ns), 0) FROM (SELECT at_ns FROM audit ORDER BY seq DESC LIMIT ?)",
        (LOOKED_BACK,),
    ).fetchone()
    return int(found)


def read_entries(connection: sqlite3.Connection, after: int, limit: int) -> list[AuditEntry]:
    """Entries that follow ``after``, in order."""
    rows = connection.execute(
        f"SELECT {_ENTRY} FROM audit WHERE seq > ? ORDER BY seq LIMIT ?",  # noqa: S608
        (after, limit),
    )
    return _entries(rows)


def read_approvals(connection: sqlite3.Connection, after: int, limit: int) -> list[AuditEntry]:
    """Entries about approvals that follow ``after``, in order."""
    rows = connection.execute(
        f"SELECT {_ENTRY} FROM audit WHERE kind IN {APPROVAL_KINDS!r}"  # noqa: S608
        " AND seq > ? ORDER BY seq LIMIT ?",
        (after, limit),
    )
    return _entries(rows)


def _entries(rows: Iterable[tuple[Any, ...]]) -> list[AuditEntry]:
    return [
        AuditEntry(seq=r[0], at_ns=r[1], project=r[2], kind=r[3], body=r[4], prev=r[5], hash=r[6])
        for r in rows
    ]


def read_head(connection: sqlite3.Connection) -> AuditHead | None:
    """The signed head, None for a chain never written."""
    row = connection.execute(f"SELECT {_HEAD} FROM audit_head head WHERE id = 1").fetchone()  # noqa: S608
    return _head(row) if row else None


def read_end(connection: sqlite3.Connection) -> tuple[int, str, AuditHead | None]:
    """Place and hash of the last entry, and the head, as one statement saw them."""
    row = connection.execute(
        f"SELECT coalesce(entry.seq, 0), coalesce(entry.hash, ?), {_HEAD}"  # noqa: S608
        " FROM (SELECT 1) LEFT JOIN"
        " (SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1) entry ON true"
        " LEFT JOIN audit_head head ON true",
        (GENESIS,),
    ).fetchone()
    return row[0], row[1], _head(row[2:]) if row[2] is not None else None


def _head(row: tuple[Any, ...]) -> AuditHead:
    return AuditHead(seq=row[0], hash=row[1], signed_at_ns=row[2], kid=row[3], signature=row[4])
