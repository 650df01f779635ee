"""The forward proxy and the explicit action: other ways to the same calls."""

import asyncio
import base64
import json

import pytest
from gateway_rig import AllowAll, rig
from hypothesis import given
from hypothesis import strategies as st
from test_framing import exchange, status

from processors.model.principal import Principal
from sidecar.egress.rules import Target
from sidecar.gateway.action import prepare
from sidecar.gateway.config import Match, Tool, Upstream
from sidecar.gateway.explicit import explicit_request
from sidecar.gateway.forward import below, read_absolute
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import Registry

AGENT = Principal(id="key:1", kind="agent", project="shop")
GOOD = "Proxy-Authorization: Bearer {key}"
BODY = b'{"amount": 20.50, "currency": "EUR"}'


def run(folder, scenario, **options):
    async def main():
        async with rig(folder, policy=AllowAll(), **options) as each:
            await scenario(each)

    asyncio.run(main())


def forwarded(each, *lines, method="POST", path="/orders/17/refunds", host=None, target=None):
    authority = f"127.0.0.1:{each.shop.port}"
    given = [
        f"{method} {target or f'http://{authority}{path}'} HTTP/1.1",
        f"Host: {host or authority}",
        "Idempotency-Key: k",
        "Content-Type: application/json",
        f"Content-Length: {len(BODY)}",
        *lines,
    ]
    return ("\r\n".join(given) + "\r\n\r\n").encode() + BODY


def basic(password):
    return "Basic " + base64.b64encode(f"agent:{password}".encode()).decode()


@pytest.mark.requirement("GW-01")
def test_a_call_by_proxy_reaches_its_tool_with_the_agents_bytes_and_without_its_credentials(
    tmp_path,
):
    async def scenario(each):
        for number, shown in enumerate((f"Bearer {each.agent}", basic(each.agent))):
            lines = (f"Proxy-Authorization: {shown}", "Authorization: Bearer the-tools-own",
                     "Proxy-Connection: keep-alive", f"Idempotency_Other: {number}")  # fmt: skip
            sent = forwarded(each, *lines).replace(b"Key: k", b"Key: k%d" % number)
            received = await exchange(each.server.port, sent)
            assert status(received) == 201, received
        assert each.shop.effects() == 2
        for method, path, headers, body in each.shop.seen:
            assert (method, path, body) == ("POST", "/orders/17/refunds", BODY)
            assert not {"authorization", "proxy-authorization", "proxy-connection"} & headers.keys()
            assert each.agent not in str(headers)

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-01")
def test_a_session_with_a_proxys_address_needs_no_other_change(tmp_path):
    async def scenario(each):
        proxy = f"http://127.0.0.1:{each.server.port}"
        tool = f"http://127.0.0.1:{each.shop.port}/orders/17?verbose=1"
        who = {"Proxy-Authorization": basic(each.agent)}
        async with each.http.get(tool, proxy=proxy, headers=who) as answer:
            assert (answer.status, (await answer.json())["path"]) == (200, "/orders/17?verbose=1")
            assert answer.headers["Gateway-Receipt"]

    run(tmp_path, scenario)


FORWARD_REFUSALS = {
    "no credential": ({}, (), 407, "unauthenticated"),
    "a credential of the tool's": ({}, ("Authorization: Bearer {key}",), 407, "unauthenticated"),
    "two credentials": ({}, (GOOD, "Proxy-Authorization: Bearer x"), 400, "header_repeated"),
    "another host": ({"host": "evil.example"}, (GOOD,), 400, "host_mismatch"),
    "another port": ({"host": "127.0.0.1:1"}, (GOOD,), 400, "host_mismatch"),
    "no upstream's": (
        {"target": "http://evil.example/x", "host": "evil.example"},
        *((GOOD,), 404, "no_such_upstream"),
    ),
    "an address in disguise": (
        {"target": "http://2130706433/x", "host": "2130706433"},
        *((GOOD,), 400, "target_malformed"),
    ),
    "a user in the target": (
        {"target": "http://a@127.0.0.1/x", "host": "127.0.0.1"},
        *((GOOD,), 400, "target_malformed"),
    ),
    "a way up": ({"path": "/../admin"}, (GOOD,), 400, "target_malformed"),
    "no tool": ({"path": "/admin"}, (GOOD,), 404, "no_such_tool"),
    "a tunnel": (
        {"method": "CONNECT", "target": "127.0.0.1:443"},
        *((GOOD,), 405, "connect_refused"),
    ),
}


@pytest.mark.requirement("GW-05")
def test_what_a_proxy_is_asked_for_is_a_tools_call_or_refused(tmp_path):
    async def scenario(each):
        for name, (changes, lines, wanted, code) in FORWARD_REFUSALS.items():
            filled = [line.format(key=each.agent) for line in lines]
            received = await exchange(each.server.port, forwarded(each, *filled, **changes))
            assert status(received) == wanted, (name, received[:300])
            assert json.loads(received.partition(b"\r\n\r\n")[2])["code"] == code, name
            assert (wanted == 407) == (b"Proxy-Authenticate: Basic" in received), name
        assert each.shop.requests == 0

    run(tmp_path, scenario)


@pytest.mark.requirement("RCP-01")
def test_what_is_no_upstreams_leaves_a_receipt(tmp_path):
    async def scenario(each):
        answers = [
            await each.ask("POST", "/v1/actions", json={"tool": "no_such", "arguments": {}}),
            await each.ask("POST", "/v1/actions", json={"tool": 1}),
        ]
        for answer, code in zip(answers, ("no_such_tool", "action_malformed"), strict=True):
            assert answer.json["code"] == code
            receipt = each.ledger.get_receipt(answer.headers["gateway-receipt"])
            assert receipt.phase == "refused"

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/api/v2/x?a=1", ("two", "/x?a=1")),
        ("/api/x", ("one", "/x")),
        ("/apis/x", None),
        ("/%61pi/x", None),
        ("/api", None),
    ],
)
def test_a_target_is_the_upstreams_with_the_longest_path_spelt_as_configured(path, wanted):
    targets = [
        Target(name="one", url="http://tools.example/api"),
        Target(name="two", url="http://tools.example:80/api/v2/"),
        Target(name="other", url="https://tools.example/api"),
    ]
    found = below(read_absolute(f"http://TOOLS.example{path}", "tools.example"), targets)
    assert found == wanted


@pytest.mark.requirement("GW-01")
def test_an_action_by_name_is_the_same_call_as_its_request(tmp_path):
    async def scenario(each):
        action = {
            "tool": "issue_refund",
            "arguments": {"order_id": "17", "amount": 20, "currency": "EUR"},
            "idempotency_key": "a b",
        }
        first = await each.ask("POST", "/v1/actions", json=action)
        assert first.status == 201, first.json
        again = await each.refund("17", key='"a b"')
        assert again.headers["idempotent-replayed"] == "true"
        assert again.headers["gateway-receipt"] == first.headers["gateway-receipt"]
        assert each.shop.effects() == 1
        read = {"tool": "get_order", "arguments": {"order_id": "o 1", "verbose": ["1", "2"]}}
        answer = await each.ask("POST", "/v1/actions", json=read)
        assert answer.json["path"] == "/orders/o%201?verbose=1&verbose=2"
        needed = await each.ask("POST", "/v1/actions", json={**action, "idempotency_key": ""})
        assert needed.json["code"] == "idempotency_key_invalid"
        twice = await each.ask("POST", "/v1/actions", json=action, key="k")
        assert twice.json["code"] == "action_malformed"

    run(tmp_path, scenario)


@pytest.mark.row("GHSA-v2x6-wwfw-r2rq", "CVE-2026-32871")
@pytest.mark.parametrize(
    "value", ["../admin", "a/b", "..", "", "a?x=1", "a#b", "a%2Fb", "a\nb", 1.5]
)
@pytest.mark.requirement("GW-05")
def test_an_argument_of_the_path_is_one_segment_or_refused(tmp_path, value):
    async def scenario(each):
        for tool in ("get_order", "issue_refund"):
            document = json.dumps({"tool": tool, "arguments": {"order_id": value}}).encode()
            with pytest.raises(Refused) as refused:
                explicit_request(document, (), each.gateway.registry)
            assert refused.value.code == "action_malformed"

    run(tmp_path, scenario)


PLACES = Registry.from_config(
    (Upstream(name="u", url="http://u.example"),),
    (
        Tool(name="get", upstream="u", match=Match(method="GET", path="/a/{x}/b/{y}")),
        Tool(name="put", upstream="u", match=Match(method="PUT", path="/a/{x}")),
    ),
    {},
)


@pytest.mark.row("GHSA-v2x6-wwfw-r2rq", "CVE-2026-32871")
@pytest.mark.requirement("GW-05")
@given(x=st.text(max_size=12), y=st.text(max_size=12), z=st.text(max_size=12))
def test_no_argument_reaches_another_place_than_its_own(x, y, z):
    for tool, arguments in (("get", {"x": x, "y": y, "z": z}), ("put", {"x": x, "z": z})):
        document = json.dumps({"tool": tool, "arguments": arguments}).encode()
        try:
            found = explicit_request(document, (), PLACES)
            prepared = prepare(found, AGENT, PLACES)
        except Refused as refused:
            assert refused.status == 400
            continue
        assert prepared.arguments == arguments
        assert prepared.path.count("/") == (4 if tool == "get" else 2)
        assert prepared.tool.name == tool


def test_arguments_without_a_part_in_the_path_leave_as_the_bytes_they_came_as():
    tool = Tool(name="add", upstream="notes", match=Match(method="POST", path="/notes"))
    notes = Upstream(name="notes", url="http://notes.example")
    raw = b'{"text":  "\\u00e9", "n": 1.50}'
    document = b'{"tool": "add", "arguments": %s}' % raw
    found = explicit_request(document, (), Registry.from_config((notes,), (tool,), {}))
    assert (found.raw_path, found.body) == ("/notes", raw)
