"""The sidecar's own metrics and log.

Rules
1. Metrics are ``sidecar_*`` in base units; every label has a closed set of values.
2. Every drop is counted: ``sidecar_dropped_total{stage, reason}``.
3. The log goes to stderr, one event a line; it never holds captured content, keys or tokens: a
   failure is told by kind and place, unless it is a SidecarError, and data in texts are masked.
4. A line that cannot be written (a full disk, a reader that is gone) is counted and fails nothing:
   what is logged about a call is never worth more than the call.
"""

import logging
import sys
import threading
import time
from collections.abc import Mapping

import structlog
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from processors.redact.leaves import masked
from processors.redact.masker import Masker
from sidecar.errors import SidecarError, named, told

REGISTRY = CollectorRegistry()

RECEIVED_REQUESTS = Counter(
    "sidecar_receive_requests_total",
    "Export requests by transport, signal and answer.",
    ("transport", "signal", "code"),
    registry=REGISTRY,
)
RECEIVED_ITEMS = Counter(
    "sidecar_receive_items_total",
    "Spans and log records acknowledged.",
    ("signal",),
    registry=REGISTRY,
)
DROPPED = Counter(
    "sidecar_dropped_total",
    "Items refused or left out, by stage and reason.",
    ("stage", "reason"),
    registry=REGISTRY,
)
JOURNAL_BYTES = Gauge(
    "sidecar_journal_bytes", "Sealed bytes that wait in the journal.", registry=REGISTRY
)
EXPORTED_ITEMS = Counter(
    "sidecar_export_items_total",
    "Spans, log records and data points that a downstream took, by exporter and signal.",
    ("exporter", "signal"),
    registry=REGISTRY,
)
EXPORT_QUEUE_BYTES = Gauge(
    "sidecar_export_queue_bytes",
    "Sealed bytes that wait for an exporter.",
    ("exporter",),
    registry=REGISTRY,
)
EXPORT_LAG_SECONDS = Gauge(
    "sidecar_export_lag_seconds",
    "Age of the oldest item that waits for an exporter; 0 when none does.",
    ("exporter",),
    registry=REGISTRY,
)
CALLS = Counter(
    "sidecar_gateway_calls_total",
    "Tool calls by side-effect class, decision and answer.",
    ("class", "decision", "status"),
    registry=REGISTRY,
)
WEBHOOKS = Counter(
    "sidecar_webhook_attempts_total",
    "Attempts to tell a webhook of an approval, by result; what failed is tried again.",
    ("webhook", "result"),
    registry=REGISTRY,
)
APPROVALS_REFUSED = Counter(
    "sidecar_approvals_refused_total",
    "Requests for approval and votes that did not count, by the code of why.",
    ("code",),
    registry=REGISTRY,
)
BREAK_GLASS = Counter(
    "sidecar_break_glass_total",
    "Glasses that people opened, broke and reviewed.",
    ("event",),
    registry=REGISTRY,
)
CALL_SECONDS = Histogram(
    "sidecar_gateway_call_seconds",
    "Time from a call's arrival to its reply, upstream included.",
    ("class",),
    registry=REGISTRY,
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60),
)
OBSERVED = Counter(
    "sidecar_gateway_observed_total",
    "Calls that observe mode let through, by side-effect class and what policy decided.",
    ("class", "decision"),
    registry=REGISTRY,
)
CANCELLED = Counter(
    "sidecar_gateway_cancellations_total",
    "MCP calls that the caller cancelled or left, by side-effect class and what became of them.",
    ("class", "outcome"),
    registry=REGISTRY,
)
CHILD_RESTARTS = Counter(
    "sidecar_child_restarts_total",
    "Restarts of supervised child processes.",
    ("child",),
    registry=REGISTRY,
)
POLICY_RELOADS = Counter(
    "sidecar_policy_reloads_total",
    "Changed policy bundles: activated, waiting for people (loosening), or unusable.",
    ("result",),
    registry=REGISTRY,
)
POLICY_COMPARED = Counter(
    "sidecar_policy_compared_total",
    "Decisions asked of a second engine too: same, differs, failed, other_revision, skipped.",
    ("result",),
    registry=REGISTRY,
)
QUARANTINED = Counter(
    "sidecar_gateway_quarantined_total",
    "Agents frozen without a person's word: since policy asked for it, or for probing denials.",
    ("why",),
    registry=REGISTRY,
)
STREAMS_CLOSED = Counter(
    "sidecar_gateway_streams_closed_total",
    "Answers broken off while they came, since they might not go on, by the code of why.",
    ("code",),
    registry=REGISTRY,
)
POLICY_STALE = Gauge(
    "sidecar_policy_stale_seconds",
    "For how long the policy that decides could not be refreshed, or has been out of its time; 0 "
    "where it is fresh.",
    registry=REGISTRY,
)
SHADOW_DECISIONS = Counter(
    "sidecar_policy_shadow_decisions_total",
    "Shadow decisions against those that counted: same, loosened, tightened, changed, failed, "
    "skipped.",
    ("result",),
    registry=REGISTRY,
)
HTTP_FAULTS = Counter(
    "sidecar_http_faults_total",
    "Connections and requests that no handler answered, by listener and reason.",
    ("listener", "reason"),
    registry=REGISTRY,
)
CHECKPOINTS = Counter(
    "sidecar_audit_checkpoints_total",
    "Signed checkpoints of the audit chain, by anchor and outcome (made, anchored, failed).",
    ("anchor", "outcome"),
    registry=REGISTRY,
)
DECISIONS_LOGGED = Counter(
    "sidecar_decisions_logged_total",
    "Decisions for the decision log, by outcome (written, dropped, failed).",
    ("outcome",),
    registry=REGISTRY,
)
DEGRADED = Counter(
    "sidecar_gateway_degraded_total",
    "Calls let through though something that should have judged them failed, as configured.",
    ("class", "cause"),
    registry=REGISTRY,
)
TASK_FAILURES = Counter(
    "sidecar_task_failures_total",
    "Failures that a long-lived task caught, to try again.",
    ("task",),
    registry=REGISTRY,
)
DURABLE_CALLS = Counter(
    "sidecar_durable_calls_total",
    "What became of durable calls: queued, retried, done, dead, requeued, discarded.",
    ("state",),
    registry=REGISTRY,
)
TRACES_PUBLISHED = Counter(
    "sidecar_traces_published_total",
    "Revisions of traces published, by outcome.",
    ("outcome",),
    registry=REGISTRY,
)
CONTRADICTIONS = Counter(
    "sidecar_contradictions_total",
    "Contradictions on published revisions, by code.",
    ("code",),
    registry=REGISTRY,
)
DECISION_SECONDS = Histogram(
    "sidecar_policy_decision_seconds",
    "Time from asking the policy engine to its answer, or to the denial for want of one.",
    registry=REGISTRY,
    buckets=(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
)
ProcessCollector(registry=REGISTRY)
_QUIET_SECONDS = 10


class _Lines:
    """Writes to stderr as it is at that moment (rule 4)."""

    def __init__(self, *_: object) -> None:
        pass

    def msg(self, message: str) -> None:
        """One line."""
        try:
            print(message, file=sys.stderr, flush=True)
        except (OSError, ValueError):
            DROPPED.labels("log", "unwritable").inc()

    debug = info = warning = error = critical = exception = msg


structlog.configure(logger_factory=_Lines)


def configure_logging(*, json_lines: bool | None = None) -> None:
    """Set the log up once per process: JSON lines, or readable text when stderr is a terminal."""
    as_json = not sys.stderr.isatty() if json_lines is None else json_lines
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _masked,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=_Lines,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Named("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    sys.excepthook = _uncaught
    threading.excepthook = lambda gone: _uncaught(gone.exc_type, gone.exc_value, None)


_masker = Masker()


def _masked(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """A failure by kind and place, a text with its data masked: nobody's content in our log."""
    failure = event.pop("exc_info", None)
    if failure is True:
        failure = sys.exc_info()[1]
    if isinstance(failure, BaseException):
        event["fault"] = failure
    for name, value in event.items():
        plain = told(value) if isinstance(value, BaseException) else value
        event[name] = masked(plain, _masker)
    return event


class _Named(logging.Formatter):
    """What libraries log: the first line, its data masked, and a failure by kind and place."""

    def format(self, record: logging.LogRecord) -> str:
        text = _masker.mask(record.getMessage().partition("\n")[0])
        failure = record.exc_info[1] if record.exc_info else None
        fault = f": {named(failure)}" if failure is not None else ""
        return f"{record.name}: {text}{fault}"


def _uncaught(_: object, failure: BaseException | None, __: object) -> None:
    if failure is not None:
        print(f"internal fault: {told(failure)}", file=sys.stderr)


def log(name: str) -> structlog.typing.FilteringBoundLogger:
    """A logger; events are short past-tense names with fields."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(component=name)
    return logger


class OwnSpans:
    """Spans of the sidecar's own work; nothing is made until ``use`` gives a tracer (opt-in)."""

    def __init__(self) -> None:
        self._tracer: Tracer | None = None

    def use(self, tracer: Tracer | None) -> None:
        """Make spans with this tracer, or none any more."""
        self._tracer = tracer

    @property
    def wanted(self) -> bool:
        """Whether anybody takes them: making one costs more than asking."""
        return self._tracer is not None

    def tell(
        self,
        name: str,
        *,
        parent: tuple[str | None, str | None],
        started_ns: int,
        ended_ns: int,
        attributes: Mapping[str, str | int],
        failed: bool,
    ) -> None:
        """One finished piece of work under the caller's span: its trace and span id, in hex."""
        if self._tracer is None:
            return
        trace_id, span_id = parent
        context = None
        if trace_id and span_id:
            caller = SpanContext(
                int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(1)
            )
            context = set_span_in_context(NonRecordingSpan(caller))
        span = self._tracer.start_span(
            name, context, kind=SpanKind.SERVER, attributes=attributes, start_time=started_ns
        )
        if failed:
            span.set_status(StatusCode.ERROR)
        span.end(ended_ns)


OWN_SPANS = OwnSpans()


class Faults:
    """Counts what a listener turns away, and logs each kind at most once in ten seconds."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._log = log(listener)
        self._logged: dict[str, float] = {}

    def record(self, reason: str, error: BaseException | None) -> None:
        """Count one; of ``error`` only the kind is told, and the place where it is our fault."""
        HTTP_FAULTS.labels(self._listener, reason).inc()
        ours = reason == "internal_fault"
        kind = "" if error is None else named(error) if ours else type(error).__name__
        now = time.monotonic()
        if now - self._logged.get(reason + kind, -_QUIET_SECONDS) < _QUIET_SECONDS:
            return
        self._logged[reason + kind] = now
        say = self._log.error if ours else self._log.warning
        say("request_failed" if ours else "request_turned_away", reason=reason, kind=kind)


def cannot_listen(key: str, host: str, port: int, error: OSError) -> SidecarError:
    """The error of a listener that cannot bind: which key, which address, what to do."""
    return SidecarError(
        f"cannot listen on {host}:{port}: {error.strerror or error}",
        where=f"configuration key {key}",
        do="Stop what uses the port, or configure another address.",
    )
