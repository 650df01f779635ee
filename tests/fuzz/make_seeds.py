"""Write the seeds of the corpus: a few requests in each encoding, of the kinds the readers know."""

import json
import sys
from pathlib import Path

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

CORPUS = Path(__file__).parent / "corpus"
MESSAGES = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "hi"}]}])
ASKED = json.dumps(
    [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}],
        }
    ]
)
SPANS = {
    "gen_ai": {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": MESSAGES,
        "gen_ai.output.messages": ASKED,
        "gen_ai.usage.input_tokens": 3,
    },
    "tool": {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "f",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"a": 1}',
    },
    "openinference": {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "hi",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "f",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"a": 1}',
    },
    "openllmetry": {
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "hi",
        "gen_ai.completion.0.tool_calls.0.name": "f",
        "gen_ai.completion.0.tool_calls.0.arguments": "{'a': 1}",
    },
    "vercel": {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.prompt.messages": '[{"role":"user","content":"hi"}]',
        "ai.response.toolCalls": '[{"toolName":"f","args":"{}"}]',
    },
    "langfuse": {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": MESSAGES,
        "langfuse.observation.output": '"{\\"error\\": \\"x\\"}"',
    },
    "mlflow": {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.spanInputs": '{"messages": []}',
        "mlflow.spanOutputs": "null",
    },
    "traceloop": {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "f",
        "traceloop.entity.input": '{"inputs": {"a": NaN}}',
    },
}


def traces(attributes):
    """A request of two spans, the second below the first."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "s"
    scope = group.scope_spans.add()
    scope.scope.name = "seed"
    for number in (1, 2):
        span = scope.spans.add(
            trace_id=b"t" * 16,
            span_id=bytes([number] * 8),
            parent_span_id=bytes([1] * 8) if number == 2 else b"",
            name="chat",
            start_time_unix_nano=number,
            end_time_unix_nano=9,
        )
        fill(span.attributes, attributes)
    span.events.add(name="exception").attributes.add(key="exception.type").value.string_value = "E"
    span.links.add(trace_id=b"u" * 16, span_id=b"v" * 8)
    span.status.code = 2
    return request


def logs():
    """A request of two records, one inside a span."""
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    inside = scope.log_records.add(trace_id=b"t" * 16, span_id=bytes([2] * 8), time_unix_nano=5)
    inside.event_name = "gen_ai.choice"
    inside.body.kvlist_value.values.add(key="index").value.int_value = 0
    outside = scope.log_records.add(event_name="codex.tool_result", time_unix_nano=6)
    fill(outside.attributes, {"conversation.id": "c", "tool_name": "f", "arguments": "{}"})
    return request


def metrics():
    """A request of a sum."""
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    metric.sum.data_points.add(as_int=3)
    return request


def fill(target, attributes):
    """Plain attributes as key-values."""
    for key, value in attributes.items():
        kind = "int_value" if isinstance(value, int) else "string_value"
        setattr(target.add(key=key).value, kind, value)


def as_json(attributes):
    """A request of one span in JSON."""
    span = {
        "traceId": "74" * 16,
        "spanId": "01" * 8,
        "name": "x",
        "attributes": [
            {"key": key, "value": {"stringValue": str(value)}} for key, value in attributes.items()
        ],
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def main():
    """Write them."""
    CORPUS.mkdir(exist_ok=True)
    for name, attributes in SPANS.items():
        payload = traces(attributes).SerializeToString()
        (CORPUS / f"seed-{name}").write_bytes(b"\x00" + payload)
        (CORPUS / f"seed-{name}-json").write_bytes(b"\x03" + as_json(attributes))
    (CORPUS / "seed-logs").write_bytes(b"\x01" + logs().SerializeToString())
    (CORPUS / "seed-metrics").write_bytes(b"\x02" + metrics().SerializeToString())
    sys.stdout.write(f"{len(list(CORPUS.iterdir()))} files\n")


if __name__ == "__main__":
    main()
