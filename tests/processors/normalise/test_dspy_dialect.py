"""DSPy: tools are chosen in text, their spans are named after them, finishing is no tool."""

from telemetry_rig import one, only, span, steps

SCOPE = "openinference.instrumentation.dspy"


def fields(**texts):
    return "\n\n".join(f"[[ ## {name} ## ]]\n{text}" for name, text in texts.items())


CHOICE = fields(
    next_thought="I look.", next_tool_name="find", next_tool_args='{"id": 7}', completed=""
)
TRAJECTORY = fields(
    ticket="hi",
    trajectory="",
    thought_0="I look.",
    tool_name_0="find",
    tool_args_0='{"id": 7}',
    observation_0='{"n": 1}\n\nRespond now.',
)
FINISH = CHOICE.replace("find", "finish")


def lm(number, said, shown="hi", **place):
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": shown,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": said,
    }
    return span(number, "LM.__call__", attributes=attributes, scope=SCOPE, **place)


def called(number, name, given, gave, **place):
    attributes = {"openinference.span.kind": "TOOL", "input.value": given, "output.value": gave}
    return span(number, name, attributes=attributes, scope=SCOPE, **place)


def module(number, output, **place):
    attributes = {"openinference.span.kind": "CHAIN", "output.value": output}
    return span(number, "ReAct.forward", attributes=attributes, scope=SCOPE, **place)


def test_a_choice_in_text_asks_for_the_tool_whose_span_follows():
    trace = one(
        module(1, '{"trajectory": {}, "reasoning": "so", "answer": "Done."}', took=50),
        lm(2, CHOICE, parent=1),
        called(3, "find.__call__", '{"kwargs": {"id": 7}}', '{"n": 1}', parent=1, at=5),
        lm(4, FINISH, TRAJECTORY, parent=1, at=9),
        called(5, "finish.__call__", "{}", "Completed.", parent=1, at=12),
    )
    step = only(trace, "tool_call")
    assert (step.tool.name, step.tool.arguments, step.tool.result) == ("find", {"id": 7}, {"n": 1})
    assert step.tool.requested_by == steps(trace, "model_call")[0].step_id
    assert trace.final_output == "Done."
    assert only(trace, "agent").agent.name == "ReAct"


def test_without_tool_spans_the_next_prompt_shows_the_observation():
    trace = one(
        module(1, "{}", took=50), lm(2, CHOICE, parent=1), lm(3, FINISH, TRAJECTORY, parent=1, at=9)
    )
    assert [step.tool.name for step in steps(trace, "tool_call")] == ["find"]


def test_plain_completions_ask_for_nothing():
    assert not steps(one(lm(1, "next_tool_name is a field")), "tool_call")
