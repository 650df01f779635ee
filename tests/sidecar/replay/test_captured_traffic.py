"""Stored traces as cases: input, world, expectations drafted, recorded behaviour as baseline."""

import pytest

from processors.model.evidence import Contradiction, Evidence, Outcome
from processors.model.step import Message, Part, Step, StepDecision, Tool
from processors.model.trace import AgentTrace, Service
from sidecar.errors import ExitCode, SidecarError
from sidecar.replay.captured import captured
from sidecar.replay.planning import Asked, captured_plan
from sidecar.replay.query import read_query
from sidecar.replay.reference import read_reference
from sidecar.twins.files import load_twins
from sidecar.twins.timeline import start_ns

NOW = start_ns("2026-06-01T00:00:00Z")
SEEN = {"id": "A-7", "total": 20, "refunded": 0, "note": "gift"}


def said(role, text):
    return Message(role=role, parts=(Part(type="text", content=text),))


def tool(name, called, arguments, result=None, **more):
    return Step(
        step_id=name,
        kind="tool_call",
        name=called,
        status=more.pop("status", "ok"),
        start_ns=NOW,
        tool=Tool(name=called, arguments=arguments, result=result),
        **more,
    )


def receipt(step_id, *, held=True, phase="executed"):
    return Evidence(
        evidence_id=f"e{step_id}",
        source="receipt",
        name="gateway",
        held=held,
        subject="issue_refund",
        step_id=step_id,
        data={"phase": phase, "status": 201},
    )


def trace(*steps, outcome="verified_success", evidence=(), content=True, name="t1"):
    shown = (
        said("system", "You refund."),
        said("user", "Hello"),
        said("assistant", "What is it?"),
        said("user", "Refund A-7"),
    )
    first = Step(
        step_id="m", kind="model_call", start_ns=NOW, messages_in=shown if content else None
    )
    contradicted = (Contradiction(code="claimed_success_state_failed", detail="d"),)
    return AgentTrace(
        trace_id=name,
        trace_ids=(name,),
        service=Service(name="refunder"),
        steps=(first, *steps),
        evidence=evidence,
        final_output="I have issued the refund for A-7.",
        outcome=Outcome(
            status=outcome, contradictions=contradicted if outcome == "contradicted" else ()
        ),
    )


READ = tool("1", "get_order", {"order_id": "A-7"}, SEEN)
PAID = tool(
    "2",
    "issue_refund",
    {"order_id": "A-7", "amount": 20},
    decision=StepDecision(effect="require_approval"),
)
LATER = tool("3", "get_order", {"order_id": "A-7"}, {**SEEN, "refunded": 20})


@pytest.fixture
def twins(replayed):
    return load_twins([replayed.folder / "twin.yaml"])


def test_a_trace_becomes_a_case_with_its_world_and_its_turns(twins):
    found = captured(trace(READ, PAID, LATER, evidence=(receipt("2"),)), twins.group)
    case = found.case
    assert case.input == "Refund A-7"
    assert case.messages == (
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "What is it?"},
    )
    assert case.beginning.rows == {"shop.orders": (SEEN,)}  # not what was read after the write
    assert case.beginning.now_ns == NOW
    assert (case.severity, case.drafted) == ("critical", True)
    assert [(rule.tool, rule.decision) for rule in case.approvals] == [("issue_refund", "approve")]
    assert [one.id for one in case.expect] == [
        "toolCalled:issue_refund",
        "noDuplicateSideEffect",
        "outcomeVerified",
    ]
    assert case.expect[0].arguments == {"order_id": "A-7", "amount": 20}
    assert found.recorded.conclusion == "passed" and found.recorded.agent.ending == "recorded"


def test_effects_the_recording_did_not_make_must_not_be_made(twins):
    found = captured(trace(READ, outcome="unverified"), twins.group)
    assert [one.id for one in found.case.expect] == [
        "toolNotCalled:issue_refund",
        "noDuplicateSideEffect",
    ]
    assert found.case.severity == "major"


def test_a_disproved_recording_is_no_model(twins):
    found = captured(
        trace(READ, PAID, evidence=(receipt("2"),), outcome="contradicted"), twins.group
    )
    assert [one.id for one in found.case.expect] == ["noDuplicateSideEffect", "outcomeVerified"]
    assert found.recorded.conclusion == "failed"


def test_results_that_are_text_are_parsed_and_bad_ones_are_noted(twins):
    as_text = tool("1", "get_order", {"order_id": "A-7"}, '{"id":"A-7","total":1,"refunded":0}')
    found = captured(trace(as_text), twins.group)
    assert found.case.beginning.rows["shop.orders"][0]["total"] == 1
    broken = tool("1", "get_order", {"order_id": "A-7"}, {"error": "x"})
    noted = captured(trace(broken), twins.group)
    assert noted.case.beginning.rows == {} and noted.notes


def asked(baseline=None):
    return Asked(
        project="default",
        candidate=read_reference("cmd:true", option="--candidate", python="python"),
        baseline=baseline,
    )


def test_without_content_nothing_can_be_decided_and_the_message_says_what_to_do(twins):
    with pytest.raises(SidecarError, match="capture") as error:
        captured_plan("store:x", [trace(content=False)], twins, asked())
    assert error.value.code == ExitCode.UNDECIDED
    with pytest.raises(SidecarError, match="no stored trace") as error:
        captured_plan("store:x", [], twins, asked())
    assert error.value.code == ExitCode.UNDECIDED


def test_traces_without_content_are_left_out_and_counted(twins):
    made = captured_plan("store:x", [trace(READ), trace(content=False, name="t2")], twins, asked())
    assert made.notes[0] == "1 of 2 traces hold no user input: left out"
    assert made.plan.agent == "refunder" and made.plan.baseline.kind == "recorded"
    assert [run.side for run in made.plan.recorded] == ["baseline"]


def test_recorded_behaviour_is_a_baseline_to_compare_with(replayed, twins):
    recorded = trace(READ, PAID, LATER, evidence=(receipt("2"),))
    (replayed.folder / "agent.py").write_text(
        (replayed.folder / "agent.py")
        .read_text()
        .replace('request["input"]["order"]', 'request["input"].split()[-1]')
    )
    for mode, kind in (("plain", "unchanged"), ("crash", "new_critical")):
        plan = captured_plan(
            "store:x",
            [recorded],
            twins,
            Asked(project="default", candidate=replayed.agent(mode), deterministic=True),
        ).plan
        result = replayed.play(plan)
        assert result.results[0].case_class == kind, result.results
    assert result.runs[0].agent.ending == "recorded"


def test_a_query_is_read_whole_or_refused():
    query = read_query(
        "store:service=refunder,since=24h,until=2026-06-02T00:00:00Z,outcome=contradicted,limit=3",
        project="p",
        now_ns=NOW,
    )
    assert (query.service, query.project, query.limit) == ("refunder", "p", 3)
    assert query.since_ns == NOW - 24 * 3600 * 10**9
    assert query.until_ns == NOW + 24 * 3600 * 10**9
    for text in (
        "store:",
        "store:a=b",
        "store:service=a,service=b",
        "store:since=soon",
        "store:limit=0",
    ):
        with pytest.raises(SidecarError):
            read_query(text, project="p", now_ns=NOW)
    with pytest.raises(SidecarError, match="no outcome"):
        read_query("store:outcome=good", project="p", now_ns=NOW)
