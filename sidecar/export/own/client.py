"""The sidecar's own spans, sent to an OTLP endpoint: opt-in, best effort, never in the way.

Rules
1. Off without configuration: then nothing is built and nothing is asked of a call but one test.
2. A span tells what was decided and how long it took; never arguments, answers or who.
3. It cannot go round: telemetry that is received makes no span of ours, and an endpoint that is a
   listener of ours is refused like an exporter's.
4. What cannot be sent is dropped and counted; an endpoint that is away delays nobody.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError, TimeoutError
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

from sidecar.export.batch import Request
from sidecar.export.driver import Sender
from sidecar.export.retry import Delivered
from sidecar.store.outbox import Waiting
from sidecar.telemetry import DROPPED, OWN_SPANS, log

_QUEUE_MAX = 2048
_BATCH_MAX = 512
_log = log("own_traces")


class OwnTracing:
    """Makes and sends own spans between ``start`` and ``stop``, over a sender of the event loop.

    ``ratio``: how many of the traces we begin are kept. ``timeout_ns`` bounds one attempt.
    """

    def __init__(self, sender: Sender, *, ratio: float, timeout_ns: int) -> None:
        self._ratio = ratio
        self._seconds = timeout_ns / 1e9 + 1
        self._sender = sender
        self._provider: TracerProvider | None = None

    async def start(self) -> None:
        """From now on own work makes spans."""
        exporter = _Exporter(self._sender, asyncio.get_running_loop(), self._seconds)
        self._provider = TracerProvider(
            resource=Resource.create(
                {
                    "service.name": "agenttwin-sidecar",
                    "service.version": version("agenttwin-sidecar"),
                }
            ),
            sampler=ParentBasedTraceIdRatio(self._ratio),
            shutdown_on_exit=False,
        )
        processor = BatchSpanProcessor(
            exporter, max_queue_size=_QUEUE_MAX, max_export_batch_size=_BATCH_MAX
        )
        self._provider.add_span_processor(processor)
        OWN_SPANS.use(self._provider.get_tracer("agenttwin-sidecar"))

    async def stop(self) -> None:
        """Send what waits, then no more. Safe without start and twice."""
        OWN_SPANS.use(None)
        provider, self._provider = self._provider, None
        if provider is not None:
            await asyncio.to_thread(provider.shutdown)
            await self._sender.close()


class _Exporter(SpanExporter):
    """Called on the SDK's thread; sends on the loop that owns the connections."""

    def __init__(self, sender: Sender, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._sender = sender
        self._loop = loop
        self._seconds = seconds

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """One attempt; what fails is gone."""
        payload = encode_spans(spans).SerializeToString()
        part = Waiting(seq=0, project="", signal="traces", items=len(spans), payload=payload)
        sending = asyncio.run_coroutine_threadsafe(
            self._sender.send(Request(signal="traces", parts=(part,))), self._loop
        )
        try:
            answer = sending.result(self._seconds)
        except (TimeoutError, CancelledError):
            sending.cancel()
            why = "no answer in time"
        else:
            if isinstance(answer, Delivered):
                return SpanExportResult.SUCCESS
            why = answer.message
        DROPPED.labels("own_traces", "not_sent").inc(len(spans))
        _log.warning("own_spans_not_sent", spans=len(spans), why=why)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Nothing of its own to close."""
