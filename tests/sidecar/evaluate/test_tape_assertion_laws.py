"""Laws of the combinators, over assertions that pass, fail, skip and err."""

import pytest
from assertion_rig import call, end, patch, taped
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.evaluate.assertions import factories as that
from sidecar.evaluate.assertions.finding import broken, every, held, some, unanswered, unasked
from sidecar.evaluate.assertions.judge import judge
from sidecar.evaluate.assertions.view import Where

pytestmark = pytest.mark.requirement("ASR-01")

TAPE = taped(
    call("x", agent="a"),
    call("y", agent="b"),
    patch([{"op": "add", "path": "/n", "value": 1}], {}, {"n": 1}),
    call("x", agent="a"),
    end(),
    keep=[{}],
)
RUN = that.claim_verified()  # of the whole run: it cannot stand in a slice
LEAVES = st.sampled_from(
    [
        that.never_calls("z"),
        that.never_calls("x"),
        that.never_calls("y"),
        that.max_repeats(1),
        that.call_order("x", "y"),
        RUN,
        that.state_invariant("state.missing"),
        that.budget_within(tokens=1, seconds=1),
    ]
)
ONES = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda of: that.all_of(*of), st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda of: that.any_of(*of), st.lists(inner, min_size=1, max_size=3))
        | st.builds(that.not_, inner)
        | st.builds(that.implies, inner, inner)
    ),
    max_leaves=5,
)
WHERE = st.sampled_from(
    [Where(), Where(name="x"), Where(name="y"), Where(kind="terminal"), Where(name="z")]
)
FINDINGS = st.lists(
    st.sampled_from(
        [held("h", 1), broken("b", 2), unasked("claim", "s"), unanswered("state", "e", 3)]
    ),
    min_size=1,
    max_size=4,
)


def status(one, tape=TAPE):
    return judge(one, tape).status


def test_the_leaves_are_of_every_status():
    leaves = [that.never_calls("z"), that.never_calls("x"), that.claim_verified()]
    found = [status(one) for one in [*leaves, that.state_invariant("state.missing")]]
    assert found == ["pass", "fail", "skip", "error"]


@settings(max_examples=20, deadline=None)
@given(ONES, ONES, ONES)
def test_the_combinators_are_an_algebra_of_what_is_known(a, b, c):
    both, either, no = that.all_of, that.any_of, that.not_
    assert status(no(no(a))) == status(a)
    assert status(no(both(a, b))) == status(either(no(a), no(b)))
    assert status(no(either(a, b))) == status(both(no(a), no(b)))
    assert status(that.implies(a, b)) == status(either(no(a), b))
    for way in (both, either):
        assert status(way(a)) == status(way(a, a)) == status(a)
        assert status(way(a, b)) == status(way(b, a))
        assert status(way(a, way(b, c))) == status(way(way(a, b), c)) == status(way(a, b, c))


@settings(max_examples=20, deadline=None)
@given(ONES)
def test_a_failure_names_an_event_and_the_same_question_has_the_same_answer(one):
    found = judge(one, TAPE)
    assert (found.seq is not None and 0 <= found.seq < 5) or found.status != "fail"
    assert found == judge(one, TAPE)


@settings(max_examples=40, deadline=None)
@given(FINDINGS, st.sampled_from([held("h"), broken("b", 1)]))
def test_learning_what_was_unknown_changes_no_decision(findings, learnt):
    known = [learnt if one.status in ("skip", "error") else one for one in findings]
    for way in (every, some):
        if (before := way(findings).status) in ("pass", "fail"):
            assert way(known).status == before


@settings(max_examples=40, deadline=None)
@given(FINDINGS)
def test_skip_and_error_never_become_a_verdict_nor_each_other(findings):
    statuses = {one.status for one in findings}
    for way, decisive in ((every, "fail"), (some, "pass")):
        found = way(findings).status
        assert found in statuses
        if decisive not in statuses and statuses & {"skip", "error"}:
            assert found == ("error" if "error" in statuses else "skip")


@settings(max_examples=40, deadline=None)
@given(WHERE, WHERE, st.booleans())
def test_the_statements_over_events_agree_with_one_another(hold, event, sealed):
    facts = [call("x", agent="a"), call("y", agent="b"), *([end()] if sealed else [])]
    tape = taped(*facts, seal=sealed)
    eventually = status(that.eventually(event), tape)
    assert status(that.never(event), tape) == status(that.not_(that.eventually(event)), tape)
    assert status(that.until(Where(), event), tape) == eventually
    if status(that.until(hold, event), tape) == "pass":
        assert eventually == "pass"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5), st.integers(1, 6), LEAVES.filter(lambda one: one != RUN))
def test_the_slice_that_is_the_whole_says_what_the_whole_says(low, high, one):
    assert judge(that.within(one), TAPE) == judge(one, TAPE)
    never = that.never_calls("x")
    if low < high and status(that.within(never, from_seq=low, to_seq=high)) == "fail":
        assert status(never) == "fail"
