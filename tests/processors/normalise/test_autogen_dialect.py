"""AutoGen: messaging is noise, a team's reply tells of calls, links make one run of many traces."""

import json

from telemetry_rig import agent, chat, link, one, only, span, steps, tool

REQUEST = {
    "type": "ToolCallRequestEvent",
    "id": "m1",
    "source": "clerk",
    "models_usage": {"prompt_tokens": 12, "completion_tokens": 3},
    "created_at": "2023-11-14T22:13:20.005000Z",
    "content": [{"id": "call_abcdefghijkl", "name": "find", "arguments": '{"id": 7}'}],
}
EXECUTION = {
    "type": "ToolCallExecutionEvent",
    "id": "m2",
    "source": "clerk",
    "models_usage": None,
    "content": [
        {"call_id": "call_abcdefghijkl", "name": "find", "content": "{'n': 1}", "is_error": False}
    ],
}
ANSWER = {
    "type": "TextMessage",
    "id": "m3",
    "source": "clerk",
    "models_usage": {"prompt_tokens": 20, "completion_tokens": 4},
    "created_at": "2023-11-14T22:13:20.030000Z",
    "content": "Done.",
}


def messaging(number, operation, *, to="ChatAgentContainer", message=None, **place):
    attributes = {"messaging.operation": operation, "recipient_agent_class": to}
    if message is not None:
        attributes["message"] = json.dumps(message)
    return span(
        number,
        f"autogen {operation} x",
        attributes=attributes,
        scope="autogen SingleThreadedAgentRuntime",
        **place,
    )


def reply(number, **place):
    response = {"chat_message": ANSWER, "inner_messages": [REQUEST, EXECUTION]}
    return messaging(
        number, "process", to="RoundRobinGroupChatManager", message={"response": response}, **place
    )


def team():
    return (
        messaging(1, "create", trace=1, at=0),
        messaging(2, "publish", trace=2, at=1, took=60, links=(link(1, trace=1),)),
        agent(3, "clerk", trace=2, parent=2, at=2, took=40, scope="autogen-core"),
        tool(
            4, "find", trace=2, parent=3, at=10, call_id="call_abcdefghijkl", scope="autogen-core"
        ),
        reply(5, trace=3, at=45, links=(link(2, trace=2),)),
    )


def test_a_team_joined_by_links_is_one_run_and_its_reply_tells_of_the_calls():
    trace = one(*team())
    assert len(trace.trace_ids) == 3
    first, second = steps(trace, "model_call")
    assert (first.usage.input, second.usage.input) == (12, 20)
    step = only(trace, "tool_call")
    assert (step.tool.arguments, step.tool.result) == ({"id": 7}, {"n": 1})
    assert (trace.usage_total.input, trace.usage_total.output) == (32, 7)
    assert trace.final_output == "Done."


def test_spans_of_the_models_client_are_heard_instead():
    trace = one(*team(), chat(6, trace=2, parent=3, at=3))
    assert [step.name for step in steps(trace, "model_call")] == ["chat gpt-4o-mini"]


def test_a_message_to_an_agent_tells_of_nothing_and_creating_one_is_no_step():
    sent = messaging(1, "process", message={"response": {"chat_message": ANSWER}})
    made = span(
        2,
        "create_agent a",
        attributes={"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": "a"},
    )
    assert [step.subtype for step in one(sent).steps] == ["message"]
    assert [step.subtype for step in one(made).steps] == ["create_agent"]


def test_odd_messages_stay_harmless():
    for message in (
        {"response": {"inner_messages": 3}},
        {"response": {"chat_message": {"content": [3]}}},
        [],
    ):
        odd = messaging(1, "process", to="GroupChatManager", message=message)
        assert one(odd).steps[0].subtype == "message"
