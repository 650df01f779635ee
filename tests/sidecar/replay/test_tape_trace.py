"""A tape as a trace: the forms of the providers, and nothing more than was recorded."""

import pytest

from sidecar.capture.record import PlainRedactor
from sidecar.replay.dataset_items import item_of
from sidecar.replay.tape_trace import tape_trace
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter, read_tape
from sidecar.tape.model import Header

pytestmark = pytest.mark.requirement("SDK-01")


def tape(tmp_path, *facts, source="sdk", content=True, **header):
    path = tmp_path / "a.tape"
    path.unlink(missing_ok=True)
    made = Header(
        tape_id="t-1", source=source, captured_at="2026-06-01T00:00:00.000000000Z", **header
    )
    with TapeWriter(path, made, redactor=PlainRedactor(), content=content) as writer:
        for fact in facts:
            writer.event(fact)
        writer.seal()
    return read_tape(path)


def asked(given, answered=None):
    more = {} if answered is None else {"output": answered}
    return Fact(kind="llm_call", seam="provider", name="m", input=given, status="ok", **more)


def ended(output="Done.", **more):
    said = {"output": output, "claimed": None, "verified": None, **more}
    return Fact(kind="terminal", output=said, status="ok")


TURNS = [("user", "Hello"), ("assistant", "What is it?"), ("user", "Refund A-7")]
CHAT = [{"role": role, "content": text} for role, text in TURNS]
BLOCKS = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in TURNS]
TYPED = [{"role": role, "content": [{"type": "input_text", "text": text}]} for role, text in TURNS]
GEMINI = [
    {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    for role, text in TURNS
]
GENAI = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in TURNS]
REQUESTS = {
    "openai chat": {
        "model": "m",
        "messages": [{"role": "system", "content": "You refund."}, *CHAT],
    },
    "openai responses": {"model": "m", "instructions": "You refund.", "input": TYPED},
    "anthropic": {"model": "m", "system": "You refund.", "messages": BLOCKS},
    "gemini": {"contents": GEMINI},
    "genai": {"messages": GENAI},
}
ANSWERS = {
    "openai chat": {"choices": [{"message": {"role": "assistant", "content": "I will."}}]},
    "openai responses": {
        "output": [{"role": "assistant", "content": [{"type": "output_text", "text": "I will."}]}]
    },
    "anthropic": {"role": "assistant", "content": [{"type": "text", "text": "I will."}]},
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "I will."}]}}]},
    "genai": {
        "messages": [{"role": "assistant", "parts": [{"type": "text", "content": "I will."}]}]
    },
}


@pytest.mark.parametrize("form", REQUESTS)
def test_what_a_user_asked_and_a_model_said_is_found_in_every_form(tmp_path, form):
    found = tape_trace(tape(tmp_path, asked(REQUESTS[form], ANSWERS[form]), ended(None)))
    item = item_of(found, None, kind="tape").item
    assert item.input == "Refund A-7"
    assert [(one["role"], one["content"]) for one in item.messages] == TURNS[:-1]
    assert found.final_output == "I will."
    [step] = found.steps
    assert (step.kind, step.model.request_model, step.status) == ("model_call", "m", "ok")


def test_an_input_that_is_a_text_is_what_was_asked(tmp_path):
    found = tape_trace(tape(tmp_path, asked({"model": "m", "input": "Refund A-7"}), ended()))
    assert item_of(found, None, kind="tape").item.input == "Refund A-7"
    assert found.final_output == "Done."


def test_what_is_no_request_that_we_know_keeps_its_call_alone(tmp_path):
    odd = [{"prompt": "x"}, ["x"], "x", {"messages": 3}, {"messages": [3, {"role": 1}]}]
    found = tape_trace(tape(tmp_path, *map(asked, odd), ended()))
    assert [step.messages_in for step in found.steps] == [None] * len(odd)
    assert item_of(found, None, kind="tape").why == "no_content"


def test_calls_have_their_results_and_what_is_missing_stays_missing(tmp_path):
    call = Fact(kind="tool_call", seam="tool", name="pay", input={"amount": 5}, agent="a")
    failed = Fact(
        kind="tool_result", seam="tool", name="pay", cause=(0,), agent="a", status="error",
        error=("Declined", "no"),
    )  # fmt: skip
    in_flight = Fact(kind="tool_call", seam="tool", name="ask", input={"x": 1}, agent="b")
    done = tape(tmp_path, call, failed, in_flight, ended())
    pay, ask = tape_trace(done).steps
    assert (pay.name, pay.status, pay.error.type) == ("pay", "error", "Declined")
    assert (pay.tool.arguments, pay.agent.name, pay.step_id) == ({"amount": 5}, "a", "t-1:0")
    assert (ask.status, ask.tool.result, ask.content_state["result"]) == ("unset", None, "absent")
    bare = tape_trace(tape(tmp_path, call, ended(), content=False)).steps[0]
    assert (bare.tool.arguments, bare.content_state["arguments"]) == (None, "external_ref")


@pytest.mark.parametrize(
    ("source", "verified", "outcome"),
    [
        ("sdk", "verified_success", "unverified"),
        ("sdk", "contradicted", "contradicted"),
        ("otlp", "verified_success", "verified_success"),
        ("proxy", "verified_failure", "verified_failure"),
        ("import:tau", "verified_success", "unverified"),
        ("otlp", "splendid", "unverified"),
    ],
)
def test_what_an_agents_own_process_wrote_never_raises_an_outcome(
    tmp_path, source, verified, outcome
):
    found = tape_trace(tape(tmp_path, ended(verified=verified), source=source))
    assert found.outcome.status == outcome


def test_a_tape_that_has_no_end_is_an_open_run(tmp_path):
    path = tmp_path / "cut.tape"
    writer = TapeWriter(path, Header(tape_id="t"), redactor=PlainRedactor(), content=True)
    with pytest.raises(RuntimeError), writer as going:
        going.event(asked(REQUESTS["openai chat"]))
        raise RuntimeError
    found = tape_trace(read_tape(path))
    assert found.completeness == "open" and len(found.steps) == 1
