"""The API's descriptions are made of one table: the OpenAPI document, the protos, both routers."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from processors.model.call import Receipt
from sidecar.control import openapi, reads
from sidecar.control.arguments import from_http, from_message
from sidecar.control.changes import CHANGES
from sidecar.control.documents import ReceiptDocument
from sidecar.control.grpc import SERVICES, STATUS
from sidecar.control.operations import BY_NAME, OPERATIONS
from sidecar.gateway.problem import Refused
from sidecar.identity.roles import Permission

ROOT = Path(__file__).parents[3]
GENERATE = ROOT / "proto" / "generate.py"
DOCUMENT = openapi.document("1")


def test_what_is_generated_is_current(tmp_path):
    subprocess.run([sys.executable, GENERATE, tmp_path], check=True, cwd=ROOT)
    fresh = {p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file()}
    assert len(fresh) > 25
    for path in sorted(fresh):
        assert (ROOT / path).read_text() == (tmp_path / path).read_text(), (
            f"{path} is not current: run python proto/generate.py"
        )
    kept = [*ROOT.glob("proto/sidecar/v1/*"), *ROOT.glob("sidecar/_pb/**/*.py*")]
    there = {p.relative_to(ROOT) for p in kept if "__pycache__" not in p.parts}
    assert there == fresh


def test_a_field_keeps_its_number_and_one_that_went_is_never_used_again():
    generate = runpy.run_path(str(GENERATE))
    known = generate["numbers"](ROOT / "proto")
    fields, _ = known["Caller"]
    known["Caller"] = ({**fields, "gone": 40, "id": 9, "kind": 1}, {50})
    text = generate["proto_files"](known)["sidecar.proto"]
    body = re.search(r"^message Caller \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)[1]
    assert "reserved 40, 50;" in body and "string id = 9;" in body and "string kind = 1;" in body
    del known["Caller"][0]["name"]
    body = generate["proto_files"](known)["sidecar.proto"]
    assert "string name = 51;" in body, "a new field's number follows every number ever used"


def test_both_wires_serve_the_table_and_nothing_else():
    served = {(each.service, each.rpc) for each in OPERATIONS}
    assert {
        (service.name, method.name) for service in SERVICES.values() for method in service.methods
    } == served
    pages = {(path, method.upper()) for path, page in DOCUMENT["paths"].items() for method in page}
    assert pages == {(each.path, each.method) for each in OPERATIONS if each.method} | {
        ("/v1/openapi.json", "GET")
    }


def test_every_operation_has_one_who_performs_it_and_a_known_permission():
    by_hand = {"approve", "deny", "verify_audit", "export_audit", "tail_traces", "watch_approvals"}
    by_hand |= {"set_stop", "lift_stop", "resolve_call", "requeue_call", "discard_call"}
    by_hand |= {"approve_policy", "deny_policy"}
    by_hand |= {"approve_batch", "open_break_glass", "break_glass", "review_break_glass"}
    assert set(BY_NAME) == {*reads.READS, *CHANGES, *by_hand}
    assert len(BY_NAME) == len(OPERATIONS)
    assert {each.permission for each in OPERATIONS} - {None} <= set(get_args(Permission))
    assert {each.name for each in OPERATIONS if each.permission is None} == {"who_am_i"}


def test_every_refusal_that_is_described_has_a_status_on_both_wires():
    described = {int(each) for each in DOCUMENT["components"]["responses"]}
    assert described - {405, 415} <= set(STATUS)
    for page in DOCUMENT["paths"].values():
        for operation in page.values():
            assert {"401", "403", "405"} <= set(operation["responses"])


def test_every_reference_of_the_document_leads_somewhere():
    text = json.dumps(DOCUMENT)
    for reference in set(re.findall(r'"#/([^"]+)"', text)):
        found = DOCUMENT
        for part in reference.split("/"):
            found = found[part]


def test_a_receipt_is_shown_with_every_field_it_has():
    shown = {each.encode_name for each in msgspec.structs.fields(ReceiptDocument)}
    assert shown == {each.name.rstrip("_") for each in msgspec.structs.fields(Receipt)}


def test_nothing_secret_has_a_field():
    fields = set(re.findall(r'"([a-z_0-9]+)": \{', json.dumps(DOCUMENT["components"]["schemas"])))
    assert not {name for name in fields if "secret" in name or "sha256" in name}
    assert "key" in DOCUMENT["components"]["schemas"]["CreatedKey"]["properties"]
    assert "key" not in DOCUMENT["components"]["schemas"]["KeyDocument"]["properties"]


@pytest.mark.parametrize(
    ("name", "path", "query", "body", "status"),
    [
        ("get_trace", {"trace_id": "a b"}, [], None, 404),
        ("get_trace", {"trace_id": "a"}, [("revision", "0")], None, 400),
        ("get_trace", {"trace_id": "a"}, [("trace_id", "b")], None, 400),
        ("list_calls", {}, [("limit", "1.0")], None, 400),
        ("list_calls", {}, [("limit", "01")], None, 400),
        ("list_calls", {}, [("limit", "99999999999999999999")], None, 400),
        ("list_calls", {}, [("tool", "\ud800")], None, 400),
        ("list_calls", {}, [("project", "a"), ("project", "a")], None, 400),
        ("create_key", {}, [], {"role": "king"}, 422),
        ("create_key", {}, [("role", "agent")], {"role": "agent"}, 400),
        ("create_key", {}, [], {"role": "agent", "project": "other"}, 422),
        ("create_key", {}, [], {"role": "agent", "tools": ["a,b"]}, 422),
        ("create_key", {}, [], None, 422),
        ("approve", {"approval_id": "a"}, [], {"reason": "x", "approval_id": "b"}, 422),
        ("approve", {"approval_id": "a"}, [], {"reason": "\ud800"}, 422),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(name, path, query, body, status):
    with pytest.raises(Refused) as caught:
        from_http(BY_NAME[name], path, query, body)
    assert caught.value.status == status


def test_a_whole_number_is_one_however_it_is_written():
    made = from_http(BY_NAME["create_key"], {}, [], {"role": "agent", "lifetime_seconds": 377.0})
    assert made.lifetime_seconds == 377
    with pytest.raises(Refused):
        from_http(BY_NAME["create_key"], {}, [], {"role": "agent", "lifetime_seconds": 3.5})


def test_what_fits_is_the_same_record_by_either_wire():
    vote = {"reason": "ok", "shown_digest": "sha256:1"}
    by_web = from_http(BY_NAME["approve"], {"approval_id": "a"}, [("project", "p")], vote)
    values = {"approval_id": "a", "project": "p", **vote}
    assert by_web == from_message(BY_NAME["approve"], values)
    by_web = from_http(BY_NAME["list_traces"], {}, [("limit", "7"), ("since_ns", "0")])
    assert by_web == from_message(BY_NAME["list_traces"], {"limit": 7, "since_ns": 0})


HOWTO = (ROOT / "docs" / "howto" / "control-api.md").read_text().replace("\\\n", " ")


@pytest.mark.parametrize(
    ("data", "rpc"), re.findall(r"^grpcurl .*?-d '(.*?)' \S+ sidecar\.v1\.\w+/(\w+)", HOWTO, re.M)
)
def test_what_the_howto_sends_by_grpcurl_is_taken(data, rpc):
    (operation,) = (each for each in OPERATIONS if each.rpc == rpc)
    assert from_message(operation, json.loads(data))


@pytest.mark.parametrize(
    ("data", "path"), re.findall(r"^curl .*?-d '(.*?)'\s+http://[^/]+(/v1/\S+)", HOWTO, re.M)
)
def test_what_the_howto_sends_by_curl_is_taken(data, path):
    (operation,) = (
        each
        for each in OPERATIONS
        if each.method == "POST" and re.fullmatch(re.sub(r"{\w+}", "[^/]+", each.path), path)
    )
    place = dict.fromkeys(operation.in_path, "ID")
    assert from_http(operation, place, [], json.loads(data))
