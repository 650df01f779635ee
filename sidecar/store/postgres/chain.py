"""The audit chain on Postgres: one appender at a time, whatever number of sidecars write.

**Rules**
1. Who writes the ledger locks the head's row first (``turn``); until the end of that transaction
   nobody else can. All writes that depend on each other are therefore one after another.
2. An entry is appended in the transaction of what it records: neither exists without the other.
3. The head is signed once a transaction, as its last statement; nothing is appended without a
   signer, and nothing that a revoked key signed.
4. The next entry follows the head, not the last row: a row taken away leaves a gap that shows.
"""

from collections.abc import Collection
from typing import Any

import msgspec

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
from sidecar.store.postgres.connection import Connection
from sidecar.store.reading import APPROVAL_KINDS, LOOKED_BACK

_ENTRY = "seq, at_ns, project, kind, body, prev, hash"
_HEAD = "head.seq, head.hash, head.signed_at_ns, head.kid, head.signature"
INSERT = f"INSERT INTO audit ({_ENTRY}) VALUES ($1, $2, $3, $4, $5, $6, $7)"  # noqa: S608
LOCK = (
    "SELECT seq, hash, EXISTS (SELECT FROM key_change) AS keys,"
    " ARRAY(SELECT kid FROM signing_key WHERE revoked_at_ns IS NOT NULL) AS revoked"
    " FROM audit_head WHERE id = 1 FOR UPDATE"
)


class Turn:
    """One transaction's turn to write: its connection, and the end of the chain so far."""

    def __init__(
        self,
        connection: Connection,
        seq: int,
        hash_: str,
        signer: Signer | None,
        revoked: Collection[str] = (),
    ) -> None:
        self.connection = connection
        self._revoked = revoked
        self.place = (seq, hash_)
        self._opened = self.place
        self._signer = signer
        self._at_ns = 0

    @property
    def signer(self) -> Signer:
        """The key that signs this turn. Raises StoreUnavailable."""
        if self._signer is None:
            raise StoreUnavailable("the ledger has no signing key yet")
        if self._signer.kid in self._revoked:
            raise StoreUnavailable("the ledger's signing key is revoked")
        return self._signer

    def entry(
        self, *, at_ns: int, project: str, kind: str, body: str, kid: str | None = None
    ) -> AuditEntry:
        """The next entry, which the caller inserts (``INSERT``) with the next statement.

        ``body`` is the RFC 8785 text of an object, ``kid`` the key that signed what is in it.
        """
        assert self.signer  # or nothing can be appended
        if kid in self._revoked:
            raise StoreUnavailable("the key that signed this is revoked")
        seq, prev = self.place[0] + 1, self.place[1]
        hash_ = entry_hash(prev, seq=seq, at_ns=at_ns, project=project, kind=kind, body=body)
        self.place, self._at_ns = (seq, hash_), at_ns
        return AuditEntry(
            seq=seq, at_ns=at_ns, project=project, kind=kind, body=body, prev=prev, hash=hash_
        )

    async def append(self, *, at_ns: int, project: str, kind: str, body: str) -> None:
        """Insert the next entry."""
        entry = self.entry(at_ns=at_ns, project=project, kind=kind, body=body)
        await self.connection.execute(INSERT, *values(entry))

    def sign(self, data: bytes) -> tuple[str, bytes]:
        """Sign a document of the gateway's: by which key, and the signature."""
        if self._signer is None:
            raise StoreUnavailable("the ledger has no signing key yet")
        return self._signer.kid, self._signer.sign(data)

    async def checkpoint(self, now_ns: int) -> Checkpoint | None:
        """Sign the end of the chain once more, to be kept elsewhere; None if it has not moved."""
        signer, (seq, hash_) = self.signer, self.place
        signature = signer.sign(checkpoint_document(seq, hash_, now_ns))
        made = Checkpoint(seq=seq, hash=hash_, at_ns=now_ns, kid=signer.kid, signature=signature)
        done = await self.connection.execute(
            "INSERT INTO audit_checkpoint (seq, hash, at_ns, kid, signature)"
            " SELECT $1::bigint, $2, $3::bigint, $4, $5::bytea WHERE $1::bigint > 0"
            " ON CONFLICT DO NOTHING",
            *msgspec.structs.astuple(made),
        )
        return None if done.endswith(" 0") else made

    async def note_keys(self, at_ns: int) -> None:
        """Put what was done to keys into the chain, before anything else of this turn."""
        rows = await self.connection.fetch(
            "SELECT change_id, what, project, key_id, kind FROM key_change"
            " ORDER BY change_id FOR UPDATE SKIP LOCKED"
        )
        for row in rows:
            body = canonical({"key_id": row["key_id"], "kind": row["kind"]}).decode()
            await self.append(at_ns=at_ns, project=row["project"], kind=row["what"], body=body)
        changes = [row["change_id"] for row in rows]
        await self.connection.execute("DELETE FROM key_change WHERE change_id = ANY($1)", changes)

    async def sign_head(self) -> None:
        """Sign the end of the chain if it moved in this transaction."""
        if self.place == self._opened:
            return
        assert self._signer is not None
        seq, hash_ = self.place
        signature = self._signer.sign(head_document(seq, hash_, self._at_ns))
        await self.connection.execute(
            "UPDATE audit_head SET seq = $1, hash = $2, signed_at_ns = $3, kid = $4,"
            " signature = $5 WHERE id = 1",
            *(seq, hash_, self._at_ns, self._signer.kid, signature),
        )


def values(entry: AuditEntry) -> tuple[object, ...]:
    """An entry as the values of ``INSERT``."""
    return msgspec.structs.astuple(entry)


async def take_turn(connection: Connection, signer: Signer | None, now_ns: int) -> Turn:
    """Wait for the turn; the transaction's end gives it on."""
    row = await connection.fetchrow(LOCK)
    assert row is not None, "the head's row is made with its table"
    turn = Turn(connection, row["seq"], row["hash"], signer, row["revoked"])
    if row["keys"] and signer is not None and signer.kid not in row["revoked"]:
        await turn.note_keys(now_ns)
    return turn


async def read_checkpoints(connection: Connection, after: int, limit: int) -> list[Checkpoint]:
    """Checkpoints of places that follow ``after``, in order."""
    rows = await connection.fetch(
        "SELECT seq, hash, at_ns, kid, signature FROM audit_checkpoint WHERE seq > $1"
        " ORDER BY seq LIMIT $2",
        *(after, limit),
    )
    return [Checkpoint(**dict(row)) for row in rows]


async def latest(connection: Connection) -> int:
    """The latest moment that the newest entries tell; 0 for an empty chain.

    What was done to keys does not count: it is put into the chain at another moment than it was
    done.
    """
    found: int = await connection.fetchval(
        "SELECT coalesce(max(at_ns), 0) FROM"
        " (SELECT at_ns, kind FROM audit ORDER BY seq DESC LIMIT $1) newest"
        " WHERE kind NOT LIKE '%key_%'",
        LOOKED_BACK,
    )
    return found


async def read_entries(connection: Connection, after: int, limit: int) -> list[AuditEntry]:
    """Entries that follow ``after``, in order."""
    rows = await connection.fetch(
        f"SELECT {_ENTRY} FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2",  # noqa: S608
        *(after, limit),
    )
    return [AuditEntry(**dict(row)) for row in rows]


async def read_approvals(connection: Connection, after: int, limit: int) -> list[AuditEntry]:
    """Entries about approvals that follow ``after``, in order."""
    rows = await connection.fetch(
        f"SELECT {_ENTRY} FROM audit WHERE kind IN {APPROVAL_KINDS!r}"  # noqa: S608
        " AND seq > $1 ORDER BY seq LIMIT $2",
        *(after, limit),
    )
    return [AuditEntry(**dict(row)) for row in rows]


async def read_head(connection: Connection) -> AuditHead | None:
    """The signed head, None for a chain never written."""
    row = await connection.fetchrow(f"SELECT {_HEAD} FROM audit_head head WHERE id = 1")  # noqa: S608
    return _head(row) if row else None


async def read_end(connection: Connection) -> tuple[int, str, AuditHead | None]:
    """Place and hash of the last entry, and the head, as one statement saw them."""
    row = await connection.fetchrow(
        f"SELECT coalesce(entry.seq, 0) AS last_seq, coalesce(entry.hash, $1) AS last_hash, {_HEAD}"  # noqa: S608
        " FROM (SELECT 1) one LEFT JOIN"
        " (SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1) entry ON true"
        " LEFT JOIN audit_head head ON head.id = 1",
        GENESIS,
    )
    assert row is not None, "the query always has one row"
    return row["last_seq"], row["last_hash"], _head(row) if row["seq"] is not None else None


def _head(row: Any) -> AuditHead | None:
    if row["seq"] == 0:
        return None
    return AuditHead(**{name: row[name] for name in AuditHead.__struct_fields__})
