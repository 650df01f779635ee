"""A person is asked for a call once, however its tries cross."""

import asyncio

import pytest
from gateway_rig import AllowAll, rig

from processors.model.call import Reason
from sidecar.gateway.policy.result import PolicyAnswer


class Held(AllowAll):
    """Wants a person for everything; the decision that is ``held`` is given when told."""

    def __init__(self):
        self.asked, self.held, self.reached, self.go = 0, 0, asyncio.Event(), asyncio.Event()

    async def decide(self, document):
        self.asked += 1
        if self.asked == self.held:
            self.reached.set()
            await self.go.wait()
        reasons = (Reason(code="ask_a_person"),)
        return PolicyAnswer(effect="require_approval", reasons=reasons, revision=self.revision)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C", "B")
def test_a_try_that_was_overtaken_gets_the_answer_and_asks_nobody_anew(tmp_path):
    async def main():
        policy = Held()
        async with asyncio.timeout(20), rig(tmp_path, policy=policy) as each:
            asked = await each.refund("17", key="k")
            approval_id = asked.json["approval"]["id"]
            await each.approve(approval_id)
            policy.held = policy.asked + 1
            overtaken = asyncio.ensure_future(each.refund("17", key="k", Prefer="wait=5"))
            await policy.reached.wait()  # it looked the key up and found nobody at it
            made = await each.refund("17", key="k", Prefer="wait=5")
            assert made.status == 201
            policy.go.set()
            told = await overtaken
            assert (told.status, told.headers.get("idempotent-replayed")) == (201, "true"), told
            assert each.shop.effects() == 1
            listed = each.ledger.list_approvals("default", limit=10)
            assert [each.approval_id for each in listed] == [approval_id]

    asyncio.run(main())
