"""Several requests approved by one decision: each a vote of its own, each told of, none by pattern.

Row of gateway.md: T27 (no standing grant).
"""

import asyncio
import json
import re
from html import unescape
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from control_rig import control, pending
from test_approval_pages import Browser, text

from sidecar._pb.v1 import approval_pb2, approval_pb2_grpc
from sidecar.cli.root import root
from sidecar.errors import SidecarError
from sidecar.gateway.config import Approvals, Fatigue

BATCHES = "/v1/approval-batches"


def run(folder, scenario, **more):
    async def main():
        async with control(folder, **more) as each:
            async with asyncio.timeout(60):
                await scenario(each)

    asyncio.run(main())


def item(each, approval_id, **changes):
    found = each.ledger.find_approval(approval_id)
    return {
        "approval_id": approval_id, "action_hash": found.action_hash,
        "shown_digest": found.shown_digest, **changes,
    }  # fmt: skip


async def approve(each, *items, by=None, **more):
    body = {"reason": "orders checked", "approvals": list(items), **more}
    return await each.http_ask("POST", BATCHES, by=by or each.approver, json=body)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("T27")
def test_each_vote_of_a_batch_counts_or_not_for_itself(tmp_path):
    async def scenario(each):
        ids = [await pending(each, key) for key in "abcdef"]
        denied = {"reason": "no", "shown_digest": None}
        await each.http_ask("POST", f"/v1/approvals/{ids[1]}/deny", by=each.approver, json=denied)
        told = await approve(
            each, item(each, ids[0]), item(each, ids[1]),
            item(each, ids[2], action_hash="sha256:" + "0" * 64),
            item(each, ids[3], shown_digest="sha256:" + "0" * 64),
            item(each, ids[4]) | {"approval_id": "0192nobody"}, item(each, ids[5]),
        )  # fmt: skip
        assert told.status == 200
        outcomes = told.json["outcomes"]
        assert [(one["counted"], one["status"], one["code"]) for one in outcomes] == [
            (True, "approved", None),
            (False, None, "approval_denied"),
            (False, None, "approval_mismatch"),
            (False, None, "summary_changed"),
            (False, None, "no_such_approval"),
            (True, "approved", None),
        ]
        assert all(one["detail"] for one in outcomes if not one["counted"])
        found = [each.ledger.find_approval(one) for one in ids]
        assert [one.status for one in found] == [
            "approved", "denied", "pending", "pending", "pending", "approved",
        ]  # fmt: skip
        (vote,) = found[0].votes
        assert (vote.reason, vote.shown_digest) == ("orders checked", found[0].shown_digest)

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
@pytest.mark.row("T27")
def test_a_batch_names_each_request_and_takes_no_pattern(tmp_path):
    async def scenario(each):
        good = item(each, await pending(each))
        for wrong in (
            [], [good | {"approval_id": "*"}], [good | {"approval_id": "%"}],
            [good | {"tool": "issue_refund"}], [{"approval_id": good["approval_id"]}],
            [good] * 101, [good["approval_id"]], good,
        ):  # fmt: skip
            body = {"reason": "r", "approvals": wrong}
            told = await each.http_ask("POST", BATCHES, by=each.approver, json=body)
            assert told.status == 422 or not told.json["outcomes"][0]["counted"], wrong
        body = {"reason": "r", "approvals": [good, good]}
        told = await each.http_ask("POST", BATCHES, by=each.approver, json=body)
        # Each item is as the schema says: that two are one request is a conflict.
        assert (told.status, told.code) == (409, "batch_repeats")
        for by, status in ((each.reader, 403), (each.agent, 403), (None, 401)):
            body = {"reason": "r", "approvals": [good]}
            told = await each.http_ask("POST", BATCHES, by=by, json=body)
            assert told.status == status
        assert each.ledger.find_approval(good["approval_id"]).votes == ()

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_batch_over_grpc_is_the_same(tmp_path):
    async def scenario(each):
        good, gone = item(each, await pending(each, "a")), item(each, await pending(each, "b"))
        gone["approval_id"] = "0192nobody"
        asked = approval_pb2.ApproveBatchRequest(
            reason="ok", approvals=[approval_pb2.BatchItem(**one) for one in (good, gone)]
        )
        stub = approval_pb2_grpc.ApprovalServiceStub(each.channel)
        metadata = (("authorization", f"Bearer {each.approver}"),)
        told = await stub.ApproveBatch(asked, metadata=metadata)
        assert [one.code for one in told.outcomes] == ["", "no_such_approval"]
        assert told.outcomes[0].counted and told.outcomes[0].status == "approved"

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_a_batch_tires_as_many_single_votes_do(tmp_path):
    async def scenario(each):
        ids = [await pending(each, key) for key in "abc"]
        told = await approve(each, *(item(each, one) for one in ids))
        assert [one["code"] for one in told.json["outcomes"]] == [None, None, "approval_fatigue"]

    run(tmp_path, scenario, approvals=Approvals(fatigue=Fatigue(approvals_max=2)))


@pytest.mark.requirement("APR-01")
def test_the_page_shows_each_whole_and_approves_what_is_ticked(tmp_path):
    async def scenario(each):
        ids = [await pending(each, key) for key in "abc"]
        browser = Browser(each)
        await browser.sign_in(each.approver)
        assert "/approvals/batch" in text(await browser.get("/approvals"))
        shown = await browser.get("/approvals/batch")
        page = shown.body.decode()
        assert "checked" not in page.replace("unchecked", ""), "nothing is ticked before"
        for one in ids:
            for line in each.ledger.find_approval(one).summary.split("\n"):
                assert line in text(shown)
        picks = [unescape(value) for value in re.findall(r'name="pick" value="([^"]*)"', page)]
        assert sorted(pick.split()[0] for pick in picks) == sorted(ids)
        token = re.search(r'name="form_token" value="([^"]*)"', page)[1]
        mine = [pick for pick in picks if pick.split()[0] != ids[2]]

        def form(picks, **changes):
            fields = {"form_token": token, "project": "default", "reason": "ok", **changes}
            return urlencode([*fields.items(), *(("pick", pick) for pick in picks)])

        for wrong, status in (
            (form(mine, form_token="x"), 403), (form(mine, reason=" "), 400), (form([]), 400),
            (form(["* sha256:x sha256:y"]), 400), (form(mine, more="x"), 400),
            (form(mine * 11), 400),
        ):  # fmt: skip
            assert (await browser.post("/approvals/batch", wrong)).status == status
        foreign = await browser.post("/approvals/batch", form(mine), Origin="https://evil.example")
        assert foreign.status == 403
        assert all(each.ledger.find_approval(one).votes == () for one in ids)
        done = await browser.post("/approvals/batch", form(mine))
        assert done.status == 200 and text(done).count("approved") == 2
        states = [each.ledger.find_approval(one).status for one in ids]
        assert states == ["approved", "approved", "pending"]
        again = await browser.post("/approvals/batch", form(mine))
        assert text(again).count("no longer pending") == 2

    run(tmp_path, scenario)


@pytest.mark.requirement("APR-01")
def test_the_command_shows_each_and_says_what_did_not_count(tmp_path):
    async def scenario(each):
        ids = [await pending(each, key) for key in "ab"]
        pairs = [f"{one}={each.ledger.find_approval(one).action_hash}" for one in ids]
        config = tmp_path / "client.yaml"
        config.write_text(f"client: {{url: 'http://127.0.0.1:{each.web.port}'}}\n")

        def ask(*pairs, output="text"):
            given = ["approvals", "approve-batch", *pairs, "--reason", "ok", "--key", each.approver]
            return CliRunner().invoke(root, [*given, "--config", str(config), "--output", output])

        wrong = await asyncio.to_thread(ask, pairs[0], f"{ids[1]}=sha256:{'0' * 64}")
        assert isinstance(wrong.exception, SidecarError)
        assert "is not for the action" in str(wrong.exception)
        bare = await asyncio.to_thread(ask, pairs[0], ids[1])
        assert "is not ID=ACTION_HASH" in str(bare.exception)
        assert each.ledger.find_approval(ids[0]).votes == (), "nothing was approved"
        done = await asyncio.to_thread(ask, *pairs)
        assert done.exit_code == 0, done.output
        assert [line for line in done.stdout.splitlines() if line.endswith("approved")]
        assert "amount = 500" in done.stderr
        again = await asyncio.to_thread(ask, *pairs, output="json")
        assert again.exit_code == 1
        assert {one["code"] for one in json.loads(again.stdout)["outcomes"]} == {
            "approval_approved"
        }

    run(tmp_path, scenario)
