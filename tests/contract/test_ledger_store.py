"""The ledger on every backend: one transaction, one winner, one chain, nothing readable at rest."""

import asyncio
import json
import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from ledger_rig import (
    BACKENDS,
    NOW,
    REVISION,
    SCOPE,
    SHARED,
    SIGNER,
    USE,
    asked,
    ballot,
    call,
    intent,
    ledgers,
    outcome,
    run,
    signed,
    signing_ledger,
)
from msgspec import structs

from processors.model.call import Receipt
from processors.model.principal import StoredKey
from sidecar import clock
from sidecar.errors import SidecarError, StoreUnavailable
from sidecar.gateway import audit, signing
from sidecar.gateway.driver import Gateway, Ports, Settings
from sidecar.store.budget import Hold
from sidecar.store.envelope import SealBroken
from sidecar.store.ledger import (
    Answer,
    CallOutcome,
    CallQuery,
    Committed,
    NotCommitted,
    Occupied,
    Seen,
)
from sidecar.store.noted import Note
from sidecar.store.standing import KeyMoved

shared = pytest.mark.parametrize("store", SHARED, indirect=True)


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def pair():
    """Runs a function in two processes at once; the two lists they return, together."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, _begin, (context.Barrier(2),)) as processes:

        def run(function, *args):
            started = [processes.submit(function, *args) for _ in range(2)]
            return [each for process in started for each in process.result(60)]

        yield run


def _begin(barrier):
    global _start
    _start = barrier


def chain_fault(opened):
    entries, (seq, hash_, head) = opened.entries_after(0, 10_000), opened.audit_end()
    keys = {SIGNER.kid: SIGNER.public, **opened.public_keys()}
    assert (entries[-1].seq, entries[-1].hash) == (seq, hash_)
    return audit.verify(entries, head, keys).fault or audit.verify_end(seq, hash_, head, keys)


def test_one_of_many_intents_for_a_key_commits_and_the_others_write_nothing(store):
    async def scenario(opened):
        calls = [call(f"c{number}") for number in range(20)]
        results = await asyncio.gather(*(opened.commit_intent(intent(each)) for each in calls))
        won = [each for each in results if isinstance(each, Committed)]
        assert len(won) == 1 and results.count(Occupied()) == 19
        assert len(opened.list_calls(CallQuery())) == 1
        assert opened.find_claim(SCOPE).state == "claimed"

    run(store, scenario)


def test_a_refused_intent_leaves_no_claim_no_receipt_and_no_spent_approval(store):
    async def scenario(opened):
        stale = await opened.commit_intent(intent(policy_revision="older"))
        assert stale == NotCommitted(code="policy_changed")
        await opened.ask_approval(asked())
        unvoted = await opened.commit_intent(intent(approval=USE))
        assert unvoted == NotCommitted(code="approval_pending")
        assert opened.find_claim(SCOPE) is None and opened.list_calls(CallQuery()) == []

    run(store, scenario)


def test_a_job_that_is_undone_disturbs_none_that_shares_its_commit(store):
    async def scenario(opened):
        await opened.ask_approval(asked())
        results = await asyncio.gather(
            *(
                opened.commit_intent(
                    intent(call(f"c{n}", key_hash=f"k{n}"), approval=USE if n % 3 == 1 else None)
                )
                for n in range(30)
            )
        )
        refused = [each for each in results if isinstance(each, NotCommitted)]
        assert len(refused) == 10 and {each.code for each in refused} == {"approval_pending"}
        assert sum(isinstance(each, Committed) for each in results) == 20
        assert len(opened.list_calls(CallQuery())) == 20
        assert chain_fault(opened) is None

    run(store, scenario)


@pytest.mark.row("C")
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
def test_an_approval_spends_only_for_what_it_is_bound_to(store, change, code):
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

    run(store, scenario)


def _consume_in_threads(store):
    with signing_ledger(store) as opened, ThreadPoolExecutor(25) as threads:
        spend = {"project": "p", "requester": "a", "now_ns": NOW}
        _start.wait()
        spent = [
            threads.submit(opened.consume_approval, USE, by=f"{number}", **spend)
            for number in range(25)
        ]
        return [each.result() for each in spent]


@pytest.mark.row("C", "T30")
@shared
@pytest.mark.requirement("APR-01")
def test_an_approval_is_consumed_once_by_50_threads_in_2_processes(store, pair):
    async def prepare(opened):
        await opened.ask_approval(asked())
        await opened.vote(ballot())

    run(store, prepare)
    found = pair(_consume_in_threads, store)
    assert found.count(None) == 1
    assert found.count("approval_consumed") == 49


def _claim_and_record(store):
    async def race(opened):
        _start.wait()
        won = []
        for number in range(20):
            opened_call = call(clock.new_id(), key_hash=f"k{number}")
            made = await opened.commit_intent(intent(opened_call))
            if isinstance(made, Committed):
                assert await opened.mark_sent(made.claim, NOW)
                assert await opened.record(outcome(opened_call, made.claim, "completed"))
                won.append(number)
        return won

    with signing_ledger(store) as opened:
        return asyncio.run(race(opened))


@shared
def test_two_processes_race_for_20_keys_and_make_one_chain(store, pair):
    async def prepare(opened):
        assert chain_fault(opened) is None

    run(store, prepare)
    assert sorted(pair(_claim_and_record, store)) == list(range(20))
    with signing_ledger(store) as opened:
        entries = opened.entries_after(0, 1000)
        assert [each.seq for each in entries] == list(range(1, 42))
        assert chain_fault(opened) is None


def test_the_same_action_and_key_find_the_request_that_is_there(store):
    async def scenario(opened):
        first = await opened.ask_approval(asked())
        again = await opened.ask_approval(asked("other"))
        assert (again.approval_id, again.summary) == (first.approval_id, asked().summary)
        for change in ({"key_hash": "k2"}, {"action_hash": "h2"}, {"policy_revision": "r2"}):
            made = await opened.ask_approval(asked(clock.new_id(), **change))
            assert made.approval_id != "ap"

    run(store, scenario)


def test_votes_count_once_a_person_and_a_denial_ends_it(store):
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

    run(store, scenario)


def test_the_last_of_votes_cast_at_once_resolves_it(store):
    async def scenario(opened):
        await opened.ask_approval(asked(approvers_min=5))
        said = await asyncio.gather(*(opened.vote(ballot(voter=f"v{n}")) for n in range(5)))
        assert said == [None] * 5
        found = opened.find_approval("ap")
        assert found.status == "approved" and len(found.votes) == 5
        assert chain_fault(opened) is None

    run(store, scenario)


@pytest.mark.row("C")
@shared
def test_a_vote_falls_with_its_voters_key(store):
    async def scenario(opened):
        await opened.ask_approval(asked())
        with store.keys() as keys:
            keys.add_key(StoredKey(
                key_id="v1", kind="approver", project="p", name="", secret_sha256="",
                created_at_ns=NOW,
            ))  # fmt: skip
            assert await opened.vote(ballot(voter="key:v1")) is None
            assert keys.revoke_key("v1", NOW)
        refused = await opened.commit_intent(intent(approval=USE))
        assert refused == NotCommitted(code="approval_revoked")
        assert opened.key_revoked("key:v1") and not opened.key_revoked("key:v2")
        assert not await opened.take_token("p", "ap", NOW)
        await opened.ask_approval(asked("b", key_hash="b"))
        again = ballot(approval_id="b", voter="key:v1")
        assert await opened.vote(again) == "approver_not_eligible"
        assert opened.find_approval("b").votes == ()

    run(store, scenario)


def test_a_token_is_told_once(store):
    async def scenario(opened):
        await opened.ask_approval(asked())
        assert not await opened.take_token("p", "ap", NOW)
        await opened.vote(ballot())
        assert not await opened.take_token("p", "ap", NOW + 1000)
        assert not await opened.take_token("q", "ap", NOW)
        took = await asyncio.gather(*(opened.take_token("p", "ap", NOW) for _ in range(10)))
        assert took.count(True) == 1

    run(store, scenario)


def test_an_approval_comes_back_once_from_calls_that_were_not_sent(store):
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

    run(store, scenario)


def test_an_older_fence_can_change_nothing(store):
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

    run(store, scenario)


def test_holds_follow_their_call(store):
    async def scenario(opened):
        held = (Hold(budget="b", subject="", unit="EUR", amount="20", limit="100"),)
        first = await opened.commit_intent(intent(call("c1"), holds=held))
        seen = Seen(claim_id=first.claim.claim_id, fence=1, state="claimed")
        second = await opened.commit_intent(intent(call("c2"), holds=held, expected=seen))
        await opened.mark_sent(second.claim, NOW)
        await opened.record(outcome(call("c2"), second.claim, "completed", holds="settled"))
        sql = "SELECT call_id, state FROM budget_hold ORDER BY 1"
        rows = await asyncio.to_thread(store.query, sql)
        assert rows == [("c1", "released"), ("c2", "settled")]

    run(store, scenario)


@shared
def test_what_is_stored_is_sealed_and_opens_only_where_it_belongs(store):
    async def scenario(opened):
        made = await opened.commit_intent(intent())
        answer = Answer(status=201, headers=(("a", "b"),), body=b"account hush-1")
        await opened.record(outcome(call(), made.claim, "completed", answer=answer))
        await opened.ask_approval(asked(key_hash="other"))
        assert opened.find_claim(SCOPE).answer == answer
        assert opened.opened_call("c1") == call()
        facts = opened.facts_after(0, 10)
        assert [each.receipt.phase for each in facts] == ["authorised", "executed"]
        assert facts[0].arguments == {"card": "4111-hush"}

    run(store, scenario)
    bytes_at_rest = store.at_rest()
    assert b"authorised" in bytes_at_rest and b"hush" not in bytes_at_rest
    store.query("UPDATE call SET call_id = 'moved' RETURNING 1")
    store.query("UPDATE receipt SET call_id = 'moved' RETURNING 1")
    with store.reader() as opened, pytest.raises(SealBroken):
        opened.facts_after(0, 10)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_nobody_is_asked_for_a_call_that_was_made_since_its_key_was_looked_up(store):
    async def scenario(opened):
        made = await opened.commit_intent(intent())
        with pytest.raises(KeyMoved):
            await opened.ask_approval(asked())
        claimed = Seen(claim_id=made.claim.claim_id, fence=made.claim.fence, state="claimed")
        await opened.record(outcome(call(), made.claim, "completed"))
        with pytest.raises(KeyMoved):
            await opened.ask_approval(asked(), seen=claimed)
        completed = structs.replace(claimed, state="completed")
        found = await opened.ask_approval(asked(), seen=completed)  # whoever may make it again
        assert found.status == "pending"

    run(store, scenario)


def test_facts_are_tailed_from_a_place(store):
    async def scenario(opened):
        for number in range(5):
            each = call(f"c{number}", key_hash=None)
            await opened.record(CallOutcome(call=each, receipt=signed(each), now_ns=NOW))
        first = opened.facts_after(0, 2)
        rest = opened.facts_after(first[-1].seq, 100)
        assert [each.receipt.call_id for each in first + rest] == [f"c{n}" for n in range(5)]
        assert isinstance(rest[0].receipt, Receipt) and opened.facts_after(rest[-1].seq, 9) == []

    run(store, scenario)


def test_calls_are_listed_by_what_is_asked_and_go_on_after_a_place(store):
    async def scenario(opened):
        for number in range(6):
            each = call(
                f"c{number}", key_hash=f"k{number}", tool=f"t{number % 2}",
                project="q" if number == 5 else "p", trace_id="tr" if number < 3 else None,
                started_at_ns=NOW + number // 2,
            )  # fmt: skip
            made = await opened.commit_intent(intent(each))
            if number < 2:
                await opened.record(outcome(each, made.claim, "completed"))

        def listed(**asked_for):
            return [each.call_id for each in opened.list_calls(CallQuery(**asked_for))]

        assert listed() == ["c5", "c4", "c3", "c2", "c1", "c0"]
        assert listed(project="p") == ["c4", "c3", "c2", "c1", "c0"]
        assert listed(project="p", tool="t0", limit=2) == ["c4", "c2"]
        assert listed(trace_id="tr", state="claimed") == ["c2"]
        assert listed(state="completed") == ["c1", "c0"]
        assert listed(project="p", after=(NOW + 1, "c3")) == ["c2", "c1", "c0"]
        found = opened.get_call("c0", "p")
        assert found.phase == "executed" and found.state == "completed"
        assert [opened.get_receipt(each, "p").phase for each in found.receipts] == [
            "authorised",
            "executed",
        ]
        assert opened.get_call("c0", "q") is None
        assert opened.get_receipt(found.receipts[0], "q") is None

    run(store, scenario)


def test_approvals_are_listed_newest_first_and_go_on_after_a_place(store):
    async def scenario(opened):
        for number in range(5):
            project = "q" if number == 4 else "p"
            await opened.ask_approval(
                asked(
                    f"a{number}", key_hash=f"k{number}", project=project,
                    requested_at_ns=NOW + number // 2, roles=("lead", "cfo"), trace_id="tr",
                )
            )  # fmt: skip

        def listed(*asked_for):
            return [each.approval_id for each in opened.list_approvals(*asked_for)]

        assert listed() == ["a4", "a3", "a2", "a1", "a0"]
        assert listed("p", 2) == ["a3", "a2"]
        assert listed("p", 10, (NOW + 1, "a2")) == ["a1", "a0"]
        found = opened.find_approval("a0", "p")
        assert (found.roles, found.summary) == (("lead", "cfo"), asked().summary)
        assert opened.find_approval("a0", "q") is None

    run(store, scenario)


def test_prior_tools_are_those_that_had_their_effect_in_this_trace(store):
    async def scenario(opened):
        for number, (tool, effect) in enumerate(
            [("a", "confirmed"), ("b", "unknown"), ("c", "confirmed")]
        ):
            each = call(
                f"c{number}", tool=tool, trace_id="tr", key_hash=None, started_at_ns=NOW + number
            )
            done = signed(each, phase="executed", effect=effect)
            await opened.record(CallOutcome(call=each, receipt=done, now_ns=NOW))
        assert opened.prior_tools(call(trace_id="tr")) == ("a", "c")
        assert opened.prior_tools(call(trace_id="tr", principal="b")) == ()
        assert opened.prior_tools(call()) == ()

    run(store, scenario)


def test_calls_are_counted_by_tool_and_class_for_their_principal(store):
    async def scenario(opened):
        made = [
            ("a", "executed", "confirmed", "tr"), ("a", "executed", "not_executed", "tr"),
            ("a", "executed", "unknown", None), ("b", "refused", "not_executed", "tr"),
            ("b", "replayed", "confirmed", "tr"),
        ]  # fmt: skip
        for number, (tool, phase, effect, trace) in enumerate(made):
            each = call(
                f"c{number}", tool=tool, trace_id=trace, key_hash=None, started_at_ns=NOW + number
            )
            done = signed(each, phase=phase, effect=effect)
            await opened.record(CallOutcome(call=each, receipt=done, now_ns=NOW))

        def counted(since=0, *, session=False, **whose):
            found = opened.counted(call(**whose), since, session=session)
            return [(each.tool, each.class_, each.made, each.refused) for each in found]

        class_ = call().class_
        assert counted() == [("a", class_, 2, 0), ("b", class_, 0, 1)]
        assert counted(NOW) == [("a", class_, 1, 0), ("b", class_, 0, 1)]
        assert counted(session=True, trace_id="tr") == [("a", class_, 1, 0), ("b", class_, 0, 1)]
        assert counted(session=True) == [("a", class_, 1, 0)]
        assert counted(principal="b") == counted(project="q") == []

    run(store, scenario)


def test_unresolved_calls_can_be_resolved(store):
    async def scenario(opened):
        made = await opened.commit_intent(intent())
        await opened.mark_sent(made.claim, NOW)
        await opened.record(outcome(call(), made.claim, "unknown", reason="timeout"))
        (found,) = opened.unresolved()
        assert (found.state, found.reason, found.call_id) == ("unknown", "timeout", "c1")
        assert await opened.record(outcome(call(), made.claim, "resolved_done"))
        assert opened.unresolved() == [] and opened.find_claim(SCOPE).state == "resolved_done"

    run(store, scenario)


@shared
def test_claims_of_a_dead_process_are_orphans_and_those_of_a_living_one_are_not(store):
    async def scenario(opened):
        opened.hold_owner("alive")
        await opened.commit_intent(intent(call("c1"), owner="alive"))
        await opened.commit_intent(intent(call("c2", key_hash="k2"), owner="dead"))
        with signing_ledger(store) as other:  # another opener sees the same
            assert [each.call_id for each in other.orphans()] == ["c2"]
            assert other.owner_lives("alive") and not other.owner_lives("dead")
        assert [each.call_id for each in opened.orphans()] == ["c2"]

    run(store, scenario)
    with signing_ledger(store) as opened:
        assert [each.call_id for each in opened.orphans()] == ["c1", "c2"]


def test_the_signing_key_and_secrets_are_made_once(store):
    async def scenario(opened):
        made = signing.make(b"\x07" * 32, NOW)
        first = await opened.find_or_add_signing_key(made)
        again = await opened.find_or_add_signing_key(signing.make(b"\x08" * 32, NOW))
        assert first == again == made
        assert await opened.find_or_add_secret("x", b"one") == b"one"
        assert await opened.find_or_add_secret("x", b"two") == b"one"
        assert opened.public_keys() == {made.kid: made.public}
        assert opened.ephemeral == store.ephemeral

    run(store, scenario)


def test_a_note_is_an_entry_once_a_state(store):
    async def scenario(opened):
        def note(value, kind="config_changed"):
            return Note(kind=kind, project="", at_ns=NOW, body={"v": value}, state=("c", value))

        told = [await opened.note(structs.replace(note(b"1"), body={"v": "1"}))]
        for value in (b"1", b"2", b"1"):
            told.append(await opened.note(structs.replace(note(value), body={"v": value.decode()})))
        assert told == [True, False, True, True]
        found = [json.loads(each.body) for each in opened.entries_after(0, 99)
                 if each.kind == "config_changed"]  # fmt: skip
        assert found == [{"v": "1"}, {"v": "2"}, {"v": "1"}]
        assert chain_fault(opened) is None

    run(store, scenario)


def test_what_is_done_to_keys_is_noted_before_all_else_though_a_job_beside_is_undone(tmp_path):
    """A job that had noted it and was undone took the note with it."""

    def note(kind):
        return Note(kind=kind, project="p", at_ns=NOW, body={})

    async def scenario(opened):
        with store.keys() as keys:
            keys.add_key(
                StoredKey(
                    key_id="late", kind="agent", project="p", name="",
                    secret_sha256="x", created_at_ns=NOW,
                )
            )  # fmt: skip
        held = threading.Event()

        def spoilt(connection):
            opened._jobs.note(connection, note("undone"))
            raise StoreUnavailable("undone")

        jobs = [lambda _: held.wait(20), spoilt, lambda c: opened._jobs.note(c, note("t"))]
        asked = [asyncio.ensure_future(opened._writer.run(job)) for job in jobs]
        await asyncio.sleep(0)  # all are queued: the last two share a commit
        held.set()
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(results[1], StoreUnavailable) and results[2] is True
        kinds = [each.kind for each in opened.entries_after(0, 99)]
        assert kinds[-2:] == ["key_created", "t"]

    with ledgers("file", tmp_path) as store:
        run(store, scenario)


@shared
def test_private_keys_and_secrets_lie_sealed(store):
    async def scenario(opened):
        await opened.find_or_add_signing_key(signing.make(b"\x07" * 32, NOW))
        await opened.find_or_add_secret("x", b"one-two-three")

    run(store, scenario)
    assert b"\x07" * 32 not in store.at_rest()
    assert b"one-two-three" not in store.at_rest()


@pytest.mark.row("J")
def test_a_release_of_the_policy_is_never_older_than_one_that_was_active(store):
    async def scenario(opened):
        done = [
            await opened.activate_policy(revision, NOW, sequence)
            for revision, sequence in (
                *(("r3", 3), ("r5", 5), ("r3", 3), ("r5", 5), ("other", 5), ("folder", None)),
                *(("r4", 4), ("r3 again", 6)),
            )
        ]
        assert done == [True, True, False, True, False, True, False, True]
        bodies = [json.loads(entry.body) for entry in opened.entries_after(0, 10)]
        activated = [(body["revision"], body.get("sequence")) for body in bodies[1:]]
        assert activated == [("r3", 3), ("r5", 5), ("folder", None), ("r3 again", 6)]

    run(store, scenario)


def test_nothing_is_recorded_without_a_signer(store):
    with store.ledger() as opened, pytest.raises(StoreUnavailable, match="signing key"):
        asyncio.run(opened.activate_policy("r", NOW))


def test_a_policy_is_activated_once_and_the_one_before_no_longer_decides(store):
    async def scenario(opened):
        await opened.activate_policy(REVISION, NOW)
        await opened.activate_policy("next", NOW)
        assert [each.kind for each in opened.entries_after(0, 10)] == ["policy_activated"] * 2
        assert await opened.commit_intent(intent()) == NotCommitted(code="policy_changed")
        assert isinstance(await opened.commit_intent(intent(policy_revision="next")), Committed)

    run(store, scenario)


def test_a_wait_for_an_approval_ends_with_the_vote(store):
    async def scenario(opened):
        found = await opened.ask_approval(asked())

        async def until_decided():
            seen = found
            while seen.status == "pending":
                seen = await opened.approval_after(seen, poll_seconds=0.02, seconds=20)
            return seen

        waiting = asyncio.ensure_future(until_decided())
        assert await opened.vote(ballot()) is None
        async with asyncio.timeout(10):
            assert (await waiting).status == "approved"
        still = await opened.approval_after(await waiting, poll_seconds=0.01, seconds=0.02)
        assert still == await waiting

    run(store, scenario)


@shared
def test_a_reader_sees_one_moment_whoever_writes(store):
    async def scenario(opened):
        with store.reader() as reader:
            with reader.snapshot():
                before = reader.audit_end()
                await opened.commit_intent(intent())
                assert reader.audit_end() == before and reader.list_calls(CallQuery()) == []
            assert reader.audit_end() != before and len(reader.list_calls(CallQuery())) == 1

    run(store, scenario)


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE audit SET body = '{}' WHERE seq = 2 RETURNING 1",
        "DELETE FROM audit WHERE seq = 2 RETURNING 1",
        "DELETE FROM audit WHERE seq = 3 RETURNING 1",
        "UPDATE audit SET seq = 9 WHERE seq = 2 RETURNING 1",
    ],
)
@shared
def test_an_edited_missing_or_cut_off_entry_shows(store, tamper):
    async def scenario(opened):
        made = await opened.commit_intent(intent())
        await opened.record(outcome(call(), made.claim, "completed"))
        assert chain_fault(opened) is None
        await asyncio.to_thread(store.query, tamper)
        entries, (_, _, head) = opened.entries_after(0, 100), opened.audit_end()
        keys = {SIGNER.kid: SIGNER.public}
        assert audit.verify(entries, head, keys).fault

    run(store, scenario)


def test_names_that_no_store_can_hold_are_found_nowhere(store):
    async def scenario(opened):
        for name in ("a\x00b", "nowhere"):
            assert opened.get_call(name) is None and opened.get_receipt(name) is None
            assert opened.find_approval(name) is None
            assert opened.list_calls(CallQuery(project=name)) == []
            assert await opened.vote(ballot(approval_id=name)) == "no_such_approval"
        await opened.ask_approval(asked())
        assert await opened.vote(ballot(reason="a\x00b")) is None
        assert chain_fault(opened) is None

    run(store, scenario)


def test_what_no_ledger_can_hold_is_asked_for_without_an_error(store):
    half = "half \ud800"

    async def scenario(opened):
        for query in ({"project": half}, {"tool": half}, {"trace_id": half}):
            assert opened.list_calls(CallQuery(**query)) == []
        assert opened.get_call(half) is None and opened.get_call("c", half) is None
        assert opened.get_receipt(half) is None and opened.get_receipt("r", half) is None
        assert opened.find_approval(half) is None and opened.find_approval("a", half) is None
        assert opened.list_approvals(half) == opened.list_approvals(after=(1, half)) == []

    run(store, scenario)


@shared
def test_a_gateway_that_finds_the_chain_broken_says_where(store):
    async def twice(opened):
        await opened.activate_policy("another", NOW)

    run(store, twice)
    store.query("UPDATE audit SET hash = 'f' WHERE seq = (SELECT max(seq) FROM audit)")
    in_file = hasattr(store, "path")
    place = store.path if in_file else store.url.replace("sidecar@", "") + " schema ledger"

    async def start(opened):
        ports = Ports(ledger=opened, registry=None, policy=None, upstreams=None)
        with pytest.raises(SidecarError, match="the audit chain is not as it was written") as no:
            await Gateway(ports, Settings()).start()
        assert no.value.where == str(place)

    with store.ledger() as opened:
        asyncio.run(start(opened))
