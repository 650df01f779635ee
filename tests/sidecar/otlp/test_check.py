"""The decode check: what passes can be decoded and kept, what cannot is counted or refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar.otlp.check import Checked, check
from sidecar.otlp.decode import decode
from sidecar.otlp.errors import Undecodable
from sidecar.pipeline.build import build
from sidecar.pipeline.pack import join, pack, unpack
from sidecar.pipeline.split import split

ids = st.binary(min_size=0, max_size=17)


@given(st.lists(st.tuples(st.just(b"t" * 16) | ids, st.just(b"s" * 8) | ids), max_size=8))
def test_the_count_is_what_the_decoder_keeps(pairs):
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for trace_id, span_id in pairs:
        scope.spans.add(trace_id=trace_id, span_id=span_id)
    payload = request.SerializeToString()
    batch = decode("traces", "protobuf", payload)
    assert check("traces", "protobuf", payload) == Checked(len(batch.spans), batch.rejected)


def test_log_records_need_no_ids():
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add().body.string_value = "x"
    assert check("logs", "protobuf", request.SerializeToString()) == Checked(1, 0)


@given(st.binary(max_size=200), st.sampled_from(["traces", "logs"]))
def test_whatever_bytes_pass_also_decode_split_pack_and_build(payload, signal):
    passes_through(signal, "protobuf", payload)


NAMES = (
    *("resourceSpans", "scopeSpans", "spans", "traceId", "spanId", "attributes", "key", "value"),
    *("stringValue", "intValue", "arrayValue", "values", "kvlistValue", "startTimeUnixNano"),
    *("events", "links", "status", "resource", "scope"),
)
fields = st.sampled_from(NAMES)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
json_values = st.recursive(
    leaves | st.just("a" * 32),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.dictionaries(fields, json_values, max_size=5))
def test_whatever_json_passes_also_decodes_splits_packs_and_builds(anything, span):
    passes_through("traces", "json", json.dumps(anything).encode())
    whole = {"traceId": "a" * 32, "spanId": "b" * 16, **span}
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [whole, anything]}]}]}
    passes_through("traces", "json", json.dumps(body).encode())


def passes_through(signal, encoding, payload):
    """Either it is refused, or nothing after it fails."""
    try:
        checked = check(signal, encoding, payload)
    except Undecodable:
        return
    batch = decode(signal, encoding, payload)
    assert checked.accepted == len(batch.spans) + len(batch.logs)
    pieces = split(batch)
    again = join([unpack(pack(piece)) for piece in pieces.values()])
    assert sorted(map(repr, again.spans + again.logs)) == sorted(
        map(repr, batch.spans + batch.logs)
    )
    for piece in pieces.values():
        build(piece, project="p", now_ns=1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"resourceSpans":' * 50_000,
        b'{"resourceSpans":[{"scopeSpans":[{"spans":5}]}]}',
        b"\xff\xfe{}",
    ],
    ids=lambda body: repr(body[:24]),
)
def test_json_that_is_no_request_is_undecodable(body):
    with pytest.raises(Undecodable):
        check("traces", "json", body)
