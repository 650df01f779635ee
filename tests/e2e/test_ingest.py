"""A real sidecar, real OpenTelemetry exporters, and the command line that shows what came."""

import gzip
import json
import re
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcSpanExporter,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpSpanExporter,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from sidecar.store.sqlite.traces import SqliteTraces
from sidecar.store.traces import TraceQuery

sys.path.insert(0, str(Path(__file__).parent))
from sidecar_process import CONFIG, SidecarProcess

SECONDS = 30


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory):
    process = SidecarProcess(tmp_path_factory.mktemp("sidecar"))
    process.start()
    yield process
    process.stop()


def agent_run(exporter, service):
    """One agent run of three spans, exported by the SDK; its trace id."""
    provider = TracerProvider(
        resource=Resource.create({"service.name": service}), shutdown_on_exit=False
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span(
        "invoke_agent helper", attributes={"gen_ai.operation.name": "invoke_agent"}
    ) as root:
        for operation in ("chat", "execute_tool"):
            with tracer.start_as_current_span(
                operation,
                attributes={"gen_ai.operation.name": operation, "gen_ai.tool.name": "look_up"},
            ):
                pass
    provider.shutdown()
    return f"{root.get_span_context().trace_id:032x}"


def post_json(address, trace_id, key=None):
    """One gzipped OTLP/JSON request by hand; the HTTP status."""
    span = {
        "traceId": trace_id, "spanId": "1" * 16, "name": "invoke_agent by hand",
        "startTimeUnixNano": "1750000000000000000", "endTimeUnixNano": "1750000001000000000",
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}],
    }  # fmt: skip
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "by-hand"}}]}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    request = urllib.request.Request(
        f"http://{address}/v1/traces", gzip.compress(json.dumps(body).encode()), headers
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def stored(sidecar):
    """How many traces are published, without the cost of a command."""
    traces = SqliteTraces(sidecar.folder / "data" / "traces.db")
    try:
        return len(traces.list_traces(TraceQuery()))
    finally:
        traces.close()


def listed(sidecar):
    """Every listed trace by id."""
    return {
        item["trace_id"]: item
        for item in json.loads(sidecar.run("trace", "list", "--output", "json"))
    }


@pytest.mark.requirement("REC-01")
@pytest.mark.requirement("REC-05")
def test_what_real_exporters_send_is_listed_and_what_comes_without_a_key_is_not(sidecar):
    key = sidecar.key()
    headers = {"authorization": f"Bearer {key}"}
    grpc, http = sidecar.addresses["receive.grpc"], f"http://{sidecar.addresses['receive.http']}"
    by_hand, refused = "a" * 32, "b" * 32
    assert post_json(sidecar.addresses["receive.http"], refused) == 401
    without = [
        agent_run(GrpcSpanExporter(endpoint=grpc, insecure=True), "nobody"),
        agent_run(HttpSpanExporter(endpoint=f"{http}/v1/traces"), "nobody"),
        refused,
    ]
    sent = {
        agent_run(GrpcSpanExporter(endpoint=grpc, insecure=True, headers=headers), "grpc"): "grpc",
        agent_run(HttpSpanExporter(endpoint=f"{http}/v1/traces", headers=headers), "http"): "http",
        by_hand: "by-hand",
    }
    assert post_json(sidecar.addresses["receive.http"], by_hand, key) == 200
    deadline = time.monotonic() + SECONDS
    while stored(sidecar) < len(sent) and time.monotonic() < deadline:
        time.sleep(0.05)
    found = listed(sidecar)
    assert {trace_id: item["service"] for trace_id, item in found.items()} == sent
    assert not set(without) & set(found)
    shown = sidecar.run("trace", "show", next(iter(sent)))
    assert re.search(r"agent .*\n.*model_call .*\n.*tool_call ", shown)


def test_a_second_sidecar_on_the_same_port_says_which_and_ends_with_3(sidecar, tmp_path):
    taken = sidecar.addresses["receive.http"]
    other = SidecarProcess(tmp_path, CONFIG.replace('http: "127.0.0.1:0"', f'http: "{taken}"'))
    with pytest.raises(AssertionError, match=re.escape(taken)) as told:
        other.start()
    assert "receive.http" in str(told.value) and "Traceback" not in str(told.value)
    assert other.stop() == 3


def test_it_stops_when_asked_and_what_it_took_is_there_afterwards(tmp_path):
    process = SidecarProcess(tmp_path)
    process.start()
    key = process.key()
    for number in range(20):
        assert post_json(process.addresses["receive.http"], f"{number + 1:032x}", key) == 200
    assert process.stop() == 0
    again = SidecarProcess(tmp_path)
    again.start()
    deadline = time.monotonic() + SECONDS
    while stored(again) < 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(listed(again)) == 20
    again.stop()
    assert "Traceback" not in again.errors()
