"""The person an agent acts for never approves its calls, whatever they sign in with.

Rows of gateway.md: §7 C (self-approval, quorum with duplicate identities), T31.
"""

import asyncio

import pytest
from control_rig import AskAbove100, control
from ledger_rig import asked

from processors.model.principal import Principal
from sidecar.gateway.approval import why_not_eligible
from sidecar.gateway.config import Approvals
from sidecar.identity.config import CertificateGrant
from sidecar.identity.config import Config as Identity
from sidecar.identity.declared import DeclaredKey
from sidecar.identity.wanted import Wanted, key_terms


class Seeing(AskAbove100):
    """Keeps what policy is asked."""

    def __init__(self):
        self.asked = []

    async def decide(self, document):
        self.asked.append(document["context"])
        return await super().decide(document)


def run(folder, scenario):
    async def main():
        async with control(folder) as each:
            async with asyncio.timeout(60):
                await scenario(each)

    asyncio.run(main())


async def ask(each, agent, key="a", **headers):
    reply = await each.refund("17", key=key, amount=500, credential=agent, **headers)
    assert reply.json["code"] == "approval_required", reply.json
    return each.ledger.find_approval(reply.json["approval"]["id"])


async def vote(each, found, by):
    vote = {"reason": "checked", "shown_digest": found.shown_digest}
    path = f"/v1/approvals/{found.approval_id}/approve"
    return await each.http_ask("POST", path, by=by, json=vote)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C", "T31")
def test_the_person_an_agent_acts_for_does_not_approve_by_any_of_their_names(tmp_path):
    async def scenario(each):
        agent = each.member(None, "agent", name="bot", on_behalf_of="Ann.Lee@gmail.com")
        found = await ask(each, agent)
        assert found.on_behalf_of == "Ann.Lee@gmail.com"
        assert 'on behalf of: "Ann.Lee@gmail.com"' in found.summary.split("\n")
        for name in (
            "ann.lee@gmail.com", "ANNLEE@googlemail.com", "annlee+work@gmail.com",
            "ａnnlee@gmail.com", " annlee@gmail.com ", "ann\u200blee@gmail.com",
        ):  # fmt: skip
            refused = await vote(each, found, each.member("owner", "admin", name=name))
            assert (refused.status, refused.code) == (403, "self_approval"), name
        assert each.ledger.find_approval(found.approval_id).votes == ()
        done = await vote(each, found, each.member("owner", "admin", name="bo@example.com"))
        assert done.json["status"] == "approved"

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_no_header_and_no_argument_says_for_whom_an_agent_acts(tmp_path):
    async def scenario(each):
        headers = {"On_Behalf_Of": "bo", "X_On_Behalf_Of": "bo", "X_User": "bo", "From": "bo"}
        found = await ask(each, each.agent, **headers, baggage="on_behalf_of=bo,owner=bo")
        assert found.on_behalf_of == "" and "on behalf of" not in found.summary
        done = await vote(each, found, each.member("owner", "admin", name="bo"))
        assert done.json["status"] == "approved"

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C", "T21")
def test_an_approval_for_one_person_is_none_for_another(tmp_path):
    """The same credential may come to act for another person: that is another call."""

    async def scenario(each):
        each.gateway._ports.policy.decide = (seen := Seeing()).decide
        agent = each.member(None, "agent", name="bot", on_behalf_of="ann")
        found = await ask(each, agent)
        assert await each.approve(found.approval_id) is None
        path = f"/v1/approvals/{found.approval_id}"
        token = (await each.ask("GET", path, credential=agent)).json["token"]
        rows = "UPDATE api_key SET on_behalf_of = 'cem' WHERE on_behalf_of = 'ann'"
        each.keys._write(rows, ())
        sent = {"key": "a", "amount": 500, "credential": agent, "Approval_Token": token}
        refused = await each.refund("17", **sent)
        assert refused.json["code"] in ("approval_mismatch", "key_reused")
        assert "on_behalf_of" in refused.json["detail"]
        each.keys._write("UPDATE api_key SET on_behalf_of = 'ann' WHERE on_behalf_of = 'cem'", ())
        assert (await each.refund("17", **sent)).status == 201
        assert {said["on_behalf_of"] for said in seen.asked} == {"ann", "cem"}

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_whom_a_provider_knows_by_subject_is_known_by_it_here():
    found = asked(on_behalf_of="00u7")
    voter = Principal(
        id="oidc:corp:00u7", kind="approver", role="reviewer", project="p", name="ann@example.com"
    )
    assert why_not_eligible(found, voter, Approvals()) == "self_approval"
    assert why_not_eligible(asked(on_behalf_of="Ann@example.com"), voter, Approvals()) is not None
    assert why_not_eligible(asked(on_behalf_of="00u8"), voter, Approvals()) is None
    own = Approvals(distinct_from=("requester", "owner"))
    assert why_not_eligible(found, voter, own) is None, (
        "who says so may approve their agents' calls"
    )


@pytest.mark.requirement("APR-01")
def test_only_an_agent_acts_for_somebody():
    certificate = CertificateGrant(
        san="a.example", project="p", kind="reader", role="viewer", on_behalf_of="ann"
    )
    key = DeclaredKey(file="k", kind="approver", project="p", on_behalf_of="ann")
    problems = Identity(mtls=(certificate,), keys=(key,)).problems(["p"], [])
    assert [each.path for each in problems] == ["keys.0.on_behalf_of", "mtls.0.on_behalf_of"]
    wanted = Wanted(kind="agent", project="p", on_behalf_of="ann")
    assert key_terms(wanted, organisations=(), expires_at_ns=None).on_behalf_of == "ann"
    with pytest.raises(Exception, match="on behalf"):
        key_terms(
            Wanted(kind="reader", project="p", on_behalf_of="ann"),
            organisations=(), expires_at_ns=None,
        )  # fmt: skip
