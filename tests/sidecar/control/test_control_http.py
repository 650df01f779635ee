"""The control API over real HTTP beside a real gateway."""

import asyncio
import base64
import itertools
import json
import sqlite3
from contextlib import closing, suppress

import pytest
from control_rig import START, control, pending, trace, trace_id, verdict
from multidict import CIMultiDict

from sidecar.control.operations import OPERATIONS
from sidecar.gateway import signing
from sidecar.gateway.receipt import is_genuine
from sidecar.store.ledger import head_document
from sidecar.store.receipts import from_document


def run(folder, scenario, **more):
    async def main():
        async with control(folder, **more) as each:
            return await scenario(each)

    return asyncio.run(main())


@pytest.mark.row("T32")
@pytest.mark.requirement("APR-01")
def test_an_approver_sees_decides_and_the_agent_gets_its_token(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        listed = await each.http_ask("GET", "/v1/approvals", by=each.reader)
        assert [one["approval_id"] for one in listed.json["approvals"]] == [approval_id]
        path = f"/v1/approvals/{approval_id}"
        shown = await each.http_ask("GET", path, by=each.approver)
        vote = {"reason": "order checked", "shown_digest": shown.json["shown_digest"]}
        decided = await each.http_ask("POST", f"{path}/approve", by=each.approver, json=vote)
        assert (decided.status, decided.json["status"]) == (200, "approved")
        assert decided.json["votes"][0]["reason"] == "order checked"
        told = await each.ask("GET", path)
        done = await each.refund("17", key="a", amount=500, Approval_Token=told.json["token"])
        assert done.status == 201
        again = await each.http_ask("POST", f"{path}/deny", by=each.approver, json=vote)
        assert (again.status, again.code) == (409, "approval_consumed")
        none = await each.http_ask("GET", "/v1/approvals?status=pending", by=each.reader)
        assert none.json == {"approvals": []}

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-07")
def test_no_agent_and_no_reader_decides_and_nobody_without_a_key_reads(tmp_path):
    async def scenario(each):
        path = f"/v1/approvals/{await pending(each)}"
        for credential in (each.agent, each.reader, each.admin):
            told = await each.http_ask(
                "POST", f"{path}/approve", by=credential, json={"reason": "x"}
            )
            assert (told.status, told.code) == (403, "forbidden")
        for credential, status in ((None, 401), ("nonsense", 401), (each.agent, 403)):
            told = await each.http_ask("GET", path, by=credential)
            assert told.status == status
            assert ("www-authenticate" in told.headers) == (status == 401)
        shown = await each.http_ask("GET", path, by=each.reader)
        assert shown.json["status"] == "pending"

    run(tmp_path, scenario)


@pytest.mark.row("C", "T31")
def test_the_same_person_does_not_approve_their_agents_call(tmp_path):
    async def scenario(each):
        same = each.credential("approver", name="Refund-Agent")
        path = f"/v1/approvals/{await pending(each)}/approve"
        vote = {"reason": "x", "shown_digest": "sha256:1"}
        told = await each.http_ask("POST", path, by=same, json=vote)
        assert (told.status, told.code) == (403, "self_approval")

    run(tmp_path, scenario)


BAD_VOTES = (
    ({}, "reason is missing"),
    ({"reason": "x"}, "shown_digest is missing"),
    ({"reason": "  "}, "reason is not"),
    ({"reason": "x" * 1001}, "reason is not"),
    ({"reason": 5}, "reason is not"),
    ({"reason": "x", "force-it": True}, "an unknown member"),
    ([], "not a JSON object"),
)


def test_a_vote_needs_a_reason_and_a_refusal_repeats_nothing(tmp_path):
    async def scenario(each):
        path = f"/v1/approvals/{await pending(each)}/approve"
        for body, said in BAD_VOTES:
            told = await each.http_ask("POST", path, by=each.approver, json=body)
            assert (told.status, told.code) == (422, "body_malformed"), body
            assert said in told.json["detail"] and "force" not in told.json["detail"]

    run(tmp_path, scenario)


def test_a_vote_on_another_summary_than_the_one_shown_does_not_count(tmp_path):
    async def scenario(each):
        path = f"/v1/approvals/{await pending(each)}/approve"
        vote = {"reason": "x", "shown_digest": "sha256:other"}
        told = await each.http_ask("POST", path, by=each.approver, json=vote)
        assert (told.status, told.code) == (409, "summary_changed")

    run(tmp_path, scenario)


def test_nothing_of_another_project_is_seen_or_decided(tmp_path):
    async def scenario(each):
        stranger = each.credential("approver", project="other", name="Eve")
        foreign_admin = each.credential("admin", project="other")
        approval_id = await pending(each)
        reply = await each.refund("17", key="b")
        receipt_id = reply.headers["gateway-receipt"]
        call_id = each.ledger.get_receipt(receipt_id).call_id
        await each.shelf.publish(trace(1))
        each.verdicts.add_verdict(verdict(1))
        key_id = each.keys.list_keys("default")[0].key_id
        pages = (
            f"/v1/approvals/{approval_id}",
            f"/v1/calls/{call_id}",
            f"/v1/receipts/{receipt_id}",
            f"/v1/traces/{trace_id(1)}",
            f"/v1/traces/{trace_id(1)}/steps",
            f"/v1/traces/{trace_id(1)}/revisions",
            f"/v1/verdicts/{verdict(1).verdict_id}",
        )
        for path in pages:
            assert (await each.http_ask("GET", path, by=stranger)).status == 404, path
            assert (await each.http_ask("GET", path, by=each.reader)).status == 200, path
        for action in ("revoke", "rotate"):
            path = f"/v1/keys/{key_id}/{action}"
            assert (await each.http_ask("POST", path, by=foreign_admin, json={})).status == 404
        path = f"/v1/approvals/{approval_id}/deny"
        denied = await each.http_ask("POST", path, by=stranger, json={"reason": "x"})
        assert denied.status == 404
        for name in ("approvals", "calls", "traces", "verdicts"):
            told = await each.http_ask("GET", f"/v1/{name}", by=stranger)
            assert told.json == {name: []}
        feed = await each.http_ask("GET", "/v1/publications?after=0", by=stranger)
        assert feed.json["traces"] == []
        for project in ("default", "nowhere"):
            told = await each.http_ask("GET", f"/v1/traces?project={project}", by=stranger)
            assert (told.status, told.code) == (403, "forbidden")

    run(tmp_path, scenario)


@pytest.mark.requirement("RCP-01")
def test_calls_and_receipts_are_read_and_verified_from_outside(tmp_path):
    async def scenario(each):
        reply = await each.refund("17", key="b")
        head = (await each.http_ask("GET", "/v1/audit/head", by=each.reader)).json
        public = base64.b64decode(head["public_key"])
        document = head_document(head["seq"], head["hash"], int(head["signed_at_ns"]))
        assert signing.verify(public, base64.b64decode(head["signature"]), document)
        path = f"/v1/receipts/{reply.headers['gateway-receipt']}"
        receipt = (await each.http_ask("GET", path, by=each.reader)).json
        assert is_genuine(from_document(receipt), {head["kid"]: public})
        call = await each.http_ask("GET", f"/v1/calls/{receipt['call_id']}", by=each.reader)
        assert [one["phase"] for one in call.json["receipts"]] == ["authorised", "executed"]
        assert call.json["class"] == "irreversible"
        listed = await each.http_ask("GET", "/v1/calls?tool=issue_refund", by=each.reader)
        assert [one["call_id"] for one in listed.json["calls"]] == [receipt["call_id"]]

    run(tmp_path, scenario)


async def walk(each, path, name, limit):
    """Every item of a list, page by page."""
    found, cursor = [], ""
    mark = "&" if "?" in path else "?"
    while True:
        told = await each.http_ask("GET", f"{path}{mark}limit={limit}{cursor}", by=each.reader)
        assert told.status == 200, told.json
        found += told.json[name]
        assert len(told.json[name]) <= limit
        if "next_cursor" not in told.json:
            return found
        assert told.json[name]
        cursor = f"&cursor={told.json['next_cursor']}"


def test_lists_are_walked_page_by_page_and_nothing_is_missed_or_told_twice(tmp_path):
    async def scenario(each):
        # Starts are shared, so that only the id tells the places apart.
        traces = [trace(number, start_ns=START + number // 3) for number in range(1, 8)]
        await each.shelf.publish(*traces)
        for number in range(7):
            each.verdicts.add_verdict(verdict(number))
            await each.refund(str(number), key=f"k{number}")
            await each.refund(str(number), key=f"p{number}", amount=500)
        for path, name, key in (
            ("/v1/traces", "traces", "trace_id"),
            ("/v1/verdicts", "verdicts", "verdict_id"),
            ("/v1/calls?tool=issue_refund", "calls", "call_id"),
            ("/v1/approvals?status=pending", "approvals", "approval_id"),
            (f"/v1/traces/{trace_id(1)}/steps", "steps", "step_id"),
        ):
            whole = [one[key] for one in await walk(each, path, name, 1000)]
            assert len(whole) == len(set(whole)) >= 3
            for limit in (1, 2, 3):
                paged = [one[key] for one in await walk(each, path, name, limit)]
                assert paged == whole, (path, limit)
        kinds = await each.http_ask(
            "GET", f"/v1/traces/{trace_id(1)}/steps?kind=tool_call", by=each.reader
        )
        assert [one["kind"] for one in kinds.json["steps"]] == ["tool_call"]

    run(tmp_path, scenario)


def test_a_trace_is_told_whole_with_its_revisions(tmp_path):
    async def scenario(each):
        first = trace(1)
        await each.shelf.publish(first)
        place = (await each.http_ask("GET", "/v1/publications", by=each.reader)).json["place"]
        await each.shelf.publish(trace(1, final_output="done"))
        path = f"/v1/traces/{trace_id(1)}"
        newest = (await each.http_ask("GET", path, by=each.reader)).json
        assert (newest["revision"], newest["final_output"]) == (2, "done")
        assert newest["steps"][2]["tool"]["arguments"]["beyond"] == 2**70
        older = (await each.http_ask("GET", f"{path}?revision=1", by=each.reader)).json
        assert (older["revision"], older["final_output"]) == (1, None)
        revisions = (await each.http_ask("GET", f"{path}/revisions", by=each.reader)).json
        assert [one["revision"] for one in revisions["revisions"]] == [1, 2]
        feed = await each.http_ask("GET", f"/v1/publications?after={place}", by=each.reader)
        assert [one["revision"] for one in feed.json["traces"]] == [2]
        unknown = await each.http_ask("GET", f"{path}?revision=3", by=each.reader)
        assert (unknown.status, unknown.code) == (404, "no_such_trace")

    run(tmp_path, scenario)


def test_who_sends_an_etag_back_is_told_when_nothing_changed_or_waits_for_a_change(tmp_path):
    async def scenario(each):
        path = "/v1/approvals?status=pending"
        first = await each.http_ask("GET", path, by=each.reader)
        known = {"If-None-Match": f'W/"x", {first.headers["etag"]}'}
        same = await each.http_ask("GET", path, by=each.reader, headers=known)
        assert (same.status, same.body) == (304, b"")
        waiting = asyncio.create_task(
            each.http_ask("GET", f"{path}&wait=55", by=each.reader, headers=known)
        )
        approval_id = await pending(each)
        told = await asyncio.wait_for(waiting, 5)
        assert [one["approval_id"] for one in told.json["approvals"]] == [approval_id]

    run(tmp_path, scenario)


def test_a_revoked_key_that_waits_gets_no_answer_and_a_stop_ends_the_waiting(tmp_path):
    async def scenario(each):
        leaver = each.credential("reader", name="leaver")
        path = "/v1/approvals?wait=55"

        async def held(by):
            first = await each.http_ask("GET", path, by=by)
            known = {"If-None-Match": first.headers["etag"]}
            return asyncio.create_task(each.http_ask("GET", path, by=by, headers=known))

        waiting = await held(leaver)
        each.keys.revoke_key(leaver.split("_")[2], 1)
        assert (await asyncio.wait_for(waiting, 5)).status == 401
        waiting = await held(each.reader)
        await each.http_ask("GET", "/v1/version", by=each.reader)  # by then the other is held
        await each.web.stop()
        assert (await asyncio.wait_for(waiting, 5)).status == 304

    run(tmp_path, scenario)


def test_the_chain_is_verified_and_exported_for_one_project(tmp_path):
    async def scenario(each):
        await each.refund("17", key="b")
        foreign = each.credential("agent", project="other", name="their-agent")
        await each.refund("18", key="b", credential=foreign)
        good = (await each.http_ask("GET", "/v1/audit/verification", by=each.reader)).json
        assert (good["good"], good["what"]) == (True, None)
        lines = await exported(each, each.reader)
        head = lines.pop()["head"]
        assert good["entries"] == len(lines)
        assert (head["seq"], head["hash"]) == (lines[-1]["seq"], lines[-1]["hash"])
        assert all(a["hash"] == b["prev"] for a, b in itertools.pairwise(lines))
        told = {line["seq"]: line for line in lines if "body" in line}
        assert {line["project"] for line in told.values()} == {"default"}
        assert len(told) < len(lines)
        theirs = await exported(each, each.credential("reader", project="other"))
        told_them = {one["seq"] for one in theirs if "body" in one}
        assert told_them and told_them.isdisjoint(told)
        assert [one["hash"] for one in theirs] == [one["hash"] for one in [*lines, theirs[-1]]]
        rest = await exported(each, each.reader, f"?after={lines[1]['seq']}")
        assert [one["seq"] for one in rest[:-1]] == [one["seq"] for one in lines[2:]]
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
            connection.execute("UPDATE audit SET at_ns = at_ns + 1 WHERE seq = 2")
        bad = (await each.http_ask("GET", "/v1/audit/verification", by=each.reader)).json
        assert (bad["good"], bad["first_bad_index"]) == (False, 2)

    async def exported(each, by, query=""):
        told = await each.http_ask("GET", f"/v1/audit/entries{query}", by=by)
        assert told.headers["content-type"] == "application/jsonl"
        return [json.loads(line) for line in told.body.splitlines()]

    run(tmp_path, scenario)


def test_keys_are_made_shown_once_rotated_and_revoked_by_who_may(tmp_path):
    async def scenario(each):
        made = await each.http_ask(
            "POST", "/v1/keys", by=each.admin,
            json={"role": "viewer", "name": "ci", "lifetime_seconds": 60},
        )  # fmt: skip
        assert (made.status, made.headers["cache-control"]) == (201, "no-store")
        key, key_id = made.json["key"], made.json["key_id"]
        me = (await each.http_ask("GET", "/v1/whoami", by=key)).json
        assert (me["id"], me["role"], me["permissions"]) == (
            *(f"key:{key_id}", "viewer", ["store.read"]),
        )
        shown = await each.http_ask("GET", f"/v1/keys/{key_id}", by=each.admin)
        listed = await each.http_ask("GET", "/v1/keys", by=each.admin)
        for told in (shown, listed):
            assert (
                key.split("_")[3] not in told.body.decode() and "sha256" not in told.body.decode()
            )
        turned = await each.http_ask(
            "POST", f"/v1/keys/{key_id}/rotate", by=each.admin, json={"overlap_seconds": 0}
        )
        assert (await each.http_ask("GET", "/v1/whoami", by=key)).status == 401
        assert (await each.http_ask("GET", "/v1/whoami", by=turned.json["key"])).status == 200
        gone = await each.http_ask("POST", f"/v1/keys/{key_id}/revoke", by=each.admin)
        assert gone.json["revoked_at_ns"] is not None
        assert (await each.http_ask("GET", "/v1/whoami", by=turned.json["key"])).status == 401
        late = await each.http_ask("POST", f"/v1/keys/{key_id}/rotate", by=each.admin, json={})
        noted = [json.loads(entry.body) for entry in each.ledger.entries_after(0, 999)
                 if entry.kind == "admin_action"]  # fmt: skip
        by = f"key:{each.admin.split('_')[2]}"
        assert noted == [
            {"action": action, "by": by, "key_id": key_id}
            for action in ("create_key", "rotate_key", "revoke_key")
        ]
        assert (late.status, late.code) == (409, "key_revoked")

    run(tmp_path, scenario)


def test_nobody_gives_more_than_they_may(tmp_path):
    async def scenario(each):
        engineer = each.member("engineer", "reader")
        owner = each.member("owner", "admin")
        owners_id = owner.split("_")[2]
        for by, role, status in (
            (engineer, "agent", 201),
            (engineer, "viewer", 403),
            (each.admin, "reviewer", 201),
            (each.admin, "owner", 403),
            (owner, "owner", 201),
            (each.reader, "agent", 403),
            (each.approver, "agent", 403),
            (each.agent, "agent", 403),
        ):
            told = await each.http_ask("POST", "/v1/keys", by=by, json={"role": role})
            assert told.status == status, (role, told.json)
        for action in ("revoke", "rotate"):
            path = f"/v1/keys/{owners_id}/{action}"
            assert (await each.http_ask("POST", path, by=each.admin, json={})).status == 403
        listed = await each.http_ask("GET", "/v1/keys?limit=1", by=engineer)
        assert len(listed.json["keys"]) == 1 and "next_cursor" in listed.json

    run(tmp_path, scenario)


def test_the_sidecar_tells_of_itself_without_a_secret(tmp_path):
    async def scenario(each):
        tools = (await each.http_ask("GET", "/v1/tools", by=each.reader)).json["tools"]
        assert {one["name"]: one["class"] for one in tools} == {
            "get_order": "read", "issue_refund": "irreversible", "add_note": "write",
        }  # fmt: skip
        policy = (await each.http_ask("GET", "/v1/policy", by=each.reader)).json
        assert policy["revision"] == each.policy.revision
        projects = (await each.http_ask("GET", "/v1/projects", by=each.approver)).json["projects"]
        assert [(one["name"], one["role"]) for one in projects] == [("default", "reviewer")]
        me = await each.http_ask("GET", "/v1/whoami", by=each.agent)
        assert (me.status, me.json["kind"], me.json["role"]) == (200, "agent", "agent")
        assert (await each.http_ask("GET", "/v1/version", by=each.agent)).status == 403
        version = (await each.http_ask("GET", "/v1/version", by=each.reader)).json
        assert version["name"] == "agenttwin-sidecar"

    run(tmp_path, scenario)


def test_errors_are_problem_documents_with_a_request_id(tmp_path):
    async def scenario(each):
        for method, path, status, code in (
            ("GET", "/v1/nowhere", 404, "no_such_page"),
            ("GET", "/v1/traces/%00", 404, "no_such_page"),
            ("DELETE", "/v1/calls", 405, "method_not_allowed"),
            ("GET", "/v1/calls?limit=0", 400, "parameter_malformed"),
            ("GET", "/v1/calls?limit=1001", 400, "parameter_malformed"),
            ("GET", "/v1/calls?limit=null", 400, "parameter_malformed"),
            ("GET", "/v1/calls?limit=%2B5", 400, "parameter_malformed"),
            ("GET", "/v1/calls?limit=1&limit=2", 400, "parameter_repeated"),
            ("GET", "/v1/calls?lmit=1", 400, "parameter_unknown"),
            ("GET", "/v1/calls?cursor=5", 400, "parameter_malformed"),
            ("GET", "/v1/calls?tool=%00", 400, "parameter_malformed"),
            ("GET", "/v1/calls/x", 404, "no_such_call"),
            ("GET", "/v1/receipts/x", 404, "no_such_receipt"),
            ("GET", "/v1/traces/x", 404, "no_such_trace"),
            ("GET", "/v1/verdicts/x", 404, "no_such_verdict"),
            ("GET", "/v1/approvals/x", 404, "no_such_approval"),
        ):
            told = await each.http_ask(method, path, by=each.reader)
            assert (told.status, told.code) == (status, code), path
            assert told.headers["content-type"] == "application/problem+json"
            assert len(told.headers["request-id"]) == 32
            assert ("allow" in told.headers) == (status == 405)
        filtered = await each.http_ask("GET", "/v1/calls?tool=null", by=each.reader)
        assert filtered.json == {"calls": []}

    run(tmp_path, scenario)


def test_bodies_are_json_small_and_plain(tmp_path):
    async def scenario(each):
        path = f"/v1/approvals/{await pending(each)}/approve"
        plain = {"Content-Type": "application/json"}
        vote = b'{"reason": "x"}'
        for data, headers, status in (
            (vote, {"Content-Type": "text/plain"}, 415),
            (vote, {**plain, "Content-Encoding": "gzip"}, 415),
            (b'{"reason": "' + b"x" * 70_000 + b'"}', plain, 413),
            (b"{", plain, 400),
            (b'{"reason": "no", "reason": "yes"}', plain, 400),
            (b'{"reason": "x"} {}', plain, 400),
            (b'{"reason": "\\ud800"}', plain, 400),
        ):
            told = await each.http_ask("POST", path, by=each.approver, data=data, headers=headers)
            assert told.status == status, (data[:20], told.json)
        shown = await each.http_ask("GET", path.removesuffix("/approve"), by=each.reader)
        assert (shown.json["status"], shown.json["votes"]) == ("pending", [])

    run(tmp_path, scenario)


def test_two_credentials_are_none(tmp_path):
    async def scenario(each):
        bearer = ("Authorization", f"Bearer {each.reader}")
        url = f"http://127.0.0.1:{each.web.port}/v1/approvals"
        async with each.http.get(url, headers=CIMultiDict([bearer, bearer])) as answer:
            assert answer.status == 401

    run(tmp_path, scenario)


def test_what_does_not_open_is_a_problem_and_no_page_of_the_library(tmp_path):
    async def scenario(each):
        approval_id = await pending(each)
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
            connection.execute("UPDATE approval SET summary = x'0102030405'")
        for path in ("/v1/approvals", f"/v1/approvals/{approval_id}"):
            told = await each.http_ask("GET", path, by=each.reader)
            assert (told.status, told.code) == (503, "store_unavailable")

    run(tmp_path, scenario)


def test_every_page_is_closed_to_strangers_and_to_agents_but_the_one_that_says_who_they_are(
    tmp_path,
):
    async def scenario(each):
        served = [each_ for each_ in OPERATIONS if each_.method is not None]
        assert len(served) > 20
        for operation in served:
            path = operation.path.replace("{", "").replace("}", "")
            body = {"json": {}} if operation.method == "POST" else {}
            told = await each.http_ask(operation.method, path, **body)
            assert (told.status, told.code) == (401, "unauthenticated"), path
            told = await each.http_ask(operation.method, path, by=each.agent, **body)
            expected = 200 if operation.permission is None else 403
            assert told.status == expected, path
        assert (await each.http_ask("GET", "/v1/openapi.json")).status == 401
        assert (await each.http_ask("GET", "/v1/nowhere")).status == 401
        assert (await each.http_ask("GET", "/healthz")).body == b"ok\n"

    run(tmp_path, scenario)


@pytest.mark.requirement("REC-05")
def test_an_export_whose_key_is_revoked_meanwhile_is_cut_and_never_looks_whole(tmp_path):
    async def scenario(each):
        for number in range(40):
            await each.refund(str(number), key="b")
        known, asked = each.desk.principal, 0

        async def revoking(presented, project, permission):
            nonlocal asked
            asked += 1
            if asked == 3:  # for the page, for what it holds, after its first hundred entries
                each.keys.revoke_key(each.reader.split("_")[2], each.desk._now_ns())
            return await known(presented, project, permission)

        each.desk.principal = revoking
        reader, writer = await asyncio.open_connection("127.0.0.1", each.web.port)
        try:
            by = f"Host: x\r\nConnection: close\r\nAuthorization: Bearer {each.reader}\r\n\r\n"
            writer.write(f"GET /v1/audit/entries HTTP/1.1\r\n{by}".encode())
            data = b""
            with suppress(ConnectionError):
                while part := await reader.read(65536):
                    data += part
        finally:
            writer.close()
        assert asked == 3
        assert data.count(b"HTTP/1.1 ") == 1 and data.startswith(b"HTTP/1.1 200")
        assert b"problem+json" not in data and not data.endswith(b"0\r\n\r\n")
        again = await each.http_ask("GET", "/v1/audit/entries", by=each.reader)
        assert again.status == 401

    run(tmp_path, scenario)
