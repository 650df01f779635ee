"""Break-glass as people do it: over the API, at the command line, and what everybody sees of it."""

import asyncio
import json

import pytest
from click.testing import CliRunner
from control_rig import control, pending
from gateway_rig import MASTER
from test_approval_pages import Browser, text

from sidecar.cli.root import root
from sidecar.gateway.config import Approvals, BreakGlassRule
from sidecar.gateway.notify import message
from sidecar.telemetry import BREAK_GLASS

RULES = Approvals(approvers=3, break_glass=BreakGlassRule(people=("owner", "ben"), expires="2m"))


def run(folder, scenario, rules=RULES):
    async def main():
        async with control(folder, approvals=rules) as each:
            async with asyncio.timeout(60):
                await scenario(each)

    asyncio.run(main())


def people(each):
    return (
        each.member("owner", "admin", name="ann"), each.member("reviewer", "approver", name="Ben"),
        each.member("owner", "admin", name="cem"),
    )  # fmt: skip


async def open_(each, approval_id, by, **changes):
    shown = each.ledger.find_approval(approval_id).shown_digest
    word = {"reason": "both are on the plane", "shown_digest": shown, **changes}
    return await each.http_ask(
        "POST", f"/v1/approvals/{approval_id}/break-glass", by=by, json=word
    )  # fmt: skip


async def break_(each, glass, by, **changes):
    word = {"reason": "I agree", "digest": glass["digest"], **changes}
    path = f"/v1/break-glasses/{glass['glass_id']}/break"
    return await each.http_ask("POST", path, by=by, json=word)


async def review(each, glass, by):
    path = f"/v1/break-glasses/{glass['glass_id']}/review"
    return await each.http_ask("POST", path, by=by, json={"reason": "it was right"})


@pytest.mark.requirement("APR-01")
def test_two_break_the_glass_one_call_is_made_and_a_third_closes_the_review(tmp_path):
    async def scenario(each):
        ann, ben, cem = people(each)
        approval_id = await pending(each)
        before = BREAK_GLASS.labels("broken")._value.get()
        opened = await open_(each, approval_id, ann)
        assert (opened.status, opened.json["state"]) == (201, "open")
        broken = await break_(each, opened.json, ben)
        assert broken.json["state"] == "broken", broken.json
        assert BREAK_GLASS.labels("broken")._value.get() == before + 1
        told = (await each.ask("GET", f"/v1/approvals/{approval_id}")).json
        assert told["status"] == "approved"
        made = await each.refund("17", key="a", amount=500, Approval_Token=told["token"])
        assert made.status == 201
        again = await each.refund("18", key="b", amount=500, Approval_Token=told["token"])
        assert again.json["code"] == "approval_mismatch", "for that one action only"
        listed = await each.http_ask("GET", "/v1/break-glasses?state=broken", by=each.reader)
        assert [one["glass_id"] for one in listed.json["glasses"]] == [broken.json["glass_id"]]
        browser = Browser(each)
        await browser.sign_in(ann)
        assert "not reviewed: 1" in text(await browser.get("/approvals"))
        for by in (ann, ben):
            own = await review(each, broken.json, by)
            assert (own.status, own.code) == (403, "self_review")
        closed = await review(each, broken.json, cem)
        assert (closed.json["state"], closed.json["review"]) == ("reviewed", "it was right")
        assert "not reviewed" not in text(await browser.get("/approvals"))

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_where_only_two_may_break_it_another_who_may_decide_closes_the_review(tmp_path):
    only_two = Approvals(break_glass=BreakGlassRule(people=("ann", "ben"), expires="2m"))

    async def scenario(each):
        ann, ben, _ = people(each)
        glass = (await open_(each, await pending(each), ann)).json
        assert (await break_(each, glass, ben)).json["state"] == "broken"
        owner = each.member("owner", "admin", name="refund-agent")
        nobody = each.member("reviewer", "approver")
        for by in (ann, ben, owner, nobody, each.reader, each.agent):
            assert (await review(each, glass, by)).status == 403
        dee = each.member("reviewer", "approver", name="dee")
        assert (await open_(each, await pending(each, key="other"), dee)).status == 403
        closed = await review(each, glass, dee)
        assert closed.json["state"] == "reviewed", closed.json

    run(tmp_path, scenario, only_two)


@pytest.mark.requirement("APR-01")
@pytest.mark.parametrize("rules", [Approvals(), RULES])
def test_only_who_is_named_for_it_may(tmp_path, rules):
    async def scenario(each):
        approval_id = await pending(each)
        agent_owner = each.member("owner", "admin", name="refund-agent")
        strangers = [each.approver, each.reader, each.admin, each.agent, agent_owner]
        if not rules.break_glass.people:
            strangers += people(each)
        for by in strangers:
            refused = await open_(each, approval_id, by)
            assert refused.status == 403, refused.json
        assert (await open_(each, approval_id, None)).status == 401
        assert each.ledger.list_glasses() == []

    run(tmp_path, scenario, rules)


@pytest.mark.requirement("APR-01")
def test_it_makes_no_denial_of_policy_an_allowance(tmp_path):
    """Where policy denies there is no request, and so nothing to break."""

    async def scenario(each):
        ann, _, _ = people(each)
        decide = each.policy.decide

        async def denying(document):
            from sidecar.gateway.policy.result import denied

            return (
                denied("no")
                if document["arguments"].get("amount") == 900
                else (await decide(document))
            )

        each.policy.decide = denying
        refused = await each.refund("17", key="z", amount=900)
        assert refused.json["code"] == "policy_error" and "approval" not in refused.json
        gone = await each.http_ask(
            "POST", "/v1/approvals/0192nobody/break-glass", by=ann,
            json={"reason": "r", "shown_digest": "s"},
        )  # fmt: skip
        assert (gone.status, gone.code) == (404, "no_such_approval")

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_another_projects_people_see_and_break_nothing(tmp_path):
    async def scenario(each):
        ann, _, _ = people(each)
        approval_id = await pending(each)
        glass = (await open_(each, approval_id, ann)).json
        stranger = each.member("owner", "admin", project="elsewhere", name="ben")
        for answer in (
            await open_(each, approval_id, stranger), await break_(each, glass, stranger),
            await review(each, glass, stranger),
        ):  # fmt: skip
            assert answer.status == 404, answer.json
        listed = await each.http_ask("GET", "/v1/break-glasses", by=stranger)
        assert listed.json["glasses"] == []
        item = {"approval_id": approval_id, "action_hash": "sha256:x", "shown_digest": "s"}
        batch = await each.http_ask(
            "POST", "/v1/approval-batches", by=stranger, json={"reason": "r", "approvals": [item]}
        )
        assert batch.json["outcomes"][0]["code"] == "no_such_approval"
        assert each.ledger.find_approval(approval_id).status == "pending"

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_stop_holds_a_call_whose_glass_is_broken(tmp_path):
    async def scenario(each):
        ann, ben, _ = people(each)
        approval_id = await pending(each)
        await break_(each, (await open_(each, approval_id, ann)).json, ben)
        token = (await each.ask("GET", f"/v1/approvals/{approval_id}")).json["token"]
        stop = {"kind": "freeze", "scope": "project", "reason": "wait"}
        await each.http_ask("POST", "/v1/stops", by=ann, json=stop)
        held = await each.refund("17", key="a", amount=500, Approval_Token=token)
        assert held.json["code"] == "frozen" and each.shop.effects() == 0

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_every_webhook_is_told_whatever_it_asks_for(tmp_path):
    async def scenario(each):
        ann, ben, cem = people(each)
        approval_id = await pending(each)
        opened = await open_(each, approval_id, ann, reason="secret sk_admin_hush")
        await break_(each, opened.json, ben)
        await review(each, opened.json, cem)
        loud = [one for one in each.ledger.approval_entries(0, 99) if one.kind in message.LOUD]
        found = each.ledger.find_approval(approval_id)
        bodies = [json.loads(message.body(one, found, None)) for one in loud]
        assert [one["type"] for one in bodies] == [
            "approval.break_glass_opened", "approval.break_glass_broken",
            "approval.break_glass_reviewed",
        ]  # fmt: skip
        assert "hush" not in str(bodies) and "agree" not in str(bodies)
        assert bodies[1]["data"]["by"].startswith("key:")

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_the_commands_do_the_same(tmp_path):
    async def scenario(each):
        ann, ben, cem = people(each)
        approval_id = await pending(each)
        config = tmp_path / "client.yaml"
        (tmp_path / "seal.key").write_text(MASTER.hex())
        config.write_text(
            f"client: {{url: 'http://127.0.0.1:{each.web.port}'}}\n"
            f"store: {{url: 'sqlite:///{each.folder}'}}\nseal: {{key_file: seal.key}}\n"
        )

        async def ask(*given, key):
            full = ["approvals", *given, "--reason", "fire", "--key", key, "--config", str(config)]
            return await asyncio.to_thread(CliRunner().invoke, root, full)

        first = await ask("break-glass", approval_id, key=ann)
        assert first.exit_code == 0 and "open: another person" in first.stdout, first.output
        assert "amount = 500" in first.stderr
        second = await ask("break-glass", approval_id, key=ben)
        assert "broken: the request is approved" in second.stdout
        assert "opened by key:" in second.stderr
        glass_id = each.ledger.list_glasses()[0].glass_id
        listed = await asyncio.to_thread(
            CliRunner().invoke,
            root,
            ["approvals", "glasses", "--output", "json", "--config", str(config)],
        )
        over_http = await each.http_ask("GET", "/v1/break-glasses", by=each.reader)
        assert json.loads(listed.stdout) == over_http.json["glasses"], "one form everywhere"
        done = await ask("review-glass", glass_id, key=cem)
        assert f"{glass_id} reviewed" in done.stdout

    run(tmp_path, scenario)


def test_its_time_is_the_shortest():
    long = Approvals(expires="1m", break_glass=BreakGlassRule(people=("owner",), expires="2m"))
    assert [each.path for each in long.problems()] == ["break_glass.expires"]
    off = Approvals(expires="1m")
    assert off.problems() == [], "where nobody may break it, it is in nobody's way"
    odd = Approvals(break_glass=BreakGlassRule(people=("",), expires="soon"))
    assert [each.path for each in odd.problems()] == ["break_glass.expires", "break_glass.people"]
