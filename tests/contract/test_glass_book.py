"""Break-glass on every backend: two people of its own, signed, short, and open until reviewed."""

import asyncio
import json

import pytest
from ledger_rig import (
    BACKENDS,
    NOW,
    SHARED,
    SIGNER,
    USE,
    asked,
    ballot,
    intent,
    ledgers,
    run,
)
from msgspec import structs

from processors.model.principal import Authn, StepUp, StoredKey
from sidecar.gateway.signing import verify
from sidecar.store.glass import GlassBallot, made, state_of
from sidecar.store.ledger import Committed, NotCommitted

SECOND = 10**9
LASTS = 300 * SECOND


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as opened:
        yield opened


shared = pytest.mark.parametrize("store", SHARED, indirect=True)


def wanted(**fields):
    """A request that no two people of policy's choice could approve now."""
    until = NOW + 600 * SECOND
    return asked(
        expires_at_ns=until, decide_by_ns=until, execute_by_ns=until + 600 * SECOND,
        approvers_min=5, roles=("finance",), **fields,
    )  # fmt: skip


def word(name, digest, now_ns=NOW, **fields):
    return GlassBallot(
        **{
            "project": "p", "glass_id": "g", "voter": f"key:{name}", "voter_name": name,
            "reason": "fire", "digest": digest, "now_ns": now_ns, **fields,
        }
    )  # fmt: skip


async def opened_glass(ledger, approval=None, by="ann", now_ns=NOW):
    await ledger.ask_approval(approval or wanted())
    glass = made(
        ledger.find_approval("ap"), glass_id="g", opened_by=f"key:{by}", reason="fire",
        now_ns=now_ns, lasts_ns=LASTS,
    )  # fmt: skip
    return glass, await ledger.open_glass(glass, word(by, glass.digest, now_ns))


@pytest.mark.requirement("APR-01")
def test_two_people_break_it_and_one_call_is_made_in_the_shortest_time(store):
    async def scenario(ledger):
        glass, code = await opened_glass(ledger)
        assert code is None and ledger.find_approval("ap").status == "pending"
        now_ns = NOW + 60 * SECOND
        assert await ledger.break_glass(word("ben", glass.digest, now_ns), LASTS) is None
        found = ledger.find_approval("ap")
        assert (found.status, found.glass_id, found.votes) == ("approved", "g", ())
        assert found.execute_by_ns == found.expires_at_ns == now_ns + LASTS
        late = intent(approval=USE, now_ns=now_ns + LASTS)
        assert await ledger.commit_intent(late) == NotCommitted(code="approval_expired")
        assert await ledger.take_token("p", "ap", now_ns + 1)
        spent = await ledger.commit_intent(intent(approval=USE, now_ns=now_ns + LASTS - 1))
        assert isinstance(spent, Committed)
        (kept,) = ledger.list_glasses("p")
        assert state_of(kept, NOW * 2) == "broken", "time closes no review"
        said = {each.kind: json.loads(each.body) for each in ledger.entries_after(0, 99)}
        assert said["approval_consumed"]["glass_id"] == "g"
        voters = [vote["voter"] for vote in said["approval_consumed"]["votes"]]
        assert voters == ["key:ann", "key:ben"]
        assert said["glass_broken"]["by"] == "key:ben"

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_it_is_an_action_of_its_own_that_the_gateway_signed(store):
    async def scenario(ledger):
        glass, _ = await opened_glass(ledger)
        kept = ledger.find_glass("g", "p")
        assert (kept.kid, kept.document) == (SIGNER.kid, glass.document)
        public = SIGNER.public
        assert verify(public, kept.signature, kept.signed())
        forged = structs.replace(kept, document=kept.document.replace("fire", "fine"))
        assert not verify(public, kept.signature, forged.signed())
        said = json.loads(kept.document)
        found = ledger.find_approval("ap")
        for name in ("action_hash", "key_hash", "policy_revision", "tool_digest", "shown_digest"):
            assert said[name] == getattr(found, name)
        assert kept.digest != found.shown_digest
        assert ledger.find_glass("g", "other") is None

    run(store, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_it_takes_two_natural_people_who_have_not_voted_on_the_request(store):
    async def scenario(ledger):
        await ledger.ask_approval(wanted())
        assert await ledger.vote(ballot(voter="key:cem", voter_name="cem@x.example")) is None
        glass, code = await opened_glass(ledger, by="ann@x.example")
        assert code is None
        for name in ("ann@x.example", "Ann+2@X.example", "cem@x.example", "ＡＮＮ@x.example"):
            again = word(name, glass.digest, voter=f"key:{name[:5]}", voter_name=name)
            assert await ledger.break_glass(again, LASTS) == "vote_repeated", name
        assert ledger.find_approval("ap").status == "pending"
        wrong = word("ben", "sha256:other")
        assert await ledger.break_glass(wrong, LASTS) == "summary_changed"
        assert await ledger.break_glass(word("ben", glass.digest), LASTS) is None

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_what_has_been_said_or_changed_stays_said(store):
    """It stands in for approvers, not for a denial, time, policy, or a sign-in that is demanded."""

    async def scenario(ledger):
        glass, _ = await opened_glass(ledger)
        lapsed = word("ben", glass.digest, glass.expires_at_ns)
        assert await ledger.break_glass(lapsed, LASTS) == "glass_lapsed"
        assert await ledger.vote(ballot("deny", voter="key:cem", voter_name="cem")) is None
        denied = await ledger.break_glass(word("ben", glass.digest), LASTS)
        assert denied == "approval_denied"
        strong = asked(
            "b", key_hash="b", step_up=(StepUp(acr=("gold",)),), expires_at_ns=NOW + SECOND
        )
        await ledger.ask_approval(strong)
        other = made(strong, glass_id="g2", opened_by="key:ann", reason="r", now_ns=NOW,
                     lasts_ns=LASTS)  # fmt: skip
        assert other.expires_at_ns == strong.decide_by_ns, "never longer than the request"
        weak = word("ann", other.digest, glass_id="g2")
        assert await ledger.open_glass(other, weak) == "step_up_required"
        gold = structs.replace(weak, authn=Authn(method="token", acr="gold"))
        await ledger.activate_policy("next", NOW)
        assert await ledger.open_glass(other, gold) == "approval_policy_changed"

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_one_glass_at_a_time_and_a_review_by_another(store):
    async def scenario(ledger):
        glass, _ = await opened_glass(ledger)
        second = structs.replace(glass, glass_id="g2")
        taken = await ledger.open_glass(second, word("dan", glass.digest, glass_id="g2"))
        assert taken == "glass_open"
        early = word("eva", "")
        assert await ledger.review_glass(early) == "glass_open"
        assert await ledger.break_glass(word("ben", glass.digest), LASTS) is None
        assert await ledger.break_glass(word("dan", glass.digest), LASTS) == "glass_broken"
        for name in ("ann", "BEN "):
            own = word(name, "", voter="key:other", voter_name=name)
            assert await ledger.review_glass(own) == "self_review"
        assert await ledger.review_glass(word("eva", "", reason="it was right")) is None
        assert await ledger.review_glass(word("eva", "")) == "glass_reviewed"
        kept = ledger.find_glass("g", "p")
        assert (kept.reviewed_by, kept.review) == ("key:eva", "it was right")

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_two_who_break_it_at_once_approve_it_once(store):
    async def scenario(ledger):
        glass, _ = await opened_glass(ledger)
        codes = await asyncio.gather(
            *(ledger.break_glass(word(name, glass.digest), LASTS) for name in ("ben", "cem", "dan"))
        )
        assert sorted(codes, key=str) == [None, "glass_broken", "glass_broken"]
        kinds = [each.kind for each in ledger.entries_after(0, 99)]
        assert kinds.count("approval_resolved") == kinds.count("glass_broken") == 1

    run(store, scenario)


@shared
@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_a_word_falls_with_its_key_until_the_call_is_made(store):
    key = StoredKey(
        key_id="ben", kind="approver", project="p", name="ben", secret_sha256="x", created_at_ns=1
    )

    async def scenario(ledger):
        with store.keys() as keys:
            keys.add_key(key)
        glass, _ = await opened_glass(ledger)
        assert await ledger.break_glass(word("ben", glass.digest), LASTS) is None
        with store.keys() as keys:
            keys.revoke_key("ben", NOW)
        assert not await ledger.take_token("p", "ap", NOW + 1)
        refused = await ledger.commit_intent(intent(approval=USE, now_ns=NOW + 1))
        assert refused == NotCommitted(code="approval_revoked")

    run(store, scenario)
