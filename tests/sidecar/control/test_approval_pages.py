"""The approval page: a person signs in, sees what is asked, decides once; nobody else does."""

import asyncio
import re
from html import unescape
from urllib.parse import urlencode

import pytest
from control_rig import control, pending

from sidecar import clock
from sidecar.control.pages import view
from sidecar.gateway.config import Approvals, Fatigue


def run(folder, scenario, **more):
    async def main():
        async with control(folder, **more) as each:
            async with asyncio.timeout(60):
                await scenario(each)

    asyncio.run(main())


class Browser:
    """Keeps cookies and sends forms as a browser does; follows nothing."""

    def __init__(self, each):
        self._each = each
        self.cookie = ""
        self.origin = f"http://127.0.0.1:{each.web.port}"

    async def get(self, path, **headers):
        return self._took(
            await self._each.http_ask("GET", path, headers={**self._cookies(), **headers})
        )

    async def post(self, path, form, **headers):
        sent = {
            "Content-Type": "application/x-www-form-urlencoded", "Origin": self.origin,
            "Sec-Fetch-Site": "same-origin", **self._cookies(), **headers,
        }  # fmt: skip
        sent = {name.replace("_", "-"): value for name, value in sent.items() if value}
        data = form if isinstance(form, str) else urlencode(form)
        return self._took(await self._each.http_ask("POST", path, data=data, headers=sent))

    async def sign_in(self, key, to="/approvals"):
        return await self.post("/approvals/sign-in", {"to": to, "key": key})

    def _cookies(self):
        return {"Cookie": self.cookie} if self.cookie else {}

    def _took(self, answer):
        set_cookie = answer.headers.get("set-cookie", "")
        if set_cookie:
            self.cookie = set_cookie.partition(";")[0]
        return answer


def text(answer):
    return unescape(answer.body.decode())


def form_of(answer):
    """The vote form's fields as the page has them."""
    form = re.search(r'<form method="post" action="[^"]*/vote">.*?</form>', answer.body.decode())
    return dict(re.findall(r'name="(\w+)" value="([^"]*)">', form[0].partition("<label>")[0]))


@pytest.mark.row("T32")
@pytest.mark.requirement("APR-01")
def test_a_person_signs_in_sees_what_is_asked_and_approves_it_once(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        path = f"/approvals/{approval_id}"
        browser = Browser(each)
        first = await browser.get(path)
        assert first.status == 200 and 'type="password"' in text(first)
        assert "issue_refund" not in text(first), "nothing is told before"
        signed = await browser.sign_in(each.approver, to=path)
        assert (signed.status, signed.headers["location"]) == (303, path)
        assert each.approver not in signed.headers["set-cookie"]
        shown = await browser.get(path)
        stored = each.ledger.find_approval(approval_id)
        for line in stored.summary.split("\n"):
            assert line in text(shown)
        form = form_of(shown)
        assert form["shown_digest"] == stored.shown_digest
        vote = {**form, "reason": "order checked", "decision": "approve"}
        done = await browser.post(f"{path}/vote", vote)
        assert done.status == 303 and done.headers["location"].startswith(path)
        after = await browser.get(done.headers["location"])
        assert "approved" in text(after) and 'value="approve"' not in text(after)
        assert "Take the approval back" in text(after)
        again = await browser.post(f"{path}/vote", vote)
        assert again.status == 409
        (kept,) = each.ledger.find_approval(approval_id).votes
        assert (kept.reason, kept.shown_digest) == ("order checked", stored.shown_digest)
        token = (await each.ask("GET", f"/v1/approvals/{approval_id}")).json["token"]
        assert (await each.refund("17", key="a", amount=500, Approval_Token=token)).status == 201

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_an_approval_is_taken_back_on_the_page_before_its_call_is_made(tmp_path):
    async def scenario(each):
        path = f"/approvals/{await pending(each)}"
        browser = Browser(each)
        await browser.sign_in(each.approver)
        vote = {**form_of(await browser.get(path)), "reason": "ok", "decision": "approve"}
        await browser.post(f"{path}/vote", vote)
        token = (await each.ask("GET", f"/v1{path}")).json["token"]
        back = {**form_of(await browser.get(path)), "reason": "wrong one", "decision": "deny"}
        assert (await browser.post(f"{path}/vote", back)).status == 303
        refused = await each.refund("17", key="a", amount=500, Approval_Token=token)
        assert refused.json["code"] == "approval_denied" and each.shop.effects() == 0
        assert "/vote" not in text(await browser.get(path))

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_denial_needs_a_reason_too_and_ends_it(tmp_path):
    async def scenario(each):
        path = f"/approvals/{await pending(each)}"
        browser = Browser(each)
        await browser.sign_in(each.approver)
        form = form_of(await browser.get(path))
        for reason in ("", "  ", "\r\n"):
            told = await browser.post(
                f"{path}/vote", {**form, "reason": reason, "decision": "deny"}
            )
            assert told.status == 400 and "Say why" in text(told)
        done = await browser.post(f"{path}/vote", {**form, "reason": "no", "decision": "deny"})
        assert done.status == 303
        assert "denied" in text(await browser.get(path))
        reply = await each.refund("17", key="a", amount=500)
        assert reply.json["code"] == "approval_denied"

    run(tmp_path, scenario)


@pytest.mark.row("CVE-2025-64443")
@pytest.mark.requirement("APR-01")
def test_a_form_of_another_site_or_session_changes_nothing(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        path = f"/approvals/{approval_id}"
        browser, other = Browser(each), Browser(each)
        await browser.sign_in(each.approver)
        await other.sign_in(each.credential("approver", name="Ben"))
        form = {**form_of(await browser.get(path)), "reason": "x", "decision": "approve"}
        foreign = (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
        )
        for headers in foreign:
            told = await browser.post(f"{path}/vote", form, **headers)
            assert told.status == 403, headers
            told = await browser.post(
                "/approvals/sign-in", {"to": "/approvals", "key": each.approver}, **headers
            )
            assert told.status == 403 and "set-cookie" not in told.headers
        theirs = form_of(await other.get(path))["form_token"]
        for token in ("", "x", theirs):
            told = await browser.post(f"{path}/vote", {**form, "form_token": token})
            assert told.status == 403, token
        bare = Browser(each)
        told = await bare.post(f"{path}/vote", form)
        assert 'type="password"' in text(told)
        assert each.ledger.find_approval(approval_id).votes == ()
        assert (await browser.post(f"{path}/vote", form)).status == 303

    run(tmp_path, scenario)


def test_what_is_no_form_of_ours_is_refused(tmp_path):
    async def scenario(each):
        path = f"/approvals/{await pending(each)}"
        browser = Browser(each)
        await browser.sign_in(each.approver)
        form = {**form_of(await browser.get(path)), "reason": "x", "decision": "approve"}
        good = urlencode(form)
        wrong = (
            good + "&decision=deny", good + "&more=1", good.replace("reason=", "raison="), "%ff=",
            urlencode({**form, "decision": "allow"}), "x" * 10, good + "&a=1" * 50,
        )  # fmt: skip
        for body in wrong:
            assert (await browser.post(f"{path}/vote", body)).status == 400, body
        told = await browser.post(f"{path}/vote", good, Content_Type="text/plain")
        assert told.status == 415
        summary = await browser.post(f"{path}/vote", {**form, "shown_digest": "sha256:other"})
        assert summary.status == 409 and "look again" in text(summary)
        assert each.ledger.find_approval(path.rpartition("/")[2]).votes == ()

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_who_may_not_decide_is_told_why_and_gets_no_form(tmp_path):
    async def scenario(each):
        path = f"/approvals/{await pending(each)}"
        agent = Browser(each)
        told = await agent.sign_in(each.agent)
        assert told.status == 403 and not agent.cookie
        assert (await agent.sign_in("nonsense")).status == 401
        cases = (
            (each.reader, "may not decide"),
            (each.credential("approver", name="REFUND-agent"), "owns the asking agent"),
        )
        for key, why in cases:
            browser = Browser(each)
            await browser.sign_in(key)
            shown = await browser.get(path)
            assert why in text(shown) and "/vote" not in text(shown)
            form = re.search(r'name="form_token" value="(\w+)"', text(shown))[1]
            vote = {
                "form_token": form, "project": "default", "reason": "x", "decision": "approve",
                "shown_digest": each.ledger.find_approval(path.rpartition("/")[2]).shown_digest,
            }  # fmt: skip
            told = await browser.post(f"{path}/vote", vote)
            assert told.status == 403 and why in text(told)
        stranger = Browser(each)
        await stranger.sign_in(each.credential("approver", project="other", name="Eve"))
        assert (await stranger.get(path)).status == 404
        assert (await stranger.get(f"{path}?project=default")).status == 403

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_key_revoked_while_signed_in_opens_nothing_more(tmp_path):
    async def scenario(each):
        path = f"/approvals/{await pending(each)}"
        browser = Browser(each)
        await browser.sign_in(each.approver)
        form = {**form_of(await browser.get(path)), "reason": "x", "decision": "approve"}
        (row,) = (one for one in each.keys.list_keys() if one.name == "Ann")
        each.keys.revoke_key(row.key_id, clock.now_ns())
        assert 'type="password"' in text(await browser.post(f"{path}/vote", form))
        assert 'type="password"' in text(await browser.get(path))
        assert each.ledger.find_approval(path.rpartition("/")[2]).votes == ()

    run(tmp_path, scenario)


def test_a_rested_person_is_asked_to_rest(tmp_path):
    async def scenario(each):
        browser = Browser(each)
        await browser.sign_in(each.approver)
        statuses = []
        for key in ("a", "b"):
            path = f"/approvals/{await pending(each, key)}"
            form = {**form_of(await browser.get(path)), "reason": "x", "decision": "approve"}
            statuses.append((await browser.post(f"{path}/vote", form)).status)
        assert statuses == [303, 429]

    run(tmp_path, scenario, approvals=Approvals(fatigue=Fatigue(approvals_max=1)))


def test_every_page_is_strict_with_browsers_and_the_cookie_with_everybody(tmp_path):
    async def scenario(each):
        path = f"/approvals/{await pending(each)}"
        browser = Browser(each)
        answers = [
            await browser.get(path),
            await browser.sign_in("nonsense"),
            await browser.sign_in(each.approver),
            await browser.get(path),
            await browser.get("/approvals"),
            await browser.get("/approvals/none"),
        ]
        for answer in answers:
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy and "script-src" not in policy
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
            assert b"<script" not in answer.body and b" style=" not in answer.body
        cookie = answers[2].headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
        assert all(each.approver not in str(answer.headers) for answer in answers)
        assert all(each.approver.encode() not in answer.body for answer in answers)

    run(tmp_path, scenario)


def test_a_sign_in_leads_back_to_a_page_of_ours_only(tmp_path):
    async def scenario(each):
        browser = Browser(each)
        for to in (
            *("https://evil.example/", "//evil.example/approvals", "/v1/keys", "/approvals/../v1"),
            *("/approvals/x\r\nSet-Cookie: a=b", "/approvals/x?y=z"),
        ):
            told = await browser.sign_in(each.approver, to=to)
            assert told.headers["location"] == "/approvals", to

    run(tmp_path, scenario)


def test_the_list_leads_to_what_waits_and_signing_out_ends_it(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        browser = Browser(each)
        await browser.sign_in(each.approver)
        listed = await browser.get("/approvals")
        assert f'href="/approvals/{approval_id}?project=default"' in text(listed)
        token = re.search(r'name="form_token" value="(\w+)"', text(listed))[1]
        kept = browser.cookie
        assert (await browser.post("/approvals/sign-out", {"form_token": token})).status == 303
        browser.cookie = kept
        assert 'type="password"' in text(await browser.get("/approvals"))

    run(tmp_path, scenario)


def test_what_an_agent_wrote_is_text(tmp_path):
    async def scenario(each):
        hostile = '"><script>alert(1)</script>\u202e<img src=x onerror=y>'
        body = {"amount": 500, "currency": "EUR", "note": hostile}
        asked = await each.ask("POST", "/payments/orders/17/refunds", key="h", json=body)
        browser = Browser(each)
        await browser.sign_in(each.approver)
        shown = await browser.get(f"/approvals/{asked.json['approval']['id']}")
        assert b"<script" not in shown.body and b"<img" not in shown.body
        assert "\u202e" not in text(shown) and "<script>alert(1)</script>" in text(shown)

    run(tmp_path, scenario)


def test_the_style_is_the_one_its_policy_names():
    import base64
    import hashlib

    style = re.search(r"<style>(.*?)</style>", view.sign_in("/approvals"), re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in view.HEADERS["Content-Security-Policy"]


@pytest.mark.requirement("APR-01")
def test_who_answers_for_an_agent_does_not_approve_its_calls(tmp_path):
    async def scenario(each):
        made = await each.http_ask(
            "POST", "/v1/keys", by=each.admin,
            json={"role": "agent", "name": "helper", "owner": "Ann"},
        )  # fmt: skip
        assert (made.status, made.json["owner"]) == (201, "Ann")
        body = {"amount": 500, "currency": "EUR"}
        asked = await each.ask(
            "POST", "/payments/orders/17/refunds", key="o", json=body,
            credential=made.json["key"],
        )  # fmt: skip
        path = f"/approvals/{asked.json['approval']['id']}"
        ann, ben = Browser(each), Browser(each)
        await ann.sign_in(each.approver)
        assert "owns the asking agent" in text(await ann.get(path))
        await ben.sign_in(each.credential("approver", name="Ben"))
        form = {**form_of(await ben.get(path)), "reason": "x", "decision": "approve"}
        assert (await ben.post(f"{path}/vote", form)).status == 303

    run(tmp_path, scenario)
