"""AuthZEN on the gateway's port: decisions, what they do not promise, requestable denials."""

import asyncio
import json

import pytest
from gateway_rig import REFUND, AllowAll, rig
from mcp_rig import AllowListed

from sidecar.gateway.authz.check import NOT_PROMISED
from sidecar.gateway.authz.http import Authzen
from sidecar.gateway.config import Idempotency

pytestmark = pytest.mark.requirement("EXT-01")
REFUNDED = {"order_id": "17", "amount": 20, "currency": "EUR"}
RESOURCE = "https://gateway.example"


def run(folder, scenario, *, irreversible=False, on=True, **options):
    async def main():
        async with rig(folder, **{"policy": AllowAll(), **options}) as each:
            for server, gateway in zip(each.servers, each.gateways, strict=True):
                server._authzen = Authzen(gateway, irreversible=irreversible) if on else None
            (key,) = [k for k in each.keys.list_keys() if k.name == "refund-agent"]
            each.who = {"type": "agent", "id": f"key:{key.key_id}"}
            await scenario(each)

    asyncio.run(main())


def about(each, tool="get_order", arguments=None, action="call", **more):
    given = {"order_id": "17"} if arguments is None else arguments
    return {
        "subject": each.who, "resource": {"type": "tool", "id": tool},
        "action": {"name": action, "properties": {"arguments": given}}, **more,
    }  # fmt: skip


async def ask(each, question, path="/access/v1/evaluation"):
    reply = await each.ask("POST", path, json=question)
    assert reply.status == 200, reply.json
    return reply.json


def test_a_decision_says_what_it_does_not_promise_and_nothing_is_made(tmp_path):
    async def scenario(each):
        said = await ask(each, about(each, action="http.get"))
        assert said["decision"] is True
        context = said["context"]
        assert context["enforcement"] == "decision-only" and context["decision_id"]
        assert context["not_promised"] == list(NOT_PROMISED) and "not_judged" not in context
        claims = about(each, context={"ip": "1.2.3.4"})
        claims["subject"] = {**each.who, "properties": {"trust": "high"}}
        said = await ask(each, claims)
        assert said["context"]["not_judged"] == ["subject", "context"]
        assert each.shop.requests == 0

    run(tmp_path, scenario)


def test_what_policy_denies_or_only_the_gateway_can_carry_out_is_no_permission(tmp_path):
    policy = AllowListed(denied={"get_order"}, approved={"issue_refund"})

    async def scenario(each):
        said = await ask(each, about(each))
        assert (said["decision"], said["context"]["code"]) == (False, "not_this_one")
        receipt = each.ledger.get_receipt(said["context"]["receipt_id"])
        assert (receipt.phase, receipt.tool) == ("refused", "get_order")
        key = {"context": {"idempotency_key": "k"}}
        said = await ask(each, about(each, "issue_refund", REFUNDED, **key))
        assert (said["decision"], said["context"]["code"]) == (False, "approval_not_here")
        assert said["context"]["access_request"] == {
            "endpoint": "/v1/actions",
            "template": {"tool": "issue_refund", "arguments": REFUNDED, "idempotency_key": "k"},
        }
        # What the template says is a call that asks a person.
        template = said["context"]["access_request"]["template"]
        asked = await each.ask("POST", "/v1/actions", json=template)
        assert asked.json["code"] == "approval_required"
        assert each.shop.requests == 0

    run(tmp_path, scenario, policy=policy)


def test_irreversible_calls_are_decided_here_only_where_configuration_says_so(tmp_path):
    key = {"context": {"idempotency_key": "k"}}

    async def refused(each):
        said = await ask(each, about(each, "issue_refund", REFUNDED, **key))
        assert (said["decision"], said["context"]["code"]) == (False, "irreversible_not_here")

    async def allowed(each):
        said = await ask(each, about(each, "issue_refund", REFUNDED, action="http.post", **key))
        assert said["decision"] is True
        said = await ask(each, about(each, "issue_refund", REFUNDED))
        assert said["context"]["code"] == "idempotency_key_required"

    run(tmp_path, refused)
    (tmp_path / "b").mkdir()
    run(tmp_path / "b", allowed, irreversible=True)


class Failing(AllowAll):
    async def decide(self, document):
        raise RuntimeError("no")


@pytest.mark.row("T17", "T19")
def test_where_nothing_can_be_decided_the_decision_is_no(tmp_path):
    async def scenario(each):
        said = await ask(each, about(each))
        assert (said["decision"], said["context"]["code"]) == (False, "policy_error")

    run(tmp_path, scenario, policy=Failing())


def test_what_cannot_be_read_is_no_permission_and_nobody_asks_for_another(tmp_path):
    async def scenario(each):
        for change, code in (
            ({"subject": {"type": "agent", "id": "key:other"}}, "subject_not_caller"),
            ({"subject": {**each.who, "type": "user"}}, "subject_not_caller"),
            ({"subject": None}, "evaluation_malformed"),
            ({"resource": {"type": "tool", "id": "nothing"}}, "no_such_tool"),
            ({"resource": {"type": "document", "id": "get_order"}}, "evaluation_malformed"),
            ({"action": {"name": "http.delete"}}, "action_unknown"),
            ({"action": {"properties": {}}}, "evaluation_malformed"),
            (
                {"action": {"name": "call", "properties": {"arguments": [1]}}},
                "evaluation_malformed",
            ),
            ({"action": {"name": "call"}}, "action_malformed"),  # its path is missing
            ({"context": {"idempotency_key": 7}}, "evaluation_malformed"),
            ({"context": []}, "evaluation_malformed"),
        ):
            said = await ask(each, {**about(each), **change})
            assert (said["decision"], said["context"]["code"]) == (False, code), change
        reply = await each.ask("POST", "/access/v1/evaluation", json=[1])
        assert (reply.status, reply.json["code"]) == (400, "evaluation_malformed")
        for path, method, status in (
            ("/access/v1/search", "POST", 404), ("/access/v1/evaluation", "GET", 405),
        ):  # fmt: skip
            given = about(each) if method == "POST" else None
            assert (await each.ask(method, path, json=given)).status == status
        reply = await each.ask(
            "POST", "/access/v1/evaluation", json=about(each), credential="nonsense"
        )
        assert reply.status == 401
        assert each.shop.requests == 0

    run(tmp_path, scenario)


def test_several_are_asked_at_once_and_the_first_that_decides_may_end_it(tmp_path):
    policy = AllowListed(denied={"add_note"})

    async def scenario(each):
        named = ("get_order", "add_note", "get_order")
        items = [{"resource": {"type": "tool", "id": tool}} for tool in named]
        asked = {**about(each), "evaluations": items}
        for semantic, decisions in (
            (None, [True, False, True]),
            ("execute_all", [True, False, True]),
            ("deny_on_first_deny", [True, False]),
            ("permit_on_first_permit", [True]),
        ):
            options = {} if semantic is None else {"options": {"evaluations_semantic": semantic}}
            said = await ask(each, {**asked, **options}, "/access/v1/evaluations")
            assert [one["decision"] for one in said["evaluations"]] == decisions
        said = await ask(each, about(each), "/access/v1/evaluations")
        assert said["decision"] is True
        for bad in ({"options": {"evaluations_semantic": "x"}}, {"evaluations": [{}] * 51},
                    {"evaluations": [1]}, {"options": 1}):  # fmt: skip
            reply = await each.ask("POST", "/access/v1/evaluations", json={**asked, **bad})
            assert (reply.status, reply.json["code"]) == (400, "evaluation_malformed")

    run(tmp_path, scenario, policy=policy)


def test_it_is_off_unless_it_is_asked_for_and_says_where_it_is(tmp_path):
    async def off(each):
        reply = await each.ask("POST", "/access/v1/evaluation", json=about(each))
        assert reply.status == 404

    async def on(each):
        url = f"http://127.0.0.1:{each.server.port}/.well-known/authzen-configuration"
        async with each.http.get(url) as answer:
            said = json.loads(await answer.read())
        assert said == {
            "policy_decision_point": RESOURCE,
            "access_evaluation_endpoint": f"{RESOURCE}/access/v1/evaluation",
            "access_evaluations_endpoint": f"{RESOURCE}/access/v1/evaluations",
        }

    run(tmp_path, off, on=False)
    (tmp_path / "b").mkdir()
    run(tmp_path / "b", on, resource=RESOURCE)


@pytest.mark.requirement("APR-01")
def test_who_takes_authzens_form_is_told_a_needed_approval_in_it(tmp_path):
    policy = AllowListed(approved={"issue_refund"})

    async def scenario(each):
        accept = "application/json, application/authzen+json"
        asked = await each.refund("17", key="k", accept=accept)
        assert (asked.status, asked.headers["content-type"]) == (403, "application/authzen+json")
        context = asked.json["context"]
        assert asked.json["decision"] is False and context["code"] == "approval_required"
        request = context["access_request"]
        assert request["endpoint"] == f"/v1/approvals/{request['id']}"
        assert request["status"] == "pending" and request["expires_at"]
        plain = await each.refund("17", key="k", accept="application/json")
        assert plain.headers["content-type"] == "application/problem+json"
        assert plain.json["approval"]["id"] == request["id"]  # it is the same call
        assert await each.approve(request["id"]) is None
        token = (await each.ask("GET", request["endpoint"])).json["token"]
        body = {"amount": 20, "currency": "EUR"}
        done = await each.ask(
            "POST", REFUND.format("17"), key="k", json=body, Approval_Token=token,
            Accept="application/authzen+json;q=0.5, application/json",
        )  # fmt: skip
        assert done.status == 201
        assert each.shop.seen[-1][2]["accept"] == "application/json"
        denied = await each.refund("17", key="k", amount=7, accept=accept)
        assert denied.headers["content-type"] == "application/problem+json"

    run(tmp_path, scenario, policy=policy, tool_changes={"idempotency": Idempotency()})
