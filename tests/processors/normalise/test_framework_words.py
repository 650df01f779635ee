"""Semantic Kernel, smolagents, AG2, governance: what they say beside the dialect they write."""

import pytest
from telemetry_rig import agent, asked, call, chat, one, only, span, steps, tool

SK = "semantic_kernel.functions.kernel_function"


def test_a_plug_ins_name_is_a_namespace():
    found = only(one(tool(1, "Refunds-find_order", {"id": 7}, scope=SK)), "tool_call").tool
    assert (found.name, found.namespace, found.arguments) == ("find_order", "Refunds", {"id": 7})
    other = only(one(tool(1, "Refunds-find_order", {"id": 7})), "tool_call").tool
    assert (other.name, other.namespace) == ("Refunds-find_order", None)


def test_a_singular_finish_reason_counts():
    attributes = {"gen_ai.response.finish_reason": "FinishReason.TOOL_CALLS"}
    model = only(one(chat(1, attributes=attributes, scope="semantic_kernel.x")), "model_call").model
    assert model.finish_reasons == ("tool_call",)


def test_final_answer_is_no_tool():
    final = call("call_abcdefghijkl", "final_answer", {"answer": "Done."})
    attributes = {
        "openinference.span.kind": "TOOL",
        "tool.name": "final_answer",
        "output.value": "Done.",
    }
    trace = one(
        agent(1, took=20),
        chat(2, parent=1, said=[asked(final)]),
        span(
            3,
            "FinalAnswerTool",
            parent=1,
            at=5,
            attributes=attributes,
            scope="openinference.instrumentation.smolagents",
        ),
    )
    assert not steps(trace, "tool_call")
    assert [step.subtype for step in steps(trace, "other")] == ["final_answer"]


def test_a_tool_of_that_name_elsewhere_is_one():
    assert only(one(tool(1, "final_answer", {"answer": "x"})), "tool_call")


def test_ag2_asks_a_person():
    attributes = {
        "ag2.span.type": "human_input",
        "ag2.human_input.prompt": "Go on?",
        "ag2.human_input.response": "yes",
    }
    step = only(one(span(1, "await_human_input user", attributes=attributes)), "human_input")
    assert (step.output, step.attributes["human.prompt"]) == ("yes", "Go on?")


def test_b40_ag2s_error_type_without_status_is_an_error():
    failed = tool(
        1, "find", {"id": 7}, attributes={"ag2.span.type": "tool", "error.type": "ExecutionError"}
    )
    assert only(one(failed), "tool_call").status == "error"


@pytest.mark.parametrize(
    ("attributes", "effect"),
    [
        ({"agt.policy.action": "deny", "agt.policy.rule": "no refunds"}, "deny"),
        ({"agt.policy.action": "allow"}, "allow"),
        ({"agt.approval.outcome": "approved"}, "allow"),
        ({"policy.decision": "escalate"}, "require_approval"),
        ({"agt.audit.decision": "logged"}, "unknown"),
    ],
)
def test_a_reported_decision_is_a_step_and_an_unknown_word_allows_nothing(attributes, effect):
    step = only(one(span(1, "agt.policy.evaluate", attributes=attributes)), "policy_decision")
    assert (step.decision.effect, step.decision.source) == (effect, "emitter")


def test_a_guard_that_says_nothing_of_a_decision_is_a_guardrail():
    attributes = {"gen_ai.guardrail.component.name": "pii"}
    step = only(one(span(1, "apply_guardrail", attributes=attributes)), "guardrail")
    assert step.decision is None


def test_contextforges_tool_id_is_no_call_id():
    attributes = {"tool.name": "find", "tool.id": "3f0c9a1e", "server.id": "s"}
    found = only(one(span(1, "tool.invoke", attributes=attributes)), "tool_call").tool
    assert (found.name, found.call_id) == ("find", None)
