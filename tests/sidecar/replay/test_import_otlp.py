"""Agent traces become tapes, each with the fidelity that its content bears."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from processors.model.span import Batch
from processors.model.step import Agent, Message, Model, Part, Step, StepDecision, StepError, Tool
from processors.model.trace import AgentTrace, TraceWarning
from sidecar.otlp.files import decoded, requests_of
from sidecar.pipeline.build import build
from sidecar.replay.import_otlp import taped
from sidecar.replay.import_tape import redactor_of
from sidecar.tape.compose import Composer

CORPUS = Path(__file__).parents[4] / "shared" / "corpora" / "otlp"
SAID = (Message(role="user", parts=(Part(type="text", content="hi"),)),)


def step(id_, kind, start=0, end=0, **more):
    agent = more.pop("agent", "a")
    return Step(
        step_id=id_,
        kind=kind,
        name=more.pop("name", kind),
        start_ns=start and start + 10**18,
        end_ns=end and end + 10**18,
        status=more.pop("status", "ok"),
        agent=Agent(name=agent) if agent else None,
        **more,
    )


def model(id_, start, end, **more):
    more.setdefault("messages_in", SAID)
    return step(id_, "model_call", start, end, model=Model(request_model="m"), **more)


def tool(id_, start, end, name="t", arguments=1, result=2, **more):
    said = Tool(name=name, arguments=arguments, result=result)
    return step(id_, "tool_call", start, end, tool=said, **more)


def tape(*steps, capture="redacted", known=(), **more):
    trace = AgentTrace(trace_id="ab" * 16, steps=steps, **more)
    return taped(trace, capture, known)


def told(found):
    return [(fact.kind, fact.name, fact.cause) for fact in found.facts]


@pytest.mark.requirement("TAP-03")
def test_each_kind_of_step_is_its_kind_of_event():
    found = tape(
        step("root", "agent", 1, 90),
        model("m1", 2, 5),
        tool("t1", 6, 8, decision=StepDecision(effect="allow", reasons=("ok",))),
        step("r", "retrieval", 9, 10, output=["doc"]),
        step("p", "policy_decision", 11, 12),
        step("g", "guardrail", 12, 13),
        step("h", "human_input", 14, 15, output="yes"),
        step("o", "other", 16, 17),
        final_output="done",
    )
    assert [kind for kind, _, _ in told(found)] == [
        *("llm_call", "decision", "tool_call", "tool_result", "tool_call", "tool_result"),
        *("decision", "decision", "human_input", "terminal"),
    ]
    assert found.facts[4].name == "retrieve" and found.facts[5].output == ["doc"]
    assert found.facts[-1].output["output"] == "done" and found.facts[-1].status == "ok"


@pytest.mark.requirement("TAP-03")
def test_overlapping_calls_of_one_parent_are_concurrent_and_others_are_not():
    def run(first, second):
        return tape(
            model("m1", 1, 5, parent_step_id="x"),
            tool("t1", *first, name="one", parent_step_id="x"),
            tool("t2", *second, name="two", parent_step_id="x"),
            model("m2", 40, 45, parent_step_id="x"),
        )

    together = run((10, 30), (12, 20))
    assert told(together)[1:6] == [
        ("tool_call", "one", (0,)),
        ("tool_call", "two", (0,)),
        ("tool_result", "two", (2,)),
        ("tool_result", "one", (1,)),
        ("llm_call", "m", ()),
    ]
    apart = run((10, 12), (12, 20))
    assert told(apart)[1:5] == [
        ("tool_call", "one", ()),
        ("tool_result", "one", (1,)),
        ("tool_call", "two", ()),
        ("tool_result", "two", (3,)),
    ]

    def behaviour(found):
        composer = Composer(found.header, lambda *_: None)
        for fact in found.facts:
            composer.event(fact)
        return composer.seal().behavior_digest

    turned = tape(
        model("m1", 1, 5, parent_step_id="x"),
        tool("t2", 10, 20, name="two", parent_step_id="x"),
        tool("t1", 12, 30, name="one", parent_step_id="x"),
        model("m2", 40, 45, parent_step_id="x"),
    )
    assert behaviour(together) == behaviour(turned) != behaviour(apart)


def test_a_started_agent_comes_after_the_one_that_started_it():
    found = tape(
        step("root", "agent", 1, 90),
        model("m1", 2, 5, parent_step_id="root"),
        step("sub", "agent", 6, 20, agent="b", parent_step_id="root"),
        model("m2", 7, 8, agent="b", parent_step_id="sub"),
        model("m3", 9, 10, agent="b", parent_step_id="sub"),
    )
    assert [(fact.agent, fact.cause) for fact in found.facts[:3]] == [
        ("a", ()),
        ("b", (0,)),
        ("b", ()),
    ]


def test_a_call_that_was_only_asked_for_has_no_result_and_a_failed_agent_is_an_error():
    found = tape(
        step("root", "agent", 1, 90, status="error", error=StepError(type="Boom", message="x")),
        tool("t1", 6, 8, status="requested_only"),
    )
    assert [(fact.kind, fact.error) for fact in found.facts] == [
        ("tool_call", None),
        ("error", ("Boom", "x")),
        ("terminal", None),
    ]


@pytest.mark.requirement("TAP-03")
@pytest.mark.parametrize(
    ("steps", "more", "level"),
    [
        (
            [model("m", 1, 2, messages_in=None), tool("t", 3, 4, arguments=None, result=None)],
            {},
            "L0",
        ),
        ([model("m", 1, 2), tool("t", 3, 4, result=None)], {}, "L1"),
        ([model("m", 1, 2), tool("t", 3, 4)], {}, "L2"),
        ([model("m", 1, 2), tool("t", 3, 4, result=None, status="error")], {}, "L2"),
        ([model("m", 1, 2), tool("t", 3, 4)], {"capture": "off"}, "L1"),
        ([model("m", 1, 2), tool("t", 3, 4)], {"completeness": "orphans"}, "L1"),
        ([model("m", 1, 2), tool("t", 3, 4)], {"known": ["dropped_attributes"]}, "L1"),
        (
            [model("m", 1, 2)],
            {"warnings": (TraceWarning(code="late_after_expiry", detail=""),)},
            "L1",
        ),
        (
            [replace(model("m", 1, 2), content_state={"messages_in": "truncated"})],
            {"completeness": "open", "capture": "off"},
            "L1",
        ),
        ([], {}, "L0"),
    ],
)
def test_fidelity_is_what_the_content_bears_less_the_gaps(steps, more, level):
    found = tape(*steps, **more)
    assert found.header.fidelity == level
    gaps = {"completeness", "known", "warnings"} & more.keys()
    assert bool(found.header.gaps) == bool(gaps)


WIRES = ("baseline", "baseline-split_exports", "baseline-gzip_http", "baseline-http_json")
LIBRARY = "openinference-instrumentation-openai-agents"


@pytest.mark.requirement("TAP-03")
def test_one_run_over_other_wires_is_one_behaviour():
    folder = CORPUS / LIBRARY
    if not folder.exists():
        pytest.skip("needs ../shared (corpora/otlp), which is absent here")
    seals = []
    for capture in [one for one in sorted(folder.iterdir()) if one.name in WIRES]:
        batches = [decoded(file) for file in requests_of(capture)]
        merged = Batch(
            spans=tuple(span for batch in batches for span in batch.spans),
            logs=tuple(record for batch in batches for record in batch.logs),
        )
        (trace,) = build(merged, project="default", now_ns=2 * 10**18)
        found = taped(trace, "redacted")
        composer = Composer(found.header, lambda *_: None, redactor=redactor_of("redacted"))
        for fact in found.facts:
            composer.event(fact)
        assert found.header.fidelity == "L2"
        seals.append(composer.seal())
    assert len(seals) > 1
    assert len({seal.exact_digest for seal in seals}) == 1
    assert len({seal.behavior_digest for seal in seals}) == 1
