"""A tool that demands a fresh and strong sign-in of who approves it, over API and pages."""

import asyncio
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from control_rig import pending
from test_approval_pages import form_of, text
from test_page_login import Visitor, people

from sidecar import clock
from sidecar.gateway.config import StepUpRule

RULE = StepUpRule(acr=("gold",), max_age="5m")


def run(folder, scenario, **more):
    async def main():
        async with people(folder, tool_changes={"step_up": RULE}, **more) as each:
            async with asyncio.timeout(60):
                await scenario(each)

    asyncio.run(main())


@pytest.mark.requirement("APR-01")
def test_a_key_does_not_approve_what_demands_a_sign_in_and_is_told_what_to_do(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        found = each.ledger.find_approval(approval_id)
        vote = {"reason": "ok", "shown_digest": found.shown_digest}
        path = f"/v1/approvals/{approval_id}"
        refused = await each.http_ask("POST", f"{path}/approve", by=each.approver, json=vote)
        assert (refused.status, refused.code) == (403, "step_up_required")
        for said in ("acr gold", "300 seconds", "identity provider"):
            assert said in refused.json["detail"]
        shown = (await each.http_ask("GET", path, by=each.approver)).json
        assert shown["step_up"] == [{"acr": ["gold"], "amr": [], "max_age_s": 300}]
        denied = await each.http_ask("POST", f"{path}/deny", by=each.approver, json=vote)
        assert denied.json["status"] == "denied"

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_who_signed_in_too_weakly_is_sent_to_do_it_again_and_then_approves(tmp_path):
    async def scenario(each):
        path = f"/approvals/{await pending(each)}"
        visitor = Visitor(each)
        now_s = clock.now_ns() // 10**9
        each.idp.claims = {"acr": "silver", "auth_time": now_s - 4000}
        await visitor.back(**each.idp.grant(await visitor.sent_away(path), "ben"))
        shown = await visitor.get(path)
        assert "To approve this, sign in" in text(shown)
        form = {**form_of(shown), "reason": "ok", "decision": "approve"}
        refused = await visitor.post(f"{path}/vote", form)
        assert refused.status == 403 and "acr gold" in text(refused)
        again = shown.body.decode().partition('href="/approvals/oidc/corp?')[2].partition('"')[0]
        sent = await visitor.get(f"/approvals/oidc/corp?{unescape(again)}")
        url = sent.headers["location"]
        asked = parse_qs(urlsplit(url).query)
        assert (asked["acr_values"], asked["max_age"]) == (["gold"], ["300"])
        each.idp.claims = {"acr": "gold", "auth_time": now_s}
        back = await visitor.back(**each.idp.grant(url, "ben"))
        assert (back.status, urlsplit(back.headers["location"]).path) == (303, path)
        shown = await visitor.get(path)
        assert "To approve this" not in text(shown)
        done = await visitor.post(
            f"{path}/vote", {**form_of(shown), "reason": "ok", "decision": "approve"}
        )
        assert done.status == 303
        (vote,) = each.ledger.find_approval(path.rpartition("/")[2]).votes
        assert (vote.voter, vote.authn.acr, vote.authn.method) == ("oidc:corp:ben", "gold", "token")
        assert "acr gold" in text(await visitor.get(path))

    run(tmp_path, scenario)


ODD_LINKS = (
    *("&acr=a%0d%0ab", "&acr=%22%3e", "&max_age=0", "&max_age=-1", "&max_age=1e9", "&acr="),
)


@pytest.mark.requirement("APR-01")
def test_what_a_link_asks_of_the_provider_is_plain_or_nothing(tmp_path):
    async def scenario(each):
        for query in ODD_LINKS:
            asked = parse_qs(urlsplit(await Visitor(each).sent_away("/approvals", query)).query)
            assert not {"acr_values", "max_age"} & asked.keys(), query

    run(tmp_path, scenario)


def test_a_rule_is_read_strictly():
    assert StepUpRule().demand == () and not StepUpRule().problems()
    assert RULE.demand[0].max_age_s == 300
    for rule in (StepUpRule(acr=("",)), StepUpRule(amr=("a", "")), StepUpRule(max_age="0s"),
                 StepUpRule(max_age="soon")):  # fmt: skip
        assert rule.problems(), rule
