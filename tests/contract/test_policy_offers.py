"""A looser policy on every backend: offered once, approved by two people, activated once."""

import asyncio
import json

import pytest
from ledger_rig import BACKENDS, NOW, SHARED, SIGNER, ledgers
from msgspec import structs

from sidecar.gateway.audit import verify
from sidecar.store.policy import PolicyBallot, PolicyOffer

OFFER = PolicyOffer(revision="new", before="old", offered_at_ns=NOW, compared=9, loosened=2,
                    key_id="ci", signers=("sam",))  # fmt: skip


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=SHARED)
def shared(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


def play(store, scenario):
    async def main():
        with store.ledger() as opened:
            opened.use_signer(SIGNER)
            assert await opened.activate_policy("old", NOW)
            return await scenario(opened)

    return asyncio.run(main())


def ballot(who, decision="approve", **fields):
    return PolicyBallot(
        **{"revision": "new", "voter": f"key:{who}", "identity": who, "decision": decision,
           "reason": "looked at", "now_ns": NOW + 1, **fields}
    )  # fmt: skip


def kinds(opened):
    return [entry.kind for entry in opened.entries_after(0, 99)]


@pytest.mark.requirement("GW-02")
def test_two_people_approve_a_looser_policy_and_it_is_activated_once(store):
    async def scenario(opened):
        assert opened.policy_offer() is None
        assert not await opened.activate_policy("new", NOW, loosens=True)
        assert await opened.offer_policy(OFFER) == OFFER
        later = structs.replace(OFFER, offered_at_ns=NOW + 9)
        assert await opened.offer_policy(later) == OFFER  # the same one: it is voted on already
        assert await opened.vote_policy(ballot("ann")) is None
        assert not await opened.activate_policy("new", NOW, loosens=True)
        assert await opened.vote_policy(ballot("bob")) is None
        assert opened.policy_offer().state == "approved"
        assert await opened.vote_policy(ballot("cid", "deny")) == "offer_approved"
        assert await opened.activate_policy("new", NOW, loosens=True)
        assert opened.policy_offer().state == "activated"
        # used up: back and forth again is for people again
        assert await opened.activate_policy("old", NOW)
        assert not await opened.activate_policy("new", NOW, loosens=True)
        assert (await opened.offer_policy(later)).votes == ()
        found = kinds(opened)
        assert found.count("policy_vote") == 2 and found.count("policy_offered") == 2
        assert found.count("policy_activated") == 3
        bodies = [json.loads(entry.body) for entry in opened.entries_after(0, 99)
                  if entry.kind == "policy_vote"]  # fmt: skip
        assert [(each["by"], each["state"]) for each in bodies] == [
            ("key:ann", "pending"), ("key:bob", "approved"),
        ]  # fmt: skip
        entries, keys = opened.entries_after(0, 99), {SIGNER.kid: SIGNER.public}
        assert verify(entries, opened.audit_head(), keys).fault is None

    play(store, scenario)


@pytest.mark.parametrize(
    ("votes", "codes", "state"),
    [
        ([ballot("ann"), ballot("ann")], [None, "vote_repeated"], "pending"),
        ([ballot("ann"), ballot("ann", voter="key:other")], [None, "vote_repeated"], "pending"),
        ([ballot("sam"), ballot("ann")], ["signer_not_eligible", None], "pending"),
        ([ballot("", voter="key:x")], ["approver_not_eligible"], "pending"),
        ([ballot("ann", revision="newer")], ["no_such_offer"], "pending"),
        ([ballot("ann"), ballot("bob", "deny")], [None, None], "denied"),
        ([ballot("sam", "deny"), ballot("ann")], [None, "offer_denied"], "denied"),
        ([ballot("", "deny", voter="key:x")], [None], "denied"),
    ],
)
def test_who_counts_and_what_ends_it(store, votes, codes, state):
    async def scenario(opened):
        assert await opened.vote_policy(ballot("ann")) == "no_such_offer"
        await opened.offer_policy(OFFER)
        assert [await opened.vote_policy(each) for each in votes] == codes
        assert opened.policy_offer().state == state
        assert not await opened.activate_policy("new", NOW, loosens=True)
        assert opened.active_policy() == "old"
        if state == "denied":
            assert (await opened.offer_policy(OFFER)).state == "denied"

    play(store, scenario)


def test_an_approval_is_for_one_policy_in_the_place_of_one(store):
    async def scenario(opened):
        await opened.offer_policy(OFFER)
        for who in ("ann", "bob"):
            await opened.vote_policy(ballot(who))
        assert not await opened.activate_policy("newer", NOW, loosens=True)
        assert await opened.activate_policy("third", NOW)  # a stricter one came in between
        assert not await opened.activate_policy("new", NOW, loosens=True)
        assert (await opened.offer_policy(structs.replace(OFFER, before="third"))).votes == ()

    play(store, scenario)


def test_a_policy_that_another_sidecar_activated_needs_no_approval_here(store):
    async def scenario(opened):
        assert await opened.activate_policy("new", NOW)
        assert await opened.activate_policy("new", NOW, loosens=True)

    play(store, scenario)


def test_an_offer_outlives_the_process_and_votes_at_once_are_all_counted(shared):
    async def first(opened):
        await opened.offer_policy(OFFER)

    play(shared, first)

    async def main():
        with shared.ledger() as one, shared.ledger() as two:
            for each in (one, two):
                each.use_signer(SIGNER)
            votes = [(one, "ann"), (two, "bob"), (one, "bob"), (two, "ann")]
            codes = await asyncio.gather(*(each.vote_policy(ballot(who)) for each, who in votes))
            assert codes.count(None) == 2
            assert one.policy_offer().state == two.policy_offer().state == "approved"
            done = await asyncio.gather(
                *(each.activate_policy("new", NOW, loosens=True) for each in (one, two))
            )
            assert done == [True, True]
            assert kinds(one).count("policy_activated") == 2

    asyncio.run(main())
