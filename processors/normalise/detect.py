"""Which dialects a span speaks, and the union of what they say as one Fragment.

Rules
1. Every span gives a fragment; one that no dialect knows is kind ``other``. Nothing is dropped
   here.
2. The kind is that of the strongest evidence (``rank``); at equal rank the earlier dialect's.
3. A field comes from the first dialect that says it, in the order of ``_DIALECTS``: who writes the
   conventions' keys in a way of its own, the newest conventions, their legacy, all others. A tool's
   content comes first from the dialect that unwraps its framework's dumps.
4. Inbound ``agenttwin.*`` other than ``agenttwin.claim.*`` is removed: an emitter cannot speak for
   us.
5. Status: what a dialect decided, then errors, then the protocol's OK; unset is never made ok.

Source: the detection order and outcome precedence of docs/specs/trace.md.
"""

import hashlib
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from processors.model.fragment import RANK_NONE, Fragment, Reading, filled, union
from processors.model.names import CLAIM_PREFIX, PREFIX, StepStatus
from processors.model.session import Entry, session_trace_id
from processors.model.span import Attributes, Batch, LogRecord, Span
from processors.model.step import StepError, Usage
from processors.model.trace import Service
from processors.normalise import (
    adot,
    ag2,
    agent_framework,
    autogen,
    claims,
    claude_code,
    codex,
    crewai,
    dspy,
    gemini_cli,
    gen_ai,
    gen_ai_legacy,
    genkit,
    google_adk,
    governance,
    haystack,
    langfuse,
    langsmith,
    litellm,
    llama_index,
    logfire,
    mastra,
    mcp,
    mlflow,
    openinference,
    openlit,
    openllmetry,
    pydantic_ai,
    semantic_kernel,
    smolagents,
    vercel,
)
from processors.normalise.words import canonical_model, inclusive
from processors.shapes import Keys, by_keys
from processors.value import first_name


class Dialect(Protocol):
    """A module that reads one dialect.

    It is called for spans with an attribute whose first dotted words are one of ``FAMILIES``, or
    an event of ``EVENTS``. Attributes in ``MAPPED`` or under ``PREFIXES`` are in its reading.
    """

    DIALECT: str
    FAMILIES: frozenset[str]
    EVENTS: frozenset[str]
    MAPPED: frozenset[str]
    PREFIXES: tuple[str, ...]

    def read_span(self, span: Span, /) -> Reading | None:
        """What the span says in the dialect; None when it says nothing in it."""
        ...


# In order of precedence. First who writes the conventions' keys with a meaning of their own.
_DIALECTS: tuple[Dialect, ...] = (
    google_adk,
    genkit,
    mcp,
    crewai,
    autogen,
    dspy,
    haystack,
    llama_index,
    mastra,
    semantic_kernel,
    smolagents,
    ag2,
    governance,
    claude_code,
    langsmith,
    litellm,
    openlit,
    gen_ai,
    gen_ai_legacy,
    openinference,
    openllmetry,
    agent_framework,
    vercel,
    langfuse,
    mlflow,
    pydantic_ai,
    logfire,
)
# Frameworks that only their scope's name tells: they speak another dialect in their own way.
_BY_SCOPE: dict[str, Dialect] = {
    "autogen": autogen,
    "crewai": crewai,
    "dspy": dspy,
    "gcp.vertex.agent": google_adk,
    "genkit": genkit,
    "google_adk": google_adk,
    "haystack": haystack,
    "llama_index": llama_index,
    "llamaindex": llama_index,
    "mcp": mcp,
    "semantic_kernel": semantic_kernel,
    "smolagents": smolagents,
}
# Sources that are records first: each record tells of steps by itself.
_SESSIONS = (codex.read_session, gemini_cli.read_session, claude_code.read_session)
_LOG_READERS = (claims.read_log, gen_ai.read_log, gen_ai_legacy.read_log, adot.read_log)
_UNWRAPPING = frozenset(
    {
        *(openllmetry.DIALECT, agent_framework.DIALECT, llama_index.DIALECT, google_adk.DIALECT),
        *(mcp.DIALECT, crewai.DIALECT, dspy.DIALECT, semantic_kernel.DIALECT),
    }
)
_MAPPED = frozenset().union(*(dialect.MAPPED for dialect in _DIALECTS))
_PREFIXES = tuple(dict.fromkeys(prefix for dialect in _DIALECTS for prefix in dialect.PREFIXES))
_CANCELLED = ("CancelledError", "AbortError", "cancelled", "GeneratorExit")
# Exceptions by which LangGraph moves between nodes: control flow, although reported as errors.
_CONTROL_FLOW = ("ParentCommand", "GraphInterrupt", "GraphBubbleUp", "NodeInterrupt")
_HANDOVER = ("ParentCommand(", "GraphInterrupt(", "NodeInterrupt(")  # as LangSmith words them
_ERROR, _OK = 2, 1


def _bits(words: Callable[[Dialect], frozenset[str]]) -> dict[str, int]:
    """Per word the dialects that name it, as bits: bit n for the n-th of ``_DIALECTS``."""
    found: dict[str, int] = {}
    for number, dialect in enumerate(_DIALECTS):
        for word in words(dialect):
            found[word] = found.get(word, 0) | 1 << number
    return found


_FAMILIES = _bits(lambda dialect: dialect.FAMILIES)
_EVENTS = _bits(lambda dialect: dialect.EVENTS)


class _Called(dict[str, int]):
    """The dialects an attribute's key calls for, by its first words: a bounded memory of keys."""

    def __missing__(self, key: str) -> int:
        found, end = _FAMILIES.get(key, 0), key.rfind(".")
        while end > 0:
            found |= _FAMILIES.get(key[:end], 0)
            end = key.rfind(".", 0, end)
        if len(self) < _KEYS_MAX and len(key) < _KEY_MAX:
            self[key] = found
        return found


class _Scoped(dict[str, int]):
    """The dialects that a scope's name calls for: a bounded memory of scopes."""

    def __missing__(self, scope: str) -> int:
        found = 0
        for word, dialect in _BY_SCOPE.items():
            if word in scope:
                found |= 1 << _DIALECTS.index(dialect)
        if len(self) < _KEYS_MAX and len(scope) < _KEY_MAX:
            self[scope] = found
        return found


_KEYS_MAX, _KEY_MAX = 4096, 128
_CALLED, _SCOPED = _Called(), _Scoped()


class _Shape(Struct, frozen=True, kw_only=True):
    """What follows from a span's keys: dialects called for, keys that no dialect maps, our own."""

    called: int
    unmapped: Keys
    forged: frozenset[str]


@by_keys
def _shape(keys: Keys) -> _Shape:
    ours = [key for key in keys if key.startswith(PREFIX)]
    forged = frozenset(key for key in ours if not key.startswith(CLAIM_PREFIX))
    kept = [key for key in keys if key not in forged]
    called = 0
    for key in kept:
        called |= _CALLED[key]
    return _Shape(
        called=called,
        unmapped=tuple(key for key in kept if key not in _MAPPED and not key.startswith(_PREFIXES)),
        forged=forged,
    )


class _Origins:
    """What the resources of a batch say; its spans share them, so that each is read once."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[Service, str | None, Attributes]] = {}

    def of(self, resource: Attributes) -> tuple[Service, str | None, Attributes]:
        """The service, the session, and the resource itself, which stays alive with them."""
        known = self._read.get(id(resource))
        if known is None:
            session = first_name(resource, ("session.id",))
            known = self._read[id(resource)] = (_service(resource), session, resource)
        return known


def normalise(batch: Batch) -> tuple[Fragment, ...]:
    """A fragment for each span, for each step told of, and for each record that says something."""
    found: list[Fragment] = []
    origins = _Origins()
    for span in batch.spans:
        fragment = _span_fragment(span, origins)
        if fragment.reading.told:
            found.extend(_told_fragments(fragment))
            fragment = msgspec.structs.replace(
                fragment, reading=msgspec.structs.replace(fragment.reading, told=())
            )
        found.append(fragment)
    for record in batch.logs:
        found.extend(_log_fragments(record))
    return tuple(found)


def _told_fragments(teller: Fragment) -> list[Fragment]:
    """What a span tells of, each as a fragment below it."""
    return [
        Fragment(
            trace_id=teller.trace_id,
            span_id=_own_id(teller.trace_id, teller.span_id, told.id),
            source="span",
            parent_span_id=teller.span_id,
            name=told.name,
            scope=teller.scope,
            start_ns=told.start_ns,
            end_ns=told.end_ns,
            service=teller.service,
            told_by=teller.span_id,
            reading=_finished(told.reading),
        )
        for told in teller.reading.told
    ]


def _own_id(*words: str) -> str:
    """An id of ours in the form of a span's: equal for equal words."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def _finished(reading: Reading) -> Reading:
    return msgspec.structs.replace(
        reading, model=canonical_model(reading.model), usage=inclusive(reading.usage)
    )


def _span_fragment(span: Span, origins: _Origins) -> Fragment:
    shape = _shape(tuple(span.attributes))
    if shape.forged:
        span = _without(span, shape.forged)
    reading = _merge(_readings(span, shape.called))
    status, error = _status(span, reading)
    kind = reading.kind or "other"
    service, session, _ = origins.of(span.resource)
    attributes = span.attributes
    loose = {key: attributes[key] for key in shape.unmapped}
    if reading.attributes:
        loose.update(reading.attributes)
    if span.events:
        loose.update(claims.of_events(span))
    return Fragment(
        trace_id=span.trace_id,
        span_id=span.span_id,
        source="span",
        parent_span_id=span.parent_span_id,
        remote_parent=span.remote_parent,
        name=span.name,
        scope=span.scope.name,
        start_ns=span.start_ns,
        end_ns=max(span.end_ns, span.start_ns) if span.end_ns else 0,
        service=service,
        links=span.links,
        reading=msgspec.structs.replace(
            reading,
            kind=kind,
            status=status,
            error=error,
            model=canonical_model(reading.model),
            usage=inclusive(_scoped(reading.usage, kind)),
            conversation_id=reading.conversation_id or session,
            attributes=loose,
        ),
    )


def _log_fragments(record: LogRecord) -> list[Fragment]:
    """What a record says of its span, or the steps it tells of."""
    for read_session in _SESSIONS:
        entry = read_session(record)
        if entry is not None:
            return _session_fragments(record, entry)
    if record.trace_id is None or record.span_id is None:
        return []
    for read in _LOG_READERS:
        reading = read(record)
        if reading is not None:
            return [
                Fragment(
                    trace_id=record.trace_id,
                    span_id=record.span_id,
                    source="log",
                    scope=record.scope.name,
                    name=record.event_name,
                    start_ns=record.time_ns,
                    end_ns=record.time_ns,
                    service=_service(record.resource),
                    reading=_finished(reading),
                )
            ]
    return []


def _session_fragments(record: LogRecord, entry: Entry) -> list[Fragment]:
    """The steps of a record that is a source of its own; without a trace, one of its session."""
    service = _service(record.resource)
    trace_id = record.trace_id or session_trace_id(service.name, entry.session)
    return [
        Fragment(
            trace_id=trace_id,
            span_id=_own_id(trace_id, told.id),
            source="log",
            parent_span_id=record.span_id if record.trace_id else None,
            remote_parent=True,
            name=told.name,
            scope=record.scope.name,
            start_ns=told.start_ns,
            end_ns=told.end_ns,
            service=service,
            told_by=(record.span_id if record.trace_id else None) or "",
            reading=_finished(told.reading),
        )
        for told in entry.told
    ]


def _readings(span: Span, called: int) -> list[Reading]:
    wanted = called
    for event in span.events:
        wanted |= _EVENTS.get(event.name, 0)
    wanted |= _SCOPED[span.scope.name]
    if span.name.startswith(gen_ai.TOOL_NAME):
        wanted |= _FAMILIES["gen_ai"]
    found = []
    while wanted:
        lowest = wanted & -wanted
        reading = _DIALECTS[lowest.bit_length() - 1].read_span(span)
        if reading is not None:
            found.append(reading)
        wanted ^= lowest
    return found


def _merge(readings: list[Reading]) -> Reading:
    """The union of the readings, by rules 2 and 3."""
    if not readings:
        return Reading(dialect="unknown", kind="other", subtype="unknown")
    if len(readings) == 1:
        return readings[0]
    strongest = min(readings, key=lambda reading: reading.rank)
    by_kind = strongest if strongest.rank < RANK_NONE else readings[0]
    merged = union(readings)
    unwrapped = sorted(readings, key=lambda reading: reading.dialect not in _UNWRAPPING)
    return msgspec.structs.replace(
        merged,
        dialect=by_kind.dialect,
        kind=by_kind.kind,
        rank=by_kind.rank,
        subtype=next((r.subtype for r in readings if r.kind == by_kind.kind and r.subtype), None),
        tool=filled(reading.tool for reading in unwrapped),
        content_state={k: v for r in reversed(unwrapped) for k, v in r.content_state.items()},
    )


def _scoped(usage: Usage | None, kind: str) -> Usage | None:
    """Only a model call owns tokens; on anything else they are a sum over what is below it."""
    if usage is None or kind == "model_call" or usage.scope == "aggregated":
        return usage
    return msgspec.structs.replace(usage, scope="aggregated")


def _status(span: Span, reading: Reading) -> tuple[StepStatus, StepError | None]:
    if reading.status in ("denied", "deferred", "cancelled"):
        return reading.status, reading.error
    if span.events or span.status_message or reading.error is not None:
        return _told_status(span, reading)
    if span.status_code == _ERROR or reading.status == "error" or _finished_in_error(reading):
        return "error", StepError()
    return "ok" if span.status_code == _OK else "unset", None


def _told_status(span: Span, reading: Reading) -> tuple[StepStatus, StepError | None]:
    """The same where the span has words for it."""
    kind, message = _exception(span) if span.events else (None, None)
    declared = reading.error.type if reading.error else None
    words = " ".join(filter(None, (declared, kind, span.status_message[:200])))
    if words and (
        any(word in words for word in _CONTROL_FLOW) or (message or "").startswith(_HANDOVER)
    ):
        return "unset", None
    failed = (
        declared
        or kind
        or span.status_code == _ERROR
        or reading.status == "error"
        or _finished_in_error(reading)
    )
    if failed:
        error = StepError(type=declared or kind, message=span.status_message or message)
        cancelled = any(word in words for word in _CANCELLED)
        return "cancelled" if cancelled else "error", error
    return "ok" if span.status_code == _OK else "unset", None


def _finished_in_error(reading: Reading) -> bool:
    reasons = reading.model.finish_reasons if reading.model else ()
    return reading.kind == "model_call" and bool(reasons) and set(reasons) == {"error"}


def _exception(span: Span) -> tuple[str | None, str | None]:
    for event in span.events:
        if event.name == "exception":
            kind = event.attributes.get("exception.type")
            message = event.attributes.get("exception.message")
            return str(kind or "exception"), str(message) if message else None
    return None, None


def _service(resource: Attributes) -> Service:
    return Service(
        name=first_name(resource, ("service.name",)),
        version=first_name(resource, ("service.version",)),
    )


def _without(span: Span, forged: frozenset[str]) -> Span:
    kept = {key: value for key, value in span.attributes.items() if key not in forged}
    return msgspec.structs.replace(span, attributes=kept)
