"""A callable in this process whose calls go through the gateway: what it is told is what is."""

import asyncio

import pytest

from sidecar.replay.driver import Job, company
from sidecar.replay.environment import Addresses, identity
from sidecar.replay.hosted.http import CALLS_MAX, GatewayCalls, TooManyCalls
from sidecar.replay.record import AgentExit

REFUND = """
- id: refund
  input: {order: A-1}
  approvals: [{tool: issue_refund, decision: none, by: lead}]
  expect:
    - {type: approvalRequired, tool: issue_refund}
    - {type: state, entity: orders, key: A-1, equals: {refunded: 49}}
"""


@pytest.fixture
def hosted(replayed, stage):
    """Runs ``agent(calls)`` as the agent of the one scenario; its record."""

    def run(agent, approval="approve"):
        plan = replayed.plan(
            replayed.suite(REFUND.replace("decision: none", f"decision: {approval}")),
            "plain",
            "plain",
        )

        def hosting(job, who, at):
            calls = GatewayCalls(plan.group, at, who)

            async def ask(request, seconds):
                assert seconds > 0 and request["input"] == {"order": "A-1"}
                output = await asyncio.to_thread(agent, calls)
                return AgentExit(ending="completed", exit_code=0, output=output)

            return ask

        async def whole():
            async with (
                stage(replayed.folder) as ports,
                company(plan, ports, concurrency=1, hosting=hosting) as running,
            ):
                (made,) = await running.run(
                    [Job(case=plan.cases[0], side="candidate", run=1, agent=plan.candidate)]
                )
                return made

        return asyncio.run(whole())

    return run


@pytest.mark.requirement("COV-01")
def test_its_calls_pass_the_gateway_with_key_approval_and_receipts(hosted):
    told = []

    def agent(calls):
        told.append(calls("get_order", {"order_id": "A-1"}))
        refund = {"order_id": "A-1", "amount": 49}
        told.append(calls("issue_refund", refund, "key-1"))
        told.append(calls("issue_refund", refund, "key-1"))
        told.append(calls("issue_refund", refund))
        told.append(calls("fly", {}))
        told.append(calls("get_order", {"order_id": "A 2"}))
        return "I have refunded order A-1."

    made = hosted(agent)
    assert [one.status for one in told[:3]] == [200, 201, 201]
    # Without a key the gateway refuses; a tool that nobody declares never leaves this process.
    assert told[3].status == 400 and told[3].value["code"] == "idempotency_key_required"
    assert told[4].status == 404 and told[5].status == 404
    assert made.conclusion == "passed" and made.void is None, made.scores
    phases = [(one.tool, one.phase) for one in made.receipts]
    assert ("issue_refund", "executed") in phases and ("issue_refund", "replayed") in phases
    assert [event.arguments for event in made.events if event.status == 404] == [
        {"order_id": "A 2"}
    ]


@pytest.mark.requirement("COV-01")
@pytest.mark.parametrize(("approval", "code"), [("deny", None), ("none", "approval_required")])
def test_an_approval_that_does_not_come_is_told_as_it_is(hosted, approval, code):
    told = []

    def agent(calls):
        told.append(calls("issue_refund", {"order_id": "A-1", "amount": 49}, "key-1"))
        return "I could not refund order A-1."

    made = hosted(agent, approval)
    assert told[0].status == 403 and (code is None or told[0].value["code"] == code)
    assert made.conclusion == "failed" and made.events == ()


def test_an_agent_that_never_ends_its_calls_is_stopped(replayed):
    nowhere = Addresses(host="127.0.0.1", gateway_port=1, otlp_port=1)
    calls = GatewayCalls(replayed.suite(REFUND).group, nowhere, identity("episode", "token"))
    assert calls("get_order", {"order_id": "A-1"}).status is None
    with pytest.raises(TooManyCalls):
        for _ in range(CALLS_MAX):
            calls("fly", {})
