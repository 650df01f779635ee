"""The quick look at a request agrees with the look at each item, whatever the bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar.otlp.check import Checked, check, check_each, check_sound
from sidecar.otlp.decode import decode
from sidecar.otlp.errors import TooMany, Undecodable
from sidecar.otlp.limits import Limits
from sidecar.otlp.wire import field

SOUND = field(1, b"t" * 16) + field(2, b"s" * 8)


def group(number, depth):
    """Groups inside each other, which no message of ours has."""
    start, end = bytes([number << 3 | 3]), bytes([number << 3 | 4])
    return start * depth + end * depth


# Parts of an item: ids good and bad, given once or twice, beside what is sound, torn or foreign.
parts = st.sampled_from(
    [
        field(1, b"t" * 16),
        field(1, bytes(16)),
        field(1, b"t" * 15),
        field(1, b""),
        field(2, b"s" * 8),
        field(2, bytes(8)),
        field(2, b"s" * 24),
        field(5, b"name"),
        field(5, b"\xff\xfe"),
        field(9, field(1, b"key") + field(2, field(1, b"value"))),
        field(9, field(1, b"\xc3") + field(2, b"\x0a\x40short")),
        field(9, b"\x0a"),
        field(9, group(7, 99)),
        group(7, 99),
        group(3, 2),
        b"\x08\x01",
        b"\x11" + bytes(8),
        b"\x8a\x00\x01a",
        b"\x0a\x90\x80\x80\x80\x00" + b"t" * 16,
        b"\x2a\x7fshort",
        b"\x00",
        b"\x0c",
        b"\x78\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ]
)
items = st.lists(parts, max_size=4).map(b"".join) | st.just(SOUND)
around = st.sampled_from([b"", b"", field(1, b"\x0a\x00"), field(1, b"\x0a"), b"\x10\x01", b"\x1a"])


@st.composite
def requests(draw):
    scopes = []
    for _ in range(draw(st.integers(0, 2))):
        inside = b"".join(field(2, each) for each in draw(st.lists(items, max_size=3)))
        scopes.append(field(2, draw(around) + inside))
    payload = b"".join(field(1, draw(around) + each) for each in scopes) + draw(around)
    if draw(st.booleans()) and payload:
        place = draw(st.integers(0, len(payload) - 1))
        payload = payload[:place] + draw(st.binary(max_size=2)) + payload[place + 1 :]
    return payload


@given(requests(), st.sampled_from(["traces", "logs"]))
def test_what_is_called_sound_is_counted_alike_item_by_item_and_kept(payload, signal):
    try:
        found = check_sound(signal, payload)
    except TooMany:
        pytest.fail("nothing here is too many")
    if found is not None:
        assert check_each(signal, payload) == found
    try:
        checked = check(signal, "protobuf", payload)
    except Undecodable:
        assert found is None
        return
    batch = decode(signal, "protobuf", payload)
    assert checked == Checked(len(batch.spans) + len(batch.logs), batch.rejected)


def traces(*spans):
    return field(1, b"".join(field(2, field(2, each)) for each in spans))


@pytest.mark.parametrize("count", [0, 1, 2, 513])
def test_sound_requests_need_no_other_look(count):
    spans = ExportTraceServiceRequest()
    for number in range(1, count + 1):
        span = spans.resource_spans.add().scope_spans.add().spans.add(name="n")
        span.trace_id, span.span_id = number.to_bytes(16, "little"), number.to_bytes(8, "little")
        span.attributes.add(key="k").value.string_value = "\x12\x1c\x0a\x10"
        span.events.add(name="e").attributes.add(key="k")
    assert check_sound("traces", spans.SerializeToString()) == Checked(count, 0)
    logs = ExportLogsServiceRequest()
    for _ in range(count):
        logs.resource_logs.add().scope_logs.add().log_records.add(trace_id=b"short")
    assert check_sound("logs", logs.SerializeToString()) == Checked(count, 0)


@pytest.mark.parametrize(
    "span",
    [
        field(1, b"t" * 16),
        field(2, b"s" * 8),
        field(1, b"t" * 16) + field(2, b"s" * 7),
        field(1, b"t" * 8) + field(2, b"s" * 16),
        field(1, bytes(16)) + field(2, b"s" * 8),
        field(1, b"t" * 16) + field(2, bytes(8)),
        b"",
    ],
    ids=repr,
)
def test_one_bad_id_among_good_ones_is_seen_wherever_it_stands(span):
    for place in range(3):
        spans = [SOUND, SOUND]
        spans.insert(place, span)
        assert check_sound("traces", traces(*spans)) is None
        assert check("traces", "protobuf", traces(*spans)) == Checked(2, 1)


def test_ids_that_only_look_like_none_are_kept():
    span = field(1, b"\x0a\x10" + b"\x12\x08" * 3 + bytes(8)) + field(2, b"\x12" + bytes(7))
    assert check("traces", "protobuf", traces(span, SOUND)) == Checked(2, 0)


def test_an_item_that_nothing_repairs_keeps_its_ids():
    deep = SOUND + field(9, b"\x0a" + b"\x01\xff" + group(7, 99))
    batch = decode("traces", "protobuf", traces(deep, SOUND))
    assert [span.trace_id for span in batch.spans] == [(b"t" * 16).hex()] * 2
    assert check("traces", "protobuf", traces(deep, SOUND)) == Checked(2, 0)


def test_more_items_than_allowed_are_too_many_at_the_quick_look():
    with pytest.raises(TooMany, match="more than 2 items"):
        check_sound("traces", traces(SOUND, SOUND, SOUND), Limits(items_max=2))
