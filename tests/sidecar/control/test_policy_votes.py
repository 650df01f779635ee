"""People decide on a looser policy over the control API: by name, once each, and no agent does."""

import asyncio

import pytest
from control_rig import control

from sidecar.store.policy import PolicyOffer

REVISION = "sha256:" + "7" * 64
OFFER = PolicyOffer(revision=REVISION, before="sha256:" + "5" * 64, offered_at_ns=1, loosened=3)
PATH = "/v1/policy/offer"


def run(folder, scenario):
    async def main():
        async with control(folder) as each:
            return await scenario(each)

    return asyncio.run(main())


@pytest.mark.requirement("GW-02")
def test_two_people_approve_and_nobody_twice(tmp_path):
    async def scenario(each):
        vote = {"revision": REVISION, "reason": "read it"}

        async def say(word, by, **changes):
            return await each.http_ask("POST", f"{PATH}/{word}", by=by, json={**vote, **changes})

        assert (await each.http_ask("GET", PATH, by=each.reader)).code == "no_such_offer"
        assert (await say("approve", each.approver)).code == "no_such_offer"
        await each.ledger.offer_policy(OFFER)
        shown = (await each.http_ask("GET", PATH, by=each.reader)).json
        assert (shown["revision"], shown["loosened"], shown["state"]) == (REVISION, 3, "pending")
        for by in (each.agent, each.reader, each.admin):
            assert (await say("approve", by)).code == "forbidden"
        assert (await say("approve", each.credential("approver"))).code == "approver_not_eligible"
        assert (await say("approve", each.approver, revision="sha256:7")).status == 422
        first = await say("approve", each.approver)
        assert (first.status, first.json["state"]) == (200, "pending")
        same = each.credential("approver", name=" ANN ")
        assert (await say("approve", same)).code == "vote_repeated"
        done = await say("approve", each.credential("approver", name="Bob"))
        assert done.json["state"] == "approved" and len(done.json["votes"]) == 2
        assert (await say("deny", each.credential("approver", name="Cid"))).status == 409

    run(tmp_path, scenario)


def test_only_those_who_are_named_decide_where_some_are(tmp_path):
    async def scenario(each):
        each.desk._policy_approvers = ("bob",)
        await each.ledger.offer_policy(OFFER)
        vote = {"revision": REVISION, "reason": "no"}
        denied = await each.http_ask("POST", f"{PATH}/deny", by=each.approver, json=vote)
        assert (denied.status, denied.code) == (403, "approver_not_eligible")
        bob = each.credential("approver", name="Bob")
        denied = await each.http_ask("POST", f"{PATH}/deny", by=bob, json=vote)
        assert denied.json["state"] == "denied"

    run(tmp_path, scenario)
