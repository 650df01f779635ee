"""The agent's telemetry: the OpenTelemetry SDK and the GenAI instrumentation of the openai client,
as documented.

Rules
1. OTLP over HTTP/protobuf to ``OTEL_EXPORTER_OTLP_ENDPOINT``; without one, spans are made and go
   nowhere.
2. Message content goes to the sidecar unless the environment says otherwise
   (``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``): what is *kept* is the sidecar's
   ``capture``.
3. ``TRACEPARENT`` and ``BAGGAGE`` of the environment are the parent, so that a caller can tell runs
   apart.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context, propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
NAME = "refund-agent"


def start(version: str) -> TracerProvider:
    """Set the SDK up and instrument the openai client. Shut the provider down to flush."""
    os.environ.setdefault(CAPTURE, "span_only")
    resource = Resource.create({"service.name": NAME, "service.version": version})
    provider = TracerProvider(resource=resource)
    if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    return provider


@contextmanager
def parent(environment: Mapping[str, str]) -> Iterator[None]:
    """The trace context that the environment hands down, for the duration."""
    carrier = {name: environment.get(name.upper(), "") for name in ("traceparent", "baggage")}
    found = propagate.extract({name: value for name, value in carrier.items() if value})
    token = context.attach(found)
    try:
        yield
    finally:
        context.detach(token)


def wire_context() -> dict[str, str]:
    """``traceparent`` and ``baggage`` of the current span, to send with a request."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier


def agent_attributes(version: str, request: str) -> dict[str, str]:
    """Attributes of the ``invoke_agent`` span (GenAI semantic conventions)."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": NAME,
        "gen_ai.agent.version": version,
    }
    return attributes | content("gen_ai.input.messages", "user", request)


def tool_attributes(name: str, call_id: str, arguments: str) -> dict[str, str]:
    """Attributes of an ``execute_tool`` span."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.type": "function",
    }
    return attributes | ({"gen_ai.tool.call.arguments": arguments} if captures() else {})


def content(attribute: str, role: str, text: str) -> dict[str, str]:
    """One text message as an attribute, when content is captured."""
    message: dict[str, object] = {"role": role, "parts": [{"type": "text", "content": text}]}
    if role == "assistant":
        message["finish_reason"] = "stop"
    return {attribute: json.dumps([message])} if captures() else {}


def captures() -> bool:
    """Whether message content goes on spans."""
    return os.environ.get(CAPTURE, "").lower() in {"span_only", "span_and_event"}
