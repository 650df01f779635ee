"""What traces.db holds: parts of open traces, cursors, and published traces with their revisions.

Rules
1. A part is telemetry (or a receipt) of one trace, as it was taken in; it is kept sealed. The
   parts of a trace expire together, counted from the first.
2. ``version`` of an open trace grows with each part; it is due while ``version`` is not published.
3. A published trace has passed redaction. A revision is added only when the content changed.
4. A cursor moves in the transaction that stores what lies before it.
5. Open traces that may be one run are one open trace; a run is published under the trace id of its
   earliest start, and its other ids redirect there.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from processors.model.names import Completeness, OutcomeStatus
from processors.model.trace import AgentTrace
from sidecar.store.codec import Codec
from sidecar.store.outbox import Outgoing

PartKind = Literal["telemetry", "receipt"]


class CursorMoved(Exception):
    """Another process has taken these records in already; read the cursor again."""


class CursorMove(Struct, frozen=True, kw_only=True):
    """A cursor's step from the position that was read to the one now reached."""

    name: str
    before: int
    after: int


class Part(Struct, frozen=True, kw_only=True):
    """One piece of an open trace. ``key`` is the trace id, or names a log-only source.

    ``expires_ns`` counts for the trace's first part only. Open traces of one project that share a
    word of ``clues`` (digests) are put together.
    """

    project: str
    key: str
    kind: PartKind
    payload: bytes
    expires_ns: int
    clues: tuple[bytes, ...] = ()
    items: int = 1


class Quarantined(Struct, frozen=True, kw_only=True):
    """A journal record that could not be taken in; ``sealed`` is the row as it stood."""

    source: str
    seq: int
    project: str
    reason: str
    payload: bytes


class Bounds(Struct, frozen=True, kw_only=True):
    """How much is kept at once: of one open trace, and of all telemetry from which traces come.

    An item is a span or a log record; the bytes of a trace are unpacked, those held are
    as they lie on the disk.
    """

    trace_items_max: int = 20_000
    trace_bytes_max: int = 32 * 1024**2
    held_bytes_max: int = 8 * 1024**3
    open_traces_max: int = 2_000_000

    def over(self, items: int, size: int) -> int:
        """How many of a trace's items are not looked at; where bytes decide, at least one is."""
        return max(0, items - self.trace_items_max, int(size > self.trace_bytes_max))


class Expiry(Struct, frozen=True, kw_only=True):
    """Which telemetry to forget: of up to ``limit`` published traces."""

    now_ns: int
    limit: int
    bounds: Bounds = Bounds()


class Retention(Struct, frozen=True, kw_only=True):
    """Which published revisions to delete: up to ``limit`` of those older than their project keeps;
    and of how many items of datasets, made from runs, what they say.

    Ages are in nanoseconds, by project; None keeps them for ever.
    """

    now_ns: int
    limit: int
    ages_ns: Mapping[str, int | None] = {}
    otherwise_ns: int | None = None
    items_ages_ns: Mapping[str, int | None] = {}
    items_otherwise_ns: int | None = None

    def before_ns(self, project: str) -> int | None:
        """Revisions published before this moment go."""
        age_ns = self.ages_ns.get(project, self.otherwise_ns)
        return None if age_ns is None else self.now_ns - age_ns

    def items_before_ns(self, project: str) -> int | None:
        """What items say that were added before this moment goes."""
        age_ns = self.items_ages_ns.get(project, self.items_otherwise_ns)
        return None if age_ns is None else self.now_ns - age_ns


class Intake(Struct, frozen=True, kw_only=True):
    """All that one cursor step stores, in one transaction; ``exports`` is only passed on.

    ``dropped``: items that were left out, by reason.
    """

    move: CursorMove
    parts: tuple[Part, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    exports: tuple[Outgoing, ...] = ()
    dropped: Mapping[str, int] = {}
    now_ns: int


class Due(Struct, frozen=True, kw_only=True):
    """Which open traces to publish: silent for ``idle_ns``, or unpublished for ``open_max_ns``."""

    now_ns: int
    idle_ns: int
    open_max_ns: int
    limit: int


class OpenTrace(Struct, frozen=True, kw_only=True):
    """An open trace that is due; ``key`` is its first.

    ``bases`` are the published traces, each with its revision, whose own parts have expired;
    ``lost``: items for which it had no room, 0 where it has all of them.
    """

    open_id: int
    project: str
    key: str
    version: int
    touched_ns: int
    bases: tuple[tuple[str, int], ...] = ()
    lost: int = 0


def open_trace(row: Sequence[Any], bases: Iterable[tuple[str, int]], bounds: Bounds) -> OpenTrace:
    """Of a row: id, project, key, version, moment, items lost, items and bytes kept."""
    return OpenTrace(
        open_id=row[0],
        project=row[1],
        key=row[2],
        version=row[3],
        touched_ns=row[4],
        bases=tuple(bases),
        lost=row[5] + bounds.over(row[6], row[7]),
    )


class Digests(Struct, frozen=True):
    """Of a trace's ``content``, and of its ``facts``: the content without what probes saw."""

    content: str
    facts: str


class Publication(Struct, frozen=True, kw_only=True):
    """What became of an open trace at ``version``: traces, or the ``fault`` that stopped it.

    ``digests`` holds one pair for each trace. A trace that says nothing new may be left out.
    ``exports`` leave with it; ``sent`` are the digests of the items in them, 16 bytes each.
    ``clues``: words by which other open traces may be found to belong to it.
    """

    open_id: int
    version: int
    traces: tuple[AgentTrace, ...] = ()
    digests: tuple[Digests, ...] = ()
    fault: str | None = None
    exports: tuple[Outgoing, ...] = ()
    sent: bytes = b""
    clues: tuple[bytes, ...] = ()
    now_ns: int


class TraceQuery(Struct, frozen=True, kw_only=True):
    """Which traces to list, newest first; None does not restrict. Times are of a trace's start.

    ``after``: only what follows this start and trace id in the order of the list.
    """

    project: str | None = None
    service: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    outcome: OutcomeStatus | None = None
    limit: int = 50
    after: tuple[int, str] | None = None


class TraceSummary(Struct, frozen=True, kw_only=True):
    """The newest revision of a trace, in one line."""

    trace_id: str
    project: str
    revision: int
    service: str | None
    version: str | None
    started_ns: int
    ended_ns: int
    steps: int
    completeness: Completeness
    outcome: OutcomeStatus
    contradictions: tuple[str, ...]
    published_ns: int


_codec = Codec(AgentTrace)


def encode_trace(trace: AgentTrace, revision: int) -> bytes:
    """The stored form of a revision."""
    return _codec.encode(replace(trace, revision=revision))


def decode_trace(encoded: bytes) -> AgentTrace:
    """The trace of a stored form."""
    return _codec.decode(encoded)


def content_digest(trace: AgentTrace) -> str:
    """Hex SHA-256 of what a trace says; revision number and times of observation do not count."""
    evidence = tuple(replace(item, observed_ns=0) for item in trace.evidence)
    return hashlib.sha256(encode_trace(replace(trace, evidence=evidence), 0)).hexdigest()


def summarise(trace: AgentTrace, *, revision: int, published_ns: int) -> TraceSummary:
    """The line that lists a trace. A trace without a single time has start and end 0."""
    starts = [step.start_ns for step in trace.steps if step.start_ns]
    ends = [step.end_ns for step in trace.steps if step.end_ns]
    return TraceSummary(
        trace_id=trace.trace_id,
        project=trace.project,
        revision=revision,
        service=trace.service.name,
        version=trace.service.version,
        started_ns=_storable(min(starts, default=0)),
        ended_ns=_storable(max(ends, default=0)),
        steps=len(trace.steps),
        completeness=trace.completeness,
        outcome=trace.outcome.status,
        contradictions=tuple(item.code for item in trace.outcome.contradictions),
        published_ns=published_ns,
    )


def _storable(time_ns: int) -> int:
    """An emitter may send any number for a time; a column holds 63 bits."""
    return min(max(time_ns, 0), 2**63 - 1)
