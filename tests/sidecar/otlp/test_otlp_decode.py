"""Protobuf and JSON say the same; one bad item never loses the others."""

import base64
import json

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar.otlp.decode import Undecodable, decode, decode_within
from sidecar.otlp.errors import TooMany
from sidecar.otlp.limits import LIMITS

TRACE, SPAN, PARENT = "ab" * 16, "cd" * 8, "ef" * 8
FINITE = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
VALUES = st.recursive(
    WORDS.map(lambda text: {"stringValue": text})
    | st.integers(-(2**63), 2**63 - 1).map(lambda number: {"intValue": str(number)})
    | st.booleans().map(lambda truth: {"boolValue": truth})
    | FINITE.map(lambda number: {"doubleValue": number})
    | st.binary(max_size=6).map(lambda raw: {"bytesValue": base64.b64encode(raw).decode()})
    | st.just({}),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: {"arrayValue": {"values": items}})
        | st.dictionaries(WORDS, inner, max_size=3).map(
            lambda items: {
                "kvlistValue": {"values": [{"key": k, "value": v} for k, v in items.items()]}
            }
        )
    ),
    max_leaves=5,
)


def request(*spans, resource=None):
    scope = {"scope": {"name": "s", "version": "1"}, "spans": list(spans)}
    attributes = [{"key": "service.name", "value": {"stringValue": "shop"}}]
    return {
        "resourceSpans": [
            {"resource": resource or {"attributes": attributes}, "scopeSpans": [scope]}
        ]
    }


def span(**more):
    return {
        "traceId": TRACE,
        "spanId": SPAN,
        "parentSpanId": PARENT,
        "name": "n",
        "kind": 3,
        "startTimeUnixNano": "1700000000000000001",
        "endTimeUnixNano": "1700000000000000002",
        **more,
    }


def protobuf(document, kind=ExportTraceServiceRequest):
    """The document in protobuf, by the library's own JSON reader (ids in base64 there)."""

    def ids(node):
        if isinstance(node, dict):
            return {
                key: base64.b64encode(bytes.fromhex(item)).decode()
                if key in ("traceId", "spanId", "parentSpanId")
                else ids(item)
                for key, item in node.items()
            }
        return [ids(item) for item in node] if isinstance(node, list) else node

    return json_format.ParseDict(ids(document), kind()).SerializeToString()


@given(st.dictionaries(WORDS, VALUES, max_size=4))
def test_protobuf_and_json_decode_alike(attributes):
    pairs = [{"key": key, "value": item} for key, item in attributes.items()]
    document = request(
        span(
            attributes=pairs,
            status={"code": 2, "message": "m"},
            events=[{"name": "e", "timeUnixNano": "5", "attributes": pairs}],
            links=[{"traceId": TRACE, "spanId": PARENT}],
            flags=0x300,
            droppedAttributesCount=3,
        )
    )
    from_json = decode("traces", "json", json.dumps(document).encode())
    assert decode("traces", "protobuf", protobuf(document)) == from_json
    (found,) = from_json.spans
    assert (found.trace_id, found.span_id, found.parent_span_id) == (TRACE, SPAN, PARENT)
    assert (found.remote_parent, found.dropped_attributes, found.status_code) == (True, 3, 2)
    assert found.start_ns == 1700000000000000001
    assert set(found.attributes) == set(attributes)
    assert (found.scope.name, found.resource) == ("s", {"service.name": "shop"})


def test_log_records_decode_alike_and_take_the_observed_time():
    record = {
        "observedTimeUnixNano": "7",
        "traceId": TRACE,
        "spanId": SPAN,
        "severityNumber": 9,
        "body": {"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "hi"}}]}},
        "attributes": [{"key": "event.name", "value": {"stringValue": "gen_ai.user.message"}}],
    }
    document = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    from_json = decode("logs", "json", json.dumps(document).encode())
    from_protobuf = decode("logs", "protobuf", protobuf(document, ExportLogsServiceRequest))
    assert from_protobuf == from_json
    (found,) = from_json.logs
    assert (found.time_ns, found.event_name) == (7, "gen_ai.user.message")
    assert found.body == {"content": "hi"}


def test_original_field_names_and_enum_names_are_read_too():
    item = {
        "trace_id": TRACE.upper(),
        "span_id": SPAN,
        "parent_span_id": "",
        "kind": "SPAN_KIND_CLIENT",
        "start_time_unix_nano": 5,
        "status": {"code": "STATUS_CODE_ERROR"},
    }
    document = {"resource_spans": [{"scope_spans": [{"spans": [item]}]}]}
    (found,) = decode("traces", "json", json.dumps(document).encode()).spans
    assert (found.trace_id, found.parent_span_id) == (TRACE, None)
    assert (found.kind, found.status_code, found.start_ns) == (3, 2, 5)


@pytest.mark.requirement("REC-04")
@pytest.mark.parametrize("bad", [{"traceId": "00" * 16}, {"spanId": "xyz"}, {"traceId": None}])
def test_an_item_without_usable_ids_is_counted_and_the_others_stay(bad):
    document = request(span(**bad), span())
    found = decode("traces", "json", json.dumps(document).encode())
    assert (len(found.spans), found.rejected) == (1, 1)


def test_items_that_are_no_objects_are_counted():
    found = decode("traces", "json", json.dumps(request(7, None, span())).encode())
    assert (len(found.spans), found.rejected) == (1, 2)


@pytest.mark.requirement("REC-03")
@pytest.mark.parametrize("depth", [150, 10_000])
def test_a_value_nested_without_bound_costs_itself_and_nothing_else(depth):
    deep = '{"arrayValue": {"values": [' * depth + '{"intValue": 1}' + "]}}" * depth
    document = request(span(attributes=[{"key": "k", "value": "DEEP"}], name="deep"), span())
    payload = json.dumps(document).replace('"DEEP"', deep).encode()
    found = decode_within("traces", "json", payload, LIMITS)
    assert (len(found.batch.spans), found.batch.rejected) == (2, 0)
    assert (found.batch.spans[0].name, found.batch.spans[0].attributes) == ("deep", {"k": None})
    assert found.cuts == {"unreadable_part": 1}


def test_json_of_nothing_but_brackets_is_undecodable():
    with pytest.raises((Undecodable, TooMany)):
        decode("traces", "json", b'{"resourceSpans":' + b"[" * 450_000 + b"]" * 450_000 + b"}")


def test_a_double_that_is_not_finite_leaves_its_key_with_none():
    for text in ('"NaN"', "NaN", '"Infinity"', "null", "1e400"):
        attribute = f'[{{"key": "k", "value": {{"doubleValue": {text}}}}}]'
        payload = json.dumps(request(span(attributes="HERE"))).replace('"HERE"', attribute)
        (found,) = decode("traces", "json", payload.encode()).spans
        assert found.attributes == {"k": None}
    message = ExportTraceServiceRequest.FromString(protobuf(request(span())))
    attribute = message.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="k")
    attribute.value.double_value = float("nan")
    (found,) = decode("traces", "protobuf", message.SerializeToString()).spans
    assert found.attributes == {"k": None}


def test_a_lone_surrogate_becomes_a_character():
    payload = json.dumps(request(span(name="\ud800x"))).encode()
    (found,) = decode("traces", "json", payload).spans
    assert found.name == "\ufffdx"


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[]", b'{"a": 1}', b"\xff", b'{"resourceSpans": 1}']
)
def test_json_that_is_no_request_is_undecodable(payload):
    with pytest.raises(Undecodable):
        decode("traces", "json", payload)


def test_an_empty_request_is_an_empty_batch():
    assert decode("traces", "json", b"{}").spans == ()
    assert decode("logs", "protobuf", b"").logs == ()


@pytest.mark.parametrize("payload", [b"\xff", b"hello world", b"\x0a\xff"])
def test_protobuf_that_is_no_request_is_undecodable(payload):
    with pytest.raises(Undecodable):
        decode("traces", "protobuf", payload)


def test_invalid_utf8_costs_its_bytes_and_nothing_else():
    payload = protobuf(request(span(name="good name"), span(spanId="11" * 8, name="other")))
    broken = payload.replace(b"good name", b"good\xff\xfeame")
    found = decode("traces", "protobuf", broken)
    assert [item.name for item in found.spans] == ["good��ame", "other"]
    assert found.rejected == 0


def test_a_torn_span_is_left_out_and_counted_and_its_siblings_stay():
    first = protobuf(request(span(name="whole")))
    message = ExportTraceServiceRequest.FromString(first)
    spans = message.resource_spans[0].scope_spans[0]
    torn = spans.spans[0].SerializeToString()[:-3]
    inner = spans.SerializeToString() + b"\x12" + bytes([len(torn)]) + torn
    outer = b"\x12" + varint(len(inner)) + inner
    payload = b"\x0a" + varint(len(outer)) + outer
    found = decode("traces", "protobuf", payload)
    assert [item.name for item in found.spans] == ["whole"]
    assert found.rejected == 1


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_undecodable(payload):
    for encoding in ("protobuf", "json"):
        try:
            decode("traces", encoding, payload)
        except Undecodable:
            pass


@given(st.integers(0, 400), st.integers(0, 255))
def test_one_changed_byte_raises_nothing_but_undecodable(place, byte):
    payload = bytearray(
        protobuf(request(*(span(spanId=f"{n:016x}", name=f"name {n}") for n in range(1, 6))))
    )
    payload[place % len(payload)] = byte
    try:
        decode("traces", "protobuf", bytes(payload))
    except Undecodable:
        pass
