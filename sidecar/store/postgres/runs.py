"""Open traces of one run become one open trace, whichever sidecars their telemetry came to.

Rules
1. Who changes an open trace holds its row's lock; rows are locked in the order of their ids. A key
   leads to the same open trace for as long as that lock is held.
2. Two open traces of a project that share a clue are one from then on: the union of what was there,
   whatever the order in which clues and parts come, and whoever brings them.
3. A merged trace is due again after a silence of its own; a publication of what it was made of
   changes nothing any more.
4. At most ``KEYS_MAX`` keys come together: what a run would need beyond stays apart.
5. A trace published as part of another is listed no more and redirects to it; its revisions stay.
   Published on its own again, it is its own again.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from sidecar.store.postgres.again import Again
from sidecar.store.postgres.connection import Connection

KEYS_MAX = 256
_CLAIM_TRIES = 5
Key = tuple[str, str]

_FIELDS = (
    *("open_id", "project", "key", "version", "published_version", "touched_ns", "dirty_ns"),
    *("expires_ns", "items", "bytes", "sealed_bytes", "lost"),
)
_LOCK_KEYS = (
    f"SELECT r.project, r.key, {', '.join('o.' + name for name in _FIELDS)}"  # noqa: S608
    " FROM run_key r JOIN open_trace o USING (open_id)"
    " WHERE (r.project, r.key) IN (SELECT * FROM unnest($1::text[], $2::text[]))"
    " ORDER BY o.open_id FOR UPDATE OF o"
)
# The trace that a key was last published in, and its newest revision: the base of what comes after.
_ADD_KEYS = (
    "INSERT INTO run_key (project, key, open_id, base_trace_id, base_revision)"
    " SELECT n.project, n.key, nextval('open_id'), coalesce(s.by_id, n.key), t.revision"
    " FROM unnest($1::text[], $2::text[]) AS n (project, key)"
    " LEFT JOIN superseded s ON s.project = n.project AND s.trace_id = n.key"
    " LEFT JOIN trace t ON t.project = n.project AND t.trace_id = coalesce(s.by_id, n.key)"
    " AND t.newest ORDER BY n.project, n.key"
    " ON CONFLICT (project, key) DO NOTHING RETURNING project, key, open_id"
)
_SAVE = (
    "UPDATE open_trace o SET version = n.version, touched_ns = n.touched_ns,"
    " dirty_ns = n.dirty_ns, items = n.items, bytes = n.bytes, sealed_bytes = n.sealed_bytes,"
    " lost = n.lost FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],"
    " $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])"
    " AS n (open_id, version, touched_ns, dirty_ns, items, bytes, sealed_bytes, lost)"
    " WHERE o.open_id = n.open_id"
)
_ADD = (
    "INSERT INTO open_trace (open_id, version, touched_ns, dirty_ns, items, bytes, sealed_bytes,"
    " lost, expires_ns, project, key) SELECT * FROM unnest($1::bigint[], $2::bigint[],"
    " $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],"
    " $9::bigint[], $10::text[], $11::text[])"
)
_CLUES = (
    "SELECT project, word, open_id FROM clue"
    " WHERE (project, word) IN (SELECT * FROM unnest($1::text[], $2::bytea[]))"
)
_ADD_CLUES = (
    "INSERT INTO clue (project, word, open_id)"
    " SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[]) ORDER BY 1, 2"
    " ON CONFLICT (project, word) DO NOTHING RETURNING project, word"
)
_MERGE = (
    "UPDATE open_trace k SET version = k.version + 1, fault = NULL, touched_ns = $3,"
    " lost = k.lost + g.lost, items = k.items + g.items, bytes = k.bytes + g.bytes,"
    " sealed_bytes = k.sealed_bytes + g.sealed_bytes, dirty_ns = least("
    "CASE WHEN k.version > k.published_version THEN k.dirty_ns ELSE $3 END,"
    " CASE WHEN g.version > g.published_version THEN g.dirty_ns ELSE $3 END),"
    " expires_ns = least(k.expires_ns, g.expires_ns)"
    " FROM open_trace g WHERE k.open_id = $1 AND g.open_id = $2"
)


class Opened(Struct, kw_only=True):
    """An open trace whose row this transaction has locked, or is about to add (``new``)."""

    open_id: int
    project: str
    key: str
    version: int = 0
    published_version: int = 0
    touched_ns: int = 0
    dirty_ns: int = 0
    expires_ns: int = 0
    items: int = 0
    bytes: int = 0
    sealed_bytes: int = 0
    lost: int = 0
    new: bool = False

    def touch(self, now_ns: int) -> None:
        """Raise the version: something came."""
        if self.version <= self.published_version:
            self.dirty_ns = now_ns
        self.version += 1
        self.touched_ns = now_ns


async def opened(connection: Connection, expires: Mapping[Key, int]) -> dict[Key, Opened]:
    """The locked open trace of each key; ``expires`` counts for those made here. Raises Again."""
    found: dict[Key, Opened] = {}
    missing = sorted(expires)
    for _ in range(_CLAIM_TRIES):
        rows = await connection.fetch(_LOCK_KEYS, *_columns(missing, 2))
        by_id = {each.open_id: each for each in found.values()}
        for project, key, *fields in map(tuple, rows):
            row = Opened(**dict(zip(_FIELDS, fields, strict=True)))
            found[project, key] = by_id.setdefault(row.open_id, row)
        missing = [key for key in missing if key not in found]
        if not missing:
            return found
        for project, key, open_id in await connection.fetch(_ADD_KEYS, *_columns(missing, 2)):
            found[project, key] = Opened(
                open_id=open_id,
                project=project,
                key=key,
                expires_ns=expires[project, key],
                new=True,
            )
        missing = [key for key in missing if key not in found]
        if not missing:
            return found
    raise Again  # the keys that another transaction adds do not stay: it is being forgotten


async def save(connection: Connection, changed: Iterable[Opened]) -> int:
    """Write what was changed of locked open traces, and add the new ones; how many are new."""
    rows = sorted(changed, key=lambda row: row.open_id)
    for statement, some, width in (
        (_ADD, [row for row in rows if row.new], len(_SAVED)),
        (_SAVE, [row for row in rows if not row.new], len(_SAVED) - 3),
    ):
        if some:
            values = [tuple(getattr(row, name) for name in _SAVED[:width]) for row in some]
            await connection.execute(statement, *_columns(values, width))
    return sum(row.new for row in rows)


_SAVED = (
    *("open_id", "version", "touched_ns", "dirty_ns", "items", "bytes", "sealed_bytes", "lost"),
    *("expires_ns", "project", "key"),
)


async def remember(
    connection: Connection, clues: Iterable[tuple[str, bytes, int]], now_ns: int
) -> int:
    """Note clues (project, word, open trace), merging open traces that share one.

    The number of traces that ceased to be of their own. Raises Again.
    """
    first: dict[tuple[str, bytes], int] = {}
    together: list[tuple[int, int]] = []
    for project, word, open_id in clues:
        other = first.setdefault((project, word), open_id)
        if other != open_id:
            together.append((open_id, other))
    if not first:
        return 0
    wanted = sorted(first)
    known = {
        (project, word): open_id
        for project, word, open_id in await connection.fetch(_CLUES, *_columns(wanted, 2))
    }
    rows = [(*clue, first[clue]) for clue in wanted if clue not in known]
    if rows:
        added = {tuple(row) for row in await connection.fetch(_ADD_CLUES, *_columns(rows, 3))}
        lost = [row[:2] for row in rows if row[:2] not in added]
        if lost:  # another transaction was faster and has committed meanwhile
            for project, word, open_id in await connection.fetch(_CLUES, *_columns(lost, 2)):
                known[project, word] = open_id
    together += [(first[clue], open_id) for clue, open_id in known.items()]
    return await _merge_all(connection, together, now_ns)


async def _merge_all(
    connection: Connection, together: Sequence[tuple[int, int]], now_ns: int
) -> int:
    moved: dict[int, int] = {}

    def now_in(open_id: int) -> int:
        while open_id in moved:
            open_id = moved[open_id]
        return open_id

    for left, right in together:
        kept, gone = sorted((now_in(left), now_in(right)))
        if kept != gone and await _merge(connection, kept, gone, now_ns):
            moved[gone] = kept
    return len(moved)


async def _merge(connection: Connection, kept: int, gone: int, now_ns: int) -> bool:
    rows = await connection.fetch(
        "SELECT open_id FROM open_trace WHERE open_id IN ($1, $2) ORDER BY open_id FOR UPDATE",
        *(kept, gone),
    )
    if len(rows) < 2:
        raise Again  # the other was merged or forgotten while this transaction waited for it
    keys = await connection.fetchval(
        "SELECT count(*) FROM run_key WHERE open_id IN ($1, $2)", kept, gone
    )
    if keys > KEYS_MAX:
        return False
    for table in ("part", "run_key", "clue"):
        await connection.execute(
            f"UPDATE {table} SET open_id = $1 WHERE open_id = $2",  # noqa: S608 (fixed names)
            *(kept, gone),
        )
    await connection.execute(
        "INSERT INTO export_sent AS s SELECT $1, digests FROM export_sent WHERE open_id = $2"
        " ON CONFLICT (open_id) DO UPDATE SET digests = s.digests || excluded.digests",
        *(kept, gone),
    )
    await connection.execute("DELETE FROM export_sent WHERE open_id = $1", gone)
    await connection.execute(_MERGE, kept, gone, now_ns)
    await connection.execute("DELETE FROM open_trace WHERE open_id = $1", gone)
    return True


async def sessions_of(connection: Connection, open_ids: Sequence[int]) -> dict[int, list[Key]]:
    """The keys of open traces that are no trace ids."""
    rows = await connection.fetch(
        "SELECT open_id, project, key FROM run_key"
        " WHERE open_id = ANY ($1::bigint[]) AND key LIKE 'log:%'",
        open_ids,
    )
    found: dict[int, list[Key]] = {}
    for open_id, project, key in rows:
        found.setdefault(open_id, []).append((project, key))
    return found


async def redirect(connection: Connection, rows: Sequence[tuple[str, str, str]]) -> None:
    """Let ids of projects lead to the trace they are published in (project, id, by id)."""
    if rows:
        last = {(project, trace_id): by_id for project, trace_id, by_id in rows}
        values = [(*key, by_id) for key, by_id in sorted(last.items())]
        await connection.execute(
            "INSERT INTO superseded SELECT * FROM unnest($1::text[], $2::text[], $3::text[])"
            " ON CONFLICT (project, trace_id) DO UPDATE SET by_id = excluded.by_id",
            *_columns(values, 3),
        )


async def forget(connection: Connection, open_ids: Sequence[int]) -> None:
    """Forget open traces whole, whose rows are locked: parts, keys, clues and what was sent."""
    if open_ids:
        for table in ("part", "run_key", "clue", "export_sent", "open_trace"):
            await connection.execute(
                f"DELETE FROM {table} WHERE open_id = ANY ($1::bigint[])",  # noqa: S608 (fixed names)
                open_ids,
            )


def _columns(rows: Sequence[Sequence[object]], width: int) -> list[list[object]]:
    return [[row[place] for row in rows] for place in range(width)]
