"""ADK: 1.x pairs are one call, placeholders are absent, transfers are handoffs."""

import json

import pytest
from telemetry_rig import event, log, one, only, span, steps

OWN = "gcp.vertex.agent."
CALL = {"function_call": {"id": "adk-11112222", "name": "find", "args": {"id": 7}}}


def adk(number, name, attributes=None, **place):
    return span(number, name, attributes=attributes or {}, scope="gcp.vertex.agent", **place)


def call_llm(number, parts, *, shown=(), tokens=(12, 3), **place):
    contents = [{"role": "user", "parts": [{"text": "hi"}]}, *shown]
    config = {"system_instruction": "Be kind."}
    attributes = {
        "gen_ai.system": "gcp.vertex.agent",
        "gen_ai.request.model": "gemini-x",
        OWN + "event_id": f"e{number}",
        OWN + "session_id": "s1",
        OWN + "llm_request": json.dumps({"config": config, "contents": contents}),
        OWN + "llm_response": json.dumps({"content": {"role": "model", "parts": parts}}),
        "gen_ai.usage.input_tokens": tokens[0],
        "gen_ai.usage.output_tokens": tokens[1],
    }
    return adk(number, "call_llm", attributes, **place)


def tool(number, name="find", arguments="{}", response="{}", *, call_id=None, **place):
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    attributes[OWN + "tool_call_args"] = arguments
    attributes[OWN + "tool_response"] = response
    attributes[OWN + "llm_request"] = "{}"
    if call_id:
        attributes["gen_ai.tool.call.id"] = call_id
    return adk(number, f"execute_tool {name}", attributes, **place)


def test_b6_arguments_and_result_stand_in_adks_own_keys():
    trace = one(tool(1, arguments='{"id": 7}', response='{"result": "rain"}'))
    found = only(trace, "tool_call").tool
    assert (found.arguments, found.result) == ({"id": 7}, "rain")


def test_b22_call_llm_and_generate_content_are_one_call_with_the_fields_of_both():
    trace = one(
        adk(1, "invocation", took=60),
        adk(2, "agent_run [refunds]", parent=1, took=50),
        call_llm(3, [CALL], parent=2, took=20),
        adk(
            4,
            "generate_content gemini-x",
            {
                "gen_ai.operation.name": "generate_content",
                "gen_ai.request.model": "gemini-x",
                "gen_ai.conversation.id": "s1",
                "gen_ai.usage.input_tokens": 12,
                "gen_ai.usage.output_tokens": 3,
            },
            parent=3,
            took=5,
        ),
        tool(5, arguments='{"id": 7}', response='{"n": 1}', parent=3, at=6, call_id="adk-11112222"),
    )
    step = only(trace, "model_call")
    assert [part.name for part in step.messages_out[0].parts] == ["find"]
    assert step.messages_in[0].parts[0].content == "Be kind."
    assert trace.conversation_id == "s1"
    assert (trace.usage_total.input, trace.usage_total.output) == (12, 3)
    assert only(trace, "tool_call").tool.requested_by == step.step_id


def test_a_call_around_the_next_agents_calls_stays_a_call():
    trace = one(
        adk(1, "agent_run [triage]", took=60),
        call_llm(
            2,
            [{"function_call": {"name": "transfer_to_agent", "args": {"agent_name": "b"}}}],
            parent=1,
            took=50,
        ),
        tool(3, "transfer_to_agent", '{"agent_name": "b"}', '{"result": null}', parent=2, at=5),
        adk(4, "agent_run [b]", parent=2, at=8, took=30),
        call_llm(5, [{"text": "done"}], parent=4, at=9, tokens=(20, 4)),
    )
    assert len(steps(trace, "model_call")) == 2
    assert only(trace, "handoff").attributes["handoff.to"] == "b"
    assert not steps(trace, "tool_call")
    assert {step.agent.name for step in steps(trace, "model_call")} == {"triage", "b"}
    assert trace.usage_total.input == 32


def test_the_sum_of_parallel_calls_is_no_call():
    merged = tool(2, "(merged tools)", "N/A", "<not serializable>", parent=1)
    trace = one(adk(1, "agent_run [a]"), merged)
    assert not steps(trace, "tool_call")
    assert [step.subtype for step in steps(trace, "other")] == ["noise"]


def test_placeholders_are_absent_and_empty_arguments_with_a_result_are_not():
    hidden = only(one(tool(1)), "tool_call")
    assert (hidden.tool.arguments, hidden.tool.result) == (None, None)
    assert hidden.content_state == {"arguments": "absent", "result": "absent"}
    assert only(one(tool(1, response='{"n": 1}')), "tool_call").tool.arguments == {}


def test_the_sentinel_id_is_none():
    assert only(one(tool(1, call_id="<not specified>")), "tool_call").tool.call_id is None


def test_an_agents_span_whose_operation_was_overwritten_stays_the_agents():
    def record(number, at, tokens):
        attributes = {"gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": 1}
        name = "gen_ai.client.inference.operation.details"
        return log(number, name, at=at, attributes=attributes)

    agent = adk(
        1,
        "invoke_agent refunds",
        {
            "gen_ai.operation.name": "generate_content",
            "openinference.span.kind": "LLM",
            "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 30,
            "gen_ai.usage.output_tokens": 1,
        },
        took=50,
    )
    trace = one(agent, record(1, 5, 10), record(1, 9, 20))
    assert only(trace, "agent").name == "invoke_agent refunds"
    assert [step.usage.input for step in steps(trace, "model_call")] == [10, 20]
    assert trace.usage_total.input == 30


def test_an_error_code_in_the_response_is_an_error():
    reply = json.dumps({"error_code": "RESOURCE_EXHAUSTED", "error_message": "slow down"})
    failed = adk(1, "call_llm", {"gen_ai.request.model": "g", OWN + "llm_response": reply})
    step = only(one(failed), "model_call")
    assert (step.status, step.error.type) == ("error", "RESOURCE_EXHAUSTED")


def test_openinferences_dump_of_the_last_event_gives_the_answer():
    dumped = json.dumps({"content": {"role": "model", "parts": [{"text": "All done."}]}})
    outer = span(
        1,
        "agent_run [refunds]",
        scope="openinference.instrumentation.google_adk",
        attributes={"openinference.span.kind": "AGENT", "output.value": dumped},
    )
    assert one(outer).final_output == "All done."


def test_a_failed_tool_keeps_what_was_asked_for():
    failed = adk(
        4,
        "execute_tool find",
        {},
        parent=1,
        at=5,
        status_code=2,
        events=(event("exception", **{"exception.type": "KeyError"}),),
    )
    trace = one(adk(1, "agent_run [a]", took=50), call_llm(2, [CALL], parent=1), failed)
    step = only(trace, "tool_call")
    assert (step.status, step.tool.arguments) == ("error", {"id": 7})


@pytest.mark.parametrize("raw", ["{", "3", '{"content": 3}', '{"content": {"parts": 1}}'])
def test_odd_responses_stay_harmless(raw):
    odd = adk(1, "call_llm", {OWN + "llm_response": raw, "gen_ai.request.model": "g"})
    assert only(one(odd), "model_call")
