"""The two payloads all ingest benchmarks use: small spans, and spans as captured.

Small: 512 spans of about 0.5 KB, made here. Captured: the spans of the shared corpora, merged into
requests of about 512; where the corpora are absent, there is no such payload.
"""

import itertools
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

CORPORA = Path(__file__).parents[3] / "shared" / "corpora" / "otlp"
SPANS = 512
_SPANS_A_TRACE = 8
_TEXT = "The order is confirmed and the refund of 12.50 EUR has been sent to your card. "


def small(seed=0):
    """512 spans of a GenAI agent, 64 traces of 8, ids by ``seed``."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    _text(group.resource.attributes, "service.name", "bench")
    _text(group.resource.attributes, "service.version", "1.0.0")
    scope = group.scope_spans.add()
    scope.scope.name = "bench"
    for number in range(SPANS):
        _small_span(scope.spans.add(), seed * SPANS + number)
    return request


def _small_span(span, number):
    trace, place = divmod(number, _SPANS_A_TRACE)
    span.trace_id = (trace + 1).to_bytes(16, "big")
    span.span_id = (number + 1).to_bytes(8, "big")
    root = (trace * _SPANS_A_TRACE + 1).to_bytes(8, "big")
    span.start_time_unix_nano = 1_750_000_000_000_000_000 + number * 1_000_000
    span.end_time_unix_nano = span.start_time_unix_nano + 800_000
    if place:
        span.parent_span_id = root
    operation = ("invoke_agent", "chat", "execute_tool")[0 if not place else 1 + place % 2]
    span.name = operation
    _text(span.attributes, "gen_ai.operation.name", operation)
    _text(span.attributes, "gen_ai.agent.name", "bench")
    _text(span.attributes, "gen_ai.conversation.id", f"conversation-{trace:020x}")
    _text(span.attributes, "server.address", "api.example.com")
    if operation == "chat":
        _text(span.attributes, "gen_ai.provider.name", "openai")
        _text(span.attributes, "gen_ai.request.model", "gpt-4.1-mini")
        _text(span.attributes, "gen_ai.response.model", "gpt-4.1-mini-2025-04-14")
        _text(span.attributes, "gen_ai.response.id", f"chatcmpl-{number:024x}")
        _number(span.attributes, "gen_ai.usage.input_tokens", 100 + number % 900)
        _number(span.attributes, "gen_ai.usage.output_tokens", number % 90)
        message = f'[{{"role":"assistant","parts":[{{"type":"text","content":"{_TEXT}"}}]}}]'
        _text(span.attributes, "gen_ai.output.messages", message)
    elif operation == "execute_tool":
        _text(span.attributes, "gen_ai.tool.name", "look_up_order")
        _text(span.attributes, "gen_ai.tool.call.id", f"call_{number:024x}")
        _text(span.attributes, "gen_ai.tool.call.arguments", f'{{"order_id":"{number}"}}')
        _text(span.attributes, "gen_ai.tool.call.result", f'{{"state":"{_TEXT}"}}')


def _text(attributes, key, value):
    attributes.add(key=key).value.string_value = value


def _number(attributes, key, value):
    attributes.add(key=key).value.int_value = value


def captured(folder=CORPORA):
    """Requests of about 512 spans each, from every protobuf capture; empty without corpora."""
    merged, request, count = [], ExportTraceServiceRequest(), 0
    for path in sorted(folder.rglob("*.traces.binpb")):
        part = ExportTraceServiceRequest()
        part.ParseFromString(path.read_bytes())
        request.MergeFrom(part)
        count += spans(part)
        if count >= SPANS:
            merged.append(request)
            request, count = ExportTraceServiceRequest(), 0
    return merged


def renumbered(request, seed):
    """A copy of another service with other trace ids, so that it is new to the store."""
    copy = ExportTraceServiceRequest()
    copy.CopyFrom(request)
    mask = seed.to_bytes(8, "big")
    for span in all_spans(copy):
        for named in (span, *span.links):
            named.trace_id = mask + named.trace_id[8:]
    for group in copy.resource_spans:
        for attribute in group.resource.attributes:
            if attribute.key == "service.name":
                attribute.value.string_value += f" {seed}"
    return copy


def all_spans(request):
    """Every span of a request."""
    return itertools.chain.from_iterable(
        scope.spans for group in request.resource_spans for scope in group.scope_spans
    )


def spans(request):
    """How many spans a request holds."""
    return sum(len(scope.spans) for group in request.resource_spans for scope in group.scope_spans)
