"""What a vote demands of its voter's sign-in, on every backend, and again when it is used."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_rig import BACKENDS, NOW, USE, asked, ballot, intent, ledgers, run
from msgspec import structs

from processors.model.call import Vote
from processors.model.principal import Authn, StepUp
from sidecar.store.ledger import Committed, NotCommitted
from sidecar.store.step_up import decode, encode, meets, short_of, unmet, words

SECOND = 10**9
GOLD = StepUp(acr=("gold", "platinum"), amr=("hwk",), max_age_s=300)
SIGNED_IN = Authn(
    method="token", acr="gold", amr=("pwd", "hwk"), auth_time_ns=NOW - 300 * SECOND
)  # fmt: skip


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


@pytest.mark.requirement("APR-01")
@pytest.mark.parametrize(
    "lacks",
    [
        {"acr": None},
        {"acr": "silver"},
        {"acr": "GOLD"},
        {"amr": ()},
        {"amr": ("pwd",)},
        {"auth_time_ns": None},
        {"auth_time_ns": NOW - 300 * SECOND - 1},
        {"auth_time_ns": NOW + 31 * SECOND},
    ],
)
def test_what_a_sign_in_lacks_meets_no_demand(lacks):
    assert meets(SIGNED_IN, GOLD, NOW)
    assert not meets(structs.replace(SIGNED_IN, **lacks), GOLD, NOW)
    assert unmet(structs.replace(SIGNED_IN, **lacks), (StepUp(), GOLD), NOW) == GOLD
    assert unmet(SIGNED_IN, (StepUp(), GOLD), NOW) is None


WORDS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple)
DEMANDS = st.builds(
    StepUp, acr=WORDS, amr=WORDS, max_age_s=st.none() | st.integers(1, 100)
)  # fmt: skip
SIGN_INS = st.builds(
    Authn, method=st.just("token"), acr=st.none() | st.sampled_from("abc"), amr=WORDS,
    auth_time_ns=st.none() | st.integers(NOW - 200 * SECOND, NOW),
)  # fmt: skip


@given(SIGN_INS, st.lists(DEMANDS, max_size=3), DEMANDS)
def test_one_more_demand_never_lets_more_through(authn, demands, more):
    if unmet(authn, [*demands, more], NOW) is None:
        assert unmet(authn, demands, NOW) is None
    assert decode(encode(tuple(demands))) == tuple(demands)


def test_as_many_as_are_needed_meet_it():
    def vote(decision, authn):
        return Vote(
            voter="v", decision=decision, reason="r", voted_at_ns=NOW, shown_digest="s", authn=authn
        )

    good, weak = vote("approve", SIGNED_IN), vote("approve", Authn())
    assert not short_of([good, weak], (GOLD,), 1)
    assert short_of([good, weak], (GOLD,), 2)
    assert short_of([vote("deny", SIGNED_IN)], (GOLD,), 1)
    assert not short_of([weak], (), 1)


@pytest.mark.requirement("APR-01")
def test_a_vote_without_the_sign_in_does_not_count_and_one_with_it_carries_it(store):
    async def scenario(opened):
        await opened.ask_approval(asked(step_up=(GOLD,), on_behalf_of="ann"))
        assert opened.find_approval("ap").step_up == (GOLD,)
        assert opened.find_approval("ap").on_behalf_of == "ann"
        assert await opened.vote(ballot()) == "step_up_required"
        assert opened.find_approval("ap").votes == ()
        good = ballot(voter="oidc:corp:v", authn=SIGNED_IN)
        assert await opened.vote(good) is None
        (vote,) = opened.find_approval("ap").votes
        assert vote.authn == SIGNED_IN
        bodies = {each.kind: json.loads(each.body) for each in opened.entries_after(0, 99)}
        assert bodies["approval_vote"]["authn"] == {
            "method": "token", "acr": "gold", "amr": ["pwd", "hwk"],
            "auth_time_ns": str(NOW - 300 * SECOND),
        }  # fmt: skip
        assert bodies["approval_requested"]["step_up"] == [
            {"acr": ["gold", "platinum"], "amr": ["hwk"], "max_age_s": 300}
        ]
        assert bodies["approval_requested"]["on_behalf_of"] == "ann"

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_a_denial_needs_no_strong_sign_in(store):
    async def scenario(opened):
        await opened.ask_approval(asked(step_up=(GOLD,)))
        assert await opened.vote(ballot("deny")) is None
        assert opened.find_approval("ap").status == "denied"

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_what_is_demanded_when_it_is_used_is_asked_of_the_votes_again(store):
    """Between vote and use the configuration may have come to demand more."""

    async def scenario(opened):
        await opened.ask_approval(asked())
        assert await opened.vote(ballot()) is None
        now_demanded = structs.replace(USE, step_up=(GOLD,))
        refused = await opened.commit_intent(intent(approval=now_demanded))
        assert refused == NotCommitted(code="step_up_required")
        assert opened.find_approval("ap").status == "approved", "nothing is used up"
        assert isinstance(await opened.commit_intent(intent(approval=USE)), Committed)

    run(store, scenario)


def test_words_say_what_to_do():
    assert words(GOLD) == (
        "sign in at your identity provider, with acr gold or platinum, by hwk, at most 300 seconds"
        " before your vote, and vote with that token"
    )
