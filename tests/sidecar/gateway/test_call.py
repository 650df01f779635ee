"""The machine of one call: its conversations, and its rules under any order of events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.call import Approval, Decision, Reason
from sidecar.gateway import commands as c
from sidecar.gateway import events as e
from sidecar.gateway.call import Call
from sidecar.gateway.idempotency import KeyRules
from sidecar.gateway.outcome import key_required, not_spendable
from sidecar.store.ledger import Answer, Claim, Fence

NOW = 1_000
ALLOW = Decision(decision_id="d", effect="allow", reasons=(Reason(code="ok"),))
ASK = Decision(decision_id="d", effect="require_approval", reasons=(Reason(code="much"),))
DENY = Decision(decision_id="d", effect="deny", reasons=(Reason(code="never"),))
BROKEN = Decision(decision_id="d", effect="deny", error="late")
FENCE = Fence(claim_id=1, fence=1)


def received(class_="irreversible", **fields):
    rules = KeyRules(
        class_=class_,
        upstream_idempotent=fields.pop("upstream_idempotent", False),
        reconcilable=fields.pop("reconcilable", False),
    )
    return e.CallReceived(
        class_=class_,
        fingerprint="sha256:a",
        rules=rules,
        has_key=fields.pop("has_key", class_ != "read"),
        no_effect_statuses=frozenset({400, 429}),
        **fields,
    )


def claim(state, *, fingerprint="sha256:a", lease=NOW + 10, expires=NOW + 10, answer=True):
    kept = Answer(status=201, headers=(), body=b"{}") if answer else None
    return Claim(
        claim_id=1, project="p", principal="a", tool="t", key_hash="h", fingerprint=fingerprint,
        state=state, owner="o", lease_until_ns=lease, fence=3, attempt=2, call_id="x",
        updated_at_ns=0, expires_at_ns=expires, receipt_id="r",
        answer=kept if state in ("completed", "resolved_done") else None,
    )  # fmt: skip


def found(state=None, *, runs=None, **fields):
    kept = claim(state, **fields) if state else None
    runs = state in ("claimed", "sent") if runs is None else runs
    return e.KeyFound(claim=kept, now_ns=NOW, runs=runs)


def approval(status):
    return Approval(
        approval_id="ap", project="p", requester="a", tool="t", action_hash="h", key_hash="k",
        policy_revision="r", tool_digest="d", status=status, summary="s", requested_at_ns=0,
        expires_at_ns=9, decide_by_ns=9, execute_by_ns=18,
    )  # fmt: skip


def play(*lines):
    """Feed events, collect what the last one answered; types of all commands in order."""
    machine, answered = Call(), ()
    history = []
    for event in lines:
        answered = machine.handle(event)
        history += answered
    return machine, answered, [type(each).__name__ for each in history]


def test_a_read_is_decided_forwarded_recorded_and_answered():
    machine, last, history = play(
        received("read"), e.Decided(decision=ALLOW), e.UpstreamReplied(status=200), e.Recorded()
    )
    assert history == ["Decide", "Forward", "Record", "Reply"]
    assert machine.done and last == (c.Reply(),)


def test_an_irreversible_call_commits_marks_sends_settles_records_and_replies():
    _, _, history = play(
        received(),
        found(),
        e.Decided(decision=ALLOW),
        e.IntentCommitted(claim=FENCE),
        e.SentMarked(),
        e.UpstreamReplied(status=201),
        e.Recorded(),
    )
    assert history == [
        *("LookUpKey", "Decide", "CommitIntent", "MarkSent", "Forward", "Settle", "Record"),
        "Reply",
    ]


TO_FORWARD = (
    received(),
    found(),
    e.Decided(decision=ALLOW),
    e.IntentCommitted(claim=FENCE),
    e.SentMarked(),
)


@pytest.mark.parametrize(
    ("event", "holds", "end", "effect", "code"),
    [
        (e.UpstreamReplied(status=200), "Settle", "completed", "confirmed", None),
        (e.UpstreamReplied(status=303), "Settle", "completed", "confirmed", None),
        (e.UpstreamReplied(status=429), "Release", "failed_safe", "not_executed", None),
        (e.UpstreamReplied(status=409), "Release", "completed", "not_executed", None),
        (e.UpstreamReplied(status=409, retry_after=True), "Keep", "unknown", "unknown", None),
        (e.UpstreamReplied(status=500), "Keep", "unknown", "unknown", None),
        (e.UpstreamReplied(status=503), "Keep", "unknown", "unknown", "outcome_unknown"),
        (e.UpstreamReplied(status=302), "Keep", "unknown", "unknown", None),
        (e.UpstreamFailed(sent=True, reason="x"), "Keep", "unknown", "unknown", "outcome_unknown"),
        (e.TimedOut(), "Keep", "unknown", "unknown", "outcome_unknown"),
        (
            e.UpstreamFailed(sent=False, reason="refused"),
            *("Release", "failed_safe", "not_executed", "upstream_unreachable"),
        ),
    ],
)  # fmt: skip
def test_what_the_upstream_does_decides_holds_claim_effect_and_answer(
    event, holds, end, effect, code
):
    machine, (held, record), _ = play(*TO_FORWARD, event)
    assert type(held).__name__ == holds
    assert (record.end, record.effect, record.code) == (end, effect, code)
    (reply,) = machine.handle(e.Recorded())
    assert (reply.refusal.code if reply.refusal else None) == code
    if code == "outcome_unknown":
        assert reply.refusal.status == 409 and reply.refusal.next_action == "none"


def test_only_what_was_not_executed_gives_the_approval_back():
    for event, restored in (
        (e.UpstreamReplied(status=429), True),
        (e.UpstreamFailed(sent=False, reason="x"), True),
        (e.TimedOut(), False),
        (e.UpstreamReplied(status=200), False),
    ):
        _, (_, record), _ = play(*TO_FORWARD, event)
        assert record.restore_approval is restored


@pytest.mark.parametrize(
    ("key", "code", "status"),
    [
        (found("claimed"), "in_flight", 409),
        (found("sent"), "in_flight", 409),
        (found("sent", runs=False), "outcome_unknown", 409),
        (found("unknown"), "outcome_unknown", 409),
        (found("completed", fingerprint="sha256:b"), "key_reused", 422),
        (found("claimed", fingerprint="sha256:b"), "key_reused", 422),
        (found("completed", expires=NOW), "key_expired", 409),
        (found("completed", answer=False), "replay_body_unavailable", 409),
    ],
)
def test_a_used_key_is_refused_as_its_claim_says(key, code, status):
    _, (record,), history = play(received(), key)
    assert (record.phase, record.code, record.status) == ("refused", code, status)
    assert history == ["LookUpKey", "Record"]


@pytest.mark.parametrize(
    "key",
    [found("failed_safe"), found("resolved_not_done"), found("claimed", runs=False)],
)
def test_a_key_whose_call_had_no_effect_is_taken_over_as_the_next_attempt(key):
    _, (commit,), _ = play(received(), key, e.Decided(decision=ALLOW))
    assert (commit.attempt, commit.seen.fence, commit.seen.state) == (3, 3, key.claim.state)


def test_an_unknown_call_is_sent_again_only_to_a_tool_that_says_it_may_be():
    unknown = found("unknown")
    _, last, _ = play(received(upstream_idempotent=True), unknown, e.Decided(decision=ALLOW))
    assert isinstance(last[0], c.CommitIntent)


@pytest.mark.parametrize(
    "event", [e.UpstreamFailed(sent=False, reason="x"), e.UpstreamReplied(status=429)]
)
def test_an_attempt_after_an_unknown_one_proves_nothing_by_failing(event):
    start = (received(upstream_idempotent=True), found("unknown"), e.Decided(decision=ALLOW))
    sent = (*start, e.IntentCommitted(claim=FENCE), e.SentMarked(), event)
    _, (hold, record), _ = play(*sent)
    assert isinstance(hold, c.Keep)
    assert (record.end, record.effect, record.code) == ("unknown", "unknown", "outcome_unknown")
    assert not record.restore_approval
    _, (reply,), _ = play(*sent, e.Recorded())
    assert (reply.refusal.status, reply.refusal.next_action) == (409, "retry")


def test_an_unknown_call_is_reconciled_and_then_looked_up_again():
    start = (received(reconcilable=True), found("unknown"))
    _, (asked,), _ = play(*start)
    assert isinstance(asked, c.Reconcile)
    _, last, _ = play(*start, e.Reconciled(done=True), found("resolved_done"))
    assert last[0].phase == "replayed"
    _, last, _ = play(*start, e.Reconciled(done=None))
    assert last[0].code == "outcome_unknown"
    _, last, _ = play(*start, e.Reconciled(done=None, settles_in_s=7))
    assert (last[0].code, last[0].status) == ("outcome_unknown", 409)
    _, (reply,), _ = play(*start, e.Reconciled(done=None, settles_in_s=7), e.Recorded())
    assert (reply.refusal.next_action, reply.refusal.retry_after) == ("retry", 7)
    _, last, _ = play(*start, e.Reconciled(done=False), found("unknown"))
    assert last[0].code == "outcome_unknown"  # once is enough


def test_no_clock_ends_a_call_that_somebody_is_still_at():
    _, last, _ = play(received(reconcilable=True), found("sent", lease=NOW - 10, runs=True))
    assert last[0].code == "in_flight"
    _, last, _ = play(received(upstream_idempotent=True), found("sent", lease=0, runs=True))
    assert last[0].code == "in_flight"


def test_a_call_in_flight_is_waited_for_when_the_caller_wishes():
    waits = received(wait_ns=5)
    _, last, _ = play(waits, found("sent"))
    assert last == (c.LookUpKey(wait_ns=5),)
    _, last, _ = play(waits, found("sent"), found("completed"))
    assert last[0].phase == "replayed"
    _, last, _ = play(waits, found("sent"), found("sent"))
    assert last[0].code == "in_flight"


@pytest.mark.parametrize(
    ("decision", "exceeded", "code", "status"),
    [
        (DENY, None, "never", 403),
        (BROKEN, None, "policy_error", 503),
        (ALLOW, Reason(code="limit_amount"), "limit_amount", 403),
    ],
)
def test_what_policy_does_not_allow_is_not_sent(decision, exceeded, code, status):
    decided = e.Decided(decision=decision, exceeded=exceeded)
    _, (record,), history = play(received(), found(), decided)
    assert (record.code, record.status, "Forward" in history) == (code, status, False)


def test_observe_mode_sends_what_policy_would_refuse():
    for decision in (DENY, BROKEN, ASK):
        _, last, _ = play(received(observe=True), found(), e.Decided(decision=decision))
        assert isinstance(last[0], c.CommitIntent)


def test_approval_is_asked_for_and_its_state_is_the_answer():
    start = (received(), found(), e.Decided(decision=ASK))
    _, last, _ = play(*start)
    assert last == (c.AskApproval(),)
    for status, code in (
        ("pending", "approval_required"),
        ("approved", "approval_required"),
        ("denied", "approval_denied"),
        ("expired", "approval_expired"),
        ("consumed", "approval_consumed"),
    ):
        _, (record,), _ = play(*start, e.NotApproved(approval=approval(status)))
        assert (record.code, record.status) == (code, 403)


def test_a_caller_that_prefers_it_gets_202_while_approval_is_pending():
    start = (received(asynchronous=True), found(), e.Decided(decision=ASK))
    _, (record,), _ = play(*start, e.NotApproved(approval=approval("pending")))
    assert record.status == 202
    _, (record,), _ = play(*start, e.NotApproved(approval=approval("denied")))
    assert record.status == 403


def test_a_proven_token_or_an_approval_waited_for_goes_into_the_intent():
    _, (commit,), _ = play(received(token="ap"), found(), e.Decided(decision=ASK))
    assert commit.approval_id == "ap"
    _, (commit,), _ = play(
        received(wait_ns=5), found(), e.Decided(decision=ASK), e.Approved(approval_id="ap")
    )
    assert commit.approval_id == "ap"


def test_a_token_that_proves_nothing_and_a_missing_key_are_refused():
    fault = not_spendable("approval_mismatch")
    _, (record,), _ = play(received(token_fault=fault), found(), e.Decided(decision=ASK))
    assert (record.code, record.status) == ("approval_mismatch", 403)
    _, (record,), _ = play(received("write", has_key=False), e.Decided(decision=ASK))
    assert (record.code, record.status) == ("idempotency_key_required", 400)
    _, (record,), _ = play(received(refusal=key_required("x")))
    assert record.code == "idempotency_key_required"


def test_policy_that_changed_meanwhile_decides_again_but_not_for_ever():
    lines = [received(), found(), e.Decided(decision=ALLOW)]
    for _ in range(2):
        lines.append(e.IntentRefused(code="policy_changed"))
        _, last, _ = play(*lines)
        assert isinstance(last[0], c.Decide)
        lines.append(e.Decided(decision=ALLOW))
    _, last, _ = play(*lines, e.IntentRefused(code="policy_changed"))
    assert last[0].refusal.code == "fail_closed"


def test_a_key_lost_in_the_race_is_looked_up_again():
    _, last, _ = play(received(), found(), e.Decided(decision=ALLOW), e.KeyTaken())
    assert last == (c.LookUpKey(),)
    _, last, _ = play(
        received(), found(), e.Decided(decision=ALLOW), e.KeyTaken(), found("completed")
    )
    assert last[0].phase == "replayed"


def test_a_store_that_fails_refuses_503_before_and_409_after_sending():
    before = (
        (received(), e.StoreFailed()),
        (received(), found(), e.Decided(decision=ALLOW), e.StoreFailed()),
        (received(), found(), e.Decided(decision=ASK), e.StoreFailed()),
        (*TO_FORWARD[:-1], e.StoreFailed(), e.StoreFailed()),
        (
            *(received("read"), e.Decided(decision=ALLOW)),
            *(e.UpstreamReplied(status=200), e.StoreFailed()),
        ),
    )  # fmt: skip
    for lines in before:
        _, last, _ = play(*lines)
        assert (last[0].refusal.status, last[0].refusal.code) == (503, "fail_closed")
    _, last, _ = play(*TO_FORWARD, e.UpstreamReplied(status=200), e.StoreFailed())
    assert (last[0].refusal.status, last[0].refusal.code) == (409, "outcome_unknown")


def test_a_claim_lost_before_sending_is_not_sent_and_not_ended_by_us():
    _, (keep, record), history = play(*TO_FORWARD[:-1], e.SentMarked(held=False))
    assert isinstance(keep, c.Keep) and record.end is None and "Forward" not in history


# The rules, under any order of events

EVENTS = st.one_of(
    st.sampled_from(
        [
            e.Malformed(refusal=key_required("x")),
            e.Approved(approval_id="ap"),
            e.NotApproved(approval=approval("pending")),
            e.NotApproved(approval=approval("denied")),
            e.IntentCommitted(claim=FENCE),
            e.KeyTaken(),
            e.IntentRefused(code="policy_changed"),
            e.IntentRefused(code="approval_consumed"),
            e.SentMarked(),
            e.SentMarked(held=False),
            e.UpstreamFailed(sent=False, reason="x"),
            e.UpstreamFailed(sent=True, reason="x"),
            e.TimedOut(),
            e.Reconciled(done=True),
            e.Reconciled(done=False),
            e.Reconciled(done=None),
            e.Recorded(),
            e.StoreFailed(),
            found(),
            *(e.Decided(decision=each) for each in (ALLOW, ASK, DENY, BROKEN)),
        ]
    ),
    st.builds(
        e.UpstreamReplied,
        status=st.sampled_from([200, 204, 303, 302, 400, 404, 409, 429, 500, 503]),
        retry_after=st.booleans(),
    ),
    st.builds(
        found,
        st.sampled_from(
            [
                *("claimed", "sent", "completed", "failed_safe", "unknown"),
                *("resolved_done", "resolved_not_done"),
            ]
        ),
        fingerprint=st.sampled_from(["sha256:a", "sha256:b"]),
        lease=st.sampled_from([NOW, NOW + 1]),
        expires=st.sampled_from([NOW, NOW + 1]),
        answer=st.booleans(),
    ),
)
RECEIVED = st.builds(
    received,
    st.sampled_from(["read", "write", "irreversible"]),
    has_key=st.booleans(),
    observe=st.booleans(),
    token=st.sampled_from([None, "ap"]),
    token_fault=st.sampled_from([None, not_spendable("approval_mismatch")]),
    wait_ns=st.sampled_from([0, 5]),
    asynchronous=st.booleans(),
    upstream_idempotent=st.booleans(),
    reconcilable=st.booleans(),
)


def check_rules(history, first):
    """The header's rules, over the commands of one life."""
    names = [type(each).__name__ for each in history]
    assert names.count("Reply") <= 1 and ("Reply" not in names or names[-1] == "Reply")
    assert names.count("Forward") <= 1
    if "Forward" in names and (first.class_ != "read" or "CommitIntent" in names):
        at = names.index("Forward")
        assert "MarkSent" in names[:at], "sent without a committed intent that is marked"
    holds = sum(names.count(each) for each in ("Settle", "Release", "Keep"))
    if "MarkSent" in names and names[-1] == "Reply":
        assert holds == 1 and "Record" in names
    assert holds <= 1 and (not holds or "MarkSent" in names)
    if "Reply" in names and "Record" not in names:
        assert history[-1].refusal is not None and history[-1].refusal.status == 503
        assert "Forward" not in names


@given(RECEIVED, st.lists(EVENTS, max_size=25))
def test_the_rules_hold_whatever_comes_in_whatever_order(first, rest):
    machine = Call()
    history = list(machine.handle(first))
    for event in rest:
        history += machine.handle(event)
        check_rules(history, first)


ANSWERS = {
    "LookUpKey": (e.KeyFound, e.StoreFailed),
    "Decide": (e.Decided, e.StoreFailed),
    "AskApproval": (e.Approved, e.NotApproved, e.StoreFailed),
    "CommitIntent": (e.IntentCommitted, e.KeyTaken, e.IntentRefused, e.StoreFailed),
    "MarkSent": (e.SentMarked, e.StoreFailed),
    "Forward": (e.UpstreamReplied, e.UpstreamFailed, e.TimedOut),
    "Reconcile": (e.Reconciled, e.StoreFailed),
    "Record": (e.Recorded, e.StoreFailed),
}


@given(RECEIVED, st.data())
def test_every_life_ends_in_exactly_one_reply_when_each_command_is_answered(first, data):
    machine = Call()
    waiting, history = list(machine.handle(first)), []
    for _ in range(60):
        if not waiting:
            break
        command = waiting.pop(0)
        history.append(command)
        wanted = ANSWERS.get(type(command).__name__)
        if wanted:
            event = data.draw(EVENTS.filter(lambda one, kinds=wanted: isinstance(one, kinds)))
            waiting += machine.handle(event)
    assert machine.done and not waiting, repr(machine)
    assert [type(each).__name__ for each in history].count("Reply") == 1
    check_rules(history, first)
    last_record = [each for each in history if isinstance(each, c.Record)]
    if last_record and last_record[-1].end == "completed" and history[-1].refusal is not None:
        assert history[-1].refusal.code == "outcome_unknown"  # the record failed


@given(RECEIVED, st.data())
def test_no_attempt_is_made_while_an_effect_is_possible(first, data):
    """With a claim that was sent or is unknown, only a tool that allows it is sent to again."""
    machine = Call()
    waiting, history = list(machine.handle(first)), []
    possible = st.sampled_from([found("sent"), found("sent", runs=False), found("unknown")])
    for _ in range(30):
        if not waiting:
            break
        command = waiting.pop(0)
        history.append(type(command).__name__)
        wanted = ANSWERS.get(type(command).__name__)
        if wanted is None:
            continue
        kinds = EVENTS.filter(lambda one, wanted=wanted: isinstance(one, wanted))
        answers = possible if isinstance(command, c.LookUpKey) else kinds
        waiting += machine.handle(data.draw(answers))
    if first.has_key and not first.rules.upstream_idempotent:
        assert "Forward" not in history and "CommitIntent" not in history
