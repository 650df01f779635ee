"""What leaves with a publication: spans and log records as received, redacted, with what we know.

Rules
1. An item leaves once: its digest is remembered with its open trace. Late data brings only what is
   new; a change of outcome brings a new evaluation event and no span again.
2. Everything has passed redaction, and bears the project and this sidecar's id in its resource.
3. An evaluation event tells of the revision it is published with, and leaves only with one.
   Telemetry in which no agent is recognised passes through without a word of ours on it.
4. A request holds about ``_REQUEST_BYTES`` at most, unless a single item is larger.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from processors.model.detection import SEVERITIES
from processors.model.names import (
    CONTRADICTION_CODES,
    DETECTION_CODES,
    DETECTION_SEVERITY,
    OUTCOME_STATUS,
    PROJECT,
    TRACE_DIGEST,
    VIA,
    OutcomeStatus,
)
from processors.model.span import Attributes, Batch, LogRecord, Scope, Span
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.redact.keeping import Keeping
from processors.redact.telemetry import keep_record, keep_resource, keep_scope, keep_span
from sidecar.export.attributes import enriched
from sidecar.otlp.encode import encode_logs, encode_spans
from sidecar.store.codec import encode
from sidecar.store.journal import Signal
from sidecar.store.outbox import Outgoing

_REQUEST_BYTES: Final = 256 * 1024
_REQUEST_ITEMS: Final = 256
_DIGEST_BYTES: Final = 16
_SEVERITY_INFO: Final = 9
EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "agenttwin.outcome"
OUR_SCOPE: Final = Scope(name="agenttwin.sidecar")
_SCORES: Final[dict[OutcomeStatus, float]] = {
    "verified_success": 1.0,
    "verified_failure": 0.0,
    "contradicted": 0.0,
}
Place = tuple[Step, AgentTrace, tuple[str, ...]]
"""A span's step and trace, and the codes of the detections that name the step."""
Item = TypeVar("Item", Span, LogRecord)


class Mark(Struct, frozen=True, kw_only=True):
    """Whose telemetry it is, which sidecar sends it on, and how its content is kept.

    ``keep`` is None for a project whose capture is full.
    """

    project: str
    sidecar_id: str
    keep: Keeping | None


class Judged(Struct, frozen=True, kw_only=True):
    """A trace as it is published, and the digest of what it says."""

    trace: AgentTrace
    digest: str


class Sending(Struct, frozen=True, kw_only=True):
    """What to put into the outbox, and the digests to remember."""

    items: tuple[Outgoing, ...] = ()
    sent: bytes = b""


def sending(
    batch: Batch, judged: Sequence[Judged], sent: bytes, mark: Mark, *, now_ns: int
) -> Sending:
    """What of a publication has not left yet. ``sent`` are the digests remembered so far."""
    known = {sent[at : at + _DIGEST_BYTES] for at in range(0, len(sent), _DIGEST_BYTES)}
    digests: list[bytes] = []
    spans = _unsent(_fullest(batch.spans), _span_digest, known, digests)
    records = _unsent(batch.logs, _record_digest, known, digests)
    marked = _Marked(mark)
    judged = [item for item in judged if _of_an_agent(item.trace)]
    places = _places(judged)
    leaving = [_with_step(marked.span(span), places) for span in spans]
    items = (
        *_requests(leaving, "traces", encode_spans, mark.project),
        *_requests([marked.record(item) for item in records], "logs", encode_logs, mark.project),
        *(_evaluation(item, batch, marked, now_ns) for item in judged),
    )
    return Sending(items=items, sent=b"".join(digests))


def came_back(resource: Attributes, sidecar_id: str) -> bool:
    """Whether an item with this resource has passed this sidecar before."""
    return sidecar_id in _via(resource)


def marked_resource(resource: Attributes, kept: Attributes, mark: Mark) -> Attributes:
    """The kept form of a resource with project and way."""
    return {**kept, PROJECT: mark.project, VIA: [*_via(resource), mark.sidecar_id]}


def _of_an_agent(trace: AgentTrace) -> bool:
    return any(step.kind != "other" for step in trace.steps)


class _Marked:
    """Redacts and marks items; resources and scopes that items share are done once."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        # By identity; the original is held too, so that its id is not given to another.
        self._resources: dict[int, tuple[Attributes, Attributes]] = {}
        self._scopes: dict[int, tuple[Scope, Scope]] = {}

    def span(self, span: Span) -> Span:
        resource, scope = self.resource(span.resource), self._scope(span.scope)
        return keep_span(span, self._mark.keep, resource, scope)

    def record(self, record: LogRecord) -> LogRecord:
        resource, scope = self.resource(record.resource), self._scope(record.scope)
        return keep_record(record, self._mark.keep, resource, scope)

    def resource(self, resource: Attributes) -> Attributes:
        found = self._resources.get(id(resource))
        if found is None:
            kept = keep_resource(resource, self._mark.keep)
            found = resource, marked_resource(resource, kept, self._mark)
            self._resources[id(resource)] = found
        return found[1]

    def _scope(self, scope: Scope) -> Scope:
        found = self._scopes.get(id(scope))
        if found is None:
            found = self._scopes[id(scope)] = scope, keep_scope(scope, self._mark.keep)
        return found[1]


def _via(resource: Attributes) -> list[str]:
    way = resource.get(VIA)
    return [item for item in way if isinstance(item, str)] if isinstance(way, list) else []


def _fullest(spans: Sequence[Span]) -> Iterable[Span]:
    """One version of each span: the ended, then the later, then the richer."""
    if len(spans) < 2:
        return spans
    best: dict[tuple[str, str, int], Span] = {}
    for span in spans:
        place = (span.trace_id, span.span_id, span.start_ns)
        known = best.get(place)
        if known is None or _fullness(known) < _fullness(span):
            best[place] = span
    return best.values()


def _fullness(span: Span) -> tuple[int, int, int]:
    return span.end_ns, len(span.attributes), len(span.events)


def _unsent(
    items: Iterable[Item],
    digest_of: Callable[[Item], bytes],
    known: set[bytes],
    digests: list[bytes],
) -> list[Item]:
    found = []
    for item in items:
        digest = digest_of(item)
        if digest not in known:
            known.add(digest)
            digests.append(digest)
            found.append(item)
    return found


def _span_digest(span: Span) -> bytes:
    return _digest(f"{span.trace_id}:{span.span_id}:{span.start_ns}".encode())


def _record_digest(record: LogRecord) -> bytes:
    return _digest(encode(record))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _places(judged: Sequence[Judged]) -> dict[tuple[str, str], Place]:
    """The place of each span; the first source of a step is its own span."""
    found: dict[tuple[str, str], Place] = {}
    for item in judged:
        detected: dict[str, dict[str, None]] = {}
        for one in item.trace.detections:
            for step_id in one.steps:
                detected.setdefault(step_id, {})[one.code] = None
        for step in item.trace.steps:
            for source in step.sources:
                if source.kind == "span" and source.trace_id and source.span_id:
                    codes = tuple(detected.get(step.step_id, ()))
                    place = step, item.trace, codes
                    found.setdefault((source.trace_id, source.span_id), place)
    return found


def _with_step(span: Span, places: dict[tuple[str, str], Place]) -> Span:
    place = places.get((span.trace_id, span.span_id))
    if place is None:
        return span
    return replace(span, attributes=enriched(span.attributes, *place))


def _evaluation(judged: Judged, batch: Batch, marked: _Marked, now_ns: int) -> Outgoing:
    """The event of a trace's outcome, at its root span."""
    trace = judged.trace
    codes = list(dict.fromkeys(item.code for item in trace.outcome.contradictions))
    attributes: Attributes = {
        "gen_ai.evaluation.name": EVALUATION_NAME,
        "gen_ai.evaluation.score.label": trace.outcome.status,
        OUTCOME_STATUS: trace.outcome.status,
        TRACE_DIGEST: judged.digest,
    }
    if trace.outcome.status in _SCORES:
        attributes["gen_ai.evaluation.score.value"] = _SCORES[trace.outcome.status]
    if codes:
        attributes["gen_ai.evaluation.explanation"] = ", ".join(codes)
        attributes[CONTRADICTION_CODES] = codes
    if trace.detections:
        attributes[DETECTION_CODES] = list(dict.fromkeys(item.code for item in trace.detections))
        attributes[DETECTION_SEVERITY] = max(
            (item.severity for item in trace.detections), key=SEVERITIES.index
        )
    if trace.conversation_id:
        attributes["gen_ai.conversation.id"] = trace.conversation_id
    trace_id, span_id = _root(trace)
    record = LogRecord(
        trace_id=trace_id,
        span_id=span_id,
        time_ns=now_ns,
        event_name=EVALUATION_EVENT,
        severity=_SEVERITY_INFO,
        attributes=attributes,
        scope=OUR_SCOPE,
        resource=marked.resource(_resource_of(trace, batch)),
    )
    return Outgoing(
        project=trace.project,
        signal="logs",
        items=1,
        payload=encode_logs([record]),
        if_revised=trace.trace_id,
    )


def _root(trace: AgentTrace) -> tuple[str | None, str | None]:
    """Trace and span id of the first step without a parent that has a span of its own."""
    for step in trace.steps:
        if step.parent_step_id is None:
            for source in step.sources:
                if source.kind == "span" and source.span_id:
                    return source.trace_id, source.span_id
    return _trace_id(trace), None


def _trace_id(trace: AgentTrace) -> str | None:
    is_id = len(trace.trace_id) == 32 and all(char in "0123456789abcdef" for char in trace.trace_id)
    return trace.trace_id if is_id else None


def _resource_of(trace: AgentTrace, batch: Batch) -> Attributes:
    """The resource of the trace's root span, or what the trace says of its service."""
    root = _root(trace)
    for span in batch.spans:
        if (span.trace_id, span.span_id) == root:
            return span.resource
    return {"service.name": trace.service.name} if trace.service.name else {}


def _requests(
    items: Sequence[Item], signal: Signal, pack: Callable[[Iterable[Item]], bytes], project: str
) -> Iterator[Outgoing]:
    for start in range(0, len(items), _REQUEST_ITEMS):
        yield from _small(items[start : start + _REQUEST_ITEMS], signal, pack, project)


def _small(
    items: Sequence[Item], signal: Signal, pack: Callable[[Iterable[Item]], bytes], project: str
) -> Iterator[Outgoing]:
    payload = pack(items)
    if len(payload) > _REQUEST_BYTES and len(items) > 1:
        middle = len(items) // 2
        yield from _small(items[:middle], signal, pack, project)
        yield from _small(items[middle:], signal, pack, project)
        return
    yield Outgoing(project=project, signal=signal, items=len(items), payload=payload)
