"""What policy wants and a run left out, what it burnt, and claims without an act."""

import pytest
from detect_rig import asked, call, codes, detected, model, trace
from msgspec.structs import replace

from processors.model.call import Receipt, ReceiptFact
from processors.model.step import Message, Part, StepDecision
from processors.verify.detect import detect
from processors.verify.detect_settings import Approvals, Budget, Order, Price, Settings
from processors.verify.outcome import judge
from processors.verify.receipts import attach

PAY = {"order": "A-1", "amount": 49.99}
PRICES = (Price(model="gpt*", input_usd="2.50", output_usd="10"),)
NEEDS = Settings(approvals=Approvals(tools=("issue_refund",)))
ORDER = Settings(order=(Order(tool="issue_refund", after="check_policy"),))
SAME = Settings(order=(Order(tool="issue_refund", after="check_policy", same=("order",)),))


def pay(**fields):
    return call("issue_refund", PAY, "done", **fields)


def check(order="A-1", **fields):
    return call("check_policy", {"order": order}, "fine", **fields)


def fact(*, effect="allow", approval=None, **fields):
    base = {
        "receipt_id": "r",
        "call_id": "c",
        "phase": "executed",
        "project": "default",
        "principal": "p",
        "principal_kind": "agent",
        "tool": "issue_refund",
        "class_": "irreversible",
        "action_hash": "h",
        "decision_id": "d",
        "decision_effect": effect,
        "reasons": (),
        "policy_revision": "1",
        "effect": "confirmed",
        "status": 200,
        "started_at_ns": 10**9,
        "finished_at_ns": 10**9 + 1,
        "trace_id": "t",
        "approval_id": approval,
    }
    return ReceiptFact(receipt=Receipt(**{**base, **fields}), arguments=PAY)


def through_gateway(of, settings=NEEDS, step=None):
    whole = attach(trace(step or pay()), [of], 10**12)
    return [item.code for item in detect(whole, tools={}, settings=settings).detections]


def test_a_tool_that_needs_an_approval_and_ran_without_the_gateway_is_told():
    (found,) = detected(pay(), settings=NEEDS)
    assert (found.code, found.severity) == ("skipped_approval", "critical")
    assert codes(pay()) == []
    assert codes(pay(status="denied"), settings=NEEDS) == []
    assert codes(call("lookup_order", PAY, "x"), settings=NEEDS) == []


def test_what_the_gateway_let_through_with_an_approval_is_fine_and_without_one_is_not():
    assert through_gateway(fact(effect="require_approval", approval="a1")) == []
    assert through_gateway(fact(effect="require_approval"), Settings()) == ["skipped_approval"]
    assert through_gateway(fact(effect="allow")) == ["skipped_approval"]
    assert through_gateway(fact(effect="allow"), Settings()) == []


def test_what_was_denied_and_done_all_the_same_is_told():
    assert through_gateway(fact(effect="deny"), Settings()) == ["skipped_approval"]
    assert through_gateway(fact(effect="deny", phase="refused"), Settings()) == []


def test_what_the_gateway_held_and_the_agent_did_elsewhere_is_told():
    held = pay(status="deferred", decision=StepDecision(effect="require_approval"))
    assert codes(held, pay()) == ["skipped_approval"]
    assert codes(held, call("issue_refund", {**PAY, "order": "B-2"}, "done")) == []


def test_an_agents_own_word_approves_nothing():
    said = StepDecision(effect="allow", source="emitter")
    assert codes(pay(decision=said), settings=NEEDS) == ["skipped_approval"]
    asked_for = StepDecision(effect="require_approval", source="emitter")
    assert codes(pay(decision=asked_for)) == ["skipped_approval"]


def test_order_is_what_the_settings_say():
    assert codes(check(), pay(), settings=ORDER) == []
    (found,) = detected(pay(), check(), settings=ORDER)
    assert (found.code, found.severity, found.steps) == ("out_of_order", "critical", ("t:1",))
    assert codes(pay(), check()) == []


def test_a_check_that_failed_or_was_not_over_is_no_check():
    assert codes(check(error="down"), pay(), settings=ORDER) == ["out_of_order"]
    late = check(start_ns=1, end_ns=10**12)
    assert codes(late, pay(), settings=ORDER) == ["out_of_order"]


def test_order_with_equal_values_wants_the_check_of_the_same_target():
    assert codes(check("A-1"), pay(), settings=SAME) == []
    assert codes(check("B-2"), pay(), settings=SAME) == ["out_of_order"]


def test_a_call_that_was_refused_was_not_too_early():
    assert codes(pay(error="unknown tool: issue_refund"), settings=ORDER) == []


def test_a_claim_of_what_was_never_called_is_told():
    steps = (
        asked("Refund me"),
        call("lookup_order", PAY, "x"),
        model(answer="Your refund has been issued."),
    )
    tools = {"issue_refund": "irreversible", "lookup_order": "read"}

    def told(*steps, completeness="complete"):
        whole = trace(
            *steps, final_output="Your refund has been issued.", completeness=completeness
        )
        return [i.code for i in detect(judge(whole, tools=tools, now_ns=1), tools=tools).detections]

    assert told(*steps) == ["claim_without_action"]
    assert told(*steps, pay()) == []
    assert told(*steps, completeness="orphans") == []
    assert told(model()) == []  # nothing captured: calls could not have been seen
    assert told(*steps, pay(status="requested_only")) == ["claim_without_action"]


@pytest.mark.parametrize(
    ("budget", "measure"),
    [
        (Budget(tokens_max=250), {"used": 330, "limit": 250, "steps": 1}),
        (Budget(model_calls_max=2), {"used": 3, "limit": 2, "steps": 1}),
        (Budget(cost_usd_max="0.0005", prices=PRICES),
         {"used": 1050, "limit": 500, "steps": 1}),
        (Budget(seconds_max=2), {"used": 2, "limit": 2, "steps": 1}),
        (Budget(tokens_per_minute_max=300), {"used": 330, "limit": 300}),
    ],
)  # fmt: skip
def test_every_budget_has_its_limit(budget, measure):
    steps = [model(usage=(100, 10), name="gpt-x") for _ in range(3)]
    whole = trace(*steps)
    total = replace(whole.usage_total, input=300, output=30)
    if budget.seconds_max:
        steps[-1] = replace(steps[-1], end_ns=4 * 10**9)
        whole = trace(*steps)
    found = detect(replace(whole, usage_total=total), tools={}, settings=Settings(budget=budget))
    if budget.seconds_max:
        assert found.detections[0].measures == {"used": 3, "limit": 2, "steps": 1}
        return
    assert [item.code for item in found.detections] == ["budget_burn"]
    assert found.detections[0].measures == measure


def test_within_its_budget_a_run_burns_nothing():
    whole = trace(*(model(usage=(100, 10)) for _ in range(3)))
    budget = Budget(tokens_max=330, model_calls_max=3, cost_usd_max="1", seconds_max=60)
    total = replace(whole.usage_total, input=300, output=30)
    found = detect(replace(whole, usage_total=total), tools={}, settings=Settings(budget=budget))
    assert found.detections == ()


def test_requests_that_were_never_carried_out_count_for_nothing():
    wanted = Message(role="assistant", parts=(Part(type="tool_call", name="issue_refund"),))
    step = replace(model(), messages_out=(wanted,))
    assert (
        codes(
            step, pay(status="requested_only"), settings=Settings(budget=Budget(tool_calls_max=1))
        )
        == []
    )
