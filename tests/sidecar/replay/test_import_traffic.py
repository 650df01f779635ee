"""A run's gateway calls and its spans become one tape, whatever became of each call."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from processors.model.call import Approval, Receipt, ReceiptFact, Vote
from processors.model.step import Agent, Source, Step, Tool
from processors.model.trace import AgentTrace
from sidecar.replay.import_traffic import traffic
from sidecar.replay.traffic import Asked, Kept, pieces
from sidecar.store.ledger import Answer, KeptAnswer
from sidecar.tape.compose import Composer

pytestmark = pytest.mark.requirement("TAP-03")
TRACE = "ab" * 16
T0 = 1_764_000_000_000_000_000


APPROVAL = Approval(
    approval_id="q", project="p", requester="key:a", tool="pay", action_hash="h",
    key_hash="k", policy_revision="r1", tool_digest="", status="consumed", summary="",
    requested_at_ns=T0, expires_at_ns=T0 + 99, decide_by_ns=T0 + 9, execute_by_ns=T0 + 99,
    approvers_min=2,
)  # fmt: skip
VOTES = tuple(
    Vote(voter=f"key:{who}", decision="approve", reason="", voted_at_ns=T0 + at, shown_digest="")
    for at, who in ((4, "second"), (2, "one"))
)


def receipt(call, phase="executed", start=0, end=5, **more):
    fields = {
        "receipt_id": f"{call}-{phase}{more.get('code') or ''}", "call_id": call, "phase": phase,
        "project": "p", "principal": "key:a", "principal_kind": "agent", "tool": "pay",
        "class_": "irreversible", "action_hash": "h", "decision_id": f"d-{call}",
        "decision_effect": "allow", "reasons": (), "policy_revision": "r1",
        "effect": "confirmed", "status": 200, "upstream_status": 200, "trace_id": TRACE,
        "response_digest": "sha256:" + "0" * 64, "started_at_ns": T0 + start,
        "finished_at_ns": T0 + end, **more,
    }  # fmt: skip
    return ReceiptFact(receipt=Receipt(**fields), arguments={"order": "1"})


def taped(*facts, trace=None, capture="redacted", **more):
    kept = Kept(project="p", session=TRACE, facts=facts, trace=trace, **more)
    found = traffic(kept, capture, lambda principal: f"tok:approver:{len(principal)}")
    composed = Composer(found.header, lambda *_: None)  # each fact is one that a tape may hold
    for fact in found.facts:
        composed.event(fact)
    composed.seal()
    return found


def told(found):
    return [(one.kind, one.status, one.cause) for one in found.facts]


def span(name, start, end, **more):
    return Step(
        step_id=f"{TRACE}:{name}",
        kind=more.pop("kind", "tool_call"),
        name="pay",
        agent=Agent(name="a"),
        start_ns=T0 + start,
        end_ns=T0 + end,
        parent_step_id=more.pop("parent", None),
        tool=more.pop("tool", Tool(name="pay", result="as the span says")),
        sources=(Source(kind="span", trace_id=TRACE, span_id=name),),
        **more,
    )


def trace(*steps, **more):
    return AgentTrace(trace_id=TRACE, trace_ids=(TRACE,), project="p", steps=steps, **more)


def test_a_call_whose_answer_nobody_knows_is_in_flight():
    found = taped(receipt("c", "authorised", effect="unknown", upstream_status=None))
    assert told(found)[:3] == [
        ("decision", "ok", ()),
        ("tool_call", "unset", (0,)),
        ("error", "error", (1,)),
    ]
    assert [one.kind for one in found.facts][3:] == ["terminal"]


def test_a_call_cut_by_a_crash_has_what_its_span_got_and_the_effect_that_was_found_later():
    facts = (
        receipt("c", "authorised", effect="unknown", upstream_status=None),
        receipt("c", end=90, code="recovered", effect="unknown", status=409, upstream_status=None),
    )
    found = taped(*facts, trace=trace(span("1", 0, 9, status="error")))
    (result,) = (one for one in found.facts if one.kind == "tool_result")
    assert (result.status, result.error) == ("error", ("outcome_unknown", None))
    assert result.output == "as the span says"


def test_what_is_known_later_of_an_effect_does_not_change_what_the_agent_was_answered():
    lost = {"status": 409, "upstream_status": None}
    answer = Answer(status=200, headers=(), body=b'{"outcome": "done"}')
    kept = KeptAnswer(call_id="c", principal="key:a", tool="pay", key_hash="k", answer=answer)
    again = receipt("d", "replayed", start=20, end=21, key_hash="k", span_id="1")
    found = taped(
        receipt("c", "authorised", span_id="1"),
        receipt("c", span_id="1", code="outcome_unknown", effect="unknown", **lost),
        receipt("c", span_id="1", end=70, code="resolved", status=200, upstream_status=None),
        again,
        trace=trace(span("1", 0, 99)),
        answers=(kept,),
    )
    assert [one.kind for one in found.facts] == [
        *("decision", "tool_call", "error", "tool_result", "tool_call", "tool_result", "terminal"),
    ]
    assert found.facts[4].cause == (3,)  # tried again when the answer was there
    assert found.facts[5].output == {"outcome": "done"}
    assert found.facts[3].output == {"digest": "sha256:" + "0" * 64}
    result = found.facts[3]
    assert (result.status, result.error) == ("error", ("outcome_unknown", None))
    assert result.attributes["gateway"]["effect"] == "confirmed"
    assert result.attributes["gateway"]["resolved"] == "resolved"


def test_a_tool_that_was_not_reached_is_an_error_and_no_denial():
    failed = receipt(
        "c", code="upstream_unreachable", effect="not_executed", status=502, upstream_status=None
    )
    assert [one[:2] for one in told(taped(failed))][2:4] == [
        ("error", "error"),
        ("tool_result", "error"),
    ]


def test_a_request_for_no_known_tool_is_an_error_and_no_call():
    found = taped(receipt("c", "refused", tool="", decision_id="", code="no_such_tool", status=404))
    assert [(one.kind, one.error) for one in found.facts][:1] == [
        ("error", ("no_such_tool", None)),
    ]
    assert len(found.facts) == 2


def test_an_approval_of_two_is_granted_by_the_second_vote_alone():
    asked = Asked(approval=APPROVAL, votes=VOTES, needed=2)
    found = taped(receipt("c", approval_id="q", start=1, end=8), asked=(asked,))
    said = [one.output["decision"] for one in found.facts if one.kind == "human_input"]
    assert said == ["vote", "approve"]
    # It was held until people had decided: the votes come between decision and call.
    assert [one[0] for one in told(found)][:4] == [
        *("decision", "human_input", "human_input", "tool_call"),
    ]
    assert found.facts[3].cause == (0, 1, 2)
    assert found.facts[1].output["approver"] == "tok:approver:7"


def test_two_calls_at_once_come_after_the_same_and_not_after_one_another():
    found = taped(
        receipt("b", start=2, end=3, span_id="1"),
        receipt("c", start=5, end=6, span_id="2"),
        trace=trace(
            span("9", 0, 20, kind="agent", tool=None),
            span("8", 0, 1, kind="model_call", tool=None, parent=f"{TRACE}:9"),
            span("1", 1, 9, parent=f"{TRACE}:9"),
            span("2", 2, 9, parent=f"{TRACE}:9"),
        ),
    )
    decisions = [one for one in found.facts if one.kind == "decision"]
    assert [one.cause for one in decisions] == [(0,), (0,)]


def test_calls_in_one_span_are_one_after_another_and_the_last_has_what_the_span_says():
    found = taped(
        receipt("b", start=1, end=2, span_id="1", status=503, upstream_status=503),
        receipt("c", start=4, end=6, span_id="1"),
        trace=trace(span("1", 0, 9)),
    )
    results = [one for one in found.facts if one.kind == "tool_result"]
    assert [one.output for one in results] == [
        {"digest": "sha256:" + "0" * 64},
        "as the span says",
    ]
    assert found.facts[3].cause == (2,)  # the second decision comes after the first result


def test_receipts_of_another_trace_are_not_joined():
    other = receipt("x", trace_id="cd" * 16)
    found = taped(receipt("c"), other, trace=trace(span("1", 0, 9)))
    assert [one.kind for one in found.facts].count("tool_call") == 1


def test_an_answer_in_parts_has_its_pieces_and_a_kept_answer_counts_before_the_span():
    stream = Answer(
        status=200, headers=(("Content-Type", "text/event-stream"),), body=b"data: 1\n\ndata: 2\n\n"
    )
    kept = KeptAnswer(call_id="c", principal="key:a", tool="pay", key_hash="k", answer=stream)
    found = taped(receipt("c"), trace=trace(span("1", 0, 9)), answers=(kept,))
    assert found.facts[2].output == "data: 1\n\ndata: 2\n\n"
    assert found.pieces == {2: ["data: 1", "data: 2"]}
    lines = Answer(status=200, headers=(("content-type", "application/x-ndjson"),), body=b"1\n2\n")
    assert pieces(lines) == ["1", "2"]
    assert pieces(replace(lines, headers=())) == []


def test_an_answer_that_is_no_text_is_bytes():
    answer = Answer(status=200, headers=(), body=b"\xff\x00")
    kept = KeptAnswer(call_id="c", principal="key:a", tool="pay", key_hash=None, answer=answer)
    assert taped(receipt("c"), answers=(kept,)).facts[2].output == b"\xff\x00"


def test_callers_of_a_run_without_spans_are_told_apart_where_there_are_several():
    alone = taped(receipt("b"), receipt("c"))
    assert {one.agent for one in alone.facts} == {""}
    both = taped(receipt("b"), receipt("c", principal="key:z"))
    assert {one.agent for one in both.facts if one.kind == "tool_call"} == {"key:a", "key:z"}


def test_a_call_with_the_trace_of_another_says_by_whose_credential_it_was_made():
    own, forged = receipt("b", span_id="x"), receipt("c", principal="key:z", span_id="x", start=1)
    person = receipt("d", principal="user:ann", principal_kind="admin", start=2)
    found = taped(own, forged, person, trace=trace(span("x", 0, 9)))
    made = [one for one in found.facts if one.kind == "tool_call"]
    assert {one.agent for one in made} == {"a"}  # as the trace says
    callers = [one.attributes["gateway"]["principal"] for one in made]
    assert sorted(callers) == ["key:a", "key:z", "tok:approver:8"]


@pytest.mark.parametrize(
    ("capture", "answered", "level"),
    [("redacted", True, "L2"), ("redacted", False, "L1"), ("off", True, "L1")],
)
def test_fidelity_is_what_the_content_bears(capture, answered, level):
    answer = Answer(status=200, headers=(), body=b"{}")
    kept = KeptAnswer(call_id="c", principal="key:a", tool="pay", key_hash=None, answer=answer)
    found = taped(receipt("c"), answers=(kept,) if answered else (), capture=capture)
    assert found.header.fidelity == level
    assert (found.header.gaps, found.header.policy) == (("no_spans",), "r1")


def test_a_run_of_more_receipts_than_are_read_has_a_gap():
    found = taped(receipt("c"), trace=trace(span("1", 0, 9)), cut=True)
    assert (found.header.gaps, found.header.fidelity) == (("trace_over_limit",), "L1")


def test_an_episode_without_a_trace_is_a_run_of_its_own():
    fact = receipt("c", trace_id=None, episode="e-1")
    found = traffic(Kept(project="p", session="e-1", facts=(fact,)), "redacted", str)
    assert (found.header.run_id, found.header.trace_ids, found.name) == ("e-1", (), "e-1")
    assert [one.kind for one in found.facts] == [
        *("decision", "tool_call", "tool_result", "terminal"),
    ]


MOMENTS = st.integers(0, 40)
SPANS = ("1", "2", "9", None)


@st.composite
def receipts_of_a_run(draw):
    """Calls of any phases and times, some in spans, some waiting for approval."""
    found = []
    for number in range(draw(st.integers(1, 6))):
        start = draw(MOMENTS)
        base = {
            "start": start,
            "end": start + draw(MOMENTS),
            "span_id": draw(st.sampled_from(SPANS)),
            "key_hash": draw(st.sampled_from(("k", None))),
            "approval_id": draw(st.sampled_from(("q", None))),
            "tool": draw(st.sampled_from(("pay", "read", ""))),
            "decision_id": draw(st.sampled_from(("d", ""))),
        }
        phases = draw(
            st.sampled_from(
                (
                    ("authorised",), ("authorised", "executed"), ("refused",), ("replayed",),
                    ("authorised", "executed", "resolved"), ("executed",),
                )
            )
        )  # fmt: skip
        for phase in phases:
            more = {"code": "resolved", "status": 200} if phase == "resolved" else {}
            if phase == "refused":
                more = {"status": 403, "code": draw(st.sampled_from(("approval_required", "x")))}
            known = "executed" if phase == "resolved" else phase
            status = draw(st.sampled_from((200, 409)))
            found.append(receipt(f"c{number}", known, **{"status": status, **base, **more}))
    return found


@settings(max_examples=80, deadline=None)
@given(receipts_of_a_run(), st.booleans())
def test_whatever_became_of_the_calls_each_is_on_a_sound_tape_once(facts, spans):
    told_of = trace(
        span("9", 0, 90, kind="agent", tool=None),
        span("1", 1, 30, parent=f"{TRACE}:9"),
        span("2", 20, 60, parent=f"{TRACE}:9"),
    )
    asked = Asked(approval=APPROVAL, votes=VOTES, needed=2)
    found = taped(*facts, trace=told_of if spans else None, asked=(asked,))
    calls = [one for one in found.facts if one.kind == "tool_call"]
    through = [one.attributes["gateway"]["call"] for one in calls if one.attributes]
    wanted = {one.receipt.call_id for one in facts if one.receipt.tool}
    assert sorted(through) == sorted(wanted)
    answered = [one.cause[0] for one in found.facts if one.kind == "tool_result"]
    assert len(answered) == len(set(answered))
    for seq, one in enumerate(found.facts):
        assert all(cause < seq for cause in one.cause)
    assert sum(one.kind == "human_input" for one in found.facts) in (0, 2)
