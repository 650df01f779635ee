"""What the pipeline leaves out is counted where metrics can see it, by reason."""

import asyncio
import time

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar.pipeline.client import DropWatch
from sidecar.store.sqlite.traces import SqliteTraces
from sidecar.telemetry import REGISTRY


def spans(count, attributes=0):
    """Spans of one trace that are an agent's."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(1, count + 1):
        span = scope.spans.add(trace_id=b"t" * 16, span_id=number.to_bytes(8, "big"), name="chat")
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
        for place in range(attributes):
            span.attributes.add(key=f"k{place}").value.int_value = place
    return request.SerializeToString()


def metrics():
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    scope.metrics.add(name="m").sum.data_points.add(as_int=1)
    return request.SerializeToString()


@pytest.mark.requirement("REC-03")
def test_a_trace_with_too_many_spans_is_published_as_truncated_and_the_rest_is_counted(make_ingest):
    ingest = make_ingest(trace_items_max=10)
    ingest.send(spans(25))
    ingest.settle(lambda: ingest.get((b"t" * 16).hex()))
    ingest.send(spans(4))
    ingest.settle(lambda: ingest.traces.dropped().get("trace_over_limit") == 19)
    trace = lambda: ingest.get((b"t" * 16).hex())  # noqa: E731
    ingest.settle(lambda: trace().completeness == "truncated")
    sources = [source for step in trace().steps for source in step.sources]
    assert len(sources) == 10
    assert "trace_over_limit" in {warning.code for warning in trace().warnings}
    ingest.close()


def test_what_gives_way_in_an_item_what_passes_on_and_what_is_no_agents_is_counted(ingest):
    ingest.send(spans(1, attributes=5000))
    ingest.send(metrics(), signal="metrics")
    ingest.send(b"\xff", signal="logs")
    ingest.settle(lambda: ingest.get((b"t" * 16).hex()))
    assert ingest.traces.dropped() == {
        "attributes_over_limit": 5001 - 4096,
        "no_exporter": 1,
        "quarantined": 1,
    }


@pytest.mark.requirement("REC-03")
def test_the_counts_of_the_other_process_are_shown_from_when_it_starts(ingest):
    ingest.send(metrics(), signal="metrics")
    ingest.settle(lambda: ingest.traces.dropped())
    before = counted("no_exporter")

    async def scenario():
        reader = SqliteTraces(ingest.folder / "traces.db")
        watch = DropWatch(reader)
        await watch.start()
        for _ in range(3):
            await asyncio.to_thread(ingest.send, metrics(), signal="metrics")
        await ingest.run_until(lambda: ingest.traces.dropped()["no_exporter"] == 4)
        deadline = time.monotonic() + 20
        while counted("no_exporter") < before + 3 and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        await watch.stop()
        await watch.stop()
        reader.close()

    # What the pipeline of this process counts by itself comes on top.
    asyncio.run(scenario())
    assert counted("no_exporter") >= before + 3


def counted(reason):
    labels = {"stage": "pipeline", "reason": reason}
    return REGISTRY.get_sample_value("sidecar_dropped_total", labels) or 0
