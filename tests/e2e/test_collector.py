"""A real Collector before and behind a real sidecar, with the files of deploy/collector.

The Collector is built with Go by ``make collector``. An SDK's run comes out at the far end once,
with the outcome beside it, and nothing goes round: as deployed, and when it is wired wrongly.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from built_tools import program
from export_rig import GrpcSink, until
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpSpanExporter,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from sidecar.otlp.plain import attributes_of

sys.path.insert(0, str(Path(__file__).parent))
from sidecar_process import CONFIG, SidecarProcess

DEPLOY = Path(__file__).parents[2] / "deploy" / "collector"
SECONDS = 40


@pytest.fixture(scope="module")
def otelcol():
    """The Collector's program."""
    return program("otelcol")


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Collector:
    """A Collector with a configuration file and the addresses it is given by environment."""

    def __init__(self, otelcol, folder, config, ports, **environment):
        self.log = (folder / "otelcol.log").open("ab")
        self.process = subprocess.Popen(
            [otelcol, "--config", str(config)],
            env={**os.environ, **environment},
            stdout=self.log,
            stderr=self.log,
        )
        until(lambda: all(map(listens, ports)) or self.process.poll() is not None, SECONDS)
        assert self.process.poll() is None, (folder / "otelcol.log").read_text()[-2000:]

    def stop(self):
        self.process.terminate()
        self.process.wait(SECONDS)
        self.log.close()


@pytest.fixture
def running():
    """What is to be stopped at the end, the last first."""
    started = []
    yield started
    for each in reversed(started):
        each.stop()


def agent_run(port, http_port):
    """One agent run over both of the Collector's wires, with a log record and a metric."""
    resource = Resource.create({"service.name": "refunds"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    over_grpc = OTLPSpanExporter(endpoint=f"127.0.0.1:{port}", insecure=True)
    provider.add_span_processor(SimpleSpanProcessor(over_grpc))
    logs = LoggerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPLogExporter(endpoint=f"127.0.0.1:{port}", insecure=True)
    logs.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    tracer = provider.get_tracer("t")
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refunds"}
    with tracer.start_as_current_span("invoke_agent refunds", attributes=agent):
        llm = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o-mini"}
        with tracer.start_as_current_span("LLM", attributes=llm):
            pass
        logs.get_logger("t").emit(body="a line", event_name="app.note")
    provider.shutdown()
    logs.shutdown()
    other = TracerProvider(resource=resource, shutdown_on_exit=False)
    over_http = HttpSpanExporter(endpoint=f"http://127.0.0.1:{http_port}/v1/traces")
    other.add_span_processor(SimpleSpanProcessor(over_http))
    with other.get_tracer("t").start_as_current_span("GET /orders"):
        pass
    other.shutdown()
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint=f"127.0.0.1:{port}", insecure=True), 60_000
    )
    meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    meters.get_meter("t").create_counter("agent.runs").add(1)
    meters.shutdown()
    return ["GET /orders", "LLM", "invoke_agent refunds"]


def sidecar_between(folder, collector_port):
    """A sidecar that sends on to the Collector, and the key of an agent."""
    text = (DEPLOY / "sidecar.yaml").read_text()
    export = text[text.index("export:") :].replace("24317", str(collector_port))
    sidecar = SidecarProcess(folder, CONFIG + export)
    key = sidecar.key()
    sidecar.start()
    return sidecar, key


def quiet(*counts):
    """Whether nothing more comes within some seconds: several times what a round takes."""
    before = [count() for count in counts]
    end = time.monotonic() + 4
    while time.monotonic() < end:
        time.sleep(0.2)
        if [count() for count in counts] != before:
            return False
    return True


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("collector*.yaml")), ids=lambda f: f.name)
def test_the_deployed_configuration_is_valid(otelcol, file):
    environment = {**os.environ, "COLLECTOR_AGENT_KEY": "k"}
    found = subprocess.run(
        [otelcol, "validate", "--config", str(file)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.requirement("REC-01")
def test_agent_to_collector_to_sidecar_to_collector_comes_out_once(otelcol, tmp_path, running):
    agents_grpc, agents_http, verified = free_ports(3)
    sidecar, key = sidecar_between(tmp_path, verified)
    running.append(sidecar)
    with GrpcSink() as backend:
        collector = Collector(
            otelcol,
            tmp_path,
            DEPLOY / "collector.yaml",
            [agents_grpc, agents_http, verified],
            COLLECTOR_AGENTS_GRPC=f"127.0.0.1:{agents_grpc}",
            COLLECTOR_AGENTS_HTTP=f"127.0.0.1:{agents_http}",
            COLLECTOR_VERIFIED_GRPC=f"127.0.0.1:{verified}",
            COLLECTOR_SIDECAR_GRPC=sidecar.addresses["receive.grpc"],
            COLLECTOR_AGENT_KEY=key,
            COLLECTOR_BACKEND_GRPC=f"127.0.0.1:{backend.port}",
        )
        running.append(collector)
        names = agent_run(agents_grpc, agents_http)
        until(lambda: backend.names() == names and backend.metrics(), SECONDS)
        until(lambda: len(backend.records()) == 2, SECONDS)
        assert quiet(lambda: len(backend.asked))
        by_name = {span.name: attributes_of(span.attributes) for span, _ in backend.spans()}
        assert by_name["LLM"]["llm.model_name"] == "gpt-4o-mini"
        assert by_name["LLM"]["gen_ai.request.model"] == "gpt-4o-mini"
        assert by_name["LLM"]["agenttwin.step.kind"] == "model_call"
        assert by_name["invoke_agent refunds"]["agenttwin.outcome.status"] == "unverified"
        events = sorted(record.event_name for record, _ in backend.records())
        assert events == ["app.note", "gen_ai.evaluation.result"]
        assert [metric.name for metric in backend.metrics()] == ["agent.runs"]


def test_a_collector_wired_as_a_loop_by_mistake_does_not_go_round(otelcol, tmp_path, running):
    """One receiver for agents and for what comes back: all passes once more and is let go."""
    port, http_port = free_ports(2)
    sidecar, key = sidecar_between(tmp_path, port)
    running.append(sidecar)
    with GrpcSink() as backend:
        loop = tmp_path / "loop.yaml"
        loop.write_text(
            f"""
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{port}"}}
      http: {{endpoint: "127.0.0.1:{http_port}"}}
exporters:
  otlp_grpc/sidecar:
    endpoint: "{sidecar.addresses["receive.grpc"]}"
    tls: {{insecure: true}}
    headers: {{authorization: "Bearer {key}"}}
  otlp_grpc/backend: {{endpoint: "127.0.0.1:{backend.port}", tls: {{insecure: true}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [otlp_grpc/sidecar, otlp_grpc/backend]}}
    logs: {{receivers: [otlp], exporters: [otlp_grpc/sidecar, otlp_grpc/backend]}}
    metrics: {{receivers: [otlp], exporters: [otlp_grpc/sidecar, otlp_grpc/backend]}}
"""
        )
        running.append(Collector(otelcol, tmp_path, loop, [port, http_port]))
        names = agent_run(port, http_port)
        until(lambda: backend.names() == sorted(names * 2), SECONDS)
        until(lambda: len(backend.records()) == 3 and len(backend.metrics()) == 2, SECONDS)
        assert quiet(lambda: len(backend.asked))
        assert "looped" in sidecar.errors()
