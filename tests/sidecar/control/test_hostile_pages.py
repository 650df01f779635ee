"""Whatever an agent, an approver or a link puts before a person stays text, and decides nothing.

Row of gateway.md: §7 C.
"""

import asyncio
import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from control_rig import control
from test_approval_pages import Browser, form_of, text

from sidecar.gateway.config import Approvals, BreakGlassRule

EVIL = (
    "</pre><script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "' onmouseover='x",
    "</textarea><form action=//evil>", "<!--", "]]>", "&lt;b&gt;", "\u202etxt.exe",
    "javascript:alert(1)", "<style>*{display:none}</style>", "</title><h1>Approved</h1>",
)  # fmt: skip
TAGS = frozenset(
    {
        *("html", "head", "meta", "title", "style", "body", "main", "h1", "p", "pre", "dl", "dt"),
        *("dd", "form", "input", "label", "textarea", "button", "a", "ul", "li", "fieldset"),
    }
)
HOSTILE_IDS = ("..", "%2e%2e%2f", "%00", "%22%3E%3Cscript%3E", "x" * 300, "%F0%9F%92%A9", "*")


class Seen(HTMLParser):
    """The tags, attributes and links of a page as a browser reads them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.names, self.links, self.comments = set(), set(), [], []
        self.feed(page)

    def handle_comment(self, data):
        self.comments.append(data)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name in ("href", "action", "src")]


def harmless(answer):
    """Only this program's own tags; nothing that runs, loads or leads elsewhere."""
    page = answer.body.decode()
    raw = [evil for evil in EVIL if "<" in evil and evil in page]
    assert not raw, raw  # one of them may hide another from a parser
    seen = Seen(page)
    assert seen.tags <= TAGS and not seen.comments, seen.tags - TAGS
    assert not [name for name in seen.names if name.startswith("on")], seen.names
    assert all(link.startswith("/approvals") for link in seen.links), seen.links
    assert "script" not in answer.headers["content-security-policy"]
    return seen


def run(folder, scenario, **more):
    async def main():
        async with control(folder, **more) as each:
            async with asyncio.timeout(60):
                await scenario(each)

    asyncio.run(main())


@pytest.mark.requirement("APR-01")
@pytest.mark.row("C")
def test_what_others_wrote_is_text_on_every_page(tmp_path):
    async def scenario(each):
        agent = each.member(None, "agent", name=EVIL[0], owner=EVIL[1], on_behalf_of=EVIL[2])
        ids = []
        for number, evil in enumerate(EVIL):
            body = {"amount": 500, "currency": "EUR", "note": evil, evil: 1}
            reply = await each.ask(
                "POST", f"/payments/orders/{number}/refunds", key=f"k{number}", json=body,
                credential=agent,
            )  # fmt: skip
            ids.append(reply.json["approval"]["id"])
        person = each.member("owner", "admin", name=EVIL[3])
        browser = Browser(each)
        await browser.sign_in(person)
        for path in ("/approvals", "/approvals/batch"):
            assert "issue_refund" in text(await browser.get(path))
            harmless(await browser.get(path))
        for approval_id, evil in zip(ids, EVIL, strict=True):
            shown = await browser.get(f"/approvals/{approval_id}")
            harmless(shown)
            form = {**form_of(shown), "reason": evil, "decision": "deny"}
            done = await browser.post(f"/approvals/{approval_id}/vote", form)
            assert done.status == 303 and done.headers["location"].startswith("/approvals/")
            harmless(await browser.get(done.headers["location"]))
            (vote,) = each.ledger.find_approval(approval_id).votes
            assert vote.decision == "deny"

    rules = Approvals(break_glass=BreakGlassRule(people=("owner",)))
    run(tmp_path, scenario, approvals=rules)


@pytest.mark.requirement("APR-01")
def test_a_hostile_id_or_link_is_a_page_that_says_so(tmp_path):
    async def scenario(each):
        browser = Browser(each)
        await browser.sign_in(each.approver)
        for name in HOSTILE_IDS:
            for path in (f"/approvals/{name}", f"/approvals/{name}?project=%3Cscript%3E"):
                answer = await browser.get(path)
                assert answer.status in (400, 401, 403, 404), (path, answer.status)
                if "html" in answer.headers["content-type"]:
                    harmless(answer)
            for path in ("", "/approve", "/deny", "/break-glass"):
                answer = await each.http_ask(
                    "POST" if path else "GET", f"/v1/approvals/{name}{path}", by=each.approver,
                    json={"reason": "r", "shown_digest": "s"} if path else None,
                )  # fmt: skip
                assert answer.status in (400, 404), (name, path, answer.status)
            glass = await each.http_ask(
                "POST", f"/v1/break-glasses/{name}/break", by=each.approver,
                json={"reason": "r", "digest": "s"},
            )  # fmt: skip
            assert glass.status in (400, 404), name
        out = Browser(each)
        for to in (
            "//evil.example",
            "https://evil.example",
            "/approvals/../x",
            "/approvals?x",
            EVIL[0],
        ):
            answer = await out.sign_in(each.approver, to=to)
            assert answer.headers["location"] == "/approvals", to
            harmless(await Browser(each).get(f"/approvals?to={quote(to)}"))

    run(tmp_path, scenario)


FOREIGN = (
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"}, {"Content_Type": "text/plain"},
    {"Content_Type": "application/json"}, {"Content_Encoding": "gzip"},
)  # fmt: skip


@pytest.mark.requirement("APR-01")
def test_a_form_of_another_site_changes_nothing_on_any_page(tmp_path):
    async def scenario(each):
        approval_id = (await each.refund("17", key="a", amount=500)).json["approval"]["id"]
        browser = Browser(each)
        await browser.sign_in(each.approver)
        path = f"/approvals/{approval_id}"
        form = form_of(await browser.get(path))
        batch = (await browser.get("/approvals/batch")).body.decode()
        pick = re.search(r'name="pick" value="([^"]*)"', batch)[1]
        token = form["form_token"]
        whole = {"form_token": token, "project": "default", "reason": "r", "pick": pick}
        forms = {
            f"{path}/vote": {**form, "reason": "r", "decision": "approve"},
            "/approvals/batch": whole,
            "/approvals/sign-out": {"form_token": token, "everywhere": "yes"},
        }  # fmt: skip
        for target, fields in forms.items():
            for headers in FOREIGN:
                assert (await browser.post(target, fields, **headers)).status in (400, 403, 415)
            for wrong in ("", "0" * 64, token[:-1], token.upper() + "x"):
                answer = await browser.post(target, {**fields, "form_token": wrong})
                assert answer.status in (303, 403)
            assert (await browser.get(f"{target}?{'&'.join(fields)}")).status in (
                200,
                401,
                404,
                405,
            )
        assert each.ledger.find_approval(approval_id).votes == ()
        assert "Signed in" in text(await browser.get("/approvals"))
        cookie = browser.cookie
        browser.cookie = ""
        for target, fields in forms.items():
            answer = await browser.post(target, fields)
            assert 'type="password"' in text(answer), "a form without its session is nobody's"
        browser.cookie = cookie
        assert each.ledger.find_approval(approval_id).votes == ()

    run(tmp_path, scenario)
