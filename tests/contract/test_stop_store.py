"""Kill switches and freezes on every backend: what stands counts at the next statement, for all."""

import asyncio
from contextlib import ExitStack
from time import monotonic_ns

import pytest
from ledger_rig import BACKENDS, NOW, SHARED, SIGNER, call, intent, ledgers, outcome, run
from msgspec import structs

from sidecar.store.budget import Hold
from sidecar.store.ledger import Committed, NotCommitted
from sidecar.store.stop import LiftBallot, Stop

shared = pytest.mark.parametrize("store", SHARED, indirect=True)


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


def stop(kind="kill", scope="project", subject="", **fields):
    named = {"stop_id": f"{kind}-{scope}-{subject}", "project": "p", "reason": "r"}
    return Stop(
        kind=kind, scope=scope, subject=subject, set_by="key:1", set_at_ns=NOW,
        **{**named, **fields},
    )  # fmt: skip


def lift(stop_id, who, **fields):
    given = {"lifter": f"key:{who}", "identity": who, "reason": "over", "now_ns": NOW}
    return LiftBallot(**{"project": "p", "stop_id": stop_id, **given, **fields})


@pytest.mark.requirement("KIL-01")
@pytest.mark.parametrize(
    ("set_", "stops"),
    [
        (stop(), True), (stop("freeze"), True),
        (stop(scope="agent", subject="a"), True), (stop(scope="agent", subject="b"), False),
        (stop(scope="tool", subject="t"), True), (stop(scope="tool", subject="u"), False),
        (stop(project="q"), False),
    ],
)  # fmt: skip
def test_a_stop_refuses_intents_and_marks_in_its_scope_and_no_others(store, set_, stops):
    code = "killed" if set_.kind == "kill" else "frozen"

    async def scenario(opened):
        before = await opened.commit_intent(intent(call("c1", key_hash="k1")))
        assert opened.stop_of(call()) is None
        await opened.set_stop(set_)
        assert opened.stop_of(call()) == (code if stops else None)
        after = await opened.commit_intent(intent(call("c2", key_hash="k2")))
        assert after == NotCommitted(code=code) if stops else isinstance(after, Committed)
        assert await opened.mark_sent(before.claim, NOW) is not stops
        if stops:  # it can still be ended, and is not sent
            ended = outcome(call("c1", key_hash="k1"), before.claim, "failed_safe")
            assert await opened.record(ended)

    run(store, scenario)


def test_an_attempt_that_would_take_over_is_stopped_too(store):
    async def scenario(opened):
        from sidecar.store.ledger import Seen

        first = await opened.commit_intent(intent())
        await opened.set_stop(stop())
        seen = Seen(claim_id=first.claim.claim_id, fence=1, state="claimed")
        again = await opened.commit_intent(intent(call("c2"), expected=seen))
        assert again == NotCommitted(code="killed")

    run(store, scenario)


def test_a_freeze_lets_reads_pass_and_a_kill_does_not(store):
    async def scenario(opened):
        read = call("c1", key_hash=None, class_="read")
        took = (Hold(budget="b", subject="", unit="calls", amount="1", limit="9"),)
        await opened.set_stop(stop("freeze"))
        assert opened.stop_of(read) is None
        taken = await opened.commit_intent(intent(read, holds=took))
        assert isinstance(taken, Committed)
        assert await opened.mark_sent(taken.claim, NOW, ("kill",))
        await opened.set_stop(stop("kill"))
        assert opened.stop_of(read) == "killed"

    run(store, scenario)


@pytest.mark.requirement("KIL-01")
def test_one_person_kills_and_two_unkill_whatever_number_of_keys_they_have(store):
    async def scenario(opened):
        set_ = await opened.set_stop(stop())
        again = await opened.set_stop(stop(stop_id="another"))
        assert again == set_
        assert await opened.lift_stop(lift(set_.stop_id, "ann")) is None
        other_key = lift(set_.stop_id, "ann", lifter="key:ann-2")
        assert await opened.lift_stop(other_key) == "vote_repeated"
        assert opened.stop_of(call()) == "killed"
        assert await opened.lift_stop(lift(set_.stop_id, "bob", project="q")) == "no_such_stop"
        assert await opened.lift_stop(lift(set_.stop_id, "bob")) is None
        assert opened.stop_of(call()) is None
        assert await opened.lift_stop(lift(set_.stop_id, "cid")) == "stop_lifted"
        lifted = opened.list_stops("p")[0]
        assert lifted.lifted_at_ns == NOW and len(lifted.lifts) == 2
        assert (await opened.set_stop(stop(stop_id="new"))).stop_id == "new"
        kinds = [entry.kind for entry in opened.entries_after(0, 99)]
        assert kinds[1:] == [
            *("stop_set", "stop_lift_vote", "stop_lift_vote", "stop_lifted", "stop_set")
        ]

    run(store, scenario)


@pytest.mark.requirement("KIL-01")
def test_who_kills_again_takes_the_votes_to_lift_it_back(store):
    async def scenario(opened):
        first = await opened.set_stop(stop())
        assert await opened.lift_stop(lift(first.stop_id, "ann")) is None
        again = await opened.set_stop(stop(stop_id="another", reason="worse"))
        assert (again.stop_id, again.lifts) == (first.stop_id, ())
        assert (await opened.set_stop(stop(stop_id="more"))).lifts == ()  # nothing to take back
        assert await opened.lift_stop(lift(first.stop_id, "bob")) is None
        assert opened.stop_of(call()) == "killed", "the vote before it counts no more"
        assert await opened.lift_stop(lift(first.stop_id, "ann")) is None
        assert opened.stop_of(call()) is None
        told = [entry for entry in opened.entries_after(0, 99) if entry.kind == "stop_set"]
        assert [(first.stop_id in one.body, "worse" in one.body) for one in told] == [
            (True, False), (True, True),
        ]  # fmt: skip

    run(store, scenario)


def test_one_person_lifts_a_freeze(store):
    async def scenario(opened):
        set_ = await opened.set_stop(stop("freeze"))
        assert await opened.lift_stop(lift(set_.stop_id, "ann")) is None
        assert opened.stop_of(call()) is None

    run(store, scenario)


@shared
@pytest.mark.requirement("KIL-01")
def test_a_stop_survives_a_restart_and_counts_at_the_next_byte_of_every_other_gateway(store):
    async def scenario(opened):
        with ExitStack() as stack:
            other = stack.enter_context(store.ledger())
            other.use_signer(SIGNER)
            times = []
            for number in range(20):
                opens = call(f"c{number}", key_hash=f"k{number}")
                taken = await other.commit_intent(intent(opens))
                set_ = await opened.set_stop(stop("freeze", stop_id=f"s{number}"))
                began_ns = monotonic_ns()
                assert not await other.mark_sent(taken.claim, NOW)
                times.append(monotonic_ns() - began_ns)
                assert await opened.lift_stop(lift(set_.stop_id, "ann")) is None
                assert await other.mark_sent(taken.claim, NOW)
            await opened.set_stop(stop())
        assert sorted(times)[10] < 1_000_000_000

    run(store, scenario)

    async def later(opened):
        assert opened.stop_of(call()) == "killed"
        assert next(iter(opened.list_stops("p"))).lifted_at_ns is None

    run(store, later)


@shared
def test_no_call_is_marked_sent_after_a_kill_has_returned_however_many_are_on_their_way(store):
    async def scenario(opened):
        with store.ledger() as other:
            other.use_signer(SIGNER)
            taken = [
                await other.commit_intent(intent(call(f"c{n}", key_hash=f"k{n}")))
                for n in range(40)
            ]
            killed = asyncio.Event()
            late = []

            async def mark(claim, pause):
                for _ in range(pause):
                    await asyncio.sleep(0)
                after = killed.is_set()
                sent = await other.mark_sent(claim, NOW)
                late.append(after and sent)

            async def kill():
                await opened.set_stop(structs.replace(stop(), stop_id="k"))
                killed.set()

            await asyncio.gather(kill(), *(mark(t.claim, 3 * n) for n, t in enumerate(taken)))
            await mark(taken[0].claim, 0)
            assert not any(late)

    run(store, scenario)
