"""Spans and log records for tests of normalising and assembling: short to write, real in shape."""

import json

from processors.model.span import Batch, LogRecord, Scope, Span, SpanEvent, SpanLink
from sidecar.pipeline.build import build

NOW = 2_000_000_000_000_000_000
START = 1_700_000_000_000_000_000
MS = 1_000_000


def trace_id(number=1):
    return f"{number:032x}"


def span_id(number):
    return f"{number:016x}"


def span(number, name="work", *, parent=None, at=0, took=1, trace=1, attributes=None, **more):
    """A span of ``took`` ms that starts ``at`` ms; ``number`` is its id, ``parent`` another's."""
    service = more.pop("service", "agent")
    scope = more.pop("scope", "test")
    return Span(
        trace_id=trace_id(trace),
        span_id=span_id(number),
        parent_span_id=None if parent is None else span_id(parent),
        name=name,
        start_ns=START + int(at * MS),
        end_ns=START + int((at + took) * MS),
        attributes=attributes or {},
        resource={"service.name": service},
        scope=Scope(name=scope),
        **more,
    )


def event(name, **attributes):
    return SpanEvent(name=name, attributes=attributes)


def link(number, trace=1):
    return SpanLink(trace_id=trace_id(trace), span_id=span_id(number))


def log(number, name, body=None, *, at=0, trace=1, attributes=None):
    """A log record of the span ``number``."""
    return LogRecord(
        trace_id=trace_id(trace),
        span_id=span_id(number),
        time_ns=START + int(at * MS),
        event_name=name,
        body=body,
        attributes=attributes or {},
        resource={"service.name": "agent"},
    )


def call(call_id, name, arguments):
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def answer(call_id, response):
    part = {"type": "tool_call_response", "id": call_id, "response": response}
    return {"role": "tool", "parts": [part]}


def asked(*calls):
    return {"role": "assistant", "parts": list(calls)}


def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def chat(number, *, shown=(), said=(), tokens=(10, 2), response=None, **place):
    """A model call in the newest conventions."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.input.messages": json.dumps(list(shown)),
        "gen_ai.output.messages": json.dumps(list(said)),
    }
    if tokens is not None:
        attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"] = tokens
    if response is not None:
        attributes["gen_ai.response.id"] = response
    attributes.update(place.pop("attributes", {}))
    return span(number, "chat gpt-4o-mini", kind=3, attributes=attributes, **place)


def tool(number, name, arguments=None, result=None, *, call_id=None, **place):
    """A tool execution in the newest conventions."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    if call_id is not None:
        attributes["gen_ai.tool.call.id"] = call_id
    if arguments is not None:
        attributes["gen_ai.tool.call.arguments"] = json.dumps(arguments)
    if result is not None:
        attributes["gen_ai.tool.call.result"] = json.dumps(result)
    attributes.update(place.pop("attributes", {}))
    return span(number, f"execute_tool {name}", attributes=attributes, **place)


def agent(number, name="refunds", **place):
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    attributes.update(place.pop("attributes", {}))
    return span(number, f"invoke_agent {name}", attributes=attributes, **place)


def traces(*items):
    """The agent traces of spans and log records."""
    spans = tuple(item for item in items if isinstance(item, Span))
    logs = tuple(item for item in items if isinstance(item, LogRecord))
    return build(Batch(spans=spans, logs=logs), project="p", now_ns=NOW)


def one(*items):
    """The one agent trace of spans and log records."""
    found = traces(*items)
    assert len(found) == 1, [trace.trace_ids for trace in found]
    return found[0]


def steps(trace, kind):
    return [step for step in trace.steps if step.kind == kind]


def only(trace, kind):
    found = steps(trace, kind)
    assert len(found) == 1, [(step.kind, step.name) for step in trace.steps]
    return found[0]
