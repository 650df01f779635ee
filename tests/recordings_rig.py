"""Recordings of the errand of ``suite_rig``, as tapes and as a capture of OTLP requests."""

import json

from sidecar.cli.tape_import import write
from sidecar.replay.import_tape import redactor_of
from sidecar.replay.import_tau import tau_runs

CONFIG = """\
gateway:
  upstreams: [{name: shop, url: "http://shop.invalid"}]
  tools:
    - name: get_order
      upstream: shop
      match: {method: GET, path: "/orders/{order_id}"}
      class: read
"""
ORDER = {"id": "A-1", "open": True}
READ = ("get_order", {"order_id": "A-1"}, ORDER)


def tau(*calls, asked="A-1", said="It is open."):
    """A run as tau-bench writes it."""
    messages = [{"role": "user", "content": asked}]
    for number, (name, arguments, result) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        called = [{"id": f"c{number}", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": called})
        text = result if isinstance(result, str) else json.dumps(result)
        messages.append({"role": "tool", "name": name, "content": text})
    messages.append({"role": "assistant", "content": said})
    return {"task_id": 1, "trial": 0, "reward": 1.0, "messages": messages}


def tape(path, *calls, capture="full", **more):
    """A tape of such a run."""
    path.parent.mkdir(exist_ok=True)
    (one,) = tau_runs(json.dumps([tau(*calls, **more)]).encode(), capture)
    write(one, path, "packed", redactor_of(capture), content=capture != "off")
    return path


def _attribute(key, value):
    text = value if isinstance(value, str) else json.dumps(value)
    return {"key": key, "value": {"stringValue": text}}


def capture(folder):
    """A capture of one run that read an order, with its content."""
    folder.mkdir()

    def said(role, text):
        return [{"role": role, "parts": [{"type": "text", "content": text}]}]

    def span(number, name, parent, *attributes):
        return {
            "traceId": "ab" * 16,
            "spanId": f"{number:016x}",
            **({"parentSpanId": f"{parent:016x}"} if parent else {}),
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(1_700_000_000_000_000_000 + number),
            "endTimeUnixNano": str(1_700_000_000_000_001_000 + number),
            "attributes": [_attribute(key, value) for key, value in attributes],
            "status": {},
        }

    spans = [
        span(1, "invoke_agent helper", 0, ("gen_ai.operation.name", "invoke_agent")),
        span(
            *(2, "chat m", 1),
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.request.model", "m"),
            ("gen_ai.input.messages", said("user", "A-1")),
            ("gen_ai.output.messages", said("assistant", "I look.")),
        ),
        span(
            *(3, "execute_tool get_order", 1),
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "get_order"),
            ("gen_ai.tool.call.arguments", {"order_id": "A-1"}),
            ("gen_ai.tool.call.result", ORDER),
        ),
        span(
            *(4, "chat m", 1),
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.request.model", "m"),
            ("gen_ai.output.messages", said("assistant", "It is open.")),
        ),
    ]
    resource = {"attributes": [_attribute("service.name", "helper")]}
    request = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
    (folder / "0001.traces.json").write_text(json.dumps(request))
    return folder
