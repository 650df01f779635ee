"""What must hold for any bytes whatever: the promises of receiving, decoding and building."""

import hashlib

from processors.normalise.detect import normalise
from sidecar.otlp.check import Checked, check
from sidecar.otlp.decode import decode_within
from sidecar.otlp.errors import TooMany, Undecodable
from sidecar.otlp.limits import LIMITS, Limits
from sidecar.pipeline.batch import ProjectRules, Rules, conclude
from sidecar.pipeline.build import build
from sidecar.pipeline.pack import join, pack, unpack
from sidecar.pipeline.split import split
from sidecar.store.codec import encode
from sidecar.store.traces import decode_trace, encode_trace, summarise

NOW = 2_000_000_000_000_000_000
TIGHT = Limits(
    items_max=10_000,
    nodes_max=1000,
    item_bytes_max=2048,
    attributes_max=16,
    events_max=2,
    links_max=2,
    value_bytes_max=256,
)
_RULES = [
    Rules(tools={}, projects={}, otherwise=ProjectRules(capture=capture, content_ns=1))
    for capture in ("full", "redacted", "off")
]


def holds(signal, encoding, payload):
    """Fails where a promise is broken; whether the request was accepted."""
    try:
        checked = check(signal, encoding, payload)
    except (Undecodable, TooMany):
        return False
    if signal == "metrics":
        return True
    for limits in (LIMITS, TIGHT):
        batch = decode_within(signal, encoding, payload, limits).batch
        assert checked == Checked(len(batch.spans) + len(batch.logs), batch.rejected)
        within(batch, limits)
        built(batch)
    return True


def within(batch, limits):
    """No item has more than it may."""
    for span in batch.spans:
        assert len(span.attributes) <= limits.attributes_max
        assert len(span.events) <= limits.events_max
        assert len(span.links) <= limits.links_max
    for record in batch.logs:
        assert len(record.attributes) <= limits.attributes_max


def built(batch):
    """Whatever was decoded is kept, built, judged, redacted and stored, and reads back."""
    pieces = split(batch)
    again = join([unpack(pack(piece)) for piece in pieces.values()])
    assert sorted(map(encode, again.spans)) == sorted(map(encode, batch.spans))
    assert sorted(map(encode, again.logs)) == sorted(map(encode, batch.logs))
    for piece in pieces.values():
        normalise(piece)
        traces = build(piece, project="p", now_ns=NOW)
        assert traces == build(turned(piece), project="p", now_ns=NOW)
        for trace in traces:
            stored(trace)


def stored(trace):
    """Under each capture the trace has a stored form."""
    for rules in _RULES:
        done = conclude(trace, (), rules, now_ns=NOW)
        assert len(bytes.fromhex(done.digests.content)) == hashlib.sha256().digest_size
        assert decode_trace(encode_trace(done.trace, 1)) == done.trace
        summary = summarise(done.trace, revision=1, published_ns=NOW)
        assert 0 <= summary.started_ns < 2**63 and 0 <= summary.ended_ns < 2**63


def turned(batch):
    """The same items in the opposite order, the first of them twice."""
    spans, logs = batch.spans[::-1], batch.logs[::-1]
    return type(batch)(spans=spans + spans[-1:], logs=logs + logs[-1:])
