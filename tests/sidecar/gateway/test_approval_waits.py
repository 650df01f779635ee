"""An agent's own request for approval: looked at, held, streamed; and what ends a wait.

Rows of gateway.md: T28, T29, T32, §2.4 (long-poll, SSE).
"""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from gateway_rig import AllowAll, rig
from msgspec.structs import replace

from processors.model.call import ApprovalTerms, Reason
from sidecar import clock
from sidecar.app.approving import approval_rules
from sidecar.config import Config
from sidecar.config import Control as ControlConfig
from sidecar.gateway.approval import shown_digest
from sidecar.gateway.config import Approvals, Fatigue
from sidecar.gateway.driver import Settings
from sidecar.gateway.policy.result import PolicyAnswer
from sidecar.telemetry import REGISTRY


class AskAlways(AllowAll):
    """A policy port that asks for approval on these terms."""

    def __init__(self, **terms):
        self.revision = "one"
        self._terms = ApprovalTerms(**terms)

    async def decide(self, document):
        return PolicyAnswer(
            effect="require_approval", reasons=(Reason(code="ask"),), revision=self.revision,
            approval=self._terms,
        )  # fmt: skip


def run(folder, scenario, *, approvals=None, gateways=2, **terms):
    async def main():
        made = Settings(accept_ephemeral_ledger=True, approvals=approvals or Approvals())
        async with rig(folder, policy=AskAlways(**terms), settings=made, gateways=gateways) as each:
            async with asyncio.timeout(60):
                await scenario(each)

    asyncio.run(main())


async def pending(each, key="a"):
    return (await each.refund("17", key=key)).json["approval"]["id"]


async def waiting(each):
    """Somebody waits for a request at the gateway."""
    while not each.waiting:
        await asyncio.sleep(0.005)


@asynccontextmanager
async def events(each, approval_id, credential=None):
    url = f"http://127.0.0.1:{each.server.port}/v1/approvals/{approval_id}/events"
    sent = {"Authorization": f"Bearer {credential or each.agent}"}
    async with each.http.get(url, headers=sent) as response:

        async def told():
            """The next event's data; None at the end."""
            async for line in response.content:
                if line.startswith(b"data: "):
                    return json.loads(line[6:])
            return None

        response.told = told
        yield response


@pytest.mark.requirement("APR-01")
def test_a_held_look_ends_with_the_vote_and_tells_the_token_once(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        began = clock.monotonic_ns()
        path = f"/v1/approvals/{approval_id}"
        held = asyncio.ensure_future(each.ask("GET", path, Prefer="wait=55"))
        await waiting(each)
        assert await each.approve(approval_id) is None
        told = (await held).json
        assert told["status"] == "approved" and "token" in told
        assert clock.monotonic_ns() - began < 20e9, "it was told, not waited out"
        assert "token" not in (await each.ask("GET", path)).json
        assert not each.waiting

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_held_look_at_what_stays_pending_says_so(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        told = await each.ask("GET", f"/v1/approvals/{approval_id}", Prefer="wait=1")
        assert (told.status, told.json["status"]) == (200, "pending")
        assert told.json["poll_after_ms"] > 0

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_the_chain_says_what_was_asked_bound_and_shown_and_to_whom(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        assert await each.approve(approval_id, reason="seen") is None
        stored = each.ledger.find_approval(approval_id)
        told = {
            entry.kind: json.loads(entry.body)
            for entry in each.ledger.entries_after(0, 99)
            if entry.kind.startswith("approval_")
        }
        assert list(told) == ["approval_requested", "approval_vote", "approval_resolved"]
        asked, vote = told["approval_requested"], told["approval_vote"]
        shown = shown_digest(stored.summary)
        assert asked["shown_digest"] == vote["shown_digest"] == stored.shown_digest == shown
        bound = ("action_hash", "key_hash", "policy_revision", "tool_digest", "requester", "tool")
        assert {name: asked[name] for name in bound} == {
            name: getattr(stored, name) for name in bound
        }
        assert asked["approvers_min"] == "1"
        assert (vote["voter"], vote["decision"], vote["reason"]) == (
            *("key:approver", "approve", "seen"),
        )

    run(tmp_path, scenario)


def test_a_request_says_where_its_page_is_and_the_url_is_no_credential(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        told = await each.ask("GET", f"/v1/approvals/{approval_id}")
        assert (
            told.json["page"] == f"https://twin.example/x/approvals/{approval_id}?project=default"
        )

    run(tmp_path, scenario, approvals=Approvals(pages="https://twin.example/x/"))


@pytest.mark.parametrize(
    ("listen", "pages"),
    [
        ("127.0.0.1:4320", "http://127.0.0.1:4320"), ("0.0.0.0:4320", ""), ("127.0.0.1:0", ""),
        ("", ""), ("[::1]:4320", "http://[::1]:4320"),
    ],
)  # fmt: skip
def test_the_pages_are_the_control_ports_where_it_names_one(listen, pages):
    config = Config(control=ControlConfig(listen=listen))
    assert approval_rules(config).pages == pages
    named = replace(config, approvals=Approvals(pages="https://twin.example"))
    assert approval_rules(named).pages == "https://twin.example"


@pytest.mark.parametrize("pages", ["ftp://x", "twin.example", "https://x/?a=b", "https://x/\n"])
def test_pages_are_at_a_url(pages):
    assert [each.path for each in Approvals(pages=pages).problems()] == ["pages"]


MUTATIONS = (
    ({"amount": 21}, {}, "arguments, body_digest, body_jcs_digest, cost_amount"),
    ({"currency": "USD"}, {}, "arguments, body_digest, body_jcs_digest, cost_currency"),
    ({"note": "more"}, {}, "arguments, body_digest, body_jcs_digest"),
    ({}, {"order": "18"}, "arguments, path"),
    ({}, {"query": "?x=1"}, "arguments, query"),
    ({}, {"Accept": "text/html"}, "headers"),
    ({}, {"key": "other"}, "idempotency_key"),
)


@pytest.mark.row("C", "T21")
@pytest.mark.requirement("APR-01")
def test_an_approved_call_that_is_another_is_refused_and_says_in_what(tmp_path):
    """§7 C: each field of the action, mutated; T21, T22, T23, T25, T26."""

    async def scenario(each):
        asked = {"amount": 20, "currency": "EUR"}
        path = "/payments/orders/{}/refunds{}"
        reply = await each.ask("POST", path.format("17", ""), key="a", json=asked)
        approval_id = reply.json["approval"]["id"]
        assert await each.approve(approval_id) is None
        token = (await each.ask("GET", f"/v1/approvals/{approval_id}")).json["token"]
        for body, other, differs in MUTATIONS:
            headers = {"Accept": other["Accept"]} if "Accept" in other else {}
            told = await each.ask(
                "POST", path.format(other.get("order", "17"), other.get("query", "")),
                key=other.get("key", "a"), json=asked | body, Approval_Token=token, **headers,
            )  # fmt: skip
            assert (told.status, told.json["code"]) == (403, "approval_mismatch"), differs
            said = told.json["detail"].partition("differs: ")[2].split(", ")
            assert [one for one in said if one != "body_digest"] == [
                one for one in differs.split(", ") if one != "body_digest"
            ]
            assert token not in told.body.decode()
        note = await each.ask(
            "POST", "/payments/orders/17/notes", key="a", json=asked, Approval_Token=token
        )
        assert note.json["code"] == "approval_mismatch" and "tool" in note.json["detail"]
        stranger = each.credential("agent", name="other")
        told = await each.ask(
            "POST", path.format("17", ""), key="a", json=asked, Approval_Token=token,
            credential=stranger,
        )  # fmt: skip
        assert told.json["code"] == "approval_mismatch"
        assert told.json["detail"].endswith("differs: agent"), "nothing else is told to it"
        assert each.shop.effects() == 0
        done = await each.ask(
            "POST", path.format("17", ""), key="a", json=asked, Approval_Token=token
        )
        assert (done.status, each.shop.effects()) == (201, 1)

    run(tmp_path, scenario)


@pytest.mark.row("T27")
@pytest.mark.requirement("APR-01")
def test_a_denied_calls_other_arguments_are_another_request(tmp_path):
    """T27: an approval is no standing grant."""

    async def scenario(each):
        first = await pending(each, "a")
        assert await each.approve(first) is None
        assert (await each.refund("17", key="a", Prefer="wait=5")).status == 201
        again = await each.refund("17", key="b")
        assert again.json["code"] == "approval_required", "the same once more is asked anew"
        assert again.json["approval"]["id"] != first
        assert each.shop.effects() == 1

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_stream_tells_each_change_and_never_the_token(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        async with events(each, approval_id) as stream:
            assert stream.headers["Content-Type"] == "text/event-stream"
            assert stream.headers["Cache-Control"] == "no-store"
            first = await stream.told()
            assert (first["id"], first["status"]) == (approval_id, "pending")
            assert await each.approve(approval_id) is None
            approved = await stream.told()
            assert approved["status"] == "approved" and "token" not in approved
            token = (await each.ask("GET", f"/v1/approvals/{approval_id}")).json["token"]
            assert (await each.refund("17", key="a", Approval_Token=token)).status == 201
            assert (await stream.told())["status"] == "consumed"
            assert await stream.told() is None, "nothing more can change"

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_denial_ends_a_stream_and_who_comes_back_is_told_the_end(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        async with events(each, approval_id) as stream:
            await stream.told()
            assert await each.approve(approval_id, "deny") is None
            assert (await stream.told())["status"] == "denied"
            assert await stream.told() is None
        async with events(each, approval_id) as stream:
            assert (await stream.told())["status"] == "denied"
            assert await stream.told() is None

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-02")
def test_time_only_denies(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        async with events(each, approval_id) as stream:
            assert (await stream.told())["status"] == "pending"
            assert (await stream.told())["status"] == "expired"
            assert await stream.told() is None
        assert await each.approve(approval_id) == "approval_expired"
        reply = await each.refund("17", key="a", Prefer="wait=2")
        assert (reply.status, reply.json["code"]) == (403, "approval_expired")
        assert each.shop.effects() == 0

    run(tmp_path, scenario, ttl_s=1)


def test_another_agents_request_is_not_there(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        other = each.credential("agent", name="other")
        async with events(each, approval_id, other) as stream:
            assert stream.status == 404
            assert (await stream.json(content_type=None))["code"] == "no_such_approval"
        held = await each.ask(
            "GET", f"/v1/approvals/{approval_id}", credential=other, Prefer="wait=55"
        )
        assert (held.status, held.json["code"]) == (404, "no_such_approval")
        async with events(each, approval_id, each.credential("approver")) as stream:
            assert stream.status == 403

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_key_revoked_while_it_waits_learns_nothing(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        path = f"/v1/approvals/{approval_id}"
        async with events(each, approval_id) as stream:
            await stream.told()
            held = asyncio.ensure_future(each.ask("GET", path, Prefer="wait=55"))
            while each.waiting < 2:
                await asyncio.sleep(0.005)
            (row,) = (one for one in each.keys.list_keys() if one.name == "refund-agent")
            each.keys.revoke_key(row.key_id, clock.now_ns())
            assert await each.approve(approval_id) is None
            assert await stream.told() is None
            assert (await held).status == 401

    run(tmp_path, scenario)


def test_waiting_is_bounded_and_a_gateway_on_its_way_out_ends_it(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        path = f"/v1/approvals/{approval_id}"
        held = [asyncio.ensure_future(each.ask("GET", path, Prefer="wait=55")) for _ in range(16)]
        while each.waiting < 16:
            await asyncio.sleep(0.005)
        refused = await each.ask("GET", path, Prefer="wait=55")
        assert (refused.status, refused.json["code"]) == (429, "too_many_wait")
        assert (await each.ask("GET", path)).status == 200, "a look waits for nothing"
        each.gateway.drain()
        for each_held in held:
            assert (await each_held).json["status"] == "pending"

    run(tmp_path, scenario, gateways=1)


@pytest.mark.row("C")
@pytest.mark.requirement("APR-01")
def test_policy_that_changes_invalidates_what_waits_and_what_was_approved(tmp_path):
    async def scenario(each):
        waiting_id, approved_id = await pending(each, "a"), await pending(each, "b")
        assert await each.approve(approved_id) is None
        token = (await each.ask("GET", f"/v1/approvals/{approved_id}")).json["token"]
        each.policy.revision = "two"
        await each.gateway.activate_policy()
        for approval_id in (waiting_id, approved_id):
            told = await each.ask("GET", f"/v1/approvals/{approval_id}")
            assert told.json["status"] == "invalidated"
        assert await each.approve(waiting_id) == "approval_policy_changed"
        used = await each.refund("17", key="b", Approval_Token=token)
        assert (used.status, used.json["code"]) == (403, "approval_policy_changed")
        again = await each.refund("17", key="a")
        assert again.json["approval"]["id"] != waiting_id
        assert each.shop.effects() == 0

    run(tmp_path, scenario)


@pytest.mark.row("C")
@pytest.mark.requirement("APR-01")
def test_a_tool_that_changes_invalidates_its_approvals_and_no_others(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        note = await each.ask("POST", "/payments/orders/1/notes", key="n", json={"x": 1})
        tools = each.gateway._ports.registry.tools
        tools["issue_refund"] = replace(tools["issue_refund"], tool_digest="sha256:other")
        told = await each.ask("GET", f"/v1/approvals/{approval_id}")
        assert told.json["status"] == "invalidated"
        kept = await each.ask("GET", f"/v1/approvals/{note.json['approval']['id']}")
        assert kept.json["status"] == "pending"

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_an_agent_that_asks_too_often_is_told_to_rest_and_it_is_counted(tmp_path):
    def refused():
        return REGISTRY.get_sample_value(
            "sidecar_approvals_refused_total", {"code": "approval_fatigue"}
        ) or 0.0  # fmt: skip

    async def scenario(each):
        before = refused()
        await pending(each, "a")
        reply = await each.refund("17", key="b")
        assert (reply.status, reply.json["code"]) == (429, "approval_fatigue")
        assert (reply.json["next_action"], reply.headers["retry-after"]) == ("retry", "60")
        assert refused() == before + 1
        again = await each.refund("17", key="a")
        assert again.json["code"] == "approval_required", "what waits is still found"

    run(tmp_path, scenario, approvals=Approvals(fatigue=Fatigue(requests_max=1)))
