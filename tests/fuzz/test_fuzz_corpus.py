"""The corpus that fuzzing has gathered, and inputs hypothesis makes of the keys dialects know."""

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tier import examples

sys.path.insert(0, str(Path(__file__).parent))
from fuzz_otlp import BYTES_MAX, CHOICES, CORPUS, FILES_MAX
from oracle import built, holds

from processors.model.span import Batch, LogRecord, Scope, Span, SpanEvent, SpanLink

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "processors" / "normalise").glob("*.py"))
WORDS = sorted(
    {
        word
        for path in SOURCES
        for word in re.findall(r'"([A-Za-z_][\w.{}-]{1,60})"', path.read_text())
    }
)


def test_every_input_of_the_corpus_keeps_the_promises():
    files = sorted(CORPUS.iterdir())
    assert 10 < len(files) <= FILES_MAX
    for path in files:
        data = path.read_bytes()
        assert len(data) <= BYTES_MAX + 1
        holds(*CHOICES[data[0] % len(CHOICES)], data[1:])


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(WORDS)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner),
    max_leaves=10,
)
# A value as it is, as JSON text, as Python text, and as text that stops short.
attribute = st.one_of(
    values,
    values.map(json.dumps),
    values.map(repr),
    st.tuples(values.map(json.dumps), st.integers(0, 40)).map(lambda pair: pair[0][: pair[1]]),
)
indexed = st.tuples(
    st.sampled_from([word for word in WORDS if "." in word]),
    st.integers(0, 3) | st.sampled_from([2**31, 2**63, -1, 10**30]),
    st.sampled_from(WORDS),
).map(lambda parts: ".".join(map(str, parts)))
keys = st.sampled_from(WORDS) | indexed
attributes = st.dictionaries(keys, attribute, max_size=8)
ids = st.integers(1, 4)
times = st.sampled_from([0, 1, 1_760_000_000_000_000_000, 2**63 - 1, 2**63, 2**64 - 1])
scopes = st.builds(Scope, name=st.sampled_from(WORDS))
resources = st.dictionaries(st.just("service.name"), st.sampled_from(["a", "b"]), max_size=1)
spans = st.builds(
    Span,
    trace_id=st.integers(1, 2).map(lambda number: f"{number:032x}"),
    span_id=ids.map(lambda number: f"{number:016x}"),
    parent_span_id=st.none() | ids.map(lambda number: f"{number:016x}"),
    name=st.sampled_from(WORDS) | st.text(max_size=5),
    kind=st.integers(0, 7),
    start_ns=times,
    end_ns=times,
    status_code=st.integers(0, 3),
    status_message=st.text(max_size=5),
    attributes=attributes,
    events=st.lists(
        st.builds(SpanEvent, name=st.sampled_from(WORDS), attributes=attributes), max_size=2
    ).map(tuple),
    links=st.lists(
        st.builds(
            SpanLink,
            trace_id=st.just(f"{2:032x}"),
            span_id=ids.map(lambda number: f"{number:016x}"),
        ),
        max_size=2,
    ).map(tuple),
    scope=scopes,
    resource=resources,
)
logs = st.builds(
    LogRecord,
    trace_id=st.none() | st.just(f"{1:032x}"),
    span_id=st.none() | ids.map(lambda number: f"{number:016x}"),
    time_ns=times,
    event_name=st.sampled_from(WORDS),
    body=attribute,
    attributes=attributes,
    scope=scopes,
    resource=resources,
)


@pytest.mark.requirement("REC-04")
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(spans, max_size=4), st.lists(logs, max_size=3))
def test_whatever_stands_under_keys_that_dialects_know_is_built_judged_and_stored(items, records):
    built(Batch(spans=tuple(items), logs=tuple(records)))
