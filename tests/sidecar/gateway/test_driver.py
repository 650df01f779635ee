"""Calls through the whole gateway: real HTTP, ledger, policy worker, egress and an upstream that
counts its effects in its own database."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest
from gateway_rig import RECONCILE, AllowAll, Settings, rig
from msgspec import structs

from processors.model.principal import Principal
from sidecar.gateway.action import ToolRequest
from sidecar.gateway.audit import verify
from sidecar.gateway.config import Approvals, Idempotency
from sidecar.store.ledger import CallQuery
from sidecar.telemetry import REGISTRY


def run(folder, scenario, **options):
    async def main():
        async with rig(folder, **options) as each:
            return await scenario(each)

    return asyncio.run(main())


def receipts_of(each, reply):
    """The receipts of the call a reply names."""
    named = each.ledger.get_receipt(reply.headers["gateway-receipt"])
    call = each.ledger.get_call(named.call_id)
    return [each.ledger.get_receipt(one) for one in call.receipts]


@pytest.mark.requirement("RCP-01")
def test_a_read_is_forwarded_and_leaves_one_signed_receipt(tmp_path):
    async def scenario(each):
        reply = await each.ask("GET", "/payments/orders/17?verbose=1")
        assert (reply.status, reply.json["path"]) == (200, "/orders/17?verbose=1")
        (receipt,) = receipts_of(each, reply)
        assert (receipt.phase, receipt.effect, receipt.tool) == (
            *("executed", "confirmed"),
            "get_order",
        )
        assert receipt.decision_id == reply.headers["gateway-decision"]

    run(tmp_path, scenario)


@pytest.mark.requirement("IDM-01")
def test_an_irreversible_call_has_two_receipts_and_its_answer_is_replayed(tmp_path):
    async def scenario(each):
        first = await each.refund("17", key="a")
        second = await each.refund("17", key='"a"')  # the same key, as an RFC 8941 string
        assert (first.status, second.status, second.body) == (201, 201, first.body)
        assert second.headers["idempotent-replayed"] == "true"
        assert second.headers["gateway-receipt"] == first.headers["gateway-receipt"]
        assert each.shop.effects() == 1
        assert [one.phase for one in receipts_of(each, first)] == ["authorised", "executed"]
        replays = [one for one in each.ledger.list_calls(CallQuery()) if one.phase == "replayed"]
        assert len(replays) == 1

    run(tmp_path, scenario)


@pytest.mark.row("T41")
def test_the_upstream_gets_a_stable_key_of_its_own_and_never_ours(tmp_path):
    async def scenario(each):
        await each.refund("s400-a", key="agent-key")
        await each.refund("s400-a", key="agent-key")
        keys = {headers["idempotency-key"] for _, _, headers, _ in each.shop.seen}
        assert len(each.shop.seen) == 2 and len(keys) == 1  # two attempts, one key
        assert keys.pop().startswith("agw_")
        assert not any("authorization" in headers for _, _, headers, _ in each.shop.seen)

    run(tmp_path, scenario)


@pytest.mark.row("T35", "T38", "T43")
@pytest.mark.requirement("IDM-01")
def test_200_concurrent_calls_with_one_key_make_one_effect(tmp_path):
    async def scenario(each):
        each.shop.delay = 0.2
        replies = await asyncio.gather(*(each.refund("17", key="one") for _ in range(200)))
        assert each.shop.effects() == 1
        statuses = [reply.status for reply in replies]
        assert set(statuses) <= {201, 409}
        assert statuses.count(201) >= 1
        refused = [reply for reply in replies if reply.status == 409]
        assert {reply.json["code"] for reply in refused} <= {"in_flight"}
        assert all(reply.headers["retry-after"] == "1" for reply in refused)
        assert (await each.refund("17", key="one")).status == 201

    run(tmp_path, scenario)


@pytest.mark.row("B", "T43")
@pytest.mark.requirement("IDM-01")
def test_two_gateways_on_one_ledger_make_one_effect_and_leave_each_others_calls_alone(tmp_path):
    async def main():
        async with rig(tmp_path, policy=AllowAll()) as one:
            url = f"http://127.0.0.1:{one.shop.port}"
            one.shop.delay = 0.3
            early = asyncio.ensure_future(one.refund("17", key="early"))
            await wait_for(lambda: asyncio.sleep(0, one.shop.requests), lambda count: count == 1)
            async with rig(tmp_path, policy=AllowAll(), upstream_url=url) as two:
                # The second one's start did not take the first one's call for a dead one's.
                assert (await early).status == 201
                asks = [(one, two)[number % 2].refund("18", key="a") for number in range(100)]
                two.agent = one.agent
                replies = await asyncio.gather(*asks)
                assert {reply.status for reply in replies} <= {201, 409}
                assert one.shop.effects("18") == 1
                chain = two.ledger.entries_after(0, 1000)
                found = verify(chain, two.ledger.audit_head(), two.ledger.public_keys())
                assert found.fault is None

    asyncio.run(main())


@pytest.mark.row("T38")
def test_a_caller_that_waits_gets_the_answer_of_the_call_in_flight(tmp_path):
    async def scenario(each):
        each.shop.delay = 0.2
        replies = await asyncio.gather(
            *(each.refund("17", key="one", Prefer="wait=5") for _ in range(10))
        )
        assert each.shop.effects() == 1
        assert {(reply.status, reply.body) for reply in replies} == {(201, replies[0].body)}

    run(tmp_path, scenario)


@pytest.mark.row("B")
def test_a_key_is_its_principals_its_tools_and_its_actions(tmp_path):
    async def scenario(each):
        other = each.credential("agent", name="other")
        body = {"amount": 20, "currency": "EUR"}
        assert (await each.refund("17", key="a")).status == 201
        assert (await each.refund("17", key="a", amount=21)).json["code"] == "key_reused"
        assert (await each.refund("17", key="a", amount=21)).status == 422
        assert (await each.refund("17", key="a", credential=other)).status == 201
        note = await each.ask("POST", "/payments/orders/17/notes", key="a", json=body)
        assert note.status == 201
        assert each.shop.effects() == 3

    run(tmp_path, scenario)


@pytest.mark.row("T42")
def test_an_irreversible_call_needs_a_key_and_a_read_or_write_does_not(tmp_path):
    async def scenario(each):
        reply = await each.refund("17", key=None)
        assert (reply.status, reply.json["code"]) == (400, "idempotency_key_required")
        assert reply.json["next_action"] == "request" and each.shop.requests == 0
        note = await each.ask("POST", "/payments/orders/17/notes", json={"text": "a"})
        assert note.status == 201
        assert [one.phase for one in receipts_of(each, note)] == ["authorised", "executed"]
        bad = await each.refund("17", key="a b")
        assert (bad.status, bad.json["code"]) == (400, "idempotency_key_invalid")

    run(tmp_path, scenario)


def test_a_tool_may_derive_the_key_from_the_callers_span(tmp_path):
    async def scenario(each):
        parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        for _ in range(2):
            assert (await each.refund("17", key=None, traceparent=parent)).status == 201
        assert each.shop.effects() == 1
        assert (await each.refund("17", key=None)).status == 400

    run(tmp_path, scenario, tool_changes={"idempotency": Idempotency(derive=True)})


def test_an_upstream_that_says_no_effect_may_be_tried_again_and_one_that_says_no_may_not(tmp_path):
    async def scenario(each):
        for order, tried in (("s400-x", 2), ("s429-x", 2), ("s409-x", 1), ("s402-x", 1)):
            before = each.shop.requests
            for _ in range(2):
                reply = await each.refund(order, key=order)
                assert reply.status == int(order[1:4])
            assert each.shop.requests - before == tried, order

    run(tmp_path, scenario)


@pytest.mark.parametrize("order", ["hang", "drop", "late503"])
def test_without_a_whole_answer_the_outcome_is_unknown_and_is_not_tried_again(tmp_path, order):
    async def scenario(each):
        for _ in range(3):
            reply = await each.refund(order, key="a")
            assert (reply.status, reply.json["code"]) == (409, "outcome_unknown")
            assert reply.json["next_action"] == "none"
        assert each.shop.effects() == 1
        assert len(each.ledger.unresolved()) == 1

    run(tmp_path, scenario)


@pytest.mark.requirement("IDM-01")
def test_an_unknown_outcome_is_reconciled_by_the_tools_own_recipe(tmp_path):
    async def scenario(each):
        lost = await each.refund("drop", key="a")
        assert lost.json["code"] == "outcome_unknown"
        found = await each.refund("drop", key="a")
        assert (found.status, found.json["reconciled"]) == (200, True)
        assert found.json["evidence"] == {"refunds": ["drop"]}
        assert each.shop.effects() == 1
        phases = [(one.phase, one.effect, one.code) for one in receipts_of(each, lost)]
        assert phases == [
            ("authorised", "unknown", None),
            ("executed", "unknown", "outcome_unknown"),
            ("executed", "confirmed", "reconciled"),
        ]

    run(tmp_path, scenario, tool_changes={"reconcile": RECONCILE})


def test_a_call_that_is_found_not_done_is_made_by_the_next_attempt(tmp_path):
    async def scenario(each):
        with closing(sqlite3.connect(each.shop.database, isolation_level=None)) as connection:
            assert (await each.refund("drop", key="a")).status == 409
            connection.execute("DELETE FROM effect")  # the upstream rolled it back after all
            early = await each.refund("drop", key="a")
            assert (early.json["code"], early.headers["retry-after"]) == ("outcome_unknown", "1")
            async with asyncio.timeout(10):
                while not each.shop.effects():  # after the settle time, and said twice
                    await asyncio.sleep(0.1)
                    again = await each.refund("drop", key="a")
        assert again.json["code"] == "outcome_unknown"  # attempted again, and lost again
        assert each.shop.effects() == 1

    run(tmp_path, scenario, tool_changes={"reconcile": RECONCILE})


def test_an_unreached_upstream_is_502_and_may_be_tried_again(tmp_path):
    async def scenario(each):
        for _ in range(2):
            reply = await each.refund("17", key="a")
            assert (reply.status, reply.json["code"]) == (502, "upstream_unreachable")
            assert receipts_of(each, reply)[-1].effect == "not_executed"
        read = await each.ask("GET", "/payments/orders/17")
        assert (read.status, read.json["code"]) == (502, "upstream_unreachable")

    run(tmp_path, scenario, upstream_url="http://127.0.0.1:9")


@pytest.mark.row("T59")
def test_a_read_that_is_not_answered_in_time_is_504(tmp_path):
    async def scenario(each):
        each.shop.delay = 3
        reply = await each.ask("GET", "/payments/orders/17")
        assert (reply.status, reply.json["code"]) == (504, "upstream_timeout")

    run(tmp_path, scenario)


def test_what_is_no_tool_is_refused_with_a_receipt_and_not_sent(tmp_path):
    async def scenario(each):
        for method, path, status in (
            ("GET", "/nowhere/orders/17", 404),
            ("GET", "/payments/admin", 404),
            ("DELETE", "/payments/orders/17", 404),
            ("GET", "/payments/orders/%2e%2e%2fadmin", 400),
            ("GET", "/payments//orders/17", 400),
        ):
            reply = await each.ask(method, path)
            assert reply.status == status, path
            assert receipts_of(each, reply)[0].phase == "refused"
        assert each.shop.requests == 0

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-07")
def test_only_an_agents_credential_calls_tools(tmp_path):
    async def scenario(each):
        for kind in ("approver", "reader", "admin"):
            reply = await each.refund("17", credential=each.credential(kind))
            assert (reply.status, reply.json["code"]) == (403, "forbidden")
        reply = await each.refund("17", credential="sk_agent_0000000000000000_" + "A" * 43)
        assert (reply.status, reply.json["code"]) == (401, "unauthenticated")
        assert each.shop.requests == 0

    run(tmp_path, scenario)


@pytest.mark.row("T21")
@pytest.mark.requirement("APR-01")
def test_an_approved_call_is_made_once_with_its_token_and_key(tmp_path):
    async def scenario(each):
        asked = await each.refund("17", key="a", amount=500)
        assert (asked.status, asked.json["code"]) == (403, "approval_required")
        assert asked.json["next_action"] == "request"
        approval = asked.json["approval"]
        assert set(approval) == {
            *("id", "status", "expires_at", "decide_by", "execute_by", "poll_after_ms"),
            *("action_hash", "summary"),
        }
        assert "amount = 500" in approval["summary"]
        again = await each.refund("17", key="a", amount=500)
        assert again.json["approval"]["id"] == approval["id"]  # one request, not two
        state = f"/v1/approvals/{approval['id']}"
        assert "token" not in (await each.ask("GET", state)).json
        other = each.credential("agent")
        assert (await each.ask("GET", state, credential=other)).status == 404
        assert await each.approve(approval["id"]) is None
        told = await each.ask("GET", state)
        assert told.json["status"] == "approved"
        assert "token" not in (await each.ask("GET", state)).json  # once
        token = told.json["token"]
        assert (await each.refund("17", key="a", amount=500)).json["approval"][
            "status"
        ] == "approved"
        stranger = await each.refund(
            "17", key="a", amount=500, credential=other, Approval_Token=token
        )
        assert (stranger.status, stranger.json["code"]) == (403, "approval_mismatch")
        changed = await each.refund("17", key="b", amount=501, Approval_Token=token)
        assert changed.json["code"] == "approval_mismatch"
        assert each.shop.effects() == 0
        done = await each.refund("17", key="a", amount=500, Approval_Token=token)
        assert done.status == 201
        assert receipts_of(each, done)[-1].approval_id == approval["id"]
        replay = await each.refund("17", key="a", amount=500, Approval_Token=token)
        assert replay.headers["idempotent-replayed"] == "true"
        assert each.shop.effects() == 1

    run(tmp_path, scenario)


@pytest.mark.row("C", "T30")
@pytest.mark.requirement("APR-01")
def test_a_token_presented_100_times_at_once_makes_one_effect(tmp_path):
    async def scenario(each):
        token = await each.approved_token("17", key="own")
        each.shop.delay = 0.05
        keys = ["own" if number % 2 else f"other{number}" for number in range(100)]
        replies = await asyncio.gather(
            *(each.refund("17", key=key, amount=500, Approval_Token=token) for key in keys)
        )
        assert each.shop.effects() == 1
        for key, reply in zip(keys, replies, strict=True):
            if key == "own":
                assert reply.status in (201, 409)
                assert reply.status == 201 or reply.json["code"] == "in_flight"
            else:
                assert (reply.status, reply.json["code"]) == (403, "approval_mismatch")
        assert (await each.refund("17", key="own", amount=500, Approval_Token=token)).status == 201

    run(tmp_path, scenario)


@pytest.mark.row("T28")
@pytest.mark.requirement("APR-02")
def test_a_denied_or_expired_approval_is_an_answer_and_stays_one(tmp_path):
    async def scenario(each):
        asked = await each.refund("17", key="a", amount=500)
        await each.approve(asked.json["approval"]["id"], "deny")
        for _ in range(2):
            reply = await each.refund("17", key="a", amount=500)
            assert (reply.status, reply.json["code"]) == (403, "approval_denied")
        await each.refund("17", key="b", amount=500)
        expired = await wait_for(
            lambda: each.refund("17", key="b", amount=500),
            lambda reply: reply.json["code"] == "approval_expired",
        )
        assert expired.status == 403 and expired.json["next_action"] == "request"
        assert each.shop.effects() == 0

    approvals = Approvals(expires="1s")
    run(tmp_path, scenario, settings=Settings(accept_ephemeral_ledger=True, approvals=approvals))


async def wait_for(ask, good, seconds=10):
    """Poll until the answer is good."""
    async with asyncio.timeout(seconds):
        while not good(answer := await ask()):
            await asyncio.sleep(0.05)
        return answer


@pytest.mark.row("T32")
def test_a_caller_that_waits_is_served_when_the_approval_comes(tmp_path):
    async def scenario(each):
        pending = await each.refund("17", key="a", amount=500, Prefer="respond-async")
        assert pending.status == 202
        assert pending.headers["location"] == f"/v1/approvals/{pending.json['approval']['id']}"
        waiting = asyncio.ensure_future(each.refund("17", key="a", amount=500, Prefer="wait=20"))
        await asyncio.sleep(0)
        await each.approve(pending.json["approval"]["id"])
        reply = await waiting
        assert reply.status == 201 and each.shop.effects() == 1

    run(tmp_path, scenario)


@pytest.mark.row("T29")
def test_a_pending_approval_survives_a_restart_and_its_token_with_it(tmp_path):
    async def ask(each):
        reply = await each.refund("17", key="a", amount=500)
        return each.agent, reply.json["approval"]["id"]

    agent, approval_id = run(tmp_path, ask)

    async def approve(each):
        each.agent = agent
        await each.approve(approval_id)
        told = await each.ask("GET", f"/v1/approvals/{approval_id}")
        return told.json["token"]

    token = run(tmp_path, approve)

    async def present(each):
        reply = await each.refund("17", key="a", amount=500, credential=agent, Approval_Token=token)
        assert reply.status == 201

    run(tmp_path, present)


def test_an_approved_call_that_was_not_sent_may_be_sent_with_the_same_token_once_more(tmp_path):
    async def scenario(each):
        token = await each.approved_token("17", key="a")
        codes = [
            (await each.refund("17", key="a", amount=500, Approval_Token=token)).json["code"]
            for _ in range(3)
        ]
        assert codes == ["upstream_unreachable", "upstream_unreachable", "approval_consumed"]

    run(tmp_path, scenario, upstream_url="http://127.0.0.1:9")


def test_prior_calls_of_the_trace_are_told_to_policy(tmp_path):
    bundle = tmp_path / "policy"
    bundle.mkdir()
    (bundle / "decide.rego").write_text(
        """package agenttwin.v1
        import rego.v1
        ok := {"effect": "allow", "reasons": [{"code": "ok"}]}
        looked if "get_order" in input.context.session.prior_tools
        decide := ok if input.resource.id == "get_order"
        decide := ok if {
            input.resource.id == "issue_refund"
            looked
        }
        decide := {"effect": "deny", "reasons": [{"code": "look_first"}]} if {
            input.resource.id == "issue_refund"
            not looked
        }
        list := ok
        """
    )

    async def scenario(each):
        parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        early = await each.refund("17", key="a", traceparent=parent)
        assert (early.status, early.json["code"]) == (403, "look_first")
        await each.ask("GET", "/payments/orders/17", traceparent=parent)
        assert (await each.refund("17", key="b")).status == 403  # of no trace
        assert (await each.refund("17", key="a", traceparent=parent)).status == 201

    run(tmp_path, scenario, bundle=str(bundle))


@pytest.mark.row("T59")
@pytest.mark.requirement("GW-05")
def test_a_tool_has_no_more_calls_on_their_way_than_it_may_and_others_are_not_held_up(tmp_path):
    async def scenario(each):
        each.shop.delay = 0.3
        calls = [each.refund("17", key=f"k{number}") for number in range(5)]
        *answers, read = await asyncio.gather(*calls, each.ask("GET", "/payments/orders/17"))
        assert sorted(answer.status for answer in answers) == [201, 201, 429, 429, 429]
        busy = next(answer for answer in answers if answer.status == 429)
        assert (busy.json["code"], busy.json["next_action"]) == ("tool_busy", "retry")
        assert busy.headers["retry-after"] == "1" and busy.headers["gateway-receipt"]
        assert read.status == 200 and each.shop.effects() == 2
        assert (await each.refund("17", key="k9")).status == 201

    run(tmp_path, scenario, tool_changes={"concurrency_max": 2}, gateways=1)


@pytest.mark.requirement("GW-08")
def test_observe_mode_sends_and_records_what_policy_would_refuse(tmp_path):
    async def scenario(each):
        counted = ("sidecar_gateway_observed_total", {"class": "irreversible", "decision": "deny"})
        before = REGISTRY.get_sample_value(*counted) or 0
        reply = await each.refund("17", key=None, amount=500)
        assert reply.status == 201
        receipt = receipts_of(each, reply)[-1]
        assert (receipt.enforcement, receipt.decision_effect) == (
            *("observe,ephemeral",),
            "deny",
        )
        assert REGISTRY.get_sample_value(*counted) == before + 1

    run(tmp_path, scenario, tool_changes={"mode": "observe"}, ledger_path=":memory:")


def test_gateway_wide_observe_does_not_reach_irreversible_tools(tmp_path):
    async def scenario(each):
        assert (await each.refund("17", key="a", amount=500)).status == 403

    settings = Settings(mode="observe", accept_ephemeral_ledger=True)
    run(tmp_path, scenario, settings=settings)


@pytest.mark.requirement("GW-08")
def test_an_ephemeral_ledger_refuses_irreversible_calls_unless_accepted(tmp_path):
    async def refused(each):
        reply = await each.refund("17", key="a")
        assert (reply.status, reply.json["code"]) == (503, "ephemeral_ledger")
        assert (await each.ask("GET", "/payments/orders/17")).status == 200

    run(tmp_path, refused, settings=Settings(), ledger_path=":memory:")

    async def accepted(each):
        reply = await each.refund("17", key="a")
        assert reply.status == 201
        assert receipts_of(each, reply)[-1].enforcement == "enforce,ephemeral"

    run(tmp_path, accepted, ledger_path=":memory:")


def episode(name):
    return Principal(id="agent:x", kind="episode", project="default", episode=name)


def test_twin_mode_refuses_a_call_without_an_episode_and_live_mode_one_with(tmp_path):
    async def twin(each):
        reply = await each.refund("17", key="a")
        assert (reply.status, reply.json["code"]) == (403, "episode_required")
        assert each.shop.requests == 0
        body = json.dumps({"amount": 20, "currency": "EUR"}).encode()
        request = ToolRequest(
            upstream="payments",
            method="POST",
            raw_path="/orders/17/refunds",
            headers=(("Content-Type", "application/json"), ("Idempotency-Key", "a")),
            body=body,
        )
        for name in ("e1", "e2", "e1"):
            reply = await each.gateway.call(request, episode(name))
            assert reply.status == 201
        assert each.shop.effects() == 2  # a key is its episode's
        receipt = each.ledger.get_receipt(dict(reply.headers)["gateway-receipt"])
        assert (receipt.enforcement, receipt.episode, receipt.principal_kind) == (
            *("twin", "e1"),
            "episode",
        )
        return request

    request = run(tmp_path, twin, settings=Settings(mode="twin"), ledger_path=":memory:")

    async def live(each):
        reply = await each.gateway.call(request, episode("e1"))
        assert reply.status == 403 and each.shop.effects() == 2

    run(tmp_path, live)


def test_a_caller_that_goes_away_does_not_stop_its_call(tmp_path):
    async def scenario(each):
        each.shop.delay = 0.3
        call = asyncio.ensure_future(each.refund("17", key="a"))
        await wait_for(lambda: asyncio.sleep(0, each.shop.requests), lambda count: count == 1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        done = await each.refund("17", key="a", Prefer="wait=10")
        assert done.status == 201 and done.headers["idempotent-replayed"] == "true"
        assert each.shop.effects() == 1

    run(tmp_path, scenario)


def test_limits_of_a_decision_are_kept(tmp_path):
    bundle = tmp_path / "policy"
    bundle.mkdir()
    (bundle / "decide.rego").write_text(
        """package agenttwin.v1
        import rego.v1
        decide := {"effect": "allow_with_limits", "reasons": [{"code": "some"}], "limits": {
            "max_amount": "50", "currency": "EUR", "timeout_ms": 300, "max_response_bytes": 60}}
        list := {"effect": "allow", "reasons": [{"code": "ok"}]}
        """
    )

    async def scenario(each):
        assert (await each.refund("17", key="a", amount=50)).status == 201
        over = await each.refund("17", key="b", amount=51)
        assert (over.status, over.json["code"]) == (403, "limit_amount")
        slow = await each.refund("hang", key="c", amount=50)
        assert slow.json["code"] == "outcome_unknown"
        large = await each.refund("17-with-quite-a-long-order-id-for-the-answer", key="d", amount=9)
        assert large.json["code"] == "outcome_unknown"

    run(tmp_path, scenario, bundle=str(bundle))


def test_every_reply_has_a_receipt_and_the_trace_is_in_it(tmp_path):
    async def scenario(each):
        parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        for key, amount in (("a", 20), ("a", 20), ("a", 30), (None, 20), ("b", 500)):
            reply = await each.refund("17", key=key, amount=amount, traceparent=parent)
            receipt = each.ledger.get_receipt(reply.headers["gateway-receipt"])
            assert receipt.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
            assert receipt.span_id == "00f067aa0ba902b7"
        facts = each.ledger.facts_after(0, 100)
        assert all(fact.arguments["order_id"] == "17" for fact in facts)
        assert len({structs.astuple(fact.receipt) for fact in facts}) == 6

    run(tmp_path, scenario)


@pytest.mark.requirement("IDM-02")
def test_outcomes_that_no_recipe_can_tell_are_one_line_of_the_log(tmp_path, capsys):
    async def scenario(each):
        for number in range(3):
            assert (await each.refund("drop", key=f"k{number}")).status == 409

    said = []

    async def again(_):
        async with asyncio.timeout(10):
            while "unknown" not in "".join(said):
                await asyncio.sleep(0.01)
                said.append(capsys.readouterr().err)

    run(tmp_path, scenario)
    capsys.readouterr()
    run(tmp_path, again, gateways=1)
    said.append(capsys.readouterr().err)
    lines = [line for line in "".join(said).split("\n") if "unknown" in line]
    assert len(lines) == 1 and "calls=3" in lines[0]
