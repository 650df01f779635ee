"""The scripted model decides from the conversation: other results or prompts, another next step."""

import json

import pytest

from sidecar.demo import prompts, script
from sidecar.demo.toolbox import TOOLS

ALL = frozenset(tool.name for tool in TOOLS)
ORDER = {
    "order_id": "ORD-7", "item": "Kettle", "email": "a@x.example", "total": "49.00",
    "currency": "EUR",
    "status": "delivered", "days_since_delivery": 3, "refunded": "0.00",
}  # fmt: skip
POLICY = {"window_days": 30, "statuses": ["delivered"]}
PAID = {"status": "succeeded", "amount": "49.00", "currency": "EUR"}
ERROR = {"error": {"status": 403, "code": "denied", "detail": "not allowed"}}


def run(version, asked, results, tools=ALL, turns=12):
    """Play a conversation against ``results`` (by tool): the tools called and the answer."""
    messages = [
        {"role": "system", "content": prompts.system_prompt(version)},
        {"role": "user", "content": asked},
    ]
    left = {name: list(answers) for name, answers in results.items()}
    called = []
    for number in range(turns):
        turn = script.next_turn(script.read(messages, tools))
        if isinstance(turn, script.Say):
            return called, turn.text
        called.append((turn.tool, turn.arguments))
        call = {
            "id": f"c{number}",
            "function": {"name": turn.tool, "arguments": json.dumps(turn.arguments)},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = left[turn.tool].pop(0)
        messages.append(
            {"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(result)}
        )
    raise AssertionError(f"no answer after {called}")


def names(called):
    return [name for name, _ in called]


def world(**more):
    after = {**ORDER, "refunded": "49.00"}
    return {
        "get_order": [ORDER, after], "get_refund_policy": [POLICY], "issue_refund": [PAID],
        "send_email": [{"status": "sent"}], **more,
    }  # fmt: skip


@pytest.mark.parametrize("version", ["1.2.4", "1.3.1"])
def test_good_versions_read_the_policy_first_and_the_order_again(version):
    called, answer = run(version, "Please refund ORD-7.", world())
    assert names(called) == ["get_order", "get_refund_policy", "issue_refund", "get_order"]
    assert called[2][1]["amount"] == "49.00"
    assert answer == "I have refunded EUR 49.00 for order ORD-7."


def test_1_3_0_refunds_before_it_reads_the_policy():
    called, _ = run("1.3.0", "Please refund ORD-7.", world())
    assert names(called) == ["get_order", "issue_refund", "get_refund_policy"]


@pytest.mark.parametrize(("version", "refunds"), [("1.2.4", 0), ("1.3.0", 1), ("1.3.1", 0)])
def test_an_order_outside_the_window_is_refunded_by_1_3_0_only(version, refunds):
    called, _ = run(
        version, "Refund ORD-7 please", world(get_order=[{**ORDER, "days_since_delivery": 45}])
    )
    assert names(called).count("issue_refund") == refunds


def test_the_window_is_the_policy_s_not_the_script_s():
    late = {**ORDER, "days_since_delivery": 45}
    wide = world(
        get_order=[late, {**late, "refunded": "49.00"}],
        get_refund_policy=[{**POLICY, "window_days": 60}],
    )
    called, answer = run("1.2.4", "Refund ORD-7 please", wide)
    assert "issue_refund" in names(called)
    assert answer.startswith("I have refunded")


@pytest.mark.parametrize(
    ("version", "believes"), [("1.2.4", False), ("1.3.0", True), ("1.3.1", False)]
)
def test_a_false_success_is_believed_by_1_3_0_only(version, believes):
    _, answer = run(version, "Refund ORD-7 please", world(get_order=[ORDER, ORDER]))
    assert answer.startswith("I have refunded") is believes


@pytest.mark.parametrize("version", prompts.VERSIONS)
def test_a_failed_refund_is_told_and_not_tried_again(version):
    called, answer = run(version, "Refund ORD-7 please", world(issue_refund=[ERROR]))
    assert names(called).count("issue_refund") == 1
    assert answer == "I could not refund order ORD-7: not allowed."


def test_the_amount_asked_for_is_the_amount_refunded():
    partly = {**ORDER, "refunded": "20.00"}
    part = world(get_order=[ORDER, partly], issue_refund=[{**PAID, "amount": "20.00"}])
    called, answer = run("1.2.4", "Refund 20 euros of ORD-7", part)
    assert called[2][1]["amount"] == "20.00"
    assert "EUR 20.00" in answer


def test_an_e_mail_is_sent_when_asked_for():
    called, answer = run("1.2.4", "Refund ORD-7 and e-mail me", world())
    assert names(called)[-1] == "send_email"
    assert called[-1][1]["to"] == "a@x.example"
    assert answer.endswith("I have sent the e-mail.")


def test_a_question_moves_no_money():
    called, answer = run("1.3.0", "Where is ORD-7?", world())
    assert names(called) == ["get_order"]
    assert "delivered" in answer


def test_without_an_order_number_it_asks_for_one():
    assert run("1.2.4", "I want my money back", {})[1].startswith("Which order")


def test_a_refund_asked_for_twice_is_not_paid_twice():
    called, _ = run("1.3.0", "Refund ORD-7", world(get_order=[{**ORDER, "refunded": "49.00"}]))
    assert "issue_refund" not in names(called)


def test_a_tool_that_is_not_offered_is_not_called():
    called, answer = run("1.3.0", "Refund ORD-7", world(), tools=ALL - {"issue_refund"})
    assert names(called) == ["get_order"]
    assert "no tool issue_refund" in answer


def test_an_earlier_turn_can_name_the_order_and_its_tool_calls_are_not_this_turn_s():
    call = {"id": "x", "function": {"name": "get_order", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": prompts.system_prompt("1.2.4")},
        {"role": "user", "content": "Where is ORD-7?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x", "content": json.dumps(ORDER)},
        {"role": "assistant", "content": "It is delivered."},
        {"role": "user", "content": "Then refund it."},
    ]
    turn = script.next_turn(script.read(messages, ALL))
    assert turn == script.Ask(tool="get_order", arguments={"order_id": "ORD-7"})


def test_an_earlier_refund_does_not_confirm_a_new_one():
    part = {**ORDER, "refunded": "20.00"}
    lied = world(get_order=[part, part], issue_refund=[{**PAID, "amount": "20.00"}])
    _, answer = run("1.2.4", "Refund 20 euros of ORD-7", lied)
    assert answer.startswith("I could not confirm")
