"""What a credential's limits mean where it is used: tools at the gateway, roles in a vote."""

import asyncio

import pytest
from gateway_rig import AllowAll, rig

from processors.model.call import Approval
from processors.model.principal import Principal
from sidecar import clock
from sidecar.app import minting
from sidecar.gateway.approval import why_not_eligible
from sidecar.gateway.config import Approvals
from sidecar.identity.keys import KeyTerms, mint_key


def key(each, **terms):
    text, row = mint_key(
        KeyTerms(kind="agent", project="default", **terms), id_bytes=clock.random_bytes(8),
        secret_bytes=clock.random_bytes(32), now_ns=clock.now_ns(),
    )  # fmt: skip
    each.keys.add_key(row)
    return text


@pytest.mark.requirement("GW-07")
def test_a_key_for_some_tools_calls_no_other_and_the_refusal_has_a_receipt(tmp_path):
    async def run():
        async with rig(tmp_path, policy=AllowAll()) as each:
            scoped = key(each, tools=("get_order", "add_note"))
            read = await each.ask("GET", "/payments/orders/1", credential=scoped)
            assert read.status == 200
            refused = await each.refund("1", credential=scoped)
            assert (refused.status, refused.json["code"]) == (403, "tool_not_granted")
            assert refused.headers["gateway-receipt"] and each.shop.effects() == 0
            assert (await each.refund("1", credential=key(each))).status == 201

    asyncio.run(run())


@pytest.mark.requirement("OPS-01")
def test_a_rotated_key_replays_what_it_did_with_the_secret_before(tmp_path):
    async def run():
        async with rig(tmp_path, policy=AllowAll()) as each:
            done = await each.refund("1", key="once")
            key_id = each.agent.split("_")[2]
            text, _ = minting.rotate_key(each.keys, key_id, 0)
            assert (await each.refund("1", key="once")).status == 401  # the secret before
            again = await each.refund("1", key="once", credential=text)
            assert again.headers["idempotent-replayed"] == "true" and again.body == done.body
            assert each.shop.effects() == 1

    asyncio.run(run())


def asked(**changes):
    given = {
        "approval_id": "x", "project": "p", "requester": "key:agent", "requester_name": "bot",
        "tool": "refund", "action_hash": "h", "key_hash": "k", "policy_revision": "r",
        "tool_digest": "d", "status": "pending", "summary": "", "shown_digest": "s", "roles": (),
        "requested_at_ns": 1, "expires_at_ns": 2, "decide_by_ns": 2, "execute_by_ns": 3,
        "approvers_min": 1, "decision_id": "i", "trace_id": None,
    }  # fmt: skip
    return Approval(**(given | changes))


@pytest.mark.requirement("GW-07")
@pytest.mark.parametrize(
    ("kind", "role", "may"),
    [
        ("approver", None, True),
        ("approver", "reviewer", True),
        ("admin", "owner", True),
        ("admin", None, False),
        ("admin", "admin", False),
        ("reader", "engineer", False),
        ("reader", None, False),
        ("agent", None, False),
        ("agent", "reviewer", False),
        ("agent", "owner", False),
        ("episode", "owner", False),
    ],
)
def test_who_may_decide_is_the_roles_word(kind, role, may):
    voter = Principal(id="key:v", kind=kind, role=role, project="p", name="ana")
    why = why_not_eligible(asked(), voter, Approvals())
    assert why == (None if may else "approver_not_eligible")


def test_a_policy_may_ask_for_a_role_a_kind_or_a_person():
    ana = Principal(id="key:v", kind="admin", role="owner", project="p", name="ana")
    for roles in (("owner",), ("admin",), ("ana",), ("bo", "owner")):
        assert why_not_eligible(asked(roles=roles), ana, Approvals()) is None
    for roles in (("reviewer",), ("bo",)):
        assert why_not_eligible(asked(roles=roles), ana, Approvals()) == "approver_not_eligible"


def test_nobody_decides_their_own_agents_call_by_whatever_credential():
    for identity in ("key:x", "mtls:ana.internal", "oidc:corp:7"):
        ana = Principal(id=identity, kind="approver", role="reviewer", project="p", name="Ana ")
        why = why_not_eligible(asked(requester_name="ana"), ana, Approvals())
        assert why == "self_approval"
