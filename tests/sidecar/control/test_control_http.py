"""The control API over real HTTP beside a real gateway."""

import asyncio
import base64
import sqlite3
from contextlib import asynccontextmanager, closing

import pytest
from gateway_rig import rig
from multidict import CIMultiDict

from sidecar.control.http import ControlServer
from sidecar.gateway import signing
from sidecar.gateway.receipt import is_genuine
from sidecar.store.ledger import head_document
from sidecar.store.receipts import from_document
from sidecar.store.sqlite.traces import SqliteTraces, migrate_traces


@asynccontextmanager
async def control(folder):
    """A Rig with a control API; ``each.control(method, path, …)`` asks it."""
    migrate_traces(folder / "traces.db")
    traces = SqliteTraces(folder / "traces.db")
    async with rig(folder) as each:
        server = ControlServer(each.ledger, traces, each.authenticate, listen="127.0.0.1:0")
        await server.start()
        each.control_url = f"http://127.0.0.1:{server.port}"
        each.approver = each.credential("approver", name="Ann")
        each.reader = each.credential("reader")

        async def ask(method, path, *, credential=None, json=None):
            headers = {"Authorization": f"Bearer {credential}"} if credential else {}
            url = f"http://127.0.0.1:{server.port}{path}"
            async with each.http.request(method, url, json=json, headers=headers) as response:
                return response.status, await response.json(content_type=None)

        each.control = ask
        try:
            yield each
        finally:
            await server.stop()
            traces.close()


def run(folder, scenario):
    async def main():
        async with control(folder) as each:
            return await scenario(each)

    return asyncio.run(main())


async def pending(each, key="a"):
    reply = await each.refund("17", key=key, amount=500)
    return reply.json["approval"]["id"]


@pytest.mark.requirement("APR-01")
def test_an_approver_sees_decides_and_the_agent_gets_its_token(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        _, listed = await each.control("GET", "/v1/approvals", credential=each.reader)
        assert [one["approval_id"] for one in listed["approvals"]] == [approval_id]
        path = f"/v1/approvals/{approval_id}"
        _, shown = await each.control("GET", path, credential=each.approver)
        vote = {"reason": "order checked", "shown_digest": shown["shown_digest"]}
        status, decided = await each.control(
            "POST", f"{path}/approve", credential=each.approver, json=vote
        )
        assert (status, decided["status"]) == (200, "approved")
        assert decided["votes"][0]["reason"] == "order checked"
        told = await each.ask("GET", path)
        done = await each.refund("17", key="a", amount=500, Approval_Token=told.json["token"])
        assert done.status == 201
        again = await each.control("POST", f"{path}/deny", credential=each.approver, json=vote)
        assert (again[0], again[1]["code"]) == (409, "approval_consumed")
        _, none = await each.control("GET", "/v1/approvals?status=pending", credential=each.reader)
        assert none["approvals"] == []

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-07")
def test_no_agent_and_no_reader_decides_and_nobody_without_a_key_reads(tmp_path):
    async def scenario(each):
        path = f"/v1/approvals/{await pending(each)}"
        for credential in (each.agent, each.reader, each.credential("admin")):
            status, problem = await each.control(
                "POST", f"{path}/approve", credential=credential, json={"reason": "x"}
            )
            assert (status, problem["code"]) == (403, "forbidden")
        for credential, status in ((None, 401), ("nonsense", 401), (each.agent, 403)):
            assert (await each.control("GET", path, credential=credential))[0] == status
        _, shown = await each.control("GET", path, credential=each.reader)
        assert shown["status"] == "pending"

    run(tmp_path, scenario)


def test_the_same_person_does_not_approve_their_agents_call(tmp_path):
    async def scenario(each):
        same = each.credential("approver", name="Refund-Agent")
        path = f"/v1/approvals/{await pending(each)}/approve"
        status, problem = await each.control("POST", path, credential=same, json={"reason": "x"})
        assert (status, problem["code"]) == (403, "self_approval")

    run(tmp_path, scenario)


BAD_VOTES = (
    ({}, "vote_malformed"),
    ({"reason": "  "}, "reason_required"),
    ({"reason": "x" * 1001}, "reason_required"),
    ({"reason": 5}, "vote_malformed"),
    ({"reason": "x", "force": True}, "vote_malformed"),
    ([], "vote_malformed"),
)


def test_a_vote_needs_a_reason(tmp_path):
    async def scenario(each):
        path = f"/v1/approvals/{await pending(each)}/approve"
        for body, code in BAD_VOTES:
            status, problem = await each.control("POST", path, credential=each.approver, json=body)
            assert (status, problem["code"]) == (400, code), body

    run(tmp_path, scenario)


def test_a_vote_on_another_summary_than_the_one_shown_does_not_count(tmp_path):
    async def scenario(each):
        path = f"/v1/approvals/{await pending(each)}/approve"
        vote = {"reason": "x", "shown_digest": "sha256:other"}
        status, problem = await each.control("POST", path, credential=each.approver, json=vote)
        assert (status, problem["code"]) == (409, "summary_changed")

    run(tmp_path, scenario)


def test_nothing_of_another_project_is_seen_or_decided(tmp_path):
    async def scenario(each):
        stranger = each.credential("approver", project="other", name="Eve")
        approval_id = await pending(each)
        reply = await each.refund("17", key="b")
        receipt_id = reply.headers["gateway-receipt"]
        call_id = each.ledger.get_receipt(receipt_id).call_id
        for path in (
            f"/v1/approvals/{approval_id}",
            f"/v1/calls/{call_id}",
            f"/v1/receipts/{receipt_id}",
        ):
            assert (await each.control("GET", path, credential=stranger))[0] == 404
            assert (await each.control("GET", path, credential=each.reader))[0] == 200
        status, _ = await each.control(
            "POST", f"/v1/approvals/{approval_id}/deny", credential=stranger, json={"reason": "x"}
        )
        assert status == 404
        for path, name in (("/v1/approvals", "approvals"), ("/v1/calls", "calls")):
            assert (await each.control("GET", path, credential=stranger))[1] == {name: []}

    run(tmp_path, scenario)


@pytest.mark.requirement("RCP-01")
def test_calls_and_receipts_are_read_and_verified_from_outside(tmp_path):
    async def scenario(each):
        reply = await each.refund("17", key="b")
        _, head = await each.control("GET", "/v1/audit/head", credential=each.reader)
        public = base64.b64decode(head["public_key"])
        document = head_document(head["seq"], head["hash"], int(head["signed_at_ns"]))
        assert signing.verify(public, base64.b64decode(head["signature"]), document)
        path = f"/v1/receipts/{reply.headers['gateway-receipt']}"
        _, receipt = await each.control("GET", path, credential=each.reader)
        assert is_genuine(from_document(receipt), {head["kid"]: public})
        _, call = await each.control(
            "GET", f"/v1/calls/{receipt['call_id']}", credential=each.reader
        )
        assert [one["phase"] for one in call["receipts"]] == ["authorised", "executed"]
        _, listed = await each.control("GET", "/v1/calls?tool=issue_refund", credential=each.reader)
        assert [one["call_id"] for one in listed["calls"]] == [receipt["call_id"]]
        assert await each.control("GET", "/v1/traces", credential=each.reader) == (
            *(200, {"traces": []}),
        )

    run(tmp_path, scenario)


def test_errors_are_problem_documents(tmp_path):
    async def scenario(each):
        for method, path, status, code in (
            ("GET", "/v1/nowhere", 404, "no_such_page"),
            ("DELETE", "/v1/calls", 405, "request_refused"),
            ("GET", "/v1/calls?limit=0", 400, "limit_malformed"),
            ("GET", "/v1/calls/x", 404, "no_such_call"),
            ("GET", "/v1/traces/x", 404, "no_such_trace"),
        ):
            found, problem = await each.control(method, path, credential=each.reader)
            assert (found, problem["code"]) == (status, code), path

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "body", [b'{"reason": "no", "reason": "yes"}', b'{"reason": "x"} {}', b'{"reason": "\\ud800"}']
)
def test_a_vote_that_two_readers_could_read_differently_is_refused(tmp_path, body):
    async def scenario(each):
        path = f"/v1/approvals/{await pending(each)}"
        headers = {"Authorization": f"Bearer {each.approver}"}
        url = each.control_url + path
        async with each.http.post(f"{url}/approve", data=body, headers=headers) as answer:
            assert (answer.status, (await answer.json())["code"]) == (400, "vote_malformed")
        _, shown = await each.control("GET", path, credential=each.reader)
        assert (shown["status"], shown["votes"]) == ("pending", [])

    run(tmp_path, scenario)


def test_two_credentials_are_none(tmp_path):
    async def scenario(each):
        bearer = ("Authorization", f"Bearer {each.reader}")
        url = f"{each.control_url}/v1/approvals"
        async with each.http.get(url, headers=CIMultiDict([bearer, bearer])) as answer:
            assert answer.status == 401

    run(tmp_path, scenario)


def test_what_does_not_open_is_a_problem_and_no_page_of_the_library(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
            connection.execute("UPDATE approval SET summary = x'0102030405'")
        for path in ("/v1/approvals", f"/v1/approvals/{approval_id}"):
            status, problem = await each.control("GET", path, credential=each.reader)
            assert (status, problem["code"]) == (503, "store_unavailable")

    run(tmp_path, scenario)
