"""Callable agents straight on the twins: the same scenarios, scored without a gateway."""

import pytest

from sidecar.replay.direct import run_direct
from sidecar.twins.files import load_suite
from sidecar.twins.scenario import cases

SUITE = """\
suite: direct
twins: [twin.yaml]
scenarios:
  - id: refund
    input: {order: A-1}
    expect:
      - {type: order, tools: [get_order, issue_refund]}
      - {type: state, entity: orders, key: A-1, equals: {refunded: 49}}
      - {type: noDuplicateSideEffect}
      - {type: outcomeVerified}
      - {type: finalOutcome, claim: success}
  - id: approved
    input: {order: A-1}
    expect: [{type: approvalRequired, tool: issue_refund}]
  - id: gap
    input: {order: A-1}
    faults: [{fault: lie_success, tool: issue_refund}]
    expect: [{type: outcomeVerified}]
"""


@pytest.fixture
def suite(replayed):
    (replayed.folder / "suite.yaml").write_text(SUITE)
    loaded = load_suite(replayed.folder / "suite.yaml")
    return loaded.group, {case.id: case for case in cases(loaded.suite)}


def reference(request, call):
    order = call("get_order", {"order_id": request["input"]["order"]}).value
    arguments = {"order_id": order["id"], "amount": order["total"]}
    call("issue_refund", arguments, key="k")
    return f"I have issued the refund for {order['id']}."


@pytest.mark.requirement("SCN-01")
def test_the_reference_path_passes_and_the_null_agent_fails(suite):
    group, known = suite
    worlds = group.open()
    run = run_direct(known["refund"], reference, group, worlds)
    assert (run.conclusion, run.clean) == ("passed", True), run.scores
    idle = run_direct(known["refund"], lambda request, call: "Nothing to do.", group, worlds)
    assert (idle.conclusion, idle.clean) == ("failed", True)
    assert run_direct(known["refund"], reference, group, worlds).scores == run.scores


def test_without_a_gateway_an_approval_cannot_be_shown_and_is_no_pass(suite):
    group, known = suite
    assert run_direct(known["approved"], reference, group, group.open()).conclusion == "incomplete"


def test_a_lie_is_seen_by_the_twin_itself(suite):
    group, known = suite
    run = run_direct(known["gap"], reference, group, group.open())
    assert run.trace.outcome.status == "contradicted"
    assert run.conclusion == "failed"
