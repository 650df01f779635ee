"""Secrets planted into OTLP requests: into each text of a request, wherever it stands.

``gentle`` leaves alone the few attributes that tell a dialect and its steps apart, so that what is
read of a span carries secrets; otherwise those are planted into as well.
"""

import base64
import itertools
import json

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}
_STEERING = (
    *("operation.name", "span.kind", "observation.type", "spanType", "operationId", "event.name"),
    *("type", "kind", "role", "provider.name", "gen_ai.system", "entity.name", "span_type"),
)
_JOINTS = (" ", "\n", ": ", "/", '"', " (", "\t", "=")


class Planter:
    """Plants the next secret at each place; ``start`` says with which to begin."""

    def __init__(self, planted, start=0, *, gentle=True):
        turned = [*planted[start % len(planted) :], *planted[: start % len(planted)]]
        self._next = itertools.cycle(turned)
        self._joint = itertools.cycle(_JOINTS)
        self._gentle = gentle
        self.places = 0

    def text(self, text=""):
        """A text with a secret behind it."""
        self.places += 1
        secret = next(self._next).text
        return f"{text}{next(self._joint)}{secret}" if text else secret

    def request(self, signal, payload):
        """An OTLP request with secrets in all texts, and some more where there were none."""
        request = REQUESTS[signal]()
        request.ParseFromString(payload)
        self._message(request, "")
        groups = request.resource_spans if signal == "traces" else request.resource_logs
        for group in groups:
            self._extra(group.resource.attributes)
            scopes = group.scope_spans if signal == "traces" else group.scope_logs
            for scope in scopes:
                self._extra(scope.scope.attributes)
                for item in scope.spans if signal == "traces" else scope.log_records:
                    self._item(signal, item)
        return request.SerializeToString()

    def _item(self, signal, item):
        self._extra(item.attributes)
        if signal == "logs":
            return
        item.status.message = self.text(item.status.message)
        item.trace_state = self.text("vendor")
        event = item.events.add(name=self.text("exception"), time_unix_nano=1)
        for name in ("exception.type", "exception.message", "exception.stacktrace"):
            event.attributes.add(key=name).value.string_value = self.text("Boom")
        link = item.links.add(trace_id=b"t" * 16, span_id=b"s" * 8, trace_state=self.text())
        self._extra(link.attributes)

    def _extra(self, attributes):
        attributes.add(key=self.text("key")).value.string_value = "under a key"
        attributes.add(key="acme.note").value.string_value = self.text("note")
        attributes.add(key="http.request.header.cookie").value.string_value = self.text("sid")
        url = f"https://shop.example/a?{self.text('q')}#{self.text('f')}"
        attributes.add(key="url.full").value.string_value = url
        attributes.add(key="baggage.user").value.string_value = self.text()
        attributes.add(key="acme.raw").value.bytes_value = self.text("raw").encode()
        wide = self.text("wide").encode("utf-16")
        attributes.add(key="acme.packed").value.string_value = base64.b64encode(wide).decode()
        nested = attributes.add(key="input.value").value.kvlist_value
        inner = nested.values.add(key="deep").value.array_value
        inner.values.add().string_value = json.dumps({"in": json.dumps([self.text("json")])})
        attributes.add(key="llm.invocation_parameters").value.string_value = self.text('{"cut": "')

    def _message(self, message, key):
        for field, value in message.ListFields():
            if field.message_type is not None:
                self._below(field, value, key)
            elif field.cpp_type == field.CPPTYPE_STRING and field.type == field.TYPE_STRING:
                self._string(message, field, value, key)

    def _below(self, field, value, key):
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
        for item in list(value) if repeated else [value]:
            self._message(item, getattr(item, "key", "") or key)

    def _string(self, message, field, value, key):
        if field.name == "key" or (self._gentle and key.endswith(_STEERING)):
            return
        if field.name == "schema_url":
            setattr(message, field.name, f"{value}?{self.text('s')}")
        elif self._gentle and field.name == "name":
            setattr(message, field.name, self.text(value))
        else:
            setattr(message, field.name, self._planted(value))

    def _planted(self, value):
        try:
            parsed = json.loads(value)
        except ValueError:
            return self.text(value)
        if not isinstance(parsed, dict | list):
            return self.text(value)
        return json.dumps(self._leaves(parsed), ensure_ascii=self.places % 2 == 0)

    def _leaves(self, value):
        if isinstance(value, dict):
            return {
                key: item
                if self._gentle and key in ("role", "type", "name")
                else self._leaves(item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._leaves(item) for item in value]
        return self.text(value) if isinstance(value, str) else value


def hand_made():
    """One small request a signal that has every field there is: where no captures are at hand."""
    traces = ExportTraceServiceRequest()
    group = traces.resource_spans.add(schema_url="https://opentelemetry.io/schemas/1.30.0")
    _text(group.resource.attributes, "service.name", "shop")
    _text(group.resource.attributes, "process.command_args", "run")
    scope = group.scope_spans.add()
    scope.scope.name, scope.scope.version = "hand", "1"
    for number, attributes in enumerate(_DIALECTS):
        span = scope.spans.add(name=attributes[0][1], kind=3)
        span.trace_id, span.span_id = b"h" * 15 + bytes([number + 1]), b"s" * 7 + bytes([number])
        span.start_time_unix_nano, span.end_time_unix_nano = 10**18, 10**18 + 10**6
        for key, value in attributes[1:]:
            _text(span.attributes, key, value)
    logs = ExportLogsServiceRequest()
    records = logs.resource_logs.add()
    _text(records.resource.attributes, "service.name", "shop")
    held = records.scope_logs.add()
    held.scope.name = "hand"
    for number, name in enumerate(_EVENTS):
        record = held.log_records.add(time_unix_nano=10**18, severity_text="INFO", event_name=name)
        record.trace_id, record.span_id = b"h" * 15 + bytes([1]), b"s" * 8
        _text(record.attributes, "event.name", name)
        _text(record.attributes, "gen_ai.system", "openai")
        body = record.body.kvlist_value.values.add(key="content").value
        body.string_value = f"said {number}"
    return {"traces": traces.SerializeToString(), "logs": logs.SerializeToString()}


def _text(attributes, key, value):
    attributes.add(key=key).value.string_value = value


_SAID = '[{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]'
_ASKED = (
    '[{"role": "assistant", "content": "hi", "tool_calls": [{"id": "c1", "type": "function"}]}]'
)
_DIALECTS = (
    (
        *(("", "chat gpt-4o"), ("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "m")),
        *(("gen_ai.input.messages", _SAID), ("gen_ai.output.messages", _SAID)),
        *(("gen_ai.provider.name", "openai"), ("gen_ai.system_instructions", _SAID)),
    ),
    (
        *(("", "execute_tool refund"), ("gen_ai.operation.name", "execute_tool")),
        *(("gen_ai.tool.name", "refund"), ("gen_ai.tool.call.id", "c1")),
        *(("gen_ai.tool.call.arguments", '{"to": "x"}'), ("gen_ai.tool.call.result", "done")),
    ),
    (
        *(("", "ChatOpenAI"), ("openinference.span.kind", "LLM"), ("llm.model_name", "m")),
        *(("input.value", '{"messages": ["x"]}'), ("output.value", "done")),
        *(("llm.input_messages.0.message.content", "hi"), ("metadata", '{"user": "x"}')),
    ),
    (
        *(("", "openai.chat"), ("llm.request.type", "chat"), ("gen_ai.system", "OpenAI")),
        *(("gen_ai.prompt.0.content", "hi"), ("gen_ai.completion.0.content", "done")),
        *(("traceloop.association.properties.user", "x"), ("traceloop.entity.input", '{"a": 1}')),
    ),
    (
        *(("", "ai.generateText"), ("ai.operationId", "ai.generateText"), ("ai.prompt", _ASKED)),
        *(("ai.response.text", "done"), ("ai.telemetry.metadata.user", "x")),
    ),
    (
        *(("", "run"), ("langfuse.observation.type", "generation")),
        *(("langfuse.observation.input", '{"a": "x"}'), ("langfuse.trace.tags", "x")),
    ),
    (("", "span"), ("mlflow.spanType", '"LLM"'), ("mlflow.spanInputs", '{"a": "x"}')),
    (("", "GET"), ("http.request.method", "GET"), ("http.route", "/a"), ("url.path", "/a/b")),
)
_EVENTS = (
    *("gen_ai.user.message", "gen_ai.choice", "gen_ai.client.inference.operation.details"),
    *("claude_code.user_prompt", "codex.user_prompt", "gemini_cli.user_prompt"),
    "gen_ai.evaluation.result",
)
