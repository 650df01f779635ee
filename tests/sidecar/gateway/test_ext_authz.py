"""Envoy's external authorisation: decisions only, and what a mesh cannot be promised is refused.

The bytes in tests/golden/ext_authz were made with Envoy's own messages (xds-protos 1.85.0), which
cannot be installed beside the CEL engine.
"""

import asyncio
import json
from pathlib import Path

import grpc
import pytest
from gateway_rig import AllowAll, rig
from mcp_rig import AllowListed

from processors.model.call import Decision, Obligation, Reason
from sidecar.gateway.authz import client
from sidecar.gateway.authz.check import NOT_PROMISED, beyond
from sidecar.gateway.authz.grpc import ExtAuthz
from sidecar.gateway.policy.result import PolicyAnswer

GOLDEN = Path(__file__).parents[2] / "golden" / "ext_authz"
BODY = b'{"amount": 20, "currency": "EUR"}'


def run(folder, scenario, *, irreversible=False, **options):
    """Run a scenario with (the rig, a function that asks the service over real gRPC)."""

    async def main():
        async with rig(folder, **{"policy": AllowAll(), **options}) as each:
            server = grpc.aio.server()
            service = ExtAuthz(each.gateway, each.authenticate, irreversible=irreversible)
            server.add_generic_rpc_handlers((service.handlers,))
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            try:
                async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                    check = channel.unary_unary(f"/{client.SERVICE}/Check")

                    async def ask(**fields):
                        return told(await check(request(each, **fields)))

                    await scenario(each, ask)
            finally:
                await server.stop(None)

    asyncio.run(main())


def request(each, *, headers=None, extensions=None, raw_body=b"", **fields):
    made = client._class("CheckRequest")()
    http = made.attributes.request.http
    given = {
        "method": "GET", "scheme": "http", "host": f"127.0.0.1:{each.shop.port}",
        "path": "/orders/17", **fields,
    }  # fmt: skip
    for name, value in given.items():
        setattr(http, name, value)
    http.raw_body = raw_body
    sent = {"authorization": f"Bearer {each.agent}", **(headers or {})}
    if raw_body:
        sent = {"content-type": "application/json", "content-length": str(len(raw_body)), **sent}
    http.headers.update({name: value for name, value in sent.items() if value is not None})
    made.attributes.context_extensions.update(extensions or {})
    return made.SerializeToString()


def told(data):
    """The answer: (status, its headers, the code or what is removed)."""
    answer = client._class("CheckResponse").FromString(data)
    if answer.status.code == 0:
        headers = {each.header.key: each.header.value for each in answer.ok_response.headers}
        return 200, headers, list(answer.ok_response.headers_to_remove)
    headers = {each.header.key: each.header.value for each in answer.denied_response.headers}
    body = json.loads(answer.denied_response.body)
    assert body["code"] == answer.status.message
    return answer.denied_response.status.code, headers, body["code"]


def refund(**fields):
    headers = {"idempotency-key": "k", **fields.pop("headers", {})}
    given = {"method": "POST", "path": "/orders/17/refunds", "raw_body": BODY}
    return {**given, "headers": headers, **fields}


@pytest.mark.requirement("EXT-01")
def test_a_read_is_let_through_without_its_credential_and_told_what_is_not_promised(
    tmp_path,
):
    async def scenario(each, ask):
        status, headers, removed = await ask()
        assert status == 200
        assert headers["x-agenttwin-enforcement"] == "decision-only"
        assert headers["x-agenttwin-not-promised"] == ", ".join(NOT_PROMISED)
        assert headers["gateway-decision"] and "authorization" in removed
        by_route = await ask(host="mesh.local", extensions={"agenttwin.upstream": "payments"})
        assert by_route[0] == 200
        assert each.shop.requests == 0  # nothing is sent from here

    run(tmp_path, scenario)


REFUSED = {
    "no credential": ({"headers": {"authorization": None}}, 401, "unauthenticated"),
    "a bad credential": ({"headers": {"authorization": "Bearer x"}}, 401, "unauthenticated"),
    "no upstream's": ({"host": "evil.example"}, 404, "no_such_upstream"),
    "a route to nowhere": ({"extensions": {"agenttwin.upstream": "x"}}, 404, "no_such_upstream"),
    "no tool": ({"path": "/admin"}, 404, "no_such_tool"),
    "another spelling": ({"path": "/orders/%31%37"}, 400, "target_not_canonical"),
    "dots": ({"path": "/orders/./17"}, 400, "target_not_canonical"),
    "an empty segment": ({"path": "//orders/17"}, 400, "target_malformed"),
    "a plus": ({"path": "/orders/17?a=b+c"}, 400, "target_not_canonical"),
    "another method": ({"headers": {"x-http-method-override": "PUT"}}, 400, "method_override"),
    "another path": ({"headers": {"x-original-url": "/admin"}}, 400, "method_override"),
    "half a body": (refund(headers={"x-envoy-auth-partial-body": "true"}), 413, "body_too_large"),
    "no body": (refund(headers={"content-length": "33"}, raw_body=b""), 400, "body_missing"),
    "a hidden body": (
        refund(headers={"content-length": None}, raw_body=b""), 400, "body_missing",
    ),
    "a hidden body that says it is whole": (
        refund(headers={"content-length": None, "x-envoy-auth-partial-body": "false"},
               raw_body=b""), 400, "body_missing",
    ),
    "a key twice": (refund(raw_body=b'{"amount": 1, "amount": 2}'), 400, "json_malformed"),
    "an irreversible call": (refund(), 403, "irreversible_not_here"),
}  # fmt: skip


@pytest.mark.requirement("EXT-01")
def test_a_body_that_came_in_parts_is_judged_though_nothing_says_how_long_it_is(tmp_path):
    async def scenario(each, ask):
        headers = {"content-length": None, "x-envoy-auth-partial-body": "false"}
        assert (await ask(**refund(headers=headers)))[0] == 200

    run(tmp_path, scenario, irreversible=True)


@pytest.mark.requirement("EXT-01")
def test_what_is_ambiguous_unknown_or_needs_the_gateway_itself_is_refused(tmp_path):
    async def scenario(each, ask):
        for name, (fields, status, code) in REFUSED.items():
            answer = await ask(**fields)
            assert (answer[0], answer[2]) == (status, code), (name, answer)
            assert answer[1]["x-agenttwin-enforcement"] == "decision-only", name
            if status not in (401,):
                receipt = each.ledger.get_receipt(answer[1]["gateway-receipt"])
                assert (receipt.phase, receipt.code) == ("refused", code), name

    run(tmp_path, scenario)


@pytest.mark.requirement("EXT-01")
def test_irreversible_calls_are_let_through_only_where_configured_and_with_their_key(tmp_path):
    async def scenario(each, ask):
        assert (await ask(**refund()))[0] == 200
        keyless = await ask(**refund(headers={"idempotency-key": None}))
        assert (keyless[0], keyless[2]) == (400, "idempotency_key_required")

    run(tmp_path, scenario, irreversible=True)


class Failing(AllowAll):
    async def decide(self, document):
        raise RuntimeError("the engine is gone")


class Undefined(AllowAll):
    async def decide(self, document):
        return PolicyAnswer(effect="deny", error="undefined")


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize("policy", [Failing(), Undefined()])
def test_without_an_answer_of_policy_nothing_is_let_through(tmp_path, policy):
    async def scenario(each, ask):
        answer = await ask()
        assert (answer[0], answer[2]) == (503, "policy_error")

    run(tmp_path, scenario, policy=policy)


@pytest.mark.requirement("EXT-01")
def test_a_denial_is_policys_and_an_approval_is_not_asked_for_here(tmp_path):
    async def scenario(each, ask):
        assert (await ask())[2] == "not_this_one"
        answer = await ask(**refund())
        assert (answer[0], answer[2]) == (403, "approval_not_here")
        assert not each.ledger.list_approvals(project="default")

    policy = AllowListed(denied={"get_order"}, approved={"issue_refund"})
    run(tmp_path, scenario, policy=policy, irreversible=True)


LIMITED = {"effect": "allow_with_limits"}
RECEIPT = Obligation(id="a", type="require_receipt")


@pytest.mark.parametrize(
    ("fields", "reserves", "code"),
    [
        ({"effect": "allow"}, False, None),
        (LIMITED | {"limits": {"max_amount": "5", "currency": "EUR"}}, False, None),
        (LIMITED | {"limits": {"timeout_ms": 5}}, False, "limit_not_here"),
        ({"effect": "allow", "obligations": (RECEIPT,)}, False, "obligation_not_here"),
        ({"effect": "allow"}, True, "budget_not_here"),
    ],
)
def test_a_decision_that_only_the_gateway_can_carry_out_is_no_permission(fields, reserves, code):
    decision = Decision(decision_id="d", reasons=(Reason(code="r"),), **fields)
    found = beyond(decision, reserves=reserves, class_="write", irreversible=False)
    assert (found.code if found else None) == code


@pytest.mark.requirement("EXT-01")
def test_our_messages_are_envoys():
    read = client.read_check((GOLDEN / "get.binpb").read_bytes())
    assert (read.method, read.scheme, read.host) == ("GET", "http", "payments.example:8080")
    assert read.path == "/orders/17?verbose=1"
    assert read.headers["authorization"] == "Bearer KEY"
    post = client.read_check((GOLDEN / "post.binpb").read_bytes())
    assert (post.body, post.extensions) == (BODY, {"agenttwin.upstream": "payments"})
    assert client.read_check((GOLDEN / "text-body.binpb").read_bytes()).body == '{"a":"é"}'.encode()
    allowed = client.allowed({"gateway-decision": "d1"}, ("authorization",))
    assert allowed == (GOLDEN / "allowed.binpb").read_bytes()
    headers = {"content-type": "application/problem+json"}
    refused = client.refused(403, "not_this_one", headers, b'{"code": "not_this_one"}')
    assert refused == (GOLDEN / "refused.binpb").read_bytes()


def test_bytes_that_are_no_request_are_a_refusal(tmp_path):
    async def scenario(each, ask):
        service = ExtAuthz(each.gateway, each.authenticate)
        status, _, code = told(await service.check(b"\xff\xff\xff", None))
        assert (status, code) == (400, "message_unreadable")

    run(tmp_path, scenario)
