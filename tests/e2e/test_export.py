"""A real sidecar that sends on: what leaves, nothing is lost by kill -9, and it never loops."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from export_rig import GrpcSink, HttpSink, until
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from processors.model.span import Span
from sidecar.otlp.encode import encode_spans
from sidecar.otlp.plain import attributes_of

sys.path.insert(0, str(Path(__file__).parent))
from sidecar_process import CONFIG, SidecarProcess

SECRET = "the words of customer 4711"
PROMPT = f'[{{"role":"user","parts":[{{"type":"text","content":"{SECRET}"}}]}}]'


def config(*exporters):
    lines = [
        f'  - name: {name}\n    otlp: {{endpoint: "{url}", protocol: {protocol},'
        ' allow_cidrs: ["127.0.0.0/8"], retry: {initial: 50ms, max: 200ms}}'
        for name, url, protocol in exporters
    ]
    return CONFIG + "export:\n" + "\n".join(lines) + "\n"


@pytest.fixture
def make_sidecar(tmp_path):
    made = []

    def make(*exporters):
        made.append(SidecarProcess(tmp_path, config(*exporters)))
        return made[-1]

    yield make
    for process in made:
        process.stop()


def agent_run(address, key):
    """One agent run by the SDK, with a metric; the names of its spans."""
    headers = {"authorization": f"Bearer {key}"}
    resource = Resource.create({"service.name": "refunds"})
    exporter = OTLPSpanExporter(endpoint=address, insecure=True, headers=headers)
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("t")
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refunds"}
    with tracer.start_as_current_span("invoke_agent refunds", attributes=agent):
        chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": PROMPT}
        with tracer.start_as_current_span("chat gpt", attributes=chat):
            pass
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "issue_refund"}
        with tracer.start_as_current_span("execute_tool issue_refund", attributes=tool):
            pass
    provider.shutdown()
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint=address, insecure=True, headers=headers), 60_000
    )
    meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    meters.get_meter("t").create_counter("agent.runs").add(1)
    meters.shutdown()
    return ["chat gpt", "execute_tool issue_refund", "invoke_agent refunds"]


def scrape(sidecar):
    address = sidecar.addresses["metrics.listen"]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
        return answer.read().decode()


@pytest.mark.requirement("REC-01")
@pytest.mark.requirement("RED-01")
def test_an_agent_run_leaves_by_both_wires_once_with_outcome_and_without_content(make_sidecar):
    with GrpcSink() as over_grpc, HttpSink() as over_http:
        sidecar = make_sidecar(("g", over_grpc.url, "grpc"), ("h", over_http.url, "http"))
        key = sidecar.key()
        sidecar.start()
        names = agent_run(sidecar.addresses["receive.grpc"], key)
        for sink in (over_grpc, over_http):
            until(lambda sink=sink: sink.evaluations() and sink.metrics() and sink.spans())
            assert sink.names() == names
            for span, resource in sink.spans():
                attributes = attributes_of(span.attributes)
                assert attributes["agenttwin.outcome.status"] == "unverified"
                assert resource["service.name"] == "refunds"
                assert resource["agenttwin.project"] == "default"
            (event,) = sink.evaluations()
            assert event["gen_ai.evaluation.score.label"] == "unverified"
            assert {metric.name for metric in sink.metrics()} == {"agent.runs"}
            assert SECRET.encode() not in sink.everything()
        told = (
            'sidecar_export_items_total{exporter="h",signal="traces"} 3.0',
            'sidecar_export_queue_bytes{exporter="g"} 0.0',
        )
        until(lambda: all(line in scrape(sidecar) for line in told))
        assert sidecar.stop() == 0


def test_a_downstream_that_is_away_gets_it_all_after_restarts(make_sidecar):
    with GrpcSink() as gone:
        port, url = gone.port, gone.url
    sidecar = make_sidecar(("g", url, "grpc"))
    key = sidecar.key()
    sidecar.start()
    names = agent_run(sidecar.addresses["receive.grpc"], key)
    until(lambda: 'sidecar_export_queue_bytes{exporter="g"} 0.0' not in scrape(sidecar))
    until(lambda: "export_failed" in sidecar.errors())
    sidecar.process.terminate()
    sidecar.reap()
    with GrpcSink(port=port) as back:
        sidecar.start()
        until(lambda: len(back.evaluations()) == 1 and len(back.spans()) == 3)
        assert back.names() == names


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_an_exporter_that_leads_back_stops_the_start_with_its_place(make_sidecar, tmp_path):
    port = free_port()
    sidecar = make_sidecar(("g", f"http://localhost:{port}", "grpc"))
    file = tmp_path / "sidecar.yaml"
    file.write_text(file.read_text().replace('grpc: "127.0.0.1:0"', f'grpc: "127.0.0.1:{port}"'))
    found = subprocess.run(
        [sys.executable, "-m", "sidecar", "serve"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 3
    assert "export.0.otlp.endpoint leads back to the sidecar itself" in found.stderr
    assert "Traceback" not in found.stderr
    sidecar.process = None


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            found += [child, *descendants(child)]
    return found


def child(sidecar, entry):
    """The process id of a child by its entry function, once there is one."""

    def look():
        for pid in descendants(sidecar.process.pid):
            try:
                if entry in Path(f"/proc/{pid}/cmdline").read_text():
                    return pid
            except OSError:
                continue
        return None

    return until(look)


def post(address, key, spans):
    """Send spans; returns when they are acknowledged, after as many tries as it takes."""
    request = urllib.request.Request(
        f"http://{address}/v1/traces",
        data=encode_spans(spans),
        headers={"content-type": "application/x-protobuf", "authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


@pytest.mark.full  # the kill rounds kill exporters too
@pytest.mark.requirement("REC-02")
def test_kill_9_of_any_process_while_exporting_loses_nothing(make_sidecar):
    """What was taken but not yet behind the cursor comes twice, a window at most; none is lost."""
    killed = []

    def taken_then_killed(_):
        if len(killed) < 3:
            killed.append(child(sidecar, "export_main"))
            os.kill(killed[-1], signal.SIGKILL)
        time.sleep(0.02)

    with HttpSink(taken_then_killed) as sink:
        sidecar = make_sidecar(("h", sink.url, "http"))
        key = sidecar.key()
        sidecar.start()
        sent = []
        for number in range(60):
            trace_id = f"{number + 1:032x}"
            spans = [
                Span(trace_id=trace_id, span_id=f"{n + 1:016x}", name=f"s{number}-{n}", start_ns=1)
                for n in range(20)
            ]
            post(sidecar.addresses["receive.http"], key, spans)
            sent += [span.name for span in spans]
            if number % 15 == 14:
                os.kill(child(sidecar, "pipeline_main"), signal.SIGKILL)
        until(lambda: len(killed) == 3, seconds=60)
        os.kill(sidecar.process.pid, signal.SIGKILL)
        sidecar.reap()
        sidecar.start()
        until(lambda: set(sink.names()) >= set(sent), seconds=60)
        names = sink.names()
        assert set(names) == set(sent)
        assert 0 < len(names) - len(sent) <= 4 * len(sent)
