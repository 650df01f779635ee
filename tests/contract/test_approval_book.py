"""Requests for approval and votes on every backend: who counts, how often, and what has changed.

Rows of gateway.md: §7 C (quorum with duplicate identities, expiry at the boundary, policy reloaded
between), T27, T31.
"""

import asyncio

import pytest
from ledger_rig import BACKENDS, NOW, REVISION, SHARED, asked, ballot, call, intent, ledgers, run
from msgspec import structs

from processors.model.principal import StoredKey
from sidecar.store.ledger import ApprovalUse, NotCommitted, Pace
from sidecar.store.standing import AskedTooOften, person

HOUR = 3600 * 10**9


shared = pytest.mark.parametrize("store", SHARED, indirect=True)


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


ALIASES = ("ann@example.com", "Ann@Example.com ", "ann+second@example.com", "ａnn@example.com",
           "an\u200bn@example.com")  # fmt: skip


@pytest.mark.row("C")
@pytest.mark.requirement("APR-01")
def test_aliases_of_one_person_are_one_vote(store):
    async def scenario(opened):
        await opened.ask_approval(asked(approvers_min=2))
        codes = [
            await opened.vote(ballot(voter=f"key:{place}", voter_name=name))
            for place, name in enumerate(ALIASES)
        ]
        assert codes == [None, *["vote_repeated"] * (len(ALIASES) - 1)]
        assert opened.find_approval("ap").status == "pending"
        assert await opened.vote(ballot(voter="key:b", voter_name="ben@example.com")) is None
        assert opened.find_approval("ap").status == "approved"

    run(store, scenario)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.nn+x@gmail.com", "ANN@googlemail.com"),
        ("Ann  Lee", "ann lee"),
        ("ﬁn", "FIN"),
        ("Stra\u00dfe", "STRASSE"),
    ],
)
def test_names_of_one_person(one, other):
    assert person(one) == person(other) != ""


def test_names_of_two_people_and_of_nobody():
    assert person("ann@a.example") != person("ann@b.example")
    assert person("a.nn@example.com") != person("ann@example.com")
    assert person(" \u200b ") == ""


@pytest.mark.requirement("APR-01")
def test_one_denial_ends_a_request_that_needs_two(store):
    async def scenario(opened):
        await opened.ask_approval(asked(approvers_min=2))
        assert await opened.vote(ballot(voter_name="ann")) is None
        assert await opened.vote(ballot("deny", voter="w", voter_name="ben")) is None
        assert opened.find_approval("ap").status == "denied"
        late = await opened.vote(ballot(voter="x", voter_name="cem"))
        assert late == "approval_denied"

    run(store, scenario)


@pytest.mark.row("C")
@pytest.mark.requirement("APR-01")
def test_a_vote_counts_until_the_last_nanosecond_and_none_after(store):
    async def scenario(opened):
        await opened.ask_approval(asked(expires_at_ns=NOW + 10))
        assert await opened.vote(ballot(now_ns=NOW + 10)) == "approval_expired"
        assert opened.find_approval("ap").status == "expired"
        await opened.ask_approval(asked("b", key_hash="b", expires_at_ns=NOW + 10))
        assert await opened.vote(ballot(approval_id="b", now_ns=NOW + 9)) is None
        use = ApprovalUse(
            approval_id="b", action_hash="h", key_hash="b", policy_revision=REVISION,
            tool_digest="d",
        )  # fmt: skip
        spends = structs.replace(intent(call(key_hash="b")), approval=use)
        late = await opened.commit_intent(structs.replace(spends, now_ns=NOW + 19))
        assert late == NotCommitted(code="approval_expired")

    run(store, scenario)


@pytest.mark.row("T28")
@pytest.mark.requirement("APR-02")
def test_what_runs_out_is_denied_by_time_in_the_chain_and_nothing_else_is(store):
    async def scenario(opened):
        assert await opened.expire_approvals(NOW) is None
        await opened.ask_approval(asked(expires_at_ns=NOW + 10))
        await opened.ask_approval(asked("b", key_hash="b", expires_at_ns=NOW + 20))
        await opened.ask_approval(asked("c", key_hash="c", expires_at_ns=NOW + 20))
        assert await opened.vote(ballot("deny", approval_id="c")) is None
        assert await opened.expire_approvals(NOW + 9) == NOW + 10
        with opened.approval_news("ap") as watching:
            assert await opened.expire_approvals(NOW + 10) == NOW + 20
            async with asyncio.timeout(10):
                await watching.moved(60)
        assert opened.find_approval("ap").status == "expired"
        assert opened.find_approval("b").status == "pending"
        assert await opened.expire_approvals(NOW + 99) is None
        assert opened.find_approval("c").status == "denied"
        kinds = [each.body for each in opened.entries_after(0, 99) if "resolved" in each.kind]
        assert [body.count("expired") for body in kinds] == [0, 1, 1]

    run(store, scenario)


@pytest.mark.row("C")
@pytest.mark.requirement("APR-01")
def test_a_request_of_another_policy_is_approved_by_nobody(store):
    async def scenario(opened):
        assert opened.active_policy() == REVISION
        await opened.ask_approval(asked())
        await opened.activate_policy("next", NOW)
        assert opened.active_policy() == "next"
        assert await opened.vote(ballot()) == "approval_policy_changed"
        assert await opened.vote(ballot("deny", voter="w")) is None, "a denial is safe"
        assert opened.find_approval("ap").status == "denied"
        again = await opened.ask_approval(asked("b", policy_revision="next"))
        assert again.approval_id == "b", "the call asks anew under the new policy"
        assert await opened.vote(ballot(approval_id="b")) is None

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_a_person_approves_so_many_in_a_while_whatever_keys_they_have(store):
    async def scenario(opened):
        pace = Pace(most=2, window_ns=HOUR)
        for name in ("a", "b", "c", "d"):
            await opened.ask_approval(asked(name, key_hash=name))

        async def vote(name, decision="approve", **more):
            return await opened.vote(
                ballot(decision, approval_id=name, voter=f"key:{name}", voter_name="ann",
                       pace=pace, **more)
            )  # fmt: skip

        assert [await vote("a"), await vote("b")] == [None, None]
        assert await vote("c") == "approval_fatigue"
        other = ballot(approval_id="c", voter="key:z", voter_name="ben", pace=pace)
        assert await opened.vote(other) is None
        assert await vote("d", "deny") is None, "a denial is never too much"
        assert opened.find_approval("d").status == "denied"

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_a_rested_approver_goes_on(store):
    async def scenario(opened):
        pace = Pace(most=1, window_ns=500)
        for name in ("a", "b"):
            await opened.ask_approval(asked(name, key_hash=name))
        assert await opened.vote(ballot(approval_id="a", pace=pace)) is None
        early = ballot(approval_id="b", pace=pace, now_ns=NOW + 499)
        assert await opened.vote(early) == "approval_fatigue"
        assert await opened.vote(structs.replace(early, now_ns=NOW + 500)) is None

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_an_agent_asks_so_many_in_a_while_and_finds_what_it_asked(store):
    async def scenario(opened):
        pace = Pace(most=2, window_ns=HOUR)
        first = await opened.ask_approval(asked("a", key_hash="a"), pace)
        await opened.ask_approval(asked("b", key_hash="b"), pace)
        with pytest.raises(AskedTooOften):
            await opened.ask_approval(asked("c", key_hash="c"), pace)
        assert opened.find_approval("c") is None
        assert await opened.ask_approval(asked("d", key_hash="a"), pace) == first
        other = asked("e", key_hash="e", requester="other")
        assert (await opened.ask_approval(other, pace)).approval_id == "e"
        later = asked("f", key_hash="f", requested_at_ns=NOW + HOUR, expires_at_ns=NOW + 2 * HOUR)
        assert (await opened.ask_approval(later, pace)).approval_id == "f"

    run(store, scenario)


@shared
@pytest.mark.requirement("APR-01")
@pytest.mark.parametrize(
    "changes", [{"expires_at_ns": NOW}, {"role": "viewer"}, {"kind": "reader"}]
)
def test_a_vote_stands_while_its_voter_may_still_decide(store, changes):
    key = StoredKey(
        key_id="v", kind="approver", project="p", name="ann", secret_sha256="x", created_at_ns=1
    )

    async def scenario(opened):
        with store.keys() as keys:
            keys.add_key(structs.replace(key, **changes))
            keys.add_key(structs.replace(key, key_id="good", expires_at_ns=NOW + 5))
        await opened.ask_approval(asked())
        assert await opened.vote(ballot(voter="key:v")) is None
        assert opened.find_approval("ap").status == "pending", "it is kept and does not count"
        assert await opened.vote(ballot(voter="key:good", voter_name="ben")) is None
        assert opened.find_approval("ap").status == "approved"
        assert not await opened.take_token("p", "ap", NOW + 5)
        assert await opened.take_token("p", "ap", NOW + 4)

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_who_watches_is_told_of_every_change_and_of_nothing_else(store):
    async def scenario(opened):
        with opened.approval_news() as every, opened.approval_news("b") as one:

            async def told(watching):
                async with asyncio.timeout(10):
                    await watching.moved(60)

            await opened.ask_approval(asked())
            await told(every)
            await opened.ask_approval(asked("b", key_hash="b"))
            await asyncio.gather(told(every), told(one))
            await opened.vote(ballot())
            await told(every)
            use = ApprovalUse(
                approval_id="ap", action_hash="h", key_hash="k", policy_revision=REVISION,
                tool_digest="d",
            )  # fmt: skip
            await opened.commit_intent(intent(approval=use))
            await told(every)
        with opened.approval_news() as every, opened.approval_news("b") as one:
            await opened.ask_approval(asked("c", key_hash="c"))
            await told(every)
            loop = asyncio.get_running_loop()
            began = loop.time()
            await one.moved(0.05)
            assert loop.time() - began >= 0.04, "it was told of another's"

    run(store, scenario)
