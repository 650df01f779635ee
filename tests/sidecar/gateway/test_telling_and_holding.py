"""Obligations that tell of a decision, and those that hold a call: kept, or the call is denied."""

import asyncio
import json

import pytest
from gateway_rig import AllowAll, rig
from msgspec import structs

from processors.model.call import Approval, Decision, Obligation, Vote
from sidecar.egress.client import Egress
from sidecar.gateway.config import Durable
from sidecar.gateway.notify.driver import Notices
from sidecar.gateway.policy.obligations import held_until_ns
from sidecar.gateway.policy.result import read_answer
from sidecar.gateway.webhook import Webhook
from sidecar.store.durable import Disposal, DurableQuery

HOUR = 3600


class Obliges(AllowAll):
    """A policy port whose decisions all have these obligations."""

    def __init__(self, *obligations, effect="allow"):
        raw = {"effect": effect, "reasons": [{"code": "ok"}], "obligations": list(obligations)}
        self._answer = structs.replace(read_answer(raw), revision=self.revision)

    async def decide(self, document):
        return self._answer


def run(folder, scenario, *obligations, effect="allow", ports=None, tool_changes=None, **options):
    async def main():
        wrap = lambda made: structs.replace(made, **(ports or {}))  # noqa: E731
        policy = Obliges(*obligations, effect=effect)
        async with rig(
            folder, policy=policy, wrap=wrap, tool_changes=tool_changes, **options
        ) as each:
            return await scenario(each)

    return asyncio.run(main())


def obliged(kind, **properties):
    return {"type": kind, "properties": properties}


NOTIFY, EXTRA = obliged("notify"), obliged("log_extra", fields={"case": "17"})
COOL = obliged("cool_off", seconds=HOUR)


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_whoever_is_to_be_told_is_told_whatever_the_decision(tmp_path, effect):
    told, logged = [], []

    async def scenario(each):
        reply = await each.refund("17", key="a")
        assert reply.status == (201 if effect == "allow" else 403)
        ((notice, webhook),) = told
        assert (notice.effect, notice.tool, webhook) == (effect, "issue_refund", "")
        assert notice.codes == ("ok",) and notice.class_ == "irreversible"
        assert [each.type for each in logged[0].decision.obligations] == ["notify", "log_extra"]

    ports = {
        "notice": lambda *said: bool(told.append(said) or True),
        "decided": logged.append,
        "logs_decisions": True,
    }
    run(tmp_path, scenario, NOTIFY, EXTRA, effect=effect, ports=ports)


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize(
    ("obligation", "ports"),
    [
        (NOTIFY, {}),
        (NOTIFY, {"notice": lambda *_: False}),
        (EXTRA, {}),
        (obliged("step_up", acr=["mfa"]), {}),
    ],
)
def test_what_cannot_be_done_here_denies_and_the_rest_is_done(tmp_path, obligation, ports):
    logged = []

    async def scenario(each):
        reply = await each.refund("17", key="a")
        assert (reply.status, reply.json["code"]) == (403, "obligation_unmet")
        assert reply.json["next_action"] == "none" and each.shop.effects() == 0
        assert logged[0].decision.effect == "deny"

    run(tmp_path, scenario, obligation, ports={"decided": logged.append, **ports})


def test_an_unknown_obligation_denies_and_the_telling_ones_are_done(tmp_path):
    told = []

    async def scenario(each):
        reply = await each.refund("17", key="a")
        assert (reply.status, reply.json["code"]) == (503, "policy_error")
        assert [(said.effect, said.codes) for said, _ in told] == [("deny", ("policy_error",))]
        assert each.shop.effects() == 0

    ports = {"notice": lambda *said: bool(told.append(said) or True)}
    run(tmp_path, scenario, {"type": "dance"}, "odd", NOTIFY, ports=ports)


def test_an_observed_call_is_told_of_and_not_denied(tmp_path):
    async def scenario(each):
        assert (await each.refund("17", key="a")).status == 201

    run(tmp_path, scenario, NOTIFY, COOL, tool_changes={"mode": "observe"})


DURABLE = {"durable": Durable(attempts=1, backoff="1s")}


async def waiting(each, code):
    """The durable call once it is held."""
    while True:
        found = each.ledger.list_durable(DurableQuery())
        if found and found[0].code == code and found[0].owner is None:
            return found[0]
        await asyncio.sleep(0.01)


@pytest.mark.requirement("GW-02")
def test_a_durable_call_is_held_without_using_up_its_attempts_and_can_be_cancelled(tmp_path):
    async def scenario(each):
        asked = await each.refund("17", key="a", Prefer="respond-async")
        assert asked.status == 202
        async with asyncio.timeout(20):
            held = await waiting(each, "cooling_off")
        assert (held.state, held.attempts) == ("waiting", 0)
        # until then plus what is left of the hour
        assert held.due_at_ns - held.created_at_ns > (HOUR - 30) * 10**9
        now = await each.refund("17", key="a")
        assert (now.status, now.json["code"]) == (403, "cooling_off")
        assert now.json["next_action"] == "retry" and HOUR - 30 < now.json["retry_after"] <= HOUR
        cancel = Disposal(
            project="default", durable_id=held.durable_id, action="discard", by="key:ann",
            reason="not this one", due_at_ns=0, ends_at_ns=0,
        )  # fmt: skip
        assert await each.gateway.dispose(cancel) is True
        assert await each.gateway.dispose(cancel) is False
        for prefer in ("respond-async", "wait=0"):
            again = await each.refund("17", key="a", Prefer=prefer)
            assert (again.status, again.json["code"]) == (403, "call_cancelled")
        assert each.shop.effects() == 0

    run(tmp_path, scenario, COOL, tool_changes=DURABLE)


def test_a_call_whose_hold_is_over_is_made(tmp_path):
    async def scenario(each):
        assert (await each.refund("17", key="a", Prefer="respond-async")).status == 202
        async with asyncio.timeout(20):
            while not each.shop.effects():
                await asyncio.sleep(0.02)
        assert each.shop.effects() == 1

    run(tmp_path, scenario, obliged("cool_off", seconds=1), tool_changes=DURABLE)


@pytest.mark.requirement("GW-02")
def test_an_approved_call_is_held_from_the_last_vote_on_and_its_approval_is_not_used_up(tmp_path):
    async def scenario(each):
        token = await each.approved_token("17", key="a", amount=20)
        held = await each.refund("17", key="a", Approval_Token=token)
        assert (held.status, held.json["code"]) == (403, "cooling_off")
        (approval,) = each.ledger.list_approvals()
        assert approval.status == "approved" and each.shop.effects() == 0

    run(tmp_path, scenario, COOL, effect="require_approval")


@pytest.mark.requirement("GW-02")
def test_an_approval_that_is_taken_back_while_its_call_is_held_lets_nothing_through(tmp_path):
    async def scenario(each):
        token = await each.approved_token("17", key="a", amount=20)
        (approval,) = each.ledger.list_approvals()
        assert await each.approve(approval.approval_id, "deny", voter="key:other") is None
        for sent in ({"Approval_Token": token}, {"Prefer": "wait=1"}):
            refused = await each.refund("17", key="a", **sent)
            assert (refused.status, refused.json["code"]) == (403, "approval_denied")
        assert each.shop.effects() == 0

    second = obliged("cool_off", seconds=1)
    run(tmp_path, scenario, second, effect="require_approval")


@pytest.mark.parametrize(
    ("obligation", "code"),
    [(COOL, "obligation_unmet"), (obliged("delay_until", time_ns=2**62), "cooling_off")],
)
def test_what_holds_without_a_beginning_denies_and_a_moment_needs_none(tmp_path, obligation, code):
    async def scenario(each):
        reply = await each.refund("17", key="a")
        assert (reply.status, reply.json["code"]) == (403, code)
        read = await each.ask("GET", "/payments/orders/17")  # it cannot be cancelled: no key
        assert (read.status, read.json["code"]) == (403, "obligation_unmet")
        assert each.shop.requests == 0

    run(tmp_path, scenario, obligation)


def decision(*obligations):
    made = tuple(Obligation(id="1", type=each["type"], properties=each["properties"])
                 for each in obligations)  # fmt: skip
    return Decision(decision_id="d", effect="allow", obligations=made)


def voted(*votes):
    made = [
        Vote(voter=str(at), decision=said, reason="", voted_at_ns=at, shown_digest="")
        for said, at in votes
    ]
    return Approval(
        approval_id="a", project="p", requester="r", tool="t", action_hash="", key_hash="",
        policy_revision="", tool_digest="", status="approved", summary="", requested_at_ns=0,
        expires_at_ns=0, decide_by_ns=0, execute_by_ns=0, votes=tuple(made),
    )  # fmt: skip


def test_the_longest_hold_counts_from_the_last_beginning():
    both = decision(obliged("cool_off", seconds=10), obliged("cool_off", seconds=20))
    approval = voted(("approve", 5), ("approve", 7), ("deny", 9))
    assert held_until_ns(both, approval=approval, queued_at_ns=None) == 7 + 20 * 10**9
    assert held_until_ns(both, approval=approval, queued_at_ns=8) == 8 + 20 * 10**9
    assert held_until_ns(both, approval=voted(("deny", 9)), queued_at_ns=None) is None
    later = decision(obliged("delay_until", time_ns=10**12), obliged("cool_off", seconds=1))
    assert held_until_ns(later, approval=None, queued_at_ns=1) == 10**12
    assert held_until_ns(decision(), approval=None, queued_at_ns=None) == 0


def test_a_notice_goes_signed_to_the_webhooks_that_take_it(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=")
    got = []

    async def main():
        async def serve(reader, writer):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            got.append((head, json.loads(await reader.readexactly(length))))
            status = b"503 Later" if len(got) == 1 else b"204 No Content"
            writer.write(b"HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        hook = Webhook(
            name="ops", url=f"http://127.0.0.1:{port}/hook", secret_file=str(secret),
            allow_cidrs=("127.0.0.0/8",), events=("notice",),
        )  # fmt: skip
        deaf = structs.replace(hook, name="deaf", events=("requested",))
        other = structs.replace(hook, name="other", project="elsewhere")
        egress, told = Egress(), []
        pauses = Notices.__init__.__kwdefaults__["pauses"].__class__(initial_ns=1, max_ns=2)
        async with (
            server,
            rig(
                tmp_path,
                policy=Obliges(obliged("notify", webhook="ops"), effect="deny"),
                wrap=lambda ports: structs.replace(ports, notice=lambda *said: told[0].tell(*said)),
            ) as each,
        ):
            notices = Notices(each.ledger, egress, [deaf, hook, other], pauses=pauses)
            told.append(notices)
            await each.refund("17", key="a")
            async with asyncio.timeout(10):
                while len(got) < 2:
                    await asyncio.sleep(0.01)
            assert not notices.tell(structs.replace(NOTICE, project="default"), "deaf")
            assert not notices.tell(structs.replace(NOTICE, project="default"), "nobody")
            await notices.stop()
        await egress.close()

    from sidecar.gateway.notify.notice import Notice

    NOTICE = Notice(
        decision_id="d", call_id="c", project="p", principal="k", tool="t", class_="read",
        effect="deny", codes=(), policy_revision="", at_ns=0,
    )  # fmt: skip
    asyncio.run(main())
    (first, body), (second, same) = got
    assert body == same and body["type"] == "policy.notice"
    assert body["data"]["tool"] == "issue_refund" and body["data"]["codes"] == ["ok"]
    assert "amount" not in json.dumps(body) and "webhook-signature: v1," in second
    assert first.partition("webhook-id: ")[2][:36] == second.partition("webhook-id: ")[2][:36]
