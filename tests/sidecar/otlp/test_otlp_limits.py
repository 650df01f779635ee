"""What exceeds a limit gives way, largest first; ids, names, times and status never do."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tier import examples

from sidecar.otlp.check import Checked, check
from sidecar.otlp.decode import decode_within
from sidecar.otlp.errors import TooMany, Undecodable
from sidecar.otlp.limits import LIMITS, Limits
from sidecar.otlp.wire import encoded, field

FILLER = b"f" * 2_200_000  # more than is read whole
SMALL = Limits(
    items_max=20,
    nodes_max=1000,
    item_bytes_max=4096,
    attributes_max=16,
    events_max=4,
    links_max=3,
    value_bytes_max=512,
)
TRACE, SPAN = b"t" * 16, b"s" * 8


def request(*fill, filler=b""):
    """A request with a span for each function; ``filler`` makes it too large to be read whole."""
    made = ExportTraceServiceRequest()
    scope = made.resource_spans.add().scope_spans.add()
    for number, each in enumerate(fill, 1):
        span = scope.spans.add(
            trace_id=TRACE, span_id=number.to_bytes(8, "big"), name=f"span {number}"
        )
        span.start_time_unix_nano, span.end_time_unix_nano = 5, 9
        span.status.code = 2
        each(span)
    # An unknown field of the request: it costs bytes and nothing else.
    return made.SerializeToString() + (field(99, filler) if filler else b"")


def nothing(_):
    pass


def text(key, size):
    def fill(span):
        span.attributes.add(key=key).value.string_value = "x" * size

    return fill


def in_json(payload):
    """The same request in the JSON encoding."""
    made, groups = ExportTraceServiceRequest.FromString(payload), []
    for group in made.resource_spans:
        for scope in group.scope_spans:
            spans = [_span(span) for span in scope.spans]
            groups.append({"scopeSpans": [{"spans": spans}]})
    return json.dumps({"resourceSpans": groups}).encode()


def _span(span):
    return {
        "traceId": span.trace_id.hex(), "spanId": span.span_id.hex(), "name": span.name,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano), "status": {"code": span.status.code},
        "attributes": _attributes(span),
        "events": [{"name": e.name, "attributes": _attributes(e)} for e in span.events],
        "links": [{"traceId": li.trace_id.hex(), "spanId": li.span_id.hex()} for li in span.links],
    }  # fmt: skip


def _attributes(holder):
    return [{"key": a.key, "value": _value(a.value)} for a in holder.attributes]


def _value(value):
    if value.WhichOneof("value") == "array_value":
        return {"arrayValue": {"values": [_value(item) for item in value.array_value.values]}}
    if value.WhichOneof("value") == "int_value":
        return {"intValue": str(value.int_value)}
    return {"stringValue": value.string_value}


def each_way(payload, filler):
    """Decoded whole, decoded apart and decoded from JSON."""
    yield decode_within("traces", "protobuf", payload, SMALL)
    yield decode_within("traces", "protobuf", payload + field(99, filler), SMALL)
    yield decode_within("traces", "json", in_json(payload), SMALL)


def many_attributes(span):
    for number in range(40):
        span.attributes.add(key=f"k{number}").value.string_value = "x" * number


def many_events(span):
    for number in range(9):
        event = span.events.add(name=f"event {number}")
        event.attributes.add(key="k").value.string_value = "x" * (9 - number)


def many_links(span):
    for number in range(1, 8):
        span.links.add(trace_id=TRACE, span_id=number.to_bytes(8, "big"))


def long_text(span):
    span.attributes.add(key="long").value.string_value = "é" * 1000


def long_list(span):
    values = span.attributes.add(key="list").value.array_value.values
    for number in range(400):
        values.add().int_value = number


def large_item(span):
    for number in range(12):
        span.attributes.add(key=f"k{number}").value.string_value = "x" * (400 + number)


CASES = [
    (many_attributes, "attributes_over_limit", 24),
    (many_events, "events_over_limit", 5),
    (many_links, "links_over_limit", 4),
    (long_text, "value_over_limit", 1),
    (long_list, "value_over_limit", 1),
    (large_item, "item_over_limit", None),
]


@pytest.mark.requirement("REC-03")
@pytest.mark.parametrize(("fill", "reason", "count"), CASES, ids=lambda each: str(each)[:24])
def test_what_exceeds_gives_way_and_is_counted_however_the_request_is_read(fill, reason, count):
    for decoded in each_way(request(nothing, fill, nothing), FILLER):
        assert decoded.cuts.keys() == {reason}
        assert count is None or decoded.cuts[reason] == count
        first, cut, last = decoded.batch.spans
        assert (first.attributes, last.attributes) == ({}, {})
        assert (cut.trace_id, cut.span_id, cut.name) == (TRACE.hex(), f"{2:016x}", "span 2")
        assert (cut.start_ns, cut.end_ns, cut.status_code) == (5, 9, 2)
        assert len(cut.attributes) <= 16 and len(cut.events) <= 4 and len(cut.links) <= 3


def test_of_too_many_attributes_the_smallest_stay_in_their_order():
    for decoded in each_way(request(many_attributes), FILLER):
        assert list(decoded.batch.spans[0].attributes) == [f"k{number}" for number in range(16)]


def test_a_long_text_keeps_its_beginning_and_says_how_long_it_was():
    for decoded in each_way(request(long_text), FILLER):
        value = decoded.batch.spans[0].attributes["long"]
        assert value.startswith("é" * 256)
        assert value.endswith("...[TRUNCATED: original length 2000]")
        assert len(value.encode()) < 512 + 60


def test_a_large_item_loses_its_largest_values_and_no_more_than_it_must():
    for decoded in each_way(request(large_item), FILLER):
        values = list(decoded.batch.spans[0].attributes.values())
        marked = [value for value in values if value.startswith("...[TRUNCATED")]
        assert len(values) == 12 and 1 <= len(marked) <= 4
        assert marked == values[-len(marked) :]


def test_within_the_limits_nothing_changes_however_the_request_is_read():
    fill = [nothing, text("k", 500), long_list]
    payload = request(*fill[:2])
    whole, apart, from_json = each_way(payload, FILLER)
    assert whole.batch == apart.batch == from_json.batch
    assert whole.cuts == apart.cuts == from_json.cuts == Counter()


def test_huge_names_and_status_messages_are_cut_too():
    def fill(span):
        span.name = "n" * 5000
        span.status.message = "m" * 5000

    decoded = decode_within("traces", "protobuf", request(fill), SMALL)
    (span,) = decoded.batch.spans
    assert span.name.startswith("nnn") and span.status_message.startswith("mmm")
    assert len(span.name) < 600 and len(span.status_message) < 600
    assert span.status_code == 2


def test_log_bodies_and_resources_have_limits_too():
    made = ExportLogsServiceRequest()
    group = made.resource_logs.add()
    for number in range(40):
        group.resource.attributes.add(key=f"r{number}").value.string_value = "y"
    record = group.scope_logs.add().log_records.add(trace_id=TRACE, span_id=SPAN)
    values = record.body.kvlist_value.values
    for number in range(300):
        values.add(key=f"k{number}").value.string_value = "x"
    decoded = decode_within("logs", "protobuf", made.SerializeToString(), SMALL)
    (log,) = decoded.batch.logs
    assert (log.trace_id, log.span_id) == (TRACE.hex(), SPAN.hex())
    assert log.body.startswith("...[TRUNCATED")
    assert len(log.resource) == 16
    assert decoded.cuts.keys() == {"value_over_limit", "attributes_over_limit"}


@pytest.mark.requirement("REC-03")
@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_more_items_than_a_request_may_have_are_refused(encoding):
    payload = request(*[nothing] * 21)
    body = in_json(payload) if encoding == "json" else payload
    with pytest.raises(TooMany):
        check("traces", encoding, body, SMALL)
    assert check("traces", encoding, body, replace(SMALL, items_max=21)) == Checked(21, 0)


@pytest.mark.requirement("REC-03")
def test_empty_messages_by_the_million_are_refused_without_parsing_them():
    for inner in (b"\x12\x00", b"\x0a\x00"):
        spans = field(1, field(2, inner * 4_000_000))
        with pytest.raises(TooMany):
            check("traces", "protobuf", spans)
    with pytest.raises(TooMany):
        check("traces", "protobuf", b"\x0a\x00" * 4_000_000)
    with pytest.raises(TooMany):
        check("traces", "json", b'{"resourceSpans":[' + b"{}," * 600_000 + b"{}]}")
    with pytest.raises(TooMany):
        check("metrics", "protobuf", field(1, field(2, b"\x12\x00" * 2_000_000)))


def test_braces_inside_texts_are_no_objects():
    def fill(span):
        span.attributes.add(key="k").value.string_value = "{[" * 2000 + '\\"' * 10

    body = in_json(request(fill))
    assert check("traces", "json", body, SMALL) == Checked(1, 0)


@pytest.mark.requirement("REC-03")
def test_a_request_of_ten_million_empty_values_keeps_its_neighbours():
    bomb = field(9, field(1, b"k") + field(2, field(5, b"\x0a\x00" * 3_000_000)))
    ids = field(1, TRACE) + field(2, SPAN)
    sound = ids + field(5, b"sound") + field(9, field(1, b"a") + field(2, field(1, b"b")))
    payload = field(1, field(2, field(2, sound) + field(2, ids + bomb) + field(2, sound)))
    assert check("traces", "protobuf", payload) == Checked(3, 0)
    decoded = decode_within("traces", "protobuf", payload, LIMITS)
    first, cut, last = decoded.batch.spans
    assert first == last and first.attributes == {"a": "b"}
    assert cut.attributes["k"].startswith("...[TRUNCATED")
    assert decoded.cuts == {"value_over_limit": 1}


def test_a_request_that_holds_too_much_in_all_keeps_every_span_by_name():
    def fill(span):
        for number in range(12):
            span.attributes.add(key=f"k{number}").value.string_value = "v"

    limits = replace(SMALL, items_max=1000, nodes_max=1000)
    payload = request(*[fill] * 200) + field(99, FILLER)
    decoded = decode_within("traces", "protobuf", payload, limits)
    assert [span.name for span in decoded.batch.spans] == [f"span {n}" for n in range(1, 201)]
    whole = [span for span in decoded.batch.spans if span.attributes]
    assert 70 < len(whole) < 90
    assert decoded.cuts == {"request_over_limit": 200 - len(whole)}


@pytest.mark.requirement("REC-04")
@pytest.mark.parametrize("filler", [b"", b"f" * 3_000_000], ids=["small", "large"])
def test_bad_utf8_and_torn_spans_cost_only_themselves(filler):
    good = field(1, TRACE) + field(2, SPAN) + field(5, b"good")
    bad_text = field(1, TRACE) + field(2, SPAN) + field(5, b"b\xffd")
    torn = good[:-2]
    no_ids = field(5, b"nobody")
    parts = (good, bad_text, torn, no_ids, good)
    payload = field(1, field(2, b"".join(field(2, part) for part in parts))) + field(99, filler)
    decoded = decode_within("traces", "protobuf", payload, LIMITS)
    assert [span.name for span in decoded.batch.spans] == ["good", "b\ufffdd", "good"]
    assert decoded.batch.rejected == 2
    assert check("traces", "protobuf", payload) == Checked(3, 2)


def test_a_resource_after_its_spans_and_in_two_pieces_is_the_resource():
    def attribute(key):
        return field(1, field(1, field(1, key) + field(2, field(1, b"v"))))

    spans = field(2, field(2, field(1, TRACE) + field(2, SPAN)))
    payload = field(1, attribute(b"a") + spans + attribute(b"b"))
    whole = decode_within("traces", "protobuf", payload, LIMITS)
    apart = decode_within("traces", "protobuf", payload + field(99, b"x" * 2_000_000), LIMITS)
    assert whole.batch == apart.batch
    assert apart.batch.spans[0].resource == {"a": "v", "b": "v"}


def test_unknown_groups_are_passed_over():
    group = encoded(77 << 3 | 3) + field(1, b"x") + encoded(77 << 3 | 4)
    payload = field(1, field(2, field(2, field(1, TRACE) + field(2, SPAN) + group)))
    for body in (payload, payload + field(99, b"x" * 2_100_000)):
        assert check("traces", "protobuf", body) == Checked(1, 0)
        assert len(decode_within("traces", "protobuf", body, LIMITS).batch.spans) == 1


pieces = st.recursive(
    st.binary(max_size=12),
    lambda inner: st.lists(
        st.tuples(st.integers(1, 16), inner).map(lambda pair: field(*pair)), max_size=5
    ).map(b"".join),
    max_leaves=20,
)


@settings(max_examples=examples(300))
@given(st.lists(pieces, max_size=6), st.sampled_from(["traces", "logs"]), st.booleans())
def test_whatever_stands_on_the_wire_what_is_accepted_is_decoded(items, signal, large):
    """The promise to the sender, in both ways of reading, for items of any shape."""
    ids = field(1, TRACE) + field(2, SPAN) + field(9, TRACE) + field(10, SPAN)
    body = b"".join(field(2, ids + item) for item in items)
    payload = field(1, field(2, body)) + (field(99, b"x" * 2_100_000) if large else b"")
    try:
        checked = check(signal, "protobuf", payload)
    except Undecodable:
        return
    for limits in (LIMITS, SMALL):
        batch = decode_within(signal, "protobuf", payload, limits).batch
        assert checked == Checked(len(batch.spans) + len(batch.logs), batch.rejected)
