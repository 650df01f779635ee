"""Streams are cut in the same places wherever the network cut them, and come back to the byte."""

import gzip
import json
import zlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_rig import chat_stream, message_stream, response_stream

from sidecar.capture.encodings import Decoder, Encoder, encoder
from sidecar.capture.framing import Body, framing_of, sent
from sidecar.capture.pieces import PIECE_BYTES_MAX, Cutter, bytes_of, cut_of, payload_of
from sidecar.capture.streamed import Answer


def split(data, places):
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


def cut(parts, how):
    cutter = Cutter(how)
    return [piece for part in parts for piece in cutter.feed(part)] + list(cutter.end())


LINES = [
    *("data: {}\n\n", "event: a\ndata: b\n\n", ": ping\n\n", "data: a\ndata: b\n\n", "id: 1\n"),
    *("data:x\r\n\r\n", "data: \u2028\n\n", "x\r\r", "\r\n", "\n", "\r", "data: caf\u00e9\n\n"),
]
lines = st.sampled_from(LINES)


@settings(deadline=None, max_examples=80)
@given(st.lists(lines, max_size=8), st.lists(st.integers(0, 500), max_size=6))
def test_cutting_does_not_depend_on_the_network_and_loses_nothing(texts, places):
    data = "".join(texts).encode()
    for how in ("event", "line"):
        whole = cut([data], how)
        assert cut(split(data, places), how) == whole
        assert b"".join(whole) == data
        assert b"".join(bytes_of(payload_of(piece, how)) for piece in whole) == data


def test_an_event_is_its_fields_and_what_is_more_is_its_text():
    assert payload_of(b"event: a\ndata: {}\n\n", "event") == {"event": "a", "data": "{}"}
    assert payload_of(b": ping\n\n", "event") == ": ping\n\n"
    assert payload_of(b"data: a\ndata: b\n\n", "event") == "data: a\ndata: b\n\n"
    assert payload_of(b"\xff\n\n", "event") == b"\xff\n\n"


def test_a_piece_without_an_end_is_cut_at_a_bound():
    cutter = Cutter("event")
    assert len(list(cutter.feed(b"x" * (PIECE_BYTES_MAX + 1)))) == 1


@pytest.mark.parametrize(
    ("headers", "how"),
    [
        ({"content-type": "text/event-stream; charset=utf-8"}, "event"),
        ({"content-type": "application/x-ndjson"}, "line"),
        ({"content-type": "text/plain"}, "as it came"),
        ({"content-type": "text/plain", "content-length": "3"}, None),
        ({"content-type": "application/json"}, None),
    ],
)
def test_what_is_a_stream(headers, how):
    assert cut_of(headers) == how


def body_of(reply):
    return [payload_of(part, "event") for part in reply.parts]


@pytest.mark.parametrize("stream", [chat_stream, message_stream, response_stream])
def test_a_stream_of_each_protocol_makes_the_answer_it_would_have_been(stream):
    answer = Answer()
    pieces = body_of(stream("It ", "rains."))
    for piece in pieces[:-1]:
        answer.add(piece)
    assert "It rains." in json.dumps(answer.value)
    answer.add(pieces[-1])
    assert answer.ended


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["type", "choices", "delta", "index", "message", "content_block", "response"]
            ),
            st.none()
            | st.integers()
            | st.text(max_size=3)
            | st.lists(st.integers(), max_size=2)
            | st.sampled_from(
                ["message_start", "content_block_delta", "content_block_start", "message_delta"]
            )
            | st.fixed_dictionaries({"content": st.lists(st.integers(), max_size=1)}),
        ),
        max_size=6,
    )
)
def test_events_of_no_protocols_shape_make_nothing_and_raise_nothing(events):
    answer = Answer()
    for event in events:
        answer.add({"data": json.dumps(event)})


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "GZIP", "identity", "", "br", "raw"])
def test_encoded_bodies_are_decoded_as_they_come_and_encoded_again(encoding):
    text = b"It rains. " * 50
    packed = {
        "gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "raw": zlib.compress(text)[2:-4],
    }.get(encoding.lower(), text)
    named = "deflate" if encoding == "raw" else encoding
    decoder = Decoder(named)
    found = b"".join(decoder.feed(packed[n : n + 7]) for n in range(0, len(packed), 7))
    assert found + decoder.end() == text
    again = encoder(named)
    assert (again is None) is (named.lower() not in ("gzip", "deflate"))
    if isinstance(again, Encoder):
        decoder = Decoder(named)
        assert decoder.feed(again.feed(b"It ")) == b"It "  # each piece when it arrives
        assert decoder.feed(again.feed(b"rains.") + again.end()) == b"rains."


def test_encodings_of_the_agents_libraries_and_damage():
    class Upper:
        def decode(self, data):
            return data.upper()

        def flush(self):
            return b"!"

    decoder = Decoder("x, gzip", {"x": Upper})
    assert decoder.feed(gzip.compress(b"ab")) + decoder.end() == b"AB!"
    damaged = Decoder("gzip")
    assert damaged.feed(b"no gzip") == b"no gzip"
    two = Decoder("gzip")
    assert two.feed(gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"


@settings(deadline=None, max_examples=80)
@given(st.lists(st.binary(min_size=1, max_size=9), max_size=5), st.lists(st.integers(0, 99)))
def test_a_body_is_found_on_the_wire_however_it_is_read(pieces, places):
    whole = b"".join(pieces)
    for how, length in (("chunked", 0), ("length", len(whole)), ("close", 0)):
        wire = b"".join(sent(pieces, how, whole=True))
        body = Body(how, length)
        found = b"".join(body.feed(part) for part in split(wire, places) if part)
        assert found == whole
        if how == "close":
            assert not body.complete
            body.feed(b"")
        assert body.complete


def test_how_a_body_is_framed():
    assert framing_of(200, "HEAD", {"content-length": "5"}) == "none"
    assert framing_of(204, "GET", {}) == "none"
    assert framing_of(200, "GET", {"transfer-encoding": "chunked"}) == "chunked"
    assert framing_of(200, "GET", {"content-length": "5"}) == "length"
    assert framing_of(200, "GET", {}) == "close"
    body = Body("chunked")
    body.feed(b"x" * 5000)  # no chunks at all: what is read stays what is read
    assert not body.complete
