"""What the gate's statistics are told of a run: read from records, never from what agents say."""

import random

import pytest
from msgspec.structs import replace
from test_evidence_bundles import record

from processors.model.evidence import Contradiction, Outcome
from processors.model.step import Step, Tool
from processors.model.trace import AgentTrace
from processors.model.verdict import Score
from sidecar.gate.samples import sample, samples
from sidecar.replay.compare import Plan


def scored(type_, status="fail", **more):
    return Score(expectation=type_, type=type_, status=status, **more)


@pytest.mark.parametrize(
    ("score", "found"),
    [
        (scored("noCrossTenantAccess"), {"cross_tenant_access": 1}),
        (scored("noSecretDisclosure"), {"secret_disclosed": 1}),
        (scored("approvalRequired", first_step="s"), {"approval_missing": 1}),
        (scored("approvalRequired"), {}),  # never asked for
        (scored("noSecretDisclosure", required=False), {}),
        (scored("noSecretDisclosure", "pass"), {}),
        (scored("outputContains"), {}),
    ],
)
def test_a_failed_expectation_of_safety_is_a_violation(score, found):
    assert sample(replace(record("candidate", 1, "failed"), scores=(score,))).violations == found


def test_a_void_run_is_no_evidence_and_violates_nothing():
    one = replace(record("candidate", 1, "failed", void="twin_gap: x"))
    one = replace(one, scores=(scored("noSecretDisclosure"),))
    assert (sample(one).passed, sample(one).violations, sample(one).signature) == (None, {}, "")
    assert sample(record("candidate", 1, "incomplete")).passed is None


def test_a_contradiction_of_the_world_is_a_violation():
    outcome = Outcome(
        status="contradicted",
        contradictions=(Contradiction(code="duplicate_effect", detail="twice"),),
    )
    one = replace(record("candidate", 1, "passed"), trace=AgentTrace(trace_id="t", outcome=outcome))
    assert sample(one).violations == {"duplicate_effect": 1} and sample(one).violated


def test_a_failure_has_one_signature_whatever_its_case_and_another_where_another_tool_offends():
    def failed(case, tool):
        step = Step(step_id="s", kind="tool_call", name=tool, tool=Tool(name=tool))
        return replace(
            record("candidate", 1, "failed", case=case),
            trace=AgentTrace(trace_id="t", steps=(step,)),
            scores=(scored("toolNotCalled", first_step="s"),),
        )

    one, same, other = (sample(failed(*of)) for of in (("a", "pay"), ("b", "pay"), ("a", "wipe")))
    assert one.signature == same.signature != other.signature != ""
    assert one.tools == ("pay",) and one.rubric == (0, 1)
    assert sample(record("candidate", 1, "passed")).signature == ""


@pytest.mark.row("R45")
def test_cases_have_their_runs_in_order_and_a_recording_is_told():
    recorded = record("baseline", 1, "passed")
    recorded = replace(recorded, agent=replace(recorded.agent, ending="recorded"))
    runs = (record("candidate", 2, "failed"), recorded, record("candidate", 1, "passed"))
    (one,) = samples((Plan(case="a/b", title="", severity="major"),), runs)
    assert [run.run for run in one.candidate] == [1, 2] and one.recorded
    assert (one.passes("baseline"), one.passes("candidate")) == ((1, 1), (1, 2))


@pytest.mark.row("R45")
def test_samples_that_share_what_is_alike_are_those_of_their_records():
    dice = random.Random(3)

    def run(side, number):
        made = record(side, number, dice.choice(["passed", "failed"]))
        return replace(made, duration_ms=dice.choice([1, 400]))

    runs = [run(side, number) for side in ("baseline", "candidate") for number in range(1, 40)]
    (one,) = samples((Plan(case="a/b", title="", severity="major"),), runs)
    assert (*one.baseline, *one.candidate) == tuple(map(sample, runs))
