"""Times of a request on every backend: decided by one, used by another, and clocks that were set.

Rows of gateway.md: §7 C (expiry at the boundary), T28.
"""

import json
import sqlite3
from contextlib import closing

import pytest
from ledger_rig import (
    BACKENDS,
    NOW,
    REVISION,
    asked,
    ballot,
    call,
    intent,
    ledgers,
    run,
)
from msgspec import structs

from sidecar.store.ledger import ApprovalUse, Committed, NotCommitted
from sidecar.store.sqlite import approvals
from sidecar.store.sqlite.connection import migrate
from sidecar.store.sqlite.scripts import LEDGER, scripts
from sidecar.store.standing import execute_by

SECOND = 10**9
MINUTE = 60 * SECOND


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


def wanted(name="ap", **fields):
    """A request with ten minutes to decide it and one to use it."""
    return asked(
        name, key_hash=name, expires_at_ns=NOW + 10 * MINUTE, decide_by_ns=NOW + 10 * MINUTE,
        execute_by_ns=NOW + 11 * MINUTE, **fields,
    )  # fmt: skip


def spending(name, now_ns):
    use = ApprovalUse(
        approval_id=name, action_hash="h", key_hash=name, policy_revision=REVISION,
        tool_digest="d",
    )  # fmt: skip
    return structs.replace(
        intent(call(f"c-{name}", key_hash=name)), approval=use, now_ns=now_ns,
        lease_until_ns=now_ns + 9, expires_at_ns=now_ns + 99,
    )  # fmt: skip


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
@pytest.mark.parametrize("decided", [0, 5 * MINUTE, 10 * MINUTE - 1])
def test_the_time_to_use_it_begins_when_it_is_decided(store, decided):
    async def scenario(opened):
        for name in ("ap", "late"):
            await opened.ask_approval(wanted(name))
            vote = ballot(approval_id=name, voter=name, now_ns=NOW + decided)
            assert await opened.vote(vote) is None
        found = opened.find_approval("ap")
        assert found.decide_by_ns == NOW + 10 * MINUTE
        assert found.execute_by_ns == found.expires_at_ns == NOW + decided + MINUTE
        late = await opened.commit_intent(spending("late", NOW + decided + MINUTE))
        assert late == NotCommitted(code="approval_expired")
        used = await opened.commit_intent(spending("ap", NOW + decided + MINUTE - 1))
        assert isinstance(used, Committed)

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_it_is_decided_in_time_or_not_at_all(store):
    async def scenario(opened):
        await opened.ask_approval(wanted())
        late = ballot(now_ns=NOW + 10 * MINUTE)
        assert await opened.vote(late) == "approval_expired", "the time to use it is none to decide"
        assert opened.find_approval("ap").status == "expired"

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_the_chain_tells_both_times_and_who_had_approved_when_it_was_used(store):
    async def scenario(opened):
        await opened.ask_approval(wanted())
        assert await opened.vote(ballot(voter="key:v", voter_name="ann")) is None
        await opened.commit_intent(spending("ap", NOW + 1))
        bodies = {each.kind: json.loads(each.body) for each in opened.entries_after(0, 99)}
        asked_for, until = bodies["approval_requested"], str(NOW + MINUTE)
        assert asked_for["decide_by_ns"] == str(NOW + 10 * MINUTE)
        assert asked_for["execute_by_ns"] == str(NOW + 11 * MINUTE)
        assert bodies["approval_resolved"]["execute_by_ns"] == until
        assert bodies["approval_consumed"] == {
            "approval_id": "ap", "call_id": "c-ap", "decide_by_ns": str(NOW + 10 * MINUTE),
            "execute_by_ns": until, "votes": [{"shown_digest": "s", "voter": "key:v"}],
        }  # fmt: skip

    run(store, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.requirement("GW-04")
def test_a_clock_that_was_set_back_brings_nothing_back(store):
    """What the ledger has seen is later than now: whatever time seems left is not."""

    async def scenario(opened):
        for name in ("ap", "b"):
            await opened.ask_approval(wanted(name))
        assert await opened.vote(ballot(now_ns=NOW)) is None
        await opened.ask_approval(wanted("c", requested_at_ns=NOW + 9 * MINUTE))
        back = NOW + 30 * SECOND  # half of the minute to use it in seems left
        assert await opened.vote(ballot(approval_id="b", now_ns=back)) == "clock_skewed"
        assert opened.find_approval("b").votes == ()
        spent = await opened.commit_intent(spending("ap", back))
        assert spent == NotCommitted(code="clock_skewed")
        denied = ballot("deny", approval_id="b", voter="w", now_ns=back)
        assert await opened.vote(denied) is None, "a denial is safe"
        near = NOW + 9 * MINUTE - 30 * SECOND
        assert await opened.vote(ballot(approval_id="c", now_ns=near)) is None, "clocks differ"

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_a_clock_that_was_set_forward_ends_what_waits(store):
    async def scenario(opened):
        for name in ("ap", "b"):
            await opened.ask_approval(wanted(name))
        assert await opened.vote(ballot()) is None
        ahead = NOW + 24 * 60 * MINUTE
        assert await opened.vote(ballot(approval_id="b", now_ns=ahead)) == "approval_expired"
        spent = await opened.commit_intent(spending("ap", ahead))
        assert spent == NotCommitted(code="approval_expired")
        assert await opened.expire_approvals(ahead) is None
        assert opened.find_approval("ap").status == "expired", "and it stays so"

    run(store, scenario)


def test_a_request_of_the_release_before_keeps_the_one_time_it_had(tmp_path):
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, scripts(LEDGER[: LEDGER.index("deadlines")]), path)
        connection.execute(
            "INSERT INTO approval VALUES ('ap', 'p', 'a', '', 't', 'h', 'k', 'r', 'd', 'pending',"
            f" '', 's', '', {NOW}, {NOW + MINUTE}, 1, '', NULL, NULL, 0, 0, '', '')"
        )
        migrate(connection, scripts(LEDGER), path)
        found, _ = approvals.find(connection, "p", "ap")
    assert found.decide_by_ns == found.execute_by_ns == NOW + MINUTE
    assert execute_by(found, NOW + 1) == NOW + MINUTE
