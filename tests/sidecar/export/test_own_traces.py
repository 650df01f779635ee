"""The sidecar's own spans: off unless asked for, under the caller's span, telling no content."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from export_rig import HttpSink, until
from gateway_rig import rig

from sidecar.config import load
from sidecar.errors import SidecarError
from sidecar.export.client import open_lane
from sidecar.export.config import Otlp, OwnTraces
from sidecar.export.own.client import OwnTracing
from sidecar.otlp.plain import attributes_of
from sidecar.telemetry import OWN_SPANS, REGISTRY

TRACE, SPAN = "ab" * 16, "cd" * 8


@asynccontextmanager
async def tracing(endpoint, folder, **more):
    config = OwnTraces(
        otlp=Otlp(endpoint=endpoint, protocol="http", allow_cidrs=("127.0.0.1/32",), timeout="1s"),
        **more,
    )
    lane = open_lane(config.exporter, folder, frozenset())
    own = OwnTracing(lane.sender, ratio=config.ratio, timeout_ns=10**9)
    await own.start()
    try:
        yield own
    finally:
        await own.stop()


def not_sent():
    labels = {"stage": "own_traces", "reason": "not_sent"}
    return REGISTRY.get_sample_value("sidecar_dropped_total", labels) or 0


async def refunded(folder, **headers):
    async with rig(folder) as gateway:
        return await gateway.refund("ORD-1", **headers)


@pytest.mark.requirement("OBS-01")
def test_a_call_is_a_span_under_its_callers_and_tells_no_content(tmp_path):

    async def scenario(endpoint):
        async with tracing(endpoint, tmp_path):
            return await refunded(tmp_path, traceparent=f"00-{TRACE}-{SPAN}-01")

    with HttpSink() as sink:
        reply = asyncio.run(scenario(sink.url))
        ((span, resource),) = until(lambda: sink.spans())
    assert reply.status == 201
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, SPAN)
    assert span.name == "gateway.call" and span.end_time_unix_nano > span.start_time_unix_nano
    attributes = attributes_of(span.attributes)
    assert attributes["agenttwin.call.class"] == "irreversible"
    assert attributes["agenttwin.decision.effect"] == "allow"
    assert attributes["http.response.status_code"] == 201
    assert resource["service.name"] == "agenttwin-sidecar"
    assert "ORD-1" not in str(span) and "k1" not in str(span)


def test_without_configuration_no_span_is_made(tmp_path):
    assert OWN_SPANS._tracer is None
    assert asyncio.run(refunded(tmp_path)).status == 201


def test_an_endpoint_that_is_away_costs_the_spans_and_nothing_else(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    before = not_sent()

    async def scenario():
        async with tracing(f"http://127.0.0.1:{port}", tmp_path):
            return await refunded(tmp_path)

    assert asyncio.run(scenario()).status == 201
    assert not_sent() == before + 1


def test_a_ratio_of_nothing_keeps_none_of_our_own_traces(tmp_path):

    async def scenario(endpoint):
        async with tracing(endpoint, tmp_path, ratio=0.0):
            return await refunded(tmp_path)

    with HttpSink() as sink:
        assert asyncio.run(scenario(sink.url)).status == 201
    assert sink.spans() == []


@pytest.mark.parametrize("port", [4317, 4318])
def test_an_endpoint_that_is_ours_is_refused_at_load(tmp_path, port):
    (tmp_path / "sidecar.yaml").write_text(
        f'telemetry: {{traces: {{otlp: {{endpoint: "http://127.0.0.1:{port}",'
        ' allow_cidrs: ["127.0.0.1/32"]}}}\n'
    )
    with pytest.raises(SidecarError, match=r"telemetry\.traces.*leads back"):
        load(str(tmp_path / "sidecar.yaml"), environ={})
