"""What is encoded decodes to the same: spans and log records of every shape."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from processors.model.span import LogRecord, Scope, Span, SpanEvent, SpanLink
from sidecar.otlp.decode import decode
from sidecar.otlp.encode import encode_logs, encode_spans

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
number = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
raw = st.binary(max_size=6).map(
    lambda data: {"$b64": __import__("base64").b64encode(data).decode()}
)
value = st.recursive(
    st.none() | st.booleans() | number | text | raw,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(text.filter(lambda key: key != "$b64"), inner, max_size=3)
    ),
    max_leaves=6,
)
attributes = st.dictionaries(text, value, max_size=4)
scopes = st.builds(Scope, name=text, version=text, attributes=attributes)
ids = st.integers(1, 2**64 - 1)
times = st.integers(0, 2**64 - 1)
links = st.builds(
    SpanLink,
    trace_id=ids.map(lambda n: f"{n:032x}"),
    span_id=ids.map(lambda n: f"{n:016x}"),
    attributes=attributes,
)
spans = st.builds(
    Span,
    trace_id=ids.map(lambda n: f"{n:032x}"),
    span_id=ids.map(lambda n: f"{n:016x}"),
    parent_span_id=st.none() | ids.map(lambda n: f"{n:016x}"),
    name=text,
    kind=st.integers(0, 5),
    start_ns=times,
    end_ns=times,
    status_code=st.integers(0, 2),
    status_message=text,
    attributes=attributes,
    events=st.lists(st.builds(SpanEvent, name=text, time_ns=times, attributes=attributes)).map(
        tuple
    ),
    links=st.lists(links, max_size=2).map(tuple),
    scope=scopes,
    resource=attributes,
    dropped_attributes=st.integers(0, 2**32 - 1),
    trace_state=text,
).flatmap(
    lambda span: st.integers(0, 2**32 - 1).map(
        lambda flags: replace(span, flags=flags, remote_parent=bool(flags & 0x200))
    )
)
records = st.builds(
    LogRecord,
    trace_id=st.none() | ids.map(lambda n: f"{n:032x}"),
    span_id=st.none() | ids.map(lambda n: f"{n:016x}"),
    time_ns=times,
    event_name=text.filter(bool),
    severity=st.integers(0, 24),
    severity_text=text,
    observed_ns=times,
    flags=st.integers(0, 2**32 - 1),
    body=value,
    attributes=attributes,
    scope=scopes,
    resource=attributes,
).map(
    # What has no time of its own is dated by who saw it; the decoder has done so already.
    lambda record: replace(record, time_ns=record.time_ns or record.observed_ns)
)


@given(st.lists(spans, max_size=4))
def test_spans_come_back_as_they_went(items):
    assert decode("traces", "protobuf", encode_spans(items)).spans == tuple(items)


@given(st.lists(records, max_size=4))
def test_log_records_come_back_as_they_went(items):
    assert decode("logs", "protobuf", encode_logs(items)).logs == tuple(items)


def test_concatenated_requests_are_one_request():
    one = Span(trace_id="1" * 32, span_id="1" * 16, name="a")
    two = Span(trace_id="1" * 32, span_id="2" * 16, name="b")
    joined = encode_spans([one]) + encode_spans([two])
    assert decode("traces", "protobuf", joined).spans == (one, two)


def test_what_protobuf_cannot_hold_is_held_as_near_as_can_be():
    odd = Span(
        trace_id="1" * 32,
        span_id="1" * 16,
        name="a\ud800",
        start_ns=-5,
        end_ns=2**70,
        attributes={"big": 2**70, "half": "\udc00", "pair": "\ud83d\ude00"},
    )
    (back,) = decode("traces", "protobuf", encode_spans([odd])).spans
    assert (back.name, back.start_ns, back.end_ns) == ("a\ufffd", 0, 2**64 - 1)
    assert back.attributes == {"big": str(2**70), "half": "\ufffd", "pair": "😀"}


def test_spans_of_one_resource_and_scope_share_their_group():
    resource, scope = {"service.name": "a"}, Scope(name="s")
    items = [
        Span(trace_id="1" * 32, span_id=f"{n:016x}", resource=resource, scope=scope)
        for n in range(1, 4)
    ]
    request = ExportTraceServiceRequest.FromString(encode_spans(items))
    assert [len(group.scope_spans[0].spans) for group in request.resource_spans] == [3]


def test_every_captured_request_goes_through_unchanged():
    corpus = Path(__file__).parents[3] / ".." / "shared" / "corpora" / "otlp"
    files = sorted(corpus.rglob("*.traces.binpb"))[:200]
    if not files:
        pytest.skip("needs ../shared (corpora/otlp)")
    for file in files:
        batch = decode("traces", "protobuf", file.read_bytes())
        back = decode("traces", "protobuf", encode_spans(batch.spans))
        assert json.dumps([repr(span) for span in back.spans]) == json.dumps(
            [repr(span) for span in batch.spans]
        ), file.name
