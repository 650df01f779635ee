"""Metrics are read from both encodings, whole or without what cannot be read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from sidecar.otlp.check import Checked, check
from sidecar.otlp.errors import Undecodable
from sidecar.otlp.metrics import read_metrics


def request(*values, name="gen_ai.client.token.usage"):
    made = ExportMetricsServiceRequest()
    metric = made.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    for value in values:
        metric.sum.data_points.add(as_int=value)
    return made


def in_json(*metrics):
    return json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}).encode()


def histogram(**point):
    return {"name": "d", "histogram": {"dataPoints": [point], "aggregationTemporality": 2}}


@pytest.mark.requirement("REC-01")
def test_protobuf_is_counted_in_data_points():
    assert check("metrics", "protobuf", request(1, 2, 3).SerializeToString()) == Checked(3, 0)


def test_json_is_the_same_message_with_hex_ids_and_numbers_in_text():
    point = {
        "count": "7",
        "sum": 1.5,
        "bucketCounts": ["3", "4"],
        "explicitBounds": [1],
        "exemplars": [{"asDouble": 2.5, "traceId": "ab" * 16, "spanId": "cd" * 8}],
    }
    read = read_metrics("json", in_json(histogram(**point)))
    (got,) = read.request.resource_metrics[0].scope_metrics[0].metrics[0].histogram.data_points
    assert (got.count, got.sum, list(got.bucket_counts), read.lost) == (7, 1.5, [3, 4], 0)
    assert got.exemplars[0].trace_id == b"\xab" * 16


def test_a_bad_metric_sinks_no_other():
    good = {"name": "ok", "gauge": {"dataPoints": [{"asInt": "1"}]}}
    bad = histogram(exemplars=[{"traceId": "no hex"}])
    read = read_metrics("json", in_json(bad, good, bad))
    metrics = read.request.resource_metrics[0].scope_metrics[0].metrics
    assert [metric.name for metric in metrics] == ["ok"]
    assert check("metrics", "json", in_json(bad, good, bad)) == Checked(1, 2)


def test_text_that_is_not_utf_8_costs_only_itself():
    payload = request(1, name="caf\x00").SerializeToString().replace(b"caf\x00", b"caf\xff")
    read = read_metrics("protobuf", payload)
    assert read.request.resource_metrics[0].scope_metrics[0].metrics[0].name == "caf\ufffd"


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"resourceSpans": []}', b'{"resourceMetrics": 1}'])
def test_what_is_no_request_is_refused(body):
    with pytest.raises(Undecodable):
        read_metrics("json", body)


@pytest.mark.parametrize("depth", [200, 100_000])
def test_a_value_too_deep_is_lost_or_refused_and_harms_nothing(depth):
    deep = '{"arrayValue":{"values":[' * depth + "]}}" * depth
    attribute = f'{{"key": "a", "value": {deep}}}'
    metric = f'{{"name": "m", "gauge": {{"dataPoints": [{{"attributes": [{attribute}]}}]}}}}'
    body = f'{{"resourceMetrics": [{{"scopeMetrics": [{{"metrics": [{metric}]}}]}}]}}'.encode()
    try:
        assert check("metrics", "json", body) == Checked(0, 1)
    except Undecodable:
        assert depth > 200


@given(st.binary(max_size=200), st.sampled_from(["protobuf", "json"]))
def test_whatever_bytes_come_they_are_read_or_refused(payload, encoding):
    try:
        checked = check("metrics", encoding, payload)
    except Undecodable:
        return
    assert checked.accepted >= 0
    assert read_metrics(encoding, payload).lost == checked.rejected
