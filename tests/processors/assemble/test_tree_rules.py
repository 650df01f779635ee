"""What was reported twice is one step; parents lead through what was merged; totals count once."""

import json

import msgspec
import pytest
from telemetry_rig import agent, asked, call, chat, one, only, span, steps, text, tool, traces

CALL = call("call_aaaaaaaaaaaa", "t", {})


def sources(step):
    return {source.span_id for source in step.sources}


@pytest.mark.requirement("NRM-03")
def test_a_model_call_inside_its_wrapper_is_one_call_with_the_fields_of_both():
    outer = span(
        1, "LLM", took=9, attributes={"openinference.span.kind": "LLM", "llm.system": "openai"}
    )
    trace = one(outer, chat(2, parent=1, at=1, took=7, said=[text("assistant", "ok")]))
    step = only(trace, "model_call")
    assert sources(step) == {f"{1:016x}", f"{2:016x}"}
    assert step.parent_step_id is None
    assert trace.usage_total.input == 10
    assert trace.final_output == "ok"


def test_a_model_span_around_several_calls_is_a_wrapper():
    outer = span(
        1,
        "chain",
        took=30,
        attributes={"openinference.span.kind": "LLM", "llm.token_count.prompt": 20},
    )
    trace = one(outer, chat(2, parent=1, at=1), chat(3, parent=1, at=9))
    assert len(steps(trace, "model_call")) == 2
    assert only(trace, "other").subtype == "wrapper"
    assert trace.usage_total.input == 20


def test_the_same_response_seen_from_two_traces_is_one_call_of_one_run():
    trace = one(
        agent(9, took=20),
        chat(1, parent=9, at=1, took=8, response="chatcmpl-1"),
        chat(2, trace=2, at=2, took=4, response="chatcmpl-1"),
    )
    assert len(only(trace, "model_call").sources) == 2
    assert only(trace, "model_call").parent_step_id == only(trace, "agent").step_id
    assert trace.usage_total.input == 10


def test_a_response_id_reused_later_is_another_call():
    trace = one(
        agent(9, took=90), chat(1, parent=9, response="r"), chat(2, parent=9, at=50, response="r")
    )
    assert len(steps(trace, "model_call")) == 2


def test_two_instrumentations_without_ids_pair_by_time_and_tokens_one_to_one():
    found = traces(
        chat(1, at=1, took=20, scope="outer", tokens=(10, 2)),
        chat(2, trace=2, at=3, took=4, scope="inner", tokens=(10, 2)),
        chat(3, trace=3, at=30, took=20, scope="outer", tokens=(11, 3)),
        chat(4, trace=4, at=33, took=4, scope="inner", tokens=(12, 3)),
    )
    assert sorted(len(steps(trace, "model_call")) for trace in found) == [1, 1, 1]
    assert sorted(len(trace.trace_ids) for trace in found) == [1, 1, 2]


def test_equal_parallel_calls_of_one_instrumentation_stay_apart():
    trace = one(
        agent(9, took=90), chat(1, parent=9, at=1, took=20), chat(2, parent=9, at=2, took=5)
    )
    assert len(steps(trace, "model_call")) == 2


@pytest.mark.requirement("NRM-03")
def test_a_tool_call_reported_at_three_levels_is_one_and_its_failure_bubbles_up():
    trace = one(
        tool(1, "t", {"a": 1}, call_id="c1", took=9),
        tool(2, "t", parent=1, at=1, took=7, status_code=2, status_message="refused"),
        tool(3, "t", {"a": 1}, parent=2, at=2, took=5),
    )
    step = only(trace, "tool_call")
    assert (step.status, step.error.message, step.tool.call_id) == ("error", "refused", "c1")
    assert len(step.sources) == 3


def test_another_call_of_the_same_tool_inside_a_tool_stays():
    trace = one(tool(1, "t", {"a": 1}, took=9), tool(2, "t", {"a": 2}, parent=1, at=1))
    assert len(steps(trace, "tool_call")) == 2


def test_a_sub_agent_called_as_a_tool_hangs_below_the_call():
    trace = one(
        agent(1, "main", took=50),
        tool(2, "helper", parent=1, at=1, took=20),
        agent(3, "helper", parent=2, at=2, took=10),
        chat(4, parent=3, at=3),
    )
    call_step = only(trace, "tool_call")
    helper = next(step for step in steps(trace, "agent") if step.agent.name == "helper")
    assert helper.parent_step_id == call_step.step_id
    assert only(trace, "model_call").agent.name == "helper"


def test_a_ring_of_parents_is_cut_and_nothing_is_lost():
    trace = one(span(1, parent=2), span(2, parent=3), span(3, parent=1), span(4, parent=1))
    assert len(trace.steps) == 4
    assert sum(step.parent_step_id is None for step in trace.steps) == 1


@pytest.mark.requirement("ASM-01")
def test_spans_without_their_root_hang_below_a_synthetic_one():
    trace = one(chat(1, parent=77), tool(2, "t", parent=78, at=5))
    root = trace.steps[0]
    assert (trace.completeness, root.kind, root.subtype) == (
        "missing_root",
        "other",
        "synthetic_root",
    )
    assert {step.parent_step_id for step in trace.steps[1:]} == {root.step_id}


def test_a_parent_in_another_process_is_no_missing_root():
    trace = one(chat(1, parent=77, remote_parent=True))
    assert (trace.completeness, len(trace.steps)) == ("complete", 1)


def test_orphans_beside_a_root_are_named_so():
    assert one(agent(1, took=9), chat(2, parent=77, at=2)).completeness == "orphans"


def test_a_span_that_has_not_ended_leaves_the_trace_open():
    assert one(msgspec.structs.replace(span(1), end_ns=0)).completeness == "open"


def test_tokens_of_agents_count_only_where_no_call_below_has_any():
    sums = {"gen_ai.usage.input_tokens": 99, "gen_ai.usage.output_tokens": 9}
    counted = one(agent(1, took=9, attributes=sums), chat(2, parent=1, at=1))
    assert counted.usage_total.input == 10
    assert only(counted, "agent").usage.scope == "aggregated"
    alone = one(agent(1, took=9, attributes=sums), chat(2, parent=1, at=1, tokens=None))
    assert alone.usage_total.input == 99


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ([text("assistant", "done\n")], "done"),
        ([asked(CALL)], None),
        ([], None),
    ],
)
def test_the_final_answer_is_the_last_text_that_asks_for_nothing(said, answer):
    assert one(chat(1, said=said)).final_output == answer


def test_the_outermost_agents_answer_is_the_runs():
    out = {"gen_ai.output.messages": json.dumps([text("assistant", "all done")])}
    trace = one(
        agent(1, took=50, attributes=out),
        chat(2, parent=1, at=1, said=[text("assistant", "draft")]),
    )
    assert trace.final_output == "all done"


def test_causes_come_before_effects_though_clocks_disagree():
    trace = one(
        chat(2, parent=1, at=10, said=[asked(CALL)]),
        tool(3, "t", {}, call_id=CALL["id"], parent=1, at=8),
        agent(1, at=12, took=2),
    )
    assert [step.kind for step in trace.steps] == ["agent", "model_call", "tool_call"]


def test_a_start_far_ahead_of_our_clock_is_warned_of():
    ahead = one(span(1, at=10**12))
    assert [warning.code for warning in ahead.warnings] == ["clock_skew"]
