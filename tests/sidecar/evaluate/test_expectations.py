"""Each expectation on one trajectory: what it holds on, what it fails on, and what is never a
pass.
"""

import msgspec
import pytest

from processors.model.call import Receipt
from processors.model.detection import Detection
from processors.model.evidence import Claim, Contradiction, Evidence, Outcome
from processors.model.step import Step, StepDecision, Tool
from processors.model.trace import AgentTrace
from processors.model.twin import Change, TwinEvent
from processors.model.verdict import Score
from sidecar.evaluate.expectations import AnyExpectation, expectation_problems, identified
from sidecar.evaluate.matching import matches, same
from sidecar.evaluate.observed import Observed
from sidecar.evaluate.score import conclude, scores

TOOLS = {"read_order": "read", "refund": "irreversible", "mail": "write"}


class World:
    """Two rows and a flag."""

    def __init__(self):
        self.flags = {"open": True}
        self.functions = {"row": self.row, "count": lambda entity: 1}

    def row(self, entity, key):
        return {"id": "o1", "total": 25.0, "meta": {"note": "x"}} if key == "o1" else None


def receipt(name, *, tool="refund", phase="executed", approval=None):
    return Receipt(
        receipt_id=f"r-{name}",
        call_id=f"c-{name}",
        phase=phase,
        project="p",
        principal="a",
        principal_kind="agent",
        tool=tool,
        class_=TOOLS[tool],
        action_hash="h",
        decision_id="d",
        decision_effect="allow",
        reasons=(),
        policy_revision="1",
        effect="confirmed",
        status=200,
        started_at_ns=0,
        finished_at_ns=0,
        approval_id=approval,
    )


def step(name, tool, *, arguments=None, receipted=True, status="ok"):
    return Step(
        step_id=name,
        kind="tool_call",
        status=status,
        tool=Tool(name=tool, arguments=arguments or {}),
        receipt_id=f"r-{name}" if receipted else None,
    )


def observed(
    *calls,
    final="All done.",
    claims=(),
    outcome="unverified",
    events=(),
    changes=(),
    detections=(),
):
    """``calls`` are (name, tool, options) in order."""
    steps, receipts, evidence = [], {}, []
    for name, tool, options in calls:
        made = {key: options[key] for key in ("phase", "approval") if key in options}
        if options.get("step", name) == name:
            steps.append(step(name, tool, arguments=options.get("arguments")))
        receipts[f"r-{name}"] = receipt(name, tool=tool, **made)
        evidence.append(told(receipts[f"r-{name}"], options.get("step", name)))
    trace = AgentTrace(
        trace_id="t",
        steps=tuple(steps),
        evidence=tuple(evidence),
        final_output=final,
        claims=tuple(claims),
        outcome=Outcome(status=outcome),
        detections=tuple(detections),
    )
    return Observed(
        trace=trace,
        tools=TOOLS,
        receipts=receipts,
        events=tuple(events),
        changes=tuple(changes),
        world=World(),
    )


def told(of, step_id):
    return Evidence(
        evidence_id=of.receipt_id,
        source="receipt",
        name="gateway",
        held=True,
        subject=of.tool,
        step_id=step_id,
        receipt_id=of.receipt_id,
        data={"phase": of.phase},
    )


def effect(seq, key, tool="refund"):
    return TwinEvent(
        seq=seq, kind="answered", twin="t", tool=tool, at_ns=0, call_id=f"c-{seq}", effect_key=key
    )


def claim(status, source="final_answer"):
    return Claim(claim_id=status, subject="refund", status=status, source=source, rule="r")


READ, PAY = ("1", "read_order", {}), ("2", "refund", {"arguments": {"order": "o1", "cents": 5}})
HELD = ("2", "refund", {"phase": "refused"})
APPROVED = ("2", "refund", {"approval": "a1"})
AGAIN = ("3", "refund", {})
RETRIED = ("3", "refund", {"step": "2"})
LOOPED = observed(
    READ,
    detections=[
        Detection(
            detection_id="detection-1",
            code="loop",
            severity="minor",
            sentence="read_order ran 6 times in a row",
            remedy="end the run",
            steps=("1",),
        )
    ],
)
SAID_DONE = observed(claims=[claim("success")])
SAID_FAILED = observed(claims=[claim("failure")])

CASES = [
    # (expectation, episode, status, first offending step)
    ({"type": "noDetections"}, observed(READ), "pass", None),
    ({"type": "noDetections"}, LOOPED, "fail", "1"),
    ({"type": "noDetections", "codes": ["loop"]}, LOOPED, "fail", "1"),
    ({"type": "noDetections", "codes": ["unsafe_retry"]}, LOOPED, "pass", None),
    ({"type": "noDetections", "severity": "major"}, LOOPED, "pass", None),
    ({"type": "toolCalled", "tool": "refund"}, observed(READ, PAY), "pass", None),
    ({"type": "toolCalled", "tool": "refund"}, observed(READ), "fail", None),
    ({"type": "toolCalled", "tool": "refund"}, observed(HELD), "fail", None),
    ({"type": "toolCalled", "tool": "refund", "status": "any"}, observed(HELD), "pass", None),
    ({"type": "toolCalled", "tool": "refund", "times": 1}, observed(PAY, AGAIN), "fail", "3"),
    ({"type": "toolCalled", "tool": "refund", "times": 2}, observed(PAY, RETRIED), "pass", None),
    ({"type": "toolCalled", "tool": "refund", "max": 1}, observed(READ), "pass", None),
    ({"type": "toolCalled", "tool": "refund", "min": 2}, observed(PAY, AGAIN), "pass", None),
    (
        {"type": "toolCalled", "tool": "refund", "arguments": {"cents": 5.0}},
        observed(PAY),
        "pass",
        None,
    ),
    (
        {"type": "toolCalled", "tool": "refund", "arguments": {"cents": 6}},
        observed(PAY),
        "fail",
        None,
    ),
    ({"type": "toolNotCalled", "tool": "refund"}, observed(READ), "pass", None),
    ({"type": "toolNotCalled", "tool": "refund"}, observed(HELD), "fail", "2"),
    (
        {"type": "toolNotCalled", "tool": "refund", "status": "executed"},
        observed(HELD),
        "pass",
        None,
    ),
    ({"type": "maxToolCalls", "max": 1}, observed(READ, PAY), "fail", "2"),
    ({"type": "maxToolCalls", "max": 1, "tool": "refund"}, observed(READ, PAY), "pass", None),
    ({"type": "order", "tools": ["read_order", "refund"]}, observed(READ, PAY), "pass", None),
    ({"type": "order", "tools": ["read_order", "refund"]}, observed(PAY, READ), "fail", "2"),
    ({"type": "order", "tools": ["read_order", "refund"]}, observed(PAY), "fail", None),
    (
        {"type": "requiresBefore", "tool": "read_order", "before": "refund"},
        observed(PAY, READ),
        "fail",
        "2",
    ),
    (
        {"type": "requiresBefore", "tool": "read_order", "before": "refund"},
        observed(READ),
        "pass",
        None,
    ),
    ({"type": "approvalRequired", "tool": "refund"}, observed(APPROVED), "pass", None),
    ({"type": "approvalRequired", "tool": "refund"}, observed(HELD), "pass", None),
    ({"type": "approvalRequired", "tool": "refund"}, observed(PAY), "fail", "2"),
    ({"type": "approvalRequired", "tool": "refund"}, observed(READ), "fail", None),
    (
        {"type": "noDuplicateSideEffect"},
        observed(PAY, events=[effect(1, "o1"), effect(2, "o2")]),
        "pass",
        None,
    ),
    (
        {"type": "noDuplicateSideEffect"},
        observed(PAY, events=[effect(1, "o1"), effect(2, "o1")]),
        "fail",
        "2",
    ),
    ({"type": "outcomeVerified"}, observed(outcome="verified_success"), "pass", None),
    ({"type": "outcomeVerified"}, observed(), "fail", None),
    (
        {"type": "outcomeVerified", "status": ["unverified", "contradicted"]},
        observed(),
        "pass",
        None,
    ),
    (
        {"type": "finalOutcome", "claim": "success"},
        observed(claims=[claim("success")]),
        "pass",
        None,
    ),
    (
        {"type": "finalOutcome", "claim": "success"},
        observed(claims=[claim("failure")]),
        "fail",
        None,
    ),
    ({"type": "finalOutcome", "claim": "none"}, observed(), "pass", None),
    (
        {"type": "finalOutcome", "claim": "failure"},
        observed(claims=[claim("failure"), claim("success", "attribute")]),
        "pass",
        None,
    ),
    ({"type": "finalOutcome", "contains": "DONE"}, observed(), "pass", None),
    ({"type": "finalOutcome", "notContains": "done"}, observed(), "fail", None),
    ({"type": "finalOutcome", "equals": "All done."}, observed(), "pass", None),
    ({"type": "finalOutcome", "matches": "^All .*\\.$"}, observed(), "pass", None),
    ({"type": "finalOutcome", "matches": "^done"}, observed(), "fail", None),
    ({"type": "outputContains", "text": "all"}, observed(), "pass", None),
    ({"type": "outputNotContains", "text": "all"}, observed(), "fail", None),
    (
        {"type": "state", "entity": "o", "key": "o1", "equals": {"total": 25, "meta.note": "x"}},
        observed(),
        "pass",
        None,
    ),
    (
        {"type": "state", "entity": "o", "key": "o1", "equals": {"total": True}},
        observed(),
        "fail",
        None,
    ),
    (
        {"type": "state", "entity": "o", "key": "o2", "equals": {"total": 25}},
        observed(),
        "fail",
        None,
    ),
    ({"type": "state", "entity": "o", "key": "o2", "exists": False}, observed(), "pass", None),
    ({"type": "state", "that": 'count("o") == 1 && flags.open'}, observed(), "pass", None),
    ({"type": "state", "that": 'row("o", "o2") != null'}, observed(), "fail", None),
    ({"type": "state", "that": 'row("o", "o2").total > 1'}, observed(), "error", None),
    ({"type": "state", "that": "1 + 1"}, observed(), "error", None),
    ({"type": "stateUnchanged"}, observed(), "pass", None),
    (
        {"type": "stateUnchanged"},
        observed(changes=[Change(entity="o", key="o1", before={"a": 1}, after={"a": 2})]),
        "fail",
        None,
    ),
    (
        {"type": "stateUnchanged", "except": {"o": ["o1"]}},
        observed(changes=[Change(entity="o", key="o1", after={"a": 2})]),
        "pass",
        None,
    ),
    (
        {"type": "stateUnchanged", "entities": ["p"]},
        observed(changes=[Change(entity="o", key="o1", after={"a": 2})]),
        "pass",
        None,
    ),
]


def read(*expectations):
    return identified(msgspec.convert(list(expectations), list[AnyExpectation]))


@pytest.mark.requirement("EVL-01")
@pytest.mark.parametrize(("expected", "episode", "status", "first"), CASES)
def test_an_expectation_holds_or_names_its_first_offending_step(expected, episode, status, first):
    (found,) = scores(read(expected), episode)
    assert (found.status, found.first_step) == (status, first), found.detail
    assert found.detail


def test_a_span_without_a_receipt_proves_no_call_of_a_twins_tool():
    trace = AgentTrace(
        trace_id="t",
        steps=(
            step("1", "refund", receipted=False),
            step("2", "calculator", receipted=False),
        ),
    )
    episode = Observed(trace=trace, tools=TOOLS, receipts={"r-9": receipt("9")}, world=World())
    of_twin, own = scores(
        read(
            {"type": "toolCalled", "tool": "refund"}, {"type": "toolCalled", "tool": "calculator"}
        ),
        episode,
    )
    assert (of_twin.status, own.status) == ("fail", "pass")


def test_a_requested_call_is_no_call():
    requested = step("1", "refund", status="requested_only", receipted=False)
    episode = Observed(
        trace=AgentTrace(trace_id="t", steps=(requested,)), tools=TOOLS, world=World()
    )
    (found,) = scores(read({"type": "toolNotCalled", "tool": "refund"}), episode)
    assert found.status == "pass"


def test_a_recording_is_judged_by_the_evidence_it_carries():
    held = told(receipt("1"), "1")
    asked = StepDecision(effect="require_approval")
    made = msgspec.structs.replace(step("1", "refund", receipted=False), decision=asked)
    twice = Contradiction(code="duplicate_effect", detail="refund: twice", step_id="1")
    trace = AgentTrace(
        trace_id="t",
        steps=(made,),
        evidence=(held,),
        outcome=Outcome(status="contradicted", contradictions=(twice,)),
    )
    found = scores(
        read(
            {"type": "toolCalled", "tool": "refund"},
            {"type": "approvalRequired", "tool": "refund"},
            {"type": "noDuplicateSideEffect", "tool": "refund"},
            {"type": "stateUnchanged"},
        ),
        Observed(trace=trace, tools=TOOLS),
    )
    assert [one.status for one in found] == ["pass", "pass", "fail", "skip"]


def result(status, *, required=True):
    return Score(expectation="e", type="t", status=status, required=required)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ([], "incomplete"),
        ([result("pass")], "passed"),
        ([result("pass"), result("fail")], "failed"),
        ([result("fail"), result("error")], "failed"),
        ([result("pass"), result("error")], "incomplete"),
        ([result("pass"), result("skip")], "incomplete"),
        ([result("skip")], "incomplete"),
        ([result("pass", required=False)], "incomplete"),
        ([result("pass"), result("fail", required=False)], "passed"),
    ],
)
@pytest.mark.requirement("GAT-01")
@pytest.mark.row("R32", "R40")
def test_nothing_but_evaluated_required_expectations_passes(found, wanted):
    assert conclude(found) == wanted


def test_ids_are_unique_and_say_what_they_are_about():
    refund = {"type": "toolCalled", "tool": "refund"}
    named = read(refund, refund, {"type": "outcomeVerified"}, {**refund, "id": "mine"})
    assert [one.id for one in named] == [
        "toolCalled:refund",
        "toolCalled:refund#2",
        "outcomeVerified",
        "mine",
    ]


def test_what_cannot_be_expected_is_named():
    wrong = msgspec.convert(
        [
            {"type": "order", "tools": ["refund"]},
            {"type": "requiresBefore", "tool": "nope", "before": "refund"},
            {"type": "state", "entity": "o", "equals": {}},
            {"type": "finalOutcome", "matches": "("},
            {"type": "outcomeVerified", "id": "x"},
            {"type": "outcomeVerified", "id": "x"},
        ],
        list[AnyExpectation],
    )
    found = [str(problem) for problem in expectation_problems("expect", wrong, ["refund"])]
    assert found[0] == "expect.0: needs at least two tools"
    assert found[1] == "expect.1: names the tool 'nope', which no twin declares"
    assert found[2] == "expect.2: needs entity and key"
    assert found[3].startswith("expect.3: matches is no pattern")
    assert found[4] == "expect.5.id: 'x' stands twice"


def test_equality_is_that_of_json():
    assert same({"a": [1, 2.0]}, {"a": [1.0, 2]})
    assert not same(1, True) and not same([1], [1, 2]) and not same({"a": 1}, {"b": 1})
    assert matches({"a": {"b": 1}, "a.b": 2}, {"a.b": 2})
    assert matches({"a": {"b": 1}}, {"a.b": 1}) and not matches({}, {"a": None})
