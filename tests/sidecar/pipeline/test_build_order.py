"""The same telemetry gives the same traces: in any order, repeated, split into any batches."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from telemetry_rig import (
    NOW,
    agent,
    answer,
    asked,
    call,
    chat,
    event,
    link,
    log,
    span,
    text,
    tool,
)

from processors.assemble.trace import assemble
from processors.model.span import Batch, Span
from processors.normalise.detect import normalise
from sidecar.pipeline.build import build

A, B = "call_aaaaaaaaaaaa", "call_bbbbbbbbbbbb"
FIRST, SECOND = call(A, "look_up", {"id": 1}), call(B, "refund", {"id": 1})
HISTORY = [text("user", "hi"), asked(FIRST, SECOND), answer(A, '{"ok": 1}'), answer(B, "Error: no")]
ITEMS = (
    agent(1, took=90),
    chat(2, parent=1, at=1, took=5, shown=HISTORY[:1], said=[asked(FIRST, SECOND)], response="r1"),
    chat(3, trace=2, at=2, took=2, said=[asked(FIRST, SECOND)], response="r1", scope="other"),
    tool(4, "look_up", {"id": 1}, {"ok": 1}, parent=1, at=8),
    tool(5, "refund", {"id": 1}, parent=1, at=8, status_code=2),
    tool(6, "refund", {"id": 1}, parent=5, at=9, took=0.5),
    chat(7, parent=1, at=20, shown=HISTORY, said=[text("assistant", "sorry")]),
    span(8, "orphan", parent=99, at=21, events=(event("exception", **{"exception.type": "E"}),)),
    span(9, "workflow.run", trace=3, at=30, attributes={"workflow.id": "w"}, links=(link(1),)),
    span(10, "stranger", trace=4, at=40, service="else"),
    span(11, "chat", parent=1, at=50, attributes={"gen_ai.operation.name": "chat"}),
    msgspec.structs.replace(span(11, "chat", parent=1, at=50), end_ns=0),
    log(11, "gen_ai.user.message", {"content": "a"}, at=50),
    log(11, "gen_ai.user.message", {"content": "b"}, at=50),
    log(11, "gen_ai.choice", {"message": {"content": "c"}}, at=51),
    log(12, "gen_ai.user.message", {"content": "d"}, at=60),
)


def batch(items):
    return Batch(
        spans=tuple(item for item in items if isinstance(item, Span)),
        logs=tuple(item for item in items if not isinstance(item, Span)),
    )


EXPECTED = build(batch(ITEMS), project="p", now_ns=NOW)


@pytest.mark.requirement("NRM-04")
@given(st.permutations(ITEMS), st.lists(st.sampled_from(ITEMS), max_size=6), st.data())
def test_order_repetition_and_splitting_change_nothing(order, again, data):
    items = [*order, *again]
    cut = data.draw(st.integers(0, len(items)))
    parts = (batch(items[:cut]), batch(items[cut:]))
    fragments = [fragment for part in parts for fragment in normalise(part)]
    assert assemble(fragments, project="p", now_ns=NOW) == EXPECTED


@pytest.mark.requirement("NRM-01")
@given(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=8, unique_by=id))
def test_whatever_is_missing_every_span_that_came_is_a_source_of_some_step(items):
    traces = build(batch(items), project="p", now_ns=NOW)
    seen = {
        (source.trace_id, source.span_id)
        for trace in traces
        for step in trace.steps
        for source in step.sources
    }
    sent = {(item.trace_id, item.span_id) for item in items if isinstance(item, Span)}
    assert sent <= seen


@given(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=9, unique_by=id))
def test_parents_come_before_children_and_ids_are_unique(items):
    for trace in build(batch(items), project="p", now_ns=NOW):
        ids = [step.step_id for step in trace.steps]
        assert len(set(ids)) == len(ids)
        for place, step in enumerate(trace.steps):
            assert step.parent_step_id is None or step.parent_step_id in ids[:place]
            assert (step.tool is not None) == (step.kind == "tool_call")


def test_the_expected_run_is_what_was_meant():
    trace = EXPECTED[0]
    assert len(trace.trace_ids) == 3
    assert [step.name for step in trace.steps if step.kind == "tool_call"] == ["look_up", "refund"]
    assert [step.status for step in trace.steps if step.kind == "tool_call"] == ["unset", "error"]
    assert trace.final_output == "c"
