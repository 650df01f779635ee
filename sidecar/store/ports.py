"""The ports of the stores: narrow protocols that callers type against; ``app`` picks the backend.

Rules
1. A write returns only when it is durable. A store that cannot do so raises StoreUnavailable.
2. Reads are synchronous and see committed state only.
3. Each owner's ports stand together; a caller asks for the narrowest one it needs.
"""

from collections.abc import Sequence
from typing import Protocol

from processors.model.trace import AgentTrace
from processors.model.verdict import Verdict
from sidecar.store.journal import DamagedRecord, JournalEntry, JournalRecord
from sidecar.store.traces import (
    Due,
    Intake,
    OpenTrace,
    PartKind,
    Publication,
    TraceQuery,
    TraceSummary,
)
from sidecar.store.verdicts import VerdictQuery, VerdictSummary


class Sink(Protocol):
    """Where receivers put what they accept."""

    async def append(self, entry: JournalEntry) -> None:
        """Returns when the entry is durable. Raises JournalFull or StoreUnavailable."""
        ...


class JournalReader(Protocol):
    """The pipeline's view of the journal."""

    @property
    def journal_id(self) -> str:
        """Which journal this is; a new one has a new id."""
        ...

    def records_after(
        self, seq: int, *, count_max: int, bytes_max: int
    ) -> list[JournalRecord | DamagedRecord]:
        """The records that follow ``seq``, in order; at least one if there is one."""
        ...


class Cursors(Protocol):
    """Where a source's cursor stands; what lies at or before it has been taken in."""

    def cursor(self, name: str) -> int:
        """The position, 0 for a source never read."""
        ...


class OpenTraces(Cursors, Protocol):
    """The pipeline's working state: sealed parts of open traces, and what is due."""

    async def take_in(self, intake: Intake) -> None:
        """Store parts and move the cursor in one transaction. Raises CursorMoved."""
        ...

    def due(self, due: Due) -> list[OpenTrace]:
        """Open traces to publish, the longest silent first."""
        ...

    def parts(self, opened: OpenTrace) -> list[tuple[PartKind, bytes]]:
        """Kind and payload of all parts of an open trace, in order of intake."""
        ...

    async def publish(self, publications: Sequence[Publication]) -> int:
        """Add revisions where content changed; the number added. Idempotent."""
        ...

    async def expire(self, now_ns: int, limit: int) -> int:
        """Forget the expired parts of up to ``limit`` published traces; the number of traces."""
        ...

    def facts_digest(self, project: str, trace_id: str) -> str | None:
        """``facts_digest`` of a trace's newest revision."""
        ...


class Traces(Protocol):
    """Published traces, for people, replay and the gate."""

    def list_traces(self, query: TraceQuery) -> list[TraceSummary]:
        """The newest revision of each matching trace, newest start first."""
        ...

    def get_trace(
        self, trace_id: str, project: str | None = None, revision: int | None = None
    ) -> AgentTrace | None:
        """One revision, by default the newest. Raises SidecarError where two projects have it."""
        ...


class Verdicts(Protocol):
    """Gate verdicts."""

    def add_verdict(self, verdict: Verdict) -> None:
        """Keep it; durable on return."""
        ...

    def get_verdict(self, verdict_id: str, project: str | None = None) -> Verdict | None:
        """The verdict of that id (or of the one id that starts so), or None."""
        ...

    def list_verdicts(self, query: VerdictQuery) -> list[VerdictSummary]:
        """Matching verdicts, newest first."""
        ...
