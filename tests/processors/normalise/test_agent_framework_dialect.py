"""Agent Framework: workflow spans are steps or noise, sentinel ids are none, links join traces."""

import pytest
from telemetry_rig import chat, link, one, only, span, steps, tool


@pytest.mark.parametrize(
    ("name", "key", "subtype"),
    [
        ("workflow.build", "workflow.id", "noise"),
        ("workflow.run", "workflow.id", "workflow"),
        ("executor.process triage", "executor.id", "step"),
        ("edge_group.process Single", "edge_group.id", "noise"),
        ("message.send", "message.type", "message"),
    ],
)
def test_workflow_spans_are_kept_as_other(name, key, subtype):
    step = only(one(span(1, name, attributes={key: "v"})), "other")
    assert step.subtype == subtype


def test_a_name_alone_is_no_evidence():
    assert only(one(span(1, "message.send")), "other").subtype == "unknown"


def test_the_call_id_unknown_is_no_id():
    assert only(one(tool(1, "t", call_id="unknown")), "tool_call").tool.call_id is None


def test_traces_joined_by_links_are_one_run():
    trace = one(
        span(1, "workflow.run", attributes={"workflow.id": "w"}, took=20),
        chat(2, trace=2, at=5, links=(link(1, trace=1),)),
    )
    assert len(trace.trace_ids) == 2
    assert len(steps(trace, "model_call")) == 1
