"""Adding revisions: numbered without a gap, once each, whoever publishes at the same moment.

Rules
1. Everything here happens ``in_order``: nobody else adds a revision meanwhile.
2. A revision is added when its content differs from that of the trace's newest one.
3. Of a trace exactly one revision is the newest, unless it is published as part of another.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import zstandard

from processors.model.trace import AgentTrace
from sidecar.store.postgres.connection import Connection
from sidecar.store.postgres.runs import redirect
from sidecar.store.postgres.text import kept
from sidecar.store.traces import Digests, encode_trace, summarise

Wanted = tuple[AgentTrace, Digests, int]
_LAST = (
    "SELECT t.row_id, t.project, t.trace_id, t.revision, t.content_digest"
    " FROM unnest($1::text[], $2::text[]) AS n (project, trace_id), LATERAL ("
    "SELECT * FROM trace WHERE trace.trace_id = n.trace_id AND trace.project = n.project"
    " ORDER BY revision DESC LIMIT 1) AS t"
)
_HIDE = (
    "UPDATE trace t SET newest = false FROM unnest($1::text[], $2::text[]) AS n (project, trace_id)"
    " WHERE t.project = n.project AND t.trace_id = n.trace_id AND t.newest"
)
_SHOW = "UPDATE trace SET newest = true WHERE row_id = ANY ($1::bigint[]) AND NOT newest"
_FREE = (
    "DELETE FROM superseded WHERE (project, trace_id) IN"
    " (SELECT * FROM unnest($1::text[], $2::text[]))"
)
_ADD = (
    "INSERT INTO trace (project, trace_id, revision, newest, service, service_version, started_ns,"
    " ended_ns, steps, completeness, outcome, contradictions, published_ns, facts_digest,"
    " content_digest) SELECT project, trace_id, revision, true, service, service_version,"
    " started_ns, ended_ns, steps, completeness, outcome, contradictions, published_ns,"
    " facts_digest, content_digest FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[],"
    " $5::text[], $6::bigint[], $7::bigint[], $8::integer[], $9::text[], $10::text[], $11::text[],"
    " $12::bigint[], $13::text[], $14::text[]) WITH ORDINALITY AS n (project, trace_id, revision,"
    " service, service_version, started_ns, ended_ns, steps, completeness, outcome,"
    " contradictions, published_ns, facts_digest, content_digest, place) ORDER BY place"
    " RETURNING row_id, project, trace_id"
)
_ADD_CONTENT = (
    "INSERT INTO trace_content (row_id, project, published_ns, content)"
    " SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bytea[])"
)


async def revise(connection: Connection, wanted: Sequence[Wanted]) -> dict[tuple[str, str], int]:
    """Add the revisions that say something new; how many by (project, trace id)."""
    revised: dict[tuple[str, str], int] = {}
    for some in _apart(wanted):
        for key in await _revise(connection, some):
            revised[key] = revised.get(key, 0) + 1
    return revised


async def _revise(connection: Connection, wanted: Sequence[Wanted]) -> list[tuple[str, str]]:
    keys = [(trace.project, trace.trace_id) for trace, _, _ in wanted]
    columns = [project for project, _ in keys], [trace_id for _, trace_id in keys]
    await connection.execute(_FREE, *columns)
    others = [
        (trace.project, other, trace.trace_id)
        for trace, _, _ in wanted
        for other in trace.trace_ids
        if other != trace.trace_id
    ]
    await redirect(connection, others)
    last = {(row[1], row[2]): row for row in await connection.fetch(_LAST, *columns)}
    same, new = [], []
    for trace, digests, now_ns in wanted:
        before = last.get((trace.project, trace.trace_id))
        if before is not None and before[4] == digests.content:
            same.append(before[0])
        else:
            new.append((trace, digests, now_ns, before[3] + 1 if before is not None else 1))
    hidden = [(project, other) for project, other, _ in others]
    hidden += [(each[0].project, each[0].trace_id) for each in new if each[3] > 1]
    if hidden:
        await connection.execute(_HIDE, [each[0] for each in hidden], [each[1] for each in hidden])
    if same:
        await connection.execute(_SHOW, same)
    if new:
        await _add(connection, new)
    return [(trace.project, trace.trace_id) for trace, _, _, _ in new]


async def _add(connection: Connection, new: Sequence[tuple[AgentTrace, Digests, int, int]]) -> None:
    compress = zstandard.ZstdCompressor(level=1).compress
    contents = [compress(encode_trace(trace, revision)) for trace, _, _, revision in new]
    rows = [_row(*each) for each in new]
    added = await connection.fetch(_ADD, *map(list, zip(*rows, strict=True)))
    row_ids = {(row[1], row[2]): row[0] for row in added}
    await connection.execute(
        _ADD_CONTENT,
        [row_ids[trace.project, trace.trace_id] for trace, _, _, _ in new],
        [trace.project for trace, _, _, _ in new],
        [now_ns for _, _, now_ns, _ in new],
        contents,
    )


def _row(trace: AgentTrace, digests: Digests, now_ns: int, revision: int) -> tuple[Any, ...]:
    line = summarise(trace, revision=revision, published_ns=now_ns)
    return (
        *(line.project, line.trace_id, revision, _kept(line.service), _kept(line.version)),
        *(line.started_ns, line.ended_ns, line.steps, line.completeness, line.outcome),
        *(",".join(line.contradictions), now_ns, digests.facts, digests.content),
    )


def _kept(text: str | None) -> str | None:
    return None if text is None else kept(text)


def _apart(wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    """The traces in order, in runs of which none names an id that another of its run names."""
    some: list[Wanted] = []
    seen: set[tuple[str, str]] = set()
    for each in wanted:
        ids = {(each[0].project, name) for name in (each[0].trace_id, *each[0].trace_ids)}
        if ids & seen:
            yield some
            some, seen = [], set()
        some.append(each)
        seen |= ids
    if some:
        yield some
