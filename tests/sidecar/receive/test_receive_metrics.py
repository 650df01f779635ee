"""Metrics over both wires: the same credential, the same journal, the same answers."""

import asyncio
import json

import aiohttp
import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
    OTLPMetricExporter as GrpcExporter,
)
from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
    OTLPMetricExporter as HttpExporter,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from sidecar.otlp.metrics import read_metrics

METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


def request():
    made = ExportMetricsServiceRequest()
    metric = made.resource_metrics.add().scope_metrics.add().metrics.add(name="runs")
    metric.gauge.data_points.add(as_int=3)
    return made.SerializeToString()


async def post(url, body, key=None, kind="application/x-protobuf"):
    headers = {"Content-Type": kind, **({"Authorization": f"Bearer {key}"} if key else {})}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/metrics", data=body, headers=headers) as response,
    ):
        return response.status, await response.read()


@pytest.mark.requirement("REC-02")
def test_metrics_are_durable_when_they_are_acknowledged(kit):
    async def scenario():
        metadata = (("authorization", f"Bearer {kit.key()}"),)
        async with kit.grpc() as target, grpc.aio.insecure_channel(target) as channel:
            assert await channel.unary_unary(METRICS)(request(), metadata=metadata) == b""
        async with kit.http() as url:
            assert await post(url, request(), kit.key()) == (200, b"")

    asyncio.run(scenario())
    first, second = kit.records()
    assert first.entry.payload == second.entry.payload == request()
    assert {first.entry.signal, second.entry.signal} == {"metrics"}


def test_without_a_key_and_undecodable_they_are_refused(kit):
    async def scenario():
        async with kit.http() as url:
            return await post(url, request()), await post(url, b"\xff\xff", kit.key())

    (without, _), (torn, _) = asyncio.run(scenario())
    assert (without, torn) == (401, 400)
    assert kit.records() == []


def test_a_bad_metric_is_partial_success_in_data_points(kit):
    bad = {"name": "m", "sum": {"dataPoints": [{"asInt": "x"}, {"asInt": "1"}]}}
    body = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [bad]}]}]}).encode()

    async def scenario():
        async with kit.http() as url:
            return await post(url, body, kit.key(), "application/json")

    status, answer = asyncio.run(scenario())
    assert (status, json.loads(answer)["partialSuccess"]["rejectedDataPoints"]) == (200, "2")


@pytest.mark.requirement("REC-01")
@pytest.mark.parametrize("wire", ["grpc", "http"])
def test_the_real_sdk_exports_to_it(kit, wire):
    async def scenario():
        header = {"authorization": f"Bearer {kit.key()}"}
        async with getattr(kit, wire)() as target:
            exporter = (
                GrpcExporter(endpoint=target, insecure=True, headers=header)
                if wire == "grpc"
                else HttpExporter(endpoint=f"{target}/v1/metrics", headers=header)
            )
            await asyncio.to_thread(measure_once, exporter)

    asyncio.run(scenario())
    record = kit.records()[0]  # the exporter sends once more when it is shut down
    (group,) = read_metrics("protobuf", record.entry.payload).request.resource_metrics
    assert group.scope_metrics[0].metrics[0].name == "agent.runs"


def measure_once(exporter):
    provider = MeterProvider([PeriodicExportingMetricReader(exporter, 60_000)])
    provider.get_meter("t").create_counter("agent.runs").add(2)
    provider.force_flush()
    provider.shutdown()
