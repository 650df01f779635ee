"""The ledger on real SQLite files: one transaction, one winner, nothing readable at rest."""

import asyncio
import multiprocessing
import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest
from gateway_rig import keyring
from msgspec import structs

from processors.model.call import Approval, Receipt
from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.gateway import receipt, signing
from sidecar.store.envelope import SealBroken
from sidecar.store.ledger import (
    Answer,
    ApprovalUse,
    Ballot,
    CallOutcome,
    CallQuery,
    ClaimEnd,
    Committed,
    Hold,
    Intent,
    NotCommitted,
    Occupied,
    OpenedCall,
    Scope,
    Seen,
)
from sidecar.store.sqlite.ephemeral import is_ephemeral
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.ledger import SqliteLedger

NOW = 1_764_000_000_000_000_000
SIGNER = signing.SigningKey(signing.make(bytes(32), NOW))
SCOPE = Scope(project="p", principal="a", tool="t", key_hash="k")
REVISION = "rev"


@contextmanager
def ledger(folder, **options):
    keys = SqliteKeys(folder / "ledger.db")
    opened = SqliteLedger(folder / "ledger.db", keyring(keys), **options)
    opened.use_signer(SIGNER)
    try:
        yield opened
    finally:
        opened.close()
        keys.close()


def run(folder, scenario, **options):
    async def main():
        with ledger(folder, **options) as opened:
            await opened.activate_policy(REVISION, NOW)
            return await scenario(opened)

    return asyncio.run(main())


def call(call_id="c1", **fields):
    return OpenedCall(
        **{
            "call_id": call_id, "project": "p", "principal": "a", "principal_kind": "agent",
            "tool": "t", "class_": "irreversible", "action_hash": "h", "started_at_ns": NOW,
            "key_hash": "k", "arguments": {"card": "4111-hush"}, **fields,
        }
    )  # fmt: skip


def signed(opened, **fields):
    drafted = receipt.draft(opened, None, receipt_id=clock.new_id(), now_ns=NOW)
    return receipt.sign(structs.replace(drafted, **fields), SIGNER)


def intent(opened=None, **fields):
    opened = opened or call()
    return Intent(
        **{
            "call": opened, "owner": "o", "lease_until_ns": NOW + 9, "expires_at_ns": NOW + 99,
            "policy_revision": REVISION, "now_ns": NOW,
            "receipt": signed(opened, phase="authorised", effect="unknown"), **fields,
        }
    )  # fmt: skip


def outcome(opened, claim, state, *, answer=None, **fields):
    end = ClaimEnd(claim=claim, call_id=opened.call_id, state=state, answer=answer, **fields)
    done = signed(opened, phase="executed", status=201)
    return CallOutcome(call=opened, receipt=done, now_ns=NOW, end=end)


def asked(approval_id="ap", **fields):
    return Approval(
        **{
            "approval_id": approval_id, "project": "p", "requester": "a", "tool": "t",
            "action_hash": "h", "key_hash": "k", "policy_revision": REVISION, "tool_digest": "d",
            "status": "pending", "summary": "refund 500 EUR to hush", "shown_digest": "s",
            "requested_at_ns": NOW, "expires_at_ns": NOW + 1000, **fields,
        }
    )  # fmt: skip


def ballot(decision="approve", **fields):
    return Ballot(
        **{
            "project": "p", "approval_id": "ap", "voter": "v", "voter_name": "", "reason": "r",
            "decision": decision, "shown_digest": "s", "now_ns": NOW, **fields,
        }
    )  # fmt: skip


USE = ApprovalUse(
    approval_id="ap", action_hash="h", key_hash="k", policy_revision=REVISION, tool_digest="d"
)


def test_one_of_many_intents_for_a_key_commits_and_the_others_write_nothing(tmp_path):
    async def scenario(opened):
        calls = [call(f"c{number}") for number in range(20)]
        results = await asyncio.gather(*(opened.commit_intent(intent(each)) for each in calls))
        won = [each for each in results if isinstance(each, Committed)]
        assert len(won) == 1 and results.count(Occupied()) == 19
        assert len(opened.list_calls(CallQuery())) == 1
        assert opened.find_claim(SCOPE).state == "claimed"

    run(tmp_path, scenario)


def test_a_refused_intent_leaves_no_claim_no_receipt_and_no_spent_approval(tmp_path):
    async def scenario(opened):
        stale = await opened.commit_intent(intent(policy_revision="older"))
        assert stale == NotCommitted(code="policy_changed")
        await opened.ask_approval(asked())
        unvoted = await opened.commit_intent(intent(approval=USE))
        assert unvoted == NotCommitted(code="approval_pending")
        assert opened.find_claim(SCOPE) is None and opened.list_calls(CallQuery()) == []

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"action_hash": "x"}, "approval_mismatch"),
        ({"key_hash": "x"}, "approval_mismatch"),
        ({"approval_id": "x"}, "approval_mismatch"),
        ({"tool_digest": "x"}, "approval_tool_changed"),
        ({"policy_revision": "x"}, "approval_policy_changed"),
    ],
)
def test_an_approval_spends_only_for_what_it_is_bound_to(tmp_path, change, code):
    async def scenario(opened):
        await opened.ask_approval(asked())
        await opened.vote(ballot())
        spend = {"project": "p", "requester": "a", "by": "c1", "now_ns": NOW}
        assert opened.consume_approval(structs.replace(USE, **change), **spend) == code
        assert opened.consume_approval(USE, **{**spend, "requester": "b"}) == "approval_mismatch"
        expired = {**spend, "now_ns": NOW + 1000}
        assert opened.consume_approval(USE, **expired) == "approval_expired"
        assert opened.consume_approval(USE, **spend) is None
        assert opened.consume_approval(USE, **spend) == "approval_consumed"

    run(tmp_path, scenario)


def _consume_in_threads(folder, start, results):
    with ledger(folder) as opened:
        start.wait()

        def spend(number):
            spent = opened.consume_approval(
                USE, project="p", requester="a", by=f"{number}", now_ns=NOW
            )
            results.put(spent)

        threads = [threading.Thread(target=spend, args=(number,)) for number in range(25)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()


@pytest.mark.requirement("APR-01")
def test_an_approval_is_consumed_once_by_50_threads_in_2_processes(tmp_path):
    async def prepare(opened):
        await opened.ask_approval(asked())
        await opened.vote(ballot())

    run(tmp_path, prepare)
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=_consume_in_threads, args=(tmp_path, start, results))
        for _ in range(2)
    ]
    for each in processes:
        each.start()
    found = [results.get(timeout=60) for _ in range(50)]
    for each in processes:
        each.join()
    assert found.count(None) == 1
    assert found.count("approval_consumed") == 49


def test_the_same_action_and_key_find_the_request_that_is_there(tmp_path):
    async def scenario(opened):
        first = await opened.ask_approval(asked())
        again = await opened.ask_approval(asked("other"))
        assert (again.approval_id, again.summary) == (first.approval_id, asked().summary)
        for change in ({"key_hash": "k2"}, {"action_hash": "h2"}, {"policy_revision": "r2"}):
            made = await opened.ask_approval(asked(clock.new_id(), **change))
            assert made.approval_id != "ap"

    run(tmp_path, scenario)


def test_votes_count_once_a_person_and_a_denial_ends_it(tmp_path):
    async def scenario(opened):
        await opened.ask_approval(asked(approvers_min=2))
        assert await opened.vote(ballot(voter="v1", voter_name="Ann")) is None
        assert await opened.vote(ballot(voter="v2", voter_name="ann ")) == "vote_repeated"
        assert opened.find_approval("ap").status == "pending"
        assert await opened.vote(ballot(voter="v3", shown_digest="x")) == "summary_changed"
        assert await opened.vote(ballot(voter="v3")) is None
        assert opened.find_approval("ap").status == "approved"
        assert await opened.vote(ballot(voter="v4")) == "approval_approved"
        await opened.ask_approval(asked("b", key_hash="b"))
        assert await opened.vote(ballot("deny", approval_id="b")) is None
        assert await opened.vote(ballot(voter="w", approval_id="b")) == "approval_denied"
        await opened.ask_approval(asked("c", key_hash="c"))
        late = ballot(approval_id="c", now_ns=NOW + 1000)
        assert await opened.vote(late) == "approval_expired"
        assert opened.find_approval("c").status == "expired"

    run(tmp_path, scenario)


def test_an_approval_comes_back_once_from_calls_that_were_not_sent(tmp_path):
    async def scenario(opened):
        await opened.ask_approval(asked())
        await opened.vote(ballot())
        seen = None
        for attempt, restored in ((1, "approved"), (2, "consumed")):
            each = call(f"c{attempt}")
            made = await opened.commit_intent(intent(each, approval=USE, expected=seen))
            end = outcome(each, made.claim, "failed_safe", restore_approval=True)
            assert await opened.record(end)
            assert opened.find_approval("ap").status == restored
            claim = opened.find_claim(SCOPE)
            seen = Seen(claim_id=claim.claim_id, fence=claim.fence, state="failed_safe")

    run(tmp_path, scenario)


def test_an_older_fence_can_change_nothing(tmp_path):
    async def scenario(opened):
        first = await opened.commit_intent(intent(call("c1")))
        seen = Seen(claim_id=first.claim.claim_id, fence=1, state="claimed")
        second = await opened.commit_intent(intent(call("c2"), expected=seen))
        assert second.claim.fence == 2
        assert not await opened.mark_sent(first.claim, NOW)
        assert not await opened.record(outcome(call("c1"), first.claim, "completed"))
        assert await opened.mark_sent(second.claim, NOW)
        assert not await opened.mark_sent(second.claim, NOW)  # sent once
        retaken = structs.replace(seen, fence=2)  # it was claimed when seen, it is sent now
        assert await opened.commit_intent(intent(call("c3"), expected=retaken)) == Occupied()
        assert await opened.record(outcome(call("c2"), second.claim, "completed"))
        assert not await opened.record(outcome(call("c2"), second.claim, "unknown"))

    run(tmp_path, scenario)


def test_holds_follow_their_call(tmp_path):
    async def scenario(opened):
        held = (Hold(scope="project", amount="20", currency="EUR"),)
        first = await opened.commit_intent(intent(call("c1"), holds=held))
        seen = Seen(claim_id=first.claim.claim_id, fence=1, state="claimed")
        second = await opened.commit_intent(intent(call("c2"), holds=held, expected=seen))
        await opened.mark_sent(second.claim, NOW)
        await opened.record(outcome(call("c2"), second.claim, "completed", holds="settled"))
        with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
            rows = connection.execute("SELECT call_id, state FROM hold ORDER BY 1").fetchall()
        assert rows == [("c1", "released"), ("c2", "settled")]

    run(tmp_path, scenario)


def test_what_is_stored_is_sealed_and_opens_only_where_it_belongs(tmp_path):
    async def scenario(opened):
        made = await opened.commit_intent(intent())
        answer = Answer(status=201, headers=(("a", "b"),), body=b"account hush-1")
        await opened.record(outcome(call(), made.claim, "completed", answer=answer))
        await opened.ask_approval(asked())
        assert opened.find_claim(SCOPE).answer == answer
        facts = opened.facts_after(0, 10)
        assert [each.receipt.phase for each in facts] == ["authorised", "executed"]
        assert facts[0].arguments == {"card": "4111-hush"}

    run(tmp_path, scenario)
    bytes_at_rest = b"".join(each.read_bytes() for each in tmp_path.glob("ledger.db*"))
    assert b"hush" not in bytes_at_rest
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.execute("UPDATE call SET call_id = 'moved'")
        connection.execute("UPDATE receipt SET call_id = 'moved'")
        connection.commit()
    with ledger(tmp_path) as opened, pytest.raises(SealBroken):
        opened.facts_after(0, 10)


def test_facts_are_tailed_from_a_place(tmp_path):
    async def scenario(opened):
        for number in range(5):
            each = call(f"c{number}", key_hash=None)
            await opened.record(CallOutcome(call=each, receipt=signed(each), now_ns=NOW))
        first = opened.facts_after(0, 2)
        rest = opened.facts_after(first[-1].seq, 100)
        assert [each.receipt.call_id for each in first + rest] == [f"c{n}" for n in range(5)]
        assert isinstance(rest[0].receipt, Receipt) and opened.facts_after(rest[-1].seq, 9) == []

    run(tmp_path, scenario)


def test_claims_of_a_dead_process_are_orphans_and_those_of_a_living_one_are_not(tmp_path):
    async def scenario(opened):
        opened.hold_owner("alive")
        await opened.commit_intent(intent(call("c1"), owner="alive"))
        await opened.commit_intent(intent(call("c2", key_hash="k2"), owner="dead"))
        with ledger(tmp_path) as other:  # another opener sees the same
            assert [each.call_id for each in other.orphans()] == ["c2"]
        assert [each.call_id for each in opened.orphans()] == ["c2"]

    run(tmp_path, scenario)
    with ledger(tmp_path) as opened:
        assert [each.call_id for each in opened.orphans()] == ["c1", "c2"]


def test_the_signing_key_and_secrets_are_made_once_and_lie_sealed(tmp_path):
    async def scenario(opened):
        made = signing.make(b"\x07" * 32, NOW)
        first = await opened.find_or_add_signing_key(made)
        again = await opened.find_or_add_signing_key(signing.make(b"\x08" * 32, NOW))
        assert first == again == made
        assert await opened.find_or_add_secret("x", b"one") == b"one"
        assert await opened.find_or_add_secret("x", b"two") == b"one"
        assert opened.public_keys() == {made.kid: made.public}

    run(tmp_path, scenario)
    at_rest = b"".join(each.read_bytes() for each in tmp_path.glob("ledger.db*"))
    assert b"\x07" * 32 not in at_rest


def test_nothing_is_recorded_without_a_signer(tmp_path):
    keys = SqliteKeys(tmp_path / "ledger.db")
    opened = SqliteLedger(tmp_path / "ledger.db", keyring(keys))
    try:
        with pytest.raises(StoreUnavailable, match="signing key"):
            asyncio.run(opened.activate_policy("r", NOW))
    finally:
        opened.close()
        keys.close()


def test_a_memory_ledger_works_and_is_ephemeral(tmp_path):
    async def scenario():
        keys = SqliteKeys(tmp_path / "keys.db")
        opened = SqliteLedger(":memory:", keyring(keys))
        opened.use_signer(SIGNER)
        try:
            await opened.activate_policy(REVISION, NOW)
            await opened.commit_intent(intent())
            assert opened.ephemeral and opened.find_claim(SCOPE).state == "claimed"
            assert opened.orphans() == []
        finally:
            opened.close()
            keys.close()

    asyncio.run(scenario())


def test_a_file_on_a_memory_file_system_is_ephemeral(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"
        "tmpfs /run/a\\040b tmpfs rw 0 0\n/dev/sdb1 /run/a\\040b/disk ext4 rw 0 0\n"
    )
    assert is_ephemeral("/dev/shm/x/ledger.db", mounts)
    assert is_ephemeral("/run/a b/ledger.db", mounts)
    assert not is_ephemeral("/run/a b/disk/ledger.db", mounts)
    assert not is_ephemeral("/dev/shmx/ledger.db", mounts)
    assert is_ephemeral(":memory:")


def test_who_starts_removes_the_files_of_the_dead_and_of_nobody_else(tmp_path):
    dead = tmp_path / "ledger.db-owner-dead"
    dead.touch()
    with ledger(tmp_path) as one:
        one.hold_owner("one")
        assert not dead.exists()
        with ledger(tmp_path) as two:
            two.hold_owner("two")
            assert one.owner_lives("two") and two.owner_lives("one")
            assert not two.owner_lives("dead")
        assert not one.owner_lives("two") and one.owner_lives("one")
