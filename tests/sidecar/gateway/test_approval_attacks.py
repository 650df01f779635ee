"""Approvals attacked: what was approved is what is sent, and nothing else ever is.

Rows of gateway.md: T22 to T26, T28, T29, §7 C.
"""

import asyncio
import base64
import hashlib
import json

import pytest
from gateway_rig import AllowAll, rig

from processors.model.call import ApprovalTerms, Reason
from sidecar.gateway.config import Approvals
from sidecar.gateway.driver import Settings
from sidecar.gateway.policy.result import PolicyAnswer
from sidecar.gateway.request import WAIT_SECONDS_MAX, preferences
from sidecar.store.ledger import CallQuery

PATH = "/payments/orders/{}/refunds"
HOSTILE_IDS = (
    "..", "%2e%2e", "..%2f..%2fetc", "%00", "a%00b", "'%20OR%201=1--", "%22%3E%3Cscript%3E",
    "x" * 300, "%F0%9F%92%A9", "%ff", "*", "%25", "a;b", "a%0d%0aSet-Cookie:x=1", "0192nobody",
)  # fmt: skip


class AskAlways(AllowAll):
    """A policy port that asks for every call: these tests are not about policy."""

    revision = "sha256:" + "6" * 64

    async def decide(self, document):
        return PolicyAnswer(
            effect="require_approval", reasons=(Reason(code="ask"),), approval=ApprovalTerms(),
            revision=self.revision,
        )  # fmt: skip


def run(folder, scenario, **more):
    async def main():
        async with rig(folder, policy=AskAlways(), **more) as each:
            async with asyncio.timeout(60):
                return await scenario(each)

    return asyncio.run(main())


async def send(each, data, *, order="17", key="a", **headers):
    """The very bytes, as no JSON encoder would write them."""
    sent = {
        "Authorization": f"Bearer {each.agent}", "Idempotency-Key": key,
        "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }  # fmt: skip
    url = f"http://127.0.0.1:{each.server.port}{PATH.format(order)}"
    async with each.http.post(url, data=data, headers=sent) as response:
        return response.status, json.loads(await response.read() or b"{}")


async def approved(each, data, **more):
    """The token for these bytes, approved by somebody."""
    _, asked = await send(each, data, **more)
    approval_id = asked["approval"]["id"]
    assert await each.approve(approval_id) is None
    told = await each.ask("GET", f"/v1/approvals/{approval_id}")
    return told.json["token"], asked["approval"]


ODD = b' {"currency":"EUR" ,\n"amount": 5.0e2,\t"note":"\\u00e9 <b>x</b>"}'


@pytest.mark.requirement("APR-01")
@pytest.mark.row("T22", "T25")
def test_the_bytes_that_were_approved_are_the_bytes_that_are_sent(tmp_path):
    """What the gateway adds on the way (a key of its own, tracing) is no part of what is shown."""

    async def scenario(each):
        token, asked = await approved(each, ODD)
        trace = f"00-{'1' * 32}-{'2' * 16}-01"
        status, _ = await send(each, ODD, Approval_Token=token, traceparent=trace)
        assert (status, each.shop.effects()) == (201, 1)
        method, path, headers, body = each.shop.seen[-1]
        assert (method, path, body) == ("POST", "/orders/17/refunds", ODD)
        assert headers["idempotency-key"] not in ("", "a"), "it was added after the approval"
        found = each.ledger.find_approval(asked["id"])
        (call,) = [one for one in each.ledger.list_calls(CallQuery()) if one.phase == "executed"]
        receipt = each.ledger.get_receipt(each.ledger.get_call(call.call_id).receipts[-1])
        assert receipt.action_hash == found.action_hash == asked["action_hash"]
        assert receipt.request_digest == "sha256:" + hashlib.sha256(ODD).hexdigest()
        for line in ("amount = 500", "note = "):
            assert line in found.summary

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("T23")
def test_what_is_shown_is_the_call_with_every_place_filled_in(tmp_path):
    async def scenario(each):
        _, asked = await send(each, b'{"amount":20,"currency":"EUR"}', order="o%2D42")
        summary = asked["approval"]["summary"]
        assert "request: POST /orders/o-42/refunds" in summary
        assert '/order_id = "o-42"' in summary and "{" not in summary.partition("body:")[0]

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("T24")
def test_a_token_of_what_anybody_can_know_opens_nothing_and_is_not_repeated(tmp_path):
    async def scenario(each):
        body = b'{"amount":20,"currency":"EUR"}'
        genuine, asked = await approved(each, body)
        known = f"{asked['id']}:{asked['action_hash']}"
        claims = genuine.split(".")[1]
        guesses = [
            hashlib.sha256(known.encode()).hexdigest(), asked["id"], asked["action_hash"], known,
            base64.b64encode(known.encode()).decode(), f"{claims}", f"x.{claims}.x", "..",
            genuine[:-4] + "AAAA", f"{genuine}.{genuine}", "null", "true",
        ]  # fmt: skip
        for guess in guesses:
            status, told = await send(each, body, Approval_Token=guess)
            assert (status, told["code"]) == (403, "approval_invalid"), guess
            assert len(guess) < 20 or guess not in told["detail"]
        assert each.shop.effects() == 0
        assert (await send(each, body, Approval_Token=genuine))[0] == 201

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("T26")
def test_no_arguments_no_object_and_nothing_are_different_calls(tmp_path):
    """An approval of one is none of another: absence is not null, and null is not empty."""

    async def scenario(each):
        bodies = (b"", b"null", b"{}", b"[]", b'""', b"0", b'{"amount":null}')
        hashes = {}
        for number, body in enumerate(bodies):
            _, asked = await send(each, body, key=f"k{number}")
            hashes[body] = asked["approval"]["action_hash"]
        assert len(set(hashes.values())) == len(bodies)
        token, _ = await approved(each, b"", key="k0")
        for body in bodies[1:]:
            status, told = await send(each, body, key="k0", Approval_Token=token)
            assert (status, told["code"]) == (403, "approval_mismatch"), body
        status, told = await send(each, b"", key="k0", order="18", Approval_Token=token)
        assert told["code"] == "approval_mismatch", "nor is it for another without arguments"
        assert each.shop.effects() == 0

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-02")
@pytest.mark.row("T28", "C")
def test_an_agent_that_carries_on_after_its_approval_ran_out_is_refused(tmp_path):
    async def scenario(each):
        body = b'{"amount":20,"currency":"EUR"}'
        token, asked = await approved(each, body)
        found = each.ledger.find_approval(asked["id"])
        at_ns = found.execute_by_ns
        assert await each.ledger.expire_approvals(at_ns) is None
        for headers in ({"Approval_Token": token}, {"Prefer": "wait=1"}, {}):
            status, told = await send(each, body, **headers)
            assert (status, told["code"]) == (403, "approval_expired"), headers
            assert told["next_action"] == "request"
        assert each.ledger.find_approval(asked["id"]).status == "expired"
        assert each.shop.effects() == 0

    approvals = Approvals(expires="10m", execute_within="1m")
    run(tmp_path, scenario, settings=Settings(accept_ephemeral_ledger=True, approvals=approvals))


@pytest.mark.requirement("APR-02")
@pytest.mark.row("T29")
def test_a_held_call_is_answered_within_a_clients_minute_and_says_when_to_ask_again(tmp_path):
    assert WAIT_SECONDS_MAX == 55
    assert preferences((("Prefer", "wait=999999"),)).wait_s == 55

    async def scenario(each):
        status, told = await send(each, b"{}", Prefer="wait=1")
        assert (status, told["code"]) == (202, "approval_required")
        assert told["approval"]["status"] == "pending"
        assert 0 < told["approval"]["poll_after_ms"] <= 5000

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_hostile_id_is_no_request_of_anybodys(tmp_path):
    async def scenario(each):
        for approval_id in HOSTILE_IDS:
            for path in (f"/v1/approvals/{approval_id}", f"/v1/approvals/{approval_id}/events"):
                reply = await each.ask("GET", path)
                assert reply.status in (400, 404), (path, reply.status, reply.body)
                assert b"<script" not in reply.body and "set-cookie" not in reply.headers

    run(tmp_path, scenario)
