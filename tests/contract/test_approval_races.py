"""Votes, revocations, spending and death at the same moment, on every shared backend.

Row of gateway.md: §7 C (consume race; revoke between approve and send).
"""

import asyncio
import multiprocessing
import os
import signal

import pytest
from ledger_rig import NOW, USE, asked, ballot, call, intent, ledgers, run, signing_ledger
from msgspec import structs

from processors.model.principal import StoredKey
from sidecar.store.ledger import Committed, NotCommitted

KEY = StoredKey(
    key_id="ann", kind="approver", project="p", name="ann", secret_sha256="x", created_at_ns=1
)
ROUNDS = 20
POSTGRES = pytest.param("postgres", marks=pytest.mark.full)


@pytest.fixture(params=["file", POSTGRES])
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


def spending(name, number=0):
    use = structs.replace(USE, approval_id=name, key_hash=name)
    return structs.replace(intent(call(f"{name}-{number}", key_hash=name)), approval=use)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_a_vote_that_races_the_revocation_of_its_key_approves_no_call_after_it(store):
    """Whichever comes first: once the revocation is done, no call is made on that vote."""

    async def scenario(opened):
        with store.keys() as keys:
            for number in range(ROUNDS):
                name = f"r{number}"
                keys.add_key(structs.replace(KEY, key_id=name))
                await opened.ask_approval(asked(name, key_hash=name))
                vote = ballot(approval_id=name, voter=f"key:{name}", voter_name="ann")
                spent_early, code, _ = await asyncio.gather(
                    opened.commit_intent(spending(name)),
                    opened.vote(vote),
                    asyncio.to_thread(keys.revoke_key, name, NOW),
                )
                assert code in (None, "approver_not_eligible")
                late = await opened.commit_intent(spending(name, 1))
                assert isinstance(late, NotCommitted), "made on the vote of a revoked key"
                allowed = {"approval_revoked", "approval_pending", "approval_consumed"}
                if isinstance(spent_early, NotCommitted):
                    assert {spent_early.code, late.code} <= allowed
                else:
                    assert isinstance(spent_early, Committed) and late.code not in (None, "")

    run(store, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_votes_for_and_against_at_once_end_in_a_denial(store):
    async def scenario(opened):
        for number in range(ROUNDS):
            name = f"v{number}"
            await opened.ask_approval(asked(name, key_hash=name, approvers_min=2))
            votes = [
                ballot("deny" if who == "c" else "approve", approval_id=name, voter=who,
                       voter_name=who)
                for who in "abc"
            ]  # fmt: skip
            await asyncio.gather(*map(opened.vote, votes))
            found = opened.find_approval(name)
            assert found.status == "denied", "whichever came first, a denial is the last word"
            ends = [
                each for each in opened.entries_after(0, 9999)
                if each.kind == "approval_resolved" and f'"{name}"' in each.body
            ]  # fmt: skip
            assert "denied" in ends[-1].body and len(ends) <= 2

    run(store, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_an_approval_is_taken_back_until_it_is_used_and_not_after(store):
    async def scenario(opened):
        for name, who in (("own", "ann"), ("other", "ben")):
            await opened.ask_approval(asked(name, key_hash=name))
            vote = ballot(approval_id=name, voter="key:a", voter_name="ann")
            assert await opened.vote(vote) is None
            assert await opened.take_token("p", name, NOW), "the agent has the token already"
            back = ballot("deny", approval_id=name, voter=f"key:{who}", voter_name=who)
            assert await opened.vote(back) is None
            assert opened.find_approval(name).status == "denied"
            assert await opened.commit_intent(spending(name)) == NotCommitted(
                code="approval_denied"
            )
            assert await opened.vote(back) == "approval_denied"
        own = opened.find_approval("own").votes
        assert [(each.voter, each.decision) for each in own] == [("key:ann", "deny")]
        said = [each.body for each in opened.entries_after(0, 99) if each.kind == "approval_vote"]
        assert len(said) == 4, "both words of who took it back are in the chain"
        await opened.ask_approval(asked("used", key_hash="used"))
        assert await opened.vote(ballot(approval_id="used", voter_name="ann")) is None
        assert isinstance(await opened.commit_intent(spending("used")), Committed)
        late = ballot("deny", approval_id="used", voter_name="ann")
        assert await opened.vote(late) == "approval_consumed"

    run(store, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_what_is_taken_back_at_the_moment_of_the_call_is_made_or_denied_and_never_both(store):
    async def scenario(opened):
        made = 0
        for number in range(ROUNDS):
            name = f"t{number}"
            await opened.ask_approval(asked(name, key_hash=name))
            assert await opened.vote(ballot(approval_id=name, voter_name="ann")) is None
            back = opened.vote(ballot("deny", approval_id=name, voter="w", voter_name="ben"))
            spend = opened.commit_intent(spending(name))
            order = (back, spend) if number % 2 else (spend, back)
            ends = await asyncio.gather(*order)
            denied, spent = ends if number % 2 else ends[::-1]
            made += isinstance(spent, Committed)
            assert (denied, spent) == (None, NotCommitted(code="approval_denied")) or (
                denied == "approval_consumed" and isinstance(spent, Committed)
            )
        assert 0 < made < ROUNDS, "both orders were played"

    run(store, scenario)


def _vote_and_die(store):
    """A vote whose process is killed after it was written and before it resolves the request."""
    from sidecar.store.postgres import approvals as on_postgres
    from sidecar.store.sqlite import approvals as in_file

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    in_file.set_approved = on_postgres.set_approved = die

    async def vote():
        with signing_ledger(store) as opened:
            await opened.vote(ballot(voter="key:v", voter_name="ann"))

    asyncio.run(vote())


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_a_vote_is_there_with_what_it_resolves_or_not_at_all(store):
    """kill -9 between the vote and the resolution: both are one transaction."""

    async def ask(opened):
        await opened.ask_approval(asked())

    run(store, ask)
    child = multiprocessing.get_context("spawn").Process(target=_vote_and_die, args=(store,))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL

    async def look(opened):
        found = opened.find_approval("ap")
        assert (found.status, found.votes) == ("pending", ())
        kinds = [each.kind for each in opened.entries_after(0, 99)]
        assert "approval_vote" not in kinds and "approval_resolved" not in kinds
        assert await opened.vote(ballot(voter="key:v", voter_name="ann")) is None
        assert opened.find_approval("ap").status == "approved"

    run(store, look)
