"""A policy that would loosen a decision waits for two people; nothing gets round them."""

import asyncio

import pytest
from policy_release_rig import RULES_ALLOW, RULES_ASK, RULES_DENY, living, release

from sidecar import clock
from sidecar.app.policy import keep_release, standing_release
from sidecar.errors import SidecarError
from sidecar.gateway import signing
from sidecar.gateway.policy.live.driver import PolicyWatch
from sidecar.store.envelope import Sealer
from sidecar.store.policy import PolicyBallot
from sidecar.store.sqlite.ledger import SqliteLedger

CALL = {"resource": {"id": "pay"}}
SIGNER = signing.SigningKey(signing.make(bytes(32), 1))


def book(path=":memory:"):
    ledger = SqliteLedger(path, lambda _: Sealer(bytes(32), clock.random_bytes))
    ledger.use_signer(SIGNER)
    return ledger


def watched(policy, ledger, there):
    """A watch as the app makes it, over a list with what is there."""

    async def activate(sequence, *, loosens=False):
        done = await ledger.activate_policy(policy.revision, 1, sequence, loosens=loosens)
        if not done:
            raise SidecarError("not approved")

    async def approved(sequence):
        await activate(sequence, loosens=True)

    policy.activate, policy.activate_approved = activate, approved
    return PolicyWatch(
        policy, lambda: there[0], 60, book=ledger, signers=lambda key_id: (key_id, "sam")
    )


async def vote(ledger, who, revision, decision="approve"):
    return await ledger.vote_policy(
        PolicyBallot(
            revision=revision, voter=f"key:{who}", identity=who, decision=decision, reason="r",
            now_ns=1,
        )
    )  # fmt: skip


@pytest.mark.requirement("GW-02")
def test_a_looser_policy_decides_once_two_people_approved_that_very_one():
    ledger, there = book(), [release(RULES_ALLOW, key_id="ci")]
    revision = there[0].bundle.revision

    async def scenario(policy):
        watch = watched(policy, ledger, there)
        await policy.activate(None)
        await policy.decide(CALL)
        told = await watch.look()
        assert (told.activated, told.loosened) == (False, 1)
        assert await watch.look() is None  # it waits, and is not judged again and again
        offer = ledger.policy_offer()
        assert (offer.revision, offer.before) == (revision, policy.revision)
        assert (offer.loosened, offer.key_id, offer.signers) == (1, "ci", ("ci", "sam"))
        assert await vote(ledger, "sam", revision) == "signer_not_eligible"
        assert await vote(ledger, "ann", revision) is None
        assert await watch.look() is None
        assert (await policy.decide(CALL)).effect == "require_approval"
        assert await vote(ledger, "bob", revision) is None
        told = await watch.look()
        assert told.activated and told.loosened == 2
        assert (await policy.decide(CALL)).effect == "allow"
        assert ledger.active_policy() == revision
        # back by itself, since it is stricter; and forth again only with people
        there[0] = release(RULES_ASK)
        assert (await watch.look()).activated
        there[0] = release(RULES_ALLOW)
        await policy.decide(CALL)
        assert not (await watch.look()).activated
        assert ledger.policy_offer().votes == ()

    living(scenario, RULES_ASK)
    ledger.close()


def test_what_was_decided_before_a_stricter_policy_is_no_measure_for_a_looser_one():
    ledger, there = book(), [release(RULES_DENY)]

    async def scenario(policy):
        watch = watched(policy, ledger, there)
        await policy.activate(None)
        await policy.decide(CALL)
        assert (await watch.look()).activated  # stricter: at once
        there[0] = release(RULES_ALLOW)  # and back, before anything else was decided
        told = await watch.look()
        assert (told.activated, told.loosened) == (False, 1)

    living(scenario, RULES_ALLOW)
    ledger.close()


@pytest.mark.parametrize("decision", [None, "deny"])
def test_a_sidecar_that_remembers_nothing_does_not_activate_what_waits(decision):
    ledger, there = book(), [release(RULES_ALLOW)]
    revision = there[0].bundle.revision

    async def first(policy):
        watch = watched(policy, ledger, there)
        await policy.activate(None)
        await policy.decide(CALL)
        assert not (await watch.look()).activated
        if decision is not None:
            await vote(ledger, "ann", revision, decision)

    async def restarted(policy):
        watch = watched(policy, ledger, there)
        await policy.activate(None)
        assert await watch.look() is None
        assert (await policy.decide(CALL)).effect == "deny"
        if decision is None:
            for who in ("ann", "bob"):
                assert await vote(ledger, who, revision) is None
            assert (await watch.look()).activated

    living(first, RULES_DENY)
    living(restarted, RULES_DENY)
    ledger.close()


@pytest.mark.parametrize("decision", [None, "deny"])
def test_a_restart_opens_no_way_for_another_looser_release(decision):
    """What a sidecar forgot is no proof that another release than the one that waits is not looser:
    it is judged once as much was decided again as told of the first."""
    ledger, there = book(), [release(RULES_ALLOW)]
    another = release(RULES_ALLOW + "\n# another\n")
    stricter = release(RULES_DENY + "\n# stricter\n")

    async def first(policy):
        watch = watched(policy, ledger, there)
        await policy.activate(None)
        await policy.decide(CALL)
        await policy.decide(CALL)
        assert not (await watch.look()).activated
        if decision is not None:
            await vote(ledger, "ann", there[0].bundle.revision, decision)

    async def restarted(policy):
        watch = watched(policy, ledger, [another])
        await policy.activate(None)
        await policy.decide(CALL)
        told = await watch.look()
        assert (told.activated, told.compared, told.loosened, told.unjudged) == (False, 2, 1, 1)
        assert ledger.policy_offer().revision == another.bundle.revision
        assert (await policy.decide(CALL)).effect == "require_approval"
        there[0] = stricter
        told = await watched(policy, ledger, there).look()
        assert told.activated, "as much as was known then is known again"

    living(first, RULES_ASK)
    living(restarted, RULES_ASK)
    ledger.close()


ASK_FOR_PAY = """package agenttwin.v1

decide := {"effect": "require_approval", "reasons": [{"code": "asked"}]} if {
	input.resource.id == "pay"
}

else := {"effect": "allow", "reasons": [{"code": "free"}]}

list := {"effect": "allow", "reasons": [{"code": "seen"}]} if input.resource.id
"""


def test_many_calls_of_other_sorts_do_not_hide_what_a_release_loosens():
    ledger, there = book(), [release(RULES_ALLOW)]

    async def scenario(policy):
        watch = watched(policy, ledger, there)
        await policy.activate(None)
        await policy.decide(CALL)
        for number in range(10):
            await policy.decide({"resource": {"id": "get_order"}})
            strange = {"id": f"strange{number}", "properties": {"registered_class": "unlisted"}}
            await policy.decide({"resource": strange})
        told = await watch.look()
        assert (told.activated, told.compared, told.loosened) == (False, 4, 1)

    living(scenario, ASK_FOR_PAY, remember=4)
    ledger.close()


def test_a_denied_policy_and_one_that_came_after_the_vote_do_not_decide():
    ledger, there = book(), [release(RULES_ALLOW)]

    async def scenario(policy):
        watch = watched(policy, ledger, there)
        await policy.activate(None)
        await policy.decide(CALL)
        await watch.look()
        await vote(ledger, "ann", there[0].bundle.revision, "deny")
        for _ in range(2):
            assert await watch.look() is None
        there[0] = release(RULES_ALLOW + "\n# another\n")
        assert not (await watch.look()).activated
        for who in ("ann", "bob"):
            assert await vote(ledger, who, there[0].bundle.revision) is None
        there[0] = release(RULES_ALLOW + "\n# a third one, put there after the votes\n")
        assert not (await watch.look()).activated
        assert (await policy.decide(CALL)).effect == "deny"

    living(scenario, RULES_DENY)
    ledger.close()


def test_what_reads_a_fact_that_no_document_has_is_for_people_too():
    counts = RULES_DENY + "\nextra if input.context.counters.hour.calls > 1\n"
    ledger, there = book(), [release(counts)]

    async def scenario(policy):
        watch = watched(policy, ledger, there)
        await policy.activate(None)
        await policy.decide(CALL)
        told = await watch.look()
        assert (told.activated, told.loosened, told.unjudged) == (False, 0, 1)
        assert ledger.policy_offer().unjudged == 1

    living(scenario, RULES_DENY)
    ledger.close()


def test_another_sidecar_follows_the_one_that_activated(tmp_path):
    one, other = book(tmp_path / "l.db"), book(tmp_path / "l.db")
    there = [release(RULES_ALLOW)]

    async def scenario(policy):
        watch = watched(policy, other, there)
        await policy.activate(None)
        await policy.decide(CALL)
        assert not (await watch.look()).activated
        assert await one.activate_policy(there[0].bundle.revision, 1)
        assert (await watch.look()).activated
        assert (await policy.decide(CALL)).effect == "allow"

    living(scenario, RULES_DENY)
    one.close()
    other.close()


@pytest.mark.requirement("GW-02")
def test_a_start_is_no_way_round_people(tmp_path):
    ledger, kept = book(), tmp_path / "kept.tar.gz"
    before, wanted = release(RULES_DENY, sequence=3), release(RULES_ALLOW)

    async def main():
        await ledger.activate_policy(before.bundle.revision, 1)
        assert standing_release(wanted, ledger, kept) is wanted  # nobody was asked
        policy_offer = PolicyWatch(None, lambda: wanted, 1, book=ledger)
        policy_offer._policy = before_policy
        await policy_offer._offer(wanted, report_of(wanted))
        with pytest.raises(SidecarError, match="waits for two people"):
            standing_release(wanted, ledger, kept)
        keep_release(release(RULES_ASK), kept)  # another than the one that decides
        with pytest.raises(SidecarError, match="waits for two people"):
            standing_release(wanted, ledger, kept)
        keep_release(before, kept)
        found = standing_release(wanted, ledger, kept)
        assert (found.bundle.revision, found.sequence) == (before.bundle.revision, 3)
        another = release(RULES_ASK)
        found = standing_release(another, ledger, kept)
        assert found.bundle.revision == before.bundle.revision, "judged before it decides"
        assert standing_release(another, ledger, kept, watched=False) is another
        assert standing_release(before, ledger, kept) is before
        for who in ("ann", "bob"):
            await vote(ledger, who, wanted.bundle.revision)
        assert standing_release(wanted, ledger, kept) is wanted

    from sidecar.gateway.policy.live.change import report

    class before_policy:
        revision = before.bundle.revision

    def report_of(each):
        return report(each.bundle.revision, ())

    asyncio.run(main())
    ledger.close()
