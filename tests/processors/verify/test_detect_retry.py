"""Acts made again: after a lost answer, after a success, and where a second attempt is safe."""

import pytest
from detect_rig import asked, call, codes, detected, trace
from msgspec.structs import replace

from processors.model.call import Receipt, ReceiptFact
from processors.model.evidence import Evidence
from processors.verify.detect import detect
from processors.verify.receipts import attach

PAY = {"order": "A-1", "amount": 49.99}
LOST = [
    "TimeoutError: timed out after 2s", "Connection reset by peer", "503 Service Unavailable",
    "HTTP 500 Internal Server Error", "outcome_unknown", "deadline exceeded",
]  # fmt: skip
REFUSED = [
    "ValidationError: amount must be positive", "400 Bad Request", "404 order not found",
    "card declined", "403 Forbidden", "insufficient funds", "order already refunded",
]  # fmt: skip


def pay(arguments=PAY, result="done", **fields):
    return call("issue_refund", arguments, result, **fields)


@pytest.mark.parametrize("words", LOST)
def test_a_second_attempt_after_a_lost_answer_is_unsafe(words):
    (found,) = detected(asked("hi"), pay(result=None, error=words), pay())
    assert (found.code, found.severity) == ("unsafe_retry", "critical")
    assert found.steps == ("t:2", "t:3")
    assert found.measures["attempts"] == 2


@pytest.mark.parametrize("words", REFUSED)
def test_after_a_refusal_a_second_attempt_is_safe(words):
    assert codes(pay(result=None, error=words), pay()) == []


def test_a_failure_without_a_reason_may_hide_an_effect():
    (found,) = detected(pay(result=None, error="Function failed."), pay())
    assert (found.code, found.severity) == ("unsafe_retry", "major")


def test_the_result_tells_of_the_failure_too():
    assert codes(pay(result={"error": "timed out"}, status="error"), pay()) == ["unsafe_retry"]


def test_an_act_repeated_after_its_success_is_a_repeated_call():
    (found,) = detected(pay(), call("lookup_order", {"o": 1}, "x"), pay())
    assert (found.code, found.severity) == ("repeated_call", "critical")


def test_other_words_and_other_spellings_of_a_number_are_the_same_attempt_after_a_failure():
    first = {"order": "A-1", "amount": "49.990", "reason": "the parcel came broken today"}
    second = {"order": "a-1", "amount": 49.99, "reason": "the customer says that it was broken"}
    assert codes(pay(first, None, error="timeout"), pay(second)) == ["unsafe_retry"]
    assert codes(pay(first), pay(second)) == []


def test_another_target_is_another_act():
    assert codes(pay(result=None, error="timeout"), pay({**PAY, "order": "A-2"})) == []
    assert codes(pay(), pay({**PAY, "amount": 5.5})) == []


def test_an_idempotency_key_among_the_arguments_makes_it_safe():
    keyed = {**PAY, "idempotency_key": "k1"}
    assert codes(pay(keyed, None, error="timeout"), pay(keyed)) == []


def test_many_attempts_are_one_detection():
    lost = [pay(result=None, error="timeout") for _ in range(3)]
    (found,) = detected(*lost, pay())
    assert found.measures["attempts"] == 4
    assert len(found.steps) == 4


def test_a_name_says_what_the_registry_does_not():
    lost = pay(result=None, error="timeout")
    assert [item.severity for item in detected(lost, pay(), tools={})] == ["major"]
    for harmless in ("run_tests", "bash", "get_refund", "refund_status"):
        steps = [replace(step, tool=replace(step.tool, name=harmless)) for step in (lost, pay())]
        assert codes(*steps, tools={}) == []


@pytest.mark.row("R62")
def test_reads_and_declared_writes_may_be_tried_again():
    for name in ("lookup_order", "update_ticket"):
        assert codes(call(name, PAY, None, error="timeout"), call(name, PAY, "x")) == []


def receipt(number, effect, **fields):
    base = {
        "receipt_id": f"r{number}",
        "call_id": f"c{number}",
        "phase": "executed",
        "project": "default",
        "principal": "p",
        "principal_kind": "agent",
        "tool": "issue_refund",
        "class_": "irreversible",
        "action_hash": "h",
        "decision_id": "d",
        "decision_effect": "allow",
        "reasons": (),
        "policy_revision": "1",
        "effect": effect,
        "status": 200,
        "started_at_ns": number * 10**9,
        "finished_at_ns": number * 10**9 + 1,
        "trace_id": "t",
    }
    return ReceiptFact(receipt=Receipt(**{**base, **fields}), arguments=PAY)


def with_receipts(steps, *facts):
    return detect(attach(trace(*steps), facts, 10**12), tools={}).detections


def test_what_the_gateway_knows_decides():
    steps = [pay(result=None, error="timeout"), pay()]
    gone = with_receipts(steps, receipt(1, "not_executed"), receipt(2, "confirmed"))
    assert gone == ()
    replayed = with_receipts(
        steps, receipt(1, "confirmed"), receipt(2, "confirmed", phase="replayed")
    )
    assert replayed == ()
    (found,) = with_receipts(steps, receipt(1, "unknown"), receipt(2, "confirmed"))
    assert (found.code, found.severity) == ("unsafe_retry", "critical")


def test_attempts_inside_one_call_are_told_apart_by_receipts():
    found = with_receipts([pay(end_ns=9 * 10**9)], receipt(1, "unknown"), receipt(2, "confirmed"))
    assert [item.code for item in found] == ["unsafe_retry"]


def test_a_probe_that_found_no_double_makes_it_a_minor_matter():
    steps = trace(pay(result=None, error="timeout"), pay())
    seen = Evidence(
        evidence_id="p", source="probe", name="no_duplicate_effect", held=True,
        subject="issue_refund", step_id="t:2",
    )  # fmt: skip
    (found,) = detect(replace(steps, evidence=(seen,)), tools={}).detections
    assert found.severity == "minor"
