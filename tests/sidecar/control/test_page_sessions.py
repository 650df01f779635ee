"""A person's session at the pages of one sidecar is theirs at every other on the same store."""

import asyncio
import re
from contextlib import asynccontextmanager, closing

import pytest
from control_rig import control, pending
from gateway_rig import keyring
from test_approval_pages import Browser, form_of, text
from test_page_login import PAGES, Visitor, people

from sidecar import clock
from sidecar.control.changes import Bench
from sidecar.control.http import ControlServer
from sidecar.control.worker import Desk
from sidecar.store.sqlite.ledger import SqliteLedger


@asynccontextmanager
async def beside(each, **served):
    """The pages of another sidecar on the same store."""
    with closing(SqliteLedger(each.folder / "ledger.db", keyring(each.keys))) as ledger:
        ledger.use_signer(each.gateway._desk.signer)
        desk = Desk(
            each.views, Bench(keys=each.keys, random=clock.random_bytes), ledger,
            each.desk._authenticate, each.gateway,
        )  # fmt: skip
        server = ControlServer(desk, listen="127.0.0.1:0", **served)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
            await desk.stop()


def at(browser, server):
    """The same browser, sent to another of the sidecars behind one name."""
    browser._each.web = server
    browser.origin = f"http://127.0.0.1:{server.port}"
    return browser


def run(scenario):
    async def main():
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(main())


@pytest.mark.requirement("APR-01")
def test_who_signed_in_at_one_sidecar_votes_at_another_and_signs_out_of_all(tmp_path):
    async def scenario():
        async with control(tmp_path) as each, beside(each) as second:
            first, path = each.web, f"/approvals/{await pending(each)}"
            browser = Browser(each)
            try:
                await browser.sign_in(each.approver)
                shown = await at(browser, second).get(path)
                form = {**form_of(shown), "reason": "ok", "decision": "approve"}
                assert (await at(browser, first).post(f"{path}/vote", form)).status == 303
                again = await at(browser, second).get(path)
                assert "approved" in text(again)
                token = re.search(r'name="form_token" value="(\w+)"', again.body.decode())[1]
                cookie = browser.cookie
                await browser.post("/approvals/sign-out", {"form_token": token})
                browser.cookie = cookie
                for server in (first, second):
                    assert 'type="password"' in text(await at(browser, server).get(path))
            finally:
                each.web = first

    run(scenario)


@pytest.mark.requirement("APR-01")
def test_signing_out_everywhere_ends_the_other_browsers_of_that_person_alone(tmp_path):
    async def scenario():
        async with control(tmp_path) as each:
            mine, other, bens = Browser(each), Browser(each), Browser(each)
            for browser in (mine, other):
                await browser.sign_in(each.approver)
            await bens.sign_in(each.member("owner", "admin", name="ben"))
            page = (await mine.get("/approvals")).body.decode()
            token = re.search(r'name="form_token" value="(\w+)"', page)[1]
            foreign = await bens.post(
                "/approvals/sign-out", {"form_token": token, "everywhere": "yes"}
            )
            assert foreign.status == 303
            assert "Signed in" in text(await mine.get("/approvals")), "another's form ends nothing"
            bens.cookie = ""
            await bens.sign_in(each.member("owner", "admin", name="cem"))
            await mine.post("/approvals/sign-out", {"form_token": token, "everywhere": "yes"})
            assert 'type="password"' in text(await other.get("/approvals"))
            assert "Signed in" in text(await bens.get("/approvals"))

    run(scenario)


@pytest.mark.requirement("APR-01")
def test_a_sign_in_at_a_provider_may_come_back_to_another_sidecar(tmp_path):
    async def scenario():
        async with people(tmp_path) as each:
            logins = tuple(each.web._people._logins.values())
            async with beside(each, logins=logins, pages=PAGES) as second:
                first, visitor = each.web, Visitor(each)
                try:
                    given = each.idp.grant(await visitor.sent_away("/approvals"), "ben")
                    done = await at(visitor, second).back(**given)
                    assert (done.status, done.headers["location"]) == (303, "/approvals")
                    assert "Signed in as ben" in text(await at(visitor, first).get("/approvals"))
                finally:
                    each.web = first

    run(scenario)
