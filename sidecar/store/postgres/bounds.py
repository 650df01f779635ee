"""What keeps the traces on Postgres within their bounds: room in a trace, and room for all.

Rules
1. Telemetry for which its trace has no room is counted in the trace and in ``dropped``; a receipt
   always has room.
2. Telemetry of published traces goes when it expires, or sooner, the oldest first, where all of it
   together is too much; what is not published yet stays.
3. What is counted is counted under the pipeline that counts it: the sum is true for the store, and
   no two pipelines wait for one row.
"""

from collections.abc import Mapping

from sidecar.store.postgres.again import lead
from sidecar.store.postgres.connection import Connection
from sidecar.store.postgres.runs import Opened, forget
from sidecar.store.traces import Bounds, Expiry, Part

_EXPIRED = (
    "SELECT open_id, sealed_bytes FROM open_trace WHERE expires_ns <= $1"
    " AND version = published_version ORDER BY expires_ns LIMIT $2 FOR UPDATE SKIP LOCKED"
)
_OLDEST = (
    "SELECT open_id, sealed_bytes FROM open_trace WHERE version = published_version"
    " ORDER BY expires_ns LIMIT $1 FOR UPDATE SKIP LOCKED"
)
_HELD = "SELECT coalesce(sum(bytes), 0)::bigint, coalesce(sum(traces), 0)::bigint FROM held"


def admitted(row: Opened, part: Part, bounds: Bounds, now_ns: int) -> bool:
    """Whether there is room for a part in its trace; where there is none, that is noted in it."""
    if part.kind != "telemetry" or not row.version:
        return True
    size = row.bytes + len(part.payload)
    if row.items + part.items <= bounds.trace_items_max and size <= bounds.trace_bytes_max:
        return True
    if not row.lost:  # the first loss is news, of which a revision tells; the thousandth is not
        row.touch(now_ns)
    elif row.version <= row.published_version:
        row.dirty_ns = now_ns
    row.lost += part.items
    return False


async def tally(connection: Connection, source: str, dropped: Mapping[str, int]) -> None:
    """Add to what was dropped, by reason."""
    rows = sorted((reason, items) for reason, items in dropped.items() if items)
    if rows:
        await connection.execute(
            "INSERT INTO dropped AS d (source, reason, items)"
            " SELECT $1, * FROM unnest($2::text[], $3::bigint[])"
            " ON CONFLICT (source, reason) DO UPDATE SET items = d.items + excluded.items",
            *(source, [row[0] for row in rows], [row[1] for row in rows]),
        )


async def hold(connection: Connection, source: str, size: int, traces: int) -> None:
    """Add to the bytes and traces that are held; what goes is negative."""
    if size or traces:
        await connection.execute(
            "INSERT INTO held AS h VALUES ($1, $2, $3) ON CONFLICT (source)"
            " DO UPDATE SET bytes = h.bytes + excluded.bytes, traces = h.traces + excluded.traces",
            *(source, size, traces),
        )


async def expire(connection: Connection, source: str, expiry: Expiry) -> int:
    """Forget the telemetry of some published traces; how many. 0 where another keeps house."""
    if not await lead(connection):
        return 0
    gone = [tuple(row) for row in await connection.fetch(_EXPIRED, expiry.now_ns, expiry.limit)]
    await let_go(connection, source, gone)
    if len(gone) < expiry.limit:
        gone += await _make_room(connection, source, expiry)
    return len(gone)


async def let_go(connection: Connection, source: str, gone: list[tuple[int, int]]) -> None:
    """Forget locked open traces, each with the bytes that it held."""
    await forget(connection, [open_id for open_id, _ in gone])
    await hold(connection, source, -sum(size for _, size in gone), -len(gone))


async def _make_room(connection: Connection, source: str, expiry: Expiry) -> list[tuple[int, int]]:
    bounds = expiry.bounds
    size, traces = await connection.fetchrow(_HELD) or (0, 0)
    if size <= bounds.held_bytes_max and traces <= bounds.open_traces_max:
        return []
    gone: list[tuple[int, int]] = []
    for open_id, held in await connection.fetch(_OLDEST, expiry.limit):
        if size <= bounds.held_bytes_max and traces <= bounds.open_traces_max:
            break
        gone.append((open_id, held))
        size, traces = size - held, traces - 1
    await let_go(connection, source, gone)
    await tally(connection, source, {"content_over_limit": len(gone)})
    return gone
