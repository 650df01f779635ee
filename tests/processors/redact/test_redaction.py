"""What of a trace is kept under each capture, and that nothing else is."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.evidence import Claim, Contradiction, Evidence, Outcome
from processors.model.step import (
    Agent,
    Message,
    Model,
    Part,
    Source,
    Step,
    StepDecision,
    StepError,
    Tool,
    Usage,
)
from processors.model.trace import AgentTrace, Service, TraceWarning
from processors.redact.allowed import listing_of
from processors.redact.rules import keeping, redact

TRACE = "c" * 32


def trace_with(text, attributes=None):
    """A trace that holds ``text`` in every place content can be."""
    message = Message(role="user", parts=(Part(type="text", content=text),))
    asked = Message(
        role="assistant", parts=(Part(type="tool_call", name="issue_refund", content={"a": text}),)
    )
    steps = (
        Step(
            step_id=f"{TRACE}:1",
            kind="model_call",
            name="chat gpt-4o",
            agent=Agent(name="refunds", version="1.2"),
            model=Model(provider="openai", response_id="resp-1", finish_reasons=("stop",)),
            usage=Usage(input=3, output=4),
            messages_in=(message,),
            messages_out=(asked,),
            content_state={"messages_in": "captured", "messages_out": "captured"},
            attributes=attributes or {"user.prompt": text, "gen_ai.usage.input_tokens": 3},
            sources=(Source(kind="span", trace_id=TRACE, span_id="1", dialect="gen_ai"),),
        ),
        Step(
            step_id=f"{TRACE}:2",
            kind="tool_call",
            name="issue_refund",
            status="error",
            start_ns=5,
            end_ns=9,
            error=StepError(type="TimeoutError", message=text),
            tool=Tool(name="issue_refund", call_id="call_1", arguments={"k": [text]}, result=text),
            output={"deep": {"er": text}},
            decision=StepDecision(effect="deny", decision_id="d", reasons=("limit", text)),
            receipt_id="r1",
            content_state={"arguments": "captured", "result": "captured"},
        ),
    )
    return AgentTrace(
        trace_id=TRACE,
        trace_ids=(TRACE,),
        conversation_id="conv-1",
        service=Service(name="refund-agent", version="1.2.4"),
        steps=steps,
        final_output=text,
        claims=(
            Claim(
                claim_id="claim-1",
                subject="issue_refund",
                status="success",
                source="final_answer",
                rule="S1",
                text=text,
            ),
        ),
        evidence=(
            Evidence(
                evidence_id="receipt:r1",
                source="receipt",
                name="gateway",
                held=False,
                subject="issue_refund",
                detail="approval_required",
                data={"effect": "not_executed", "class": "write", "arguments": {"a": text}},
            ),
        ),
        outcome=Outcome(
            status="contradicted",
            contradictions=(Contradiction(code="duplicate_effect", detail="issue_refund: twice"),),
        ),
        warnings=(
            TraceWarning(code="args_mismatch", detail=f"{TRACE}:2"),
            TraceWarning(code="strange", detail=text),
        ),
    )


SENTENCE = "Bob Miller of 12 Elm Street wants his money back, bob@example.com"


@pytest.mark.requirement("RED-01")
def test_off_keeps_no_captured_text_anywhere():
    kept = redact(trace_with(SENTENCE), "off")
    assert "Elm" not in msgspec.json.encode(kept).decode()
    assert "example.com" not in msgspec.json.encode(kept).decode()


@pytest.mark.requirement("RED-02")
@given(st.text(alphabet="bcdfghjklmnpqrstvwxyz", min_size=12, max_size=12))
def test_a_planted_word_is_nowhere_under_off(word):
    text = f"say {word} to nobody, please, and do keep it to yourself"
    kept = redact(trace_with(text, {"a.b": text, "http.route": text, word: 1}), "off")
    encoded = msgspec.json.encode(kept).decode()
    assert text not in encoded
    assert word not in encoded.replace(f'"{word}":"[redacted]"', "")


@pytest.mark.requirement("RED-01")
def test_off_keeps_names_ids_times_status_usage_decisions_and_outcome():
    whole = trace_with(SENTENCE)
    kept = redact(whole, "off")
    model, tool = kept.steps
    assert (model.name, model.agent, model.model, model.usage) == (
        "chat gpt-4o",
        whole.steps[0].agent,
        whole.steps[0].model,
        whole.steps[0].usage,
    )
    assert model.attributes == {"user.prompt": "[redacted]", "gen_ai.usage.input_tokens": 3}
    assert model.sources == whole.steps[0].sources
    assert (tool.status, tool.start_ns, tool.end_ns, tool.receipt_id) == ("error", 5, 9, "r1")
    assert tool.tool == Tool(name="issue_refund", call_id="call_1")
    assert tool.error == StepError(type="TimeoutError")
    assert (tool.decision.effect, tool.decision.reasons) == ("deny", ("limit",))
    assert kept.outcome == whole.outcome
    assert kept.claims[0].subject == "issue_refund" and kept.claims[0].text is None
    assert kept.evidence[0].data == {"effect": "not_executed", "class": "write"}
    assert kept.evidence[0].detail == "approval_required"
    assert [item.detail for item in kept.warnings] == [f"{TRACE}:2", ""]
    assert (kept.conversation_id, kept.service) == (whole.conversation_id, whole.service)


@pytest.mark.requirement("RED-01")
def test_content_state_says_what_was_there():
    kept = redact(trace_with(SENTENCE), "off")
    assert kept.steps[0].content_state == {"messages_in": "redacted", "messages_out": "redacted"}
    assert kept.steps[1].content_state == {
        "arguments": "redacted",
        "result": "redacted",
        "output": "redacted",
    }
    empty = Step(
        step_id="s",
        kind="tool_call",
        tool=Tool(name="t", arguments={}, result=None),
        content_state={"arguments": "empty", "result": "absent"},
    )
    kept = redact(AgentTrace(trace_id=TRACE, steps=(empty,)), "off")
    assert kept.steps[0].content_state == {"arguments": "empty", "result": "absent"}
    assert kept.steps[0].tool.arguments is None


def test_zero_and_false_are_content_too():
    step = Step(step_id="s", kind="tool_call", tool=Tool(name="t", arguments=0, result=False))
    kept = redact(AgentTrace(trace_id=TRACE, steps=(step,)), "off").steps[0]
    assert (kept.tool.arguments, kept.tool.result) == (None, None)
    assert kept.content_state == {"arguments": "redacted", "result": "redacted"}


@pytest.mark.requirement("RED-01")
def test_redacted_keeps_texts_and_masks_what_is_in_them():
    kept = redact(trace_with(SENTENCE), "redacted")
    after = SENTENCE.replace("bob@example.com", "[email]")
    assert kept.final_output == after and kept.claims[0].text == after
    assert kept.steps[0].messages_in[0].parts[0].content == after
    assert kept.steps[1].tool.arguments == {"k": [after]}
    assert kept.steps[1].content_state["arguments"] == "redacted"
    assert kept.evidence[0].data["arguments"] == {"a": after}
    harmless = redact(trace_with("a harmless sentence"), "redacted")
    assert harmless.steps[1].content_state["arguments"] == "captured"


def test_full_keeps_all():
    whole = trace_with(SENTENCE)
    assert redact(whole, "full") is whole


def test_a_name_too_long_to_be_a_name_is_content():
    task = "Look up the order of Bob Miller and refund it to his card at once.task"
    step = Step(step_id="s", kind="agent", name=task)
    assert redact(AgentTrace(trace_id=TRACE, steps=(step,)), "off").steps[0].name == "[redacted]"
    step = Step(step_id="s", kind="agent", name="mail to bob@example.com")
    assert (
        redact(AgentTrace(trace_id=TRACE, steps=(step,)), "off").steps[0].name == "mail to [email]"
    )


@pytest.mark.requirement("RED-01")
@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("gen_ai.request.temperature", 0.2, 0.2),
        ("gen_ai.request.stop_sequences", ["secret word"], "[redacted]"),
        ("gen_ai.response.finish_reasons", ["stop"], ["stop"]),
        ("gen_ai.agent.description", "short", "[redacted]"),
        ("url.full", "https://api.example/v1/orders?email=bob", "https://api.example/v1/orders"),
        ("http.response.status_code", 200, 200),
        ("order_id", "A-1001", "[redacted]"),
        ("amount", 49.99, "[redacted]"),
        ("new.dialect.prompt", {"a": "b"}, "[redacted]"),
        ("http.route", {"a": "b"}, "[redacted]"),
        ("agenttwin.claim.text", "done", "[redacted]"),
        ("agenttwin.claim.status", "success", "success"),
    ],
)
def test_attributes_fail_closed(key, value, kept):
    step = Step(step_id="s", kind="other", attributes={key: value})
    after = redact(AgentTrace(trace_id=TRACE, steps=(step,)), "off").steps[0]
    assert after.attributes == {key: kept}


def test_attribute_keys_that_are_content_go_with_their_values():
    step = Step(step_id="s", kind="other", attributes={"bob@example.com": 1, "a long key": 2})
    after = redact(AgentTrace(trace_id=TRACE, steps=(step,)), "off").steps[0]
    assert after.attributes == {}


def test_redacted_masks_headers_by_their_key():
    step = Step(
        step_id="s", kind="other", attributes={"http.request.header.authorization": ["opaque"]}
    )
    after = redact(AgentTrace(trace_id=TRACE, steps=(step,)), "redacted").steps[0]
    assert after.attributes == {"http.request.header.authorization": "[secret]"}


@given(st.text(max_size=30), st.integers() | st.text(max_size=20))
def test_an_unlisted_attribute_never_keeps_its_value(key, value):
    step = Step(step_id="s", kind="other", attributes={key: value})
    after = redact(AgentTrace(trace_id=TRACE, steps=(step,)), "off").steps[0].attributes
    assert all(
        listing_of(name) != "content" or kept == "[redacted]" for name, kept in after.items()
    )


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize("capture", ["off", "redacted", "full"])
@given(text=st.text(max_size=60) | st.sampled_from([SENTENCE, '{"card": 4242424242424242}']))
def test_redacting_twice_changes_nothing_and_is_always_the_same(capture, text):
    whole = trace_with(text, {text: text, "url.full": text, "gen_ai.agent.name": text})
    once = redact(whole, capture)
    assert redact(once, capture) == once
    assert redact(whole, capture) == once


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize("capture", ["off", "redacted"])
def test_a_memory_shared_by_many_traces_changes_no_result(capture):
    texts = [SENTENCE, '{"key": "a  b", "x": 1}', '{"key":"a  b"}', '"bob@example.com"', "{bad", ""]
    traces = [trace_with(text, {"a": text, "gen_ai.agent.name": text}) for text in texts * 2]
    keep = keeping(capture)
    for whole in traces:
        copy = msgspec.json.decode(msgspec.json.encode(whole), type=AgentTrace)
        assert redact(copy, capture, keep) == redact(whole, capture)
