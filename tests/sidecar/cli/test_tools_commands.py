"""``sidecar tools``: the registry listed, and drafted from OpenAPI, an MCP server and traffic."""

import asyncio
import json
import sys
import threading

import pytest
import structlog
import yaml
from mcp_rig import Crm, definitions_of, served

from sidecar.__main__ import main

OPENAPI = {
    "openapi": "3.1.0",
    "paths": {
        "/orders/{orderId}/refunds": {
            "parameters": [{"name": "orderId", "in": "path", "required": True,
                            "schema": {"type": "integer"}}],
            "post": {
                "operationId": "issueRefund",
                "summary": "Refunds an order.\nTwice the lines",
                "parameters": [{"name": "X-Trace", "in": "header"}],
                "requestBody": {"content": {"application/json": {
                    "schema": {"$ref": "#/components/schemas/Refund"}}}},
            },
            "get": {"parameters": [{"name": "state", "in": "query",
                                    "schema": {"type": "array", "items": {"enum": ["a"]}}}]},
            "options": {},
        },
        "/files/{name}.{ext}": {"get": {}},
        "/loops": {"post": {"requestBody": {"content": {"application/json": {
            "schema": {"$ref": "#/components/schemas/Node"}}}}}},
    },
    "components": {"schemas": {
        "Refund": {"type": "object", "required": ["amount"], "properties": {
            "amount": {"type": "string"}, "currency": {"$ref": "#/components/schemas/Currency"}}},
        "Currency": {"enum": ["EUR", "USD"]},
        "Node": {"type": "object", "properties": {
            "child": {"$ref": "#/components/schemas/Node"}}},
    }},
}  # fmt: skip
CONFIG = """
gateway:
  upstreams: [{name: payments, url: "http://payments.example"}]
  tools:
    - {name: get_order, upstream: payments, match: {method: GET, path: "/o/{id}"}, class: read}
    - {name: issue_refund, upstream: payments, match: {method: POST, path: "/o/{id}/refunds"}}
"""


@pytest.fixture
def sidecar(tmp_path, monkeypatch, capfd):
    yield from _running(tmp_path, monkeypatch, capfd)
    structlog.reset_defaults()  # a command that logs has set it to this test's stderr


def _running(tmp_path, monkeypatch, capfd):
    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["sidecar", "tools", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code), *capfd.readouterr()

    yield run


@pytest.fixture
def crm():
    """The port of a CRM that runs in a thread."""
    told, stop = {}, threading.Event()
    ready = threading.Event()

    def serve():
        async def life():
            async with served(Crm().server()) as port:
                told["port"] = port
                told["definitions"] = await definitions_of(port)
                ready.set()
                await asyncio.to_thread(stop.wait)

        asyncio.run(life())

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(20)
    yield told
    stop.set()
    thread.join()


def test_the_registered_tools_are_listed(sidecar, tmp_path):
    (tmp_path / "sidecar.yaml").write_text(CONFIG)
    code, out, _ = sidecar("list")
    assert code == 0
    assert out.splitlines()[0].split() == ["NAME", "CLASS", "MODE", "UPSTREAM", "MATCH"]
    assert "issue_refund  irreversible  enforce  payments  POST /o/{id}/refunds" in out
    code, out, _ = sidecar("list", "--output", "json")
    assert [row["class"] for row in json.loads(out)] == ["read", "irreversible"]


@pytest.mark.requirement("GW-08")
def test_a_registry_is_drafted_from_openapi_and_can_be_used(sidecar, tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(OPENAPI))
    code, out, _ = sidecar("draft", "openapi", "spec.json", "--upstream", "payments")
    assert code == 0
    found = {tool["name"]: tool for tool in yaml.safe_load(out)["tools"]}
    assert found["issue_refund"]["match"] == {
        "method": "POST", "path": "/orders/{orderId}/refunds",
    }  # fmt: skip
    assert found["issue_refund"]["class"] == "irreversible"
    assert found["get_orders_order_id_refunds"]["class"] == "read"
    schema = json.loads((tmp_path / "schemas/issue_refund.json").read_text())
    assert schema["required"] == ["amount", "orderId"] and not schema["additionalProperties"]
    assert schema["properties"]["orderId"] == {"type": "string", "pattern": "^-?[0-9]+$"}
    assert schema["properties"]["currency"] == {"enum": ["EUR", "USD"]}
    assert "# the header parameter X-Trace is not passed on" in out
    assert "# left out: GET /files/{name}.{ext}: '{name}.{ext}' is only in part a parameter" in out
    assert "# left out: OPTIONS /orders/{orderId}/refunds" in out
    tools = "\n".join(f"  {line}" for line in out.splitlines())
    start = 'gateway:\n  upstreams: [{name: payments, url: "http://payments.example"}]\n'
    (tmp_path / "sidecar.yaml").write_text(start + tools + "\n")
    code, out, err = sidecar("list")
    assert code == 0 and "issue_refund" in out, err


@pytest.mark.parametrize("text", ["{", "[]", '{"openapi": "2.0", "paths": {}}', "a: [b"])
def test_what_is_no_openapi_is_said_to_be_none(sidecar, tmp_path, text):
    (tmp_path / "spec.yaml").write_text(text)
    code, out, err = sidecar("draft", "openapi", "spec.yaml", "--upstream", "x")
    assert (code, out) == (3, "") and "no OpenAPI document" in err


def span(method, url, kind=3):
    keys = {"http.request.method": method, "url.full": url}
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in keys.items()]
    return {"traceId": "a" * 32, "spanId": "b" * 16, "name": method, "kind": kind,
            "startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": attributes}  # fmt: skip


@pytest.mark.requirement("GW-08")
def test_a_schema_that_is_there_is_not_written_over(sidecar, tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(OPENAPI))
    assert sidecar("draft", "openapi", "spec.json", "--upstream", "payments")[0] == 0
    [file, *_] = sorted((tmp_path / "schemas").iterdir())
    stricter = {**json.loads(file.read_text()), "maxProperties": 1}
    file.write_text(json.dumps(stricter))
    code, _, err = sidecar("draft", "openapi", "spec.json", "--upstream", "payments")
    assert code == 3 and "left as it is" in err
    assert json.loads(file.read_text()) == stricter


def test_a_registry_is_drafted_from_captured_traffic(sidecar, tmp_path):
    spans = [
        span("POST", "http://payments:8080/orders/17/refunds?key=secret"),
        span("POST", "http://payments:8080/orders/A-18/refunds"),
        span("GET", "http://payments:8080/orders/3f2b8c4e-0000-4000-8000-000000000001"),
        span("GET", "http://payments:8080/health", kind=2),
        span("BREW", "http://pot/tea"),
    ]
    for number, each in enumerate(spans):
        each["spanId"] = f"{number + 1:016x}"
    request = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    (tmp_path / "0001.traces.json").write_text(json.dumps(request))
    code, out, err = sidecar("draft", "traffic", tmp_path / "0001.traces.json")
    assert code == 0, err
    found = yaml.safe_load(out)
    assert found["upstreams"] == [{"name": "payments_8080", "url": "http://payments:8080"}]
    assert [(tool["match"]["path"], tool["class"]) for tool in found["tools"]] == [
        ("/orders/{id}", "read"), ("/orders/{id}/refunds", "irreversible"),
    ]  # fmt: skip
    assert "# seen 2 times" in out and "secret" not in out and "health" not in out
    assert "# left out: 1 calls" in out


@pytest.mark.requirement("MCP-01")
def test_an_mcp_servers_tools_are_drafted_reviewed_and_compared(sidecar, tmp_path, crm):
    server = f'{{name: crm, url: "http://127.0.0.1:{crm["port"]}/mcp", allow_cidrs: [127.0.0.0/8]'
    (tmp_path / "sidecar.yaml").write_text(f"gateway:\n  mcp:\n    - {server}}}\n")
    code, out, err = sidecar("draft", "mcp", "crm")
    assert code == 0 and "wrote crm.tools.json" in err
    tools = yaml.safe_load(out)["tools"]
    assert [tool["match"] for tool in tools] == [
        {"tool": "find_customer"}, {"tool": "add_note"}, {"tool": "delete_customer"},
    ]  # fmt: skip
    assert {tool["class"] for tool in tools} == {"irreversible"}
    assert "# Adds a note to a customer." in out
    reviewed = json.loads((tmp_path / "crm.tools.json").read_text())
    assert reviewed["tools"][0]["name"] == "find_customer"
    configured = f"gateway:\n  mcp:\n    - {server}, definitions: crm.tools.json}}\n"
    (tmp_path / "sidecar.yaml").write_text(configured)
    code, out, err = sidecar("list", "--live")
    assert (code, out.count(": pinned")) == (0, 3), out + err
    code, out, _ = sidecar("list")
    assert "crm/add_note" in out
    reviewed["tools"][1]["description"] = "Adds a note."
    reviewed["tools"].pop()
    (tmp_path / "crm.tools.json").write_text(json.dumps(reviewed))
    code, out, _ = sidecar("list", "--live")
    assert code == 1
    assert "crm/add_note: drifted (description)" in out and "crm/delete_customer: new" in out
    code, out, err = sidecar("draft", "mcp", "crm")  # what is reviewed is not written over
    assert (code, out) == (3, "") and "left as it is at crm.tools.json" in err
    assert json.loads((tmp_path / "crm.tools.json").read_text()) == reviewed
    for _ in range(2):
        assert sidecar("draft", "mcp", "crm", "--out", "now")[0] == 0
    assert len(json.loads((tmp_path / "now" / "crm.tools.json").read_text())["tools"]) == 3


def test_a_server_that_is_not_configured_or_not_there_is_named(sidecar, tmp_path):
    entry = '{name: crm, url: "http://127.0.0.1:1/mcp", allow_cidrs: [127.0.0.0/8]}'
    (tmp_path / "sidecar.yaml").write_text(f"gateway:\n  mcp:\n    - {entry}\n")
    assert sidecar("draft", "mcp", "other")[0] == 3
    code, out, err = sidecar("draft", "mcp", "crm")
    assert (code, out) == (3, "") and "no connection could be made" in err
