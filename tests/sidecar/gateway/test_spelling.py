"""What clients spell in their own ways is one action; what means another thing is another."""

import asyncio
from itertools import combinations

import pytest
from gateway_rig import rig
from hypothesis import given
from hypothesis import strategies as st

from processors.model.principal import Principal
from sidecar.gateway.action import ToolRequest, prepare
from sidecar.gateway.config import Idempotency, Match, Tool, Upstream
from sidecar.gateway.fingerprint import fingerprint
from sidecar.gateway.registry import Registry
from sidecar.gateway.spelling import for_upstream, meant, wants_authzen

pytestmark = pytest.mark.requirement("APR-01")
AGENT = Principal(id="key:1", kind="agent", project="shop")
FORM = "application/x-www-form-urlencoded"
JSON = ("Content-Type", "application/json")
TOOLS = (
    Tool(name="pay", upstream="bank", class_="write", match=Match(method="POST", path="/pay"),
         idempotency=Idempotency(volatile=("/at",))),
    Tool(name="read", upstream="bank", class_="read", match=Match(method="POST", path="/read")),
)  # fmt: skip
BANK = (Upstream(name="bank", url="http://bank"),)


def made(*headers, body=b"{}", path="/pay", registry=Registry.from_config(BANK, TOOLS, {})):  # noqa: B008
    asked = ToolRequest(
        upstream="bank", method="POST", raw_path=path, headers=headers, body=body
    )  # fmt: skip
    return prepare(asked, AGENT, registry)


def accept(value):
    return made(JSON, ("Accept", value))


def typed(kind, body=b"x", path="/read"):
    return made(("Content-Type", kind), body=body, path=path)


def multipart(boundary, text="1"):
    body = f'--{boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n{text}\r\n'
    return typed(f"multipart/form-data; boundary={boundary}", f"{body}--{boundary}--".encode())


SAME = {
    "no Accept": [made(JSON), *map(accept, ("*/*", " */* ", "*/*;q=1", "*/*; q=1.0"))],
    "a list": [*map(accept, ("a/b, application/json;q=0.9", "A/b,application/json ; Q=0.90"))],
    "JSON": [made(JSON), made(("Content-Type", "Application/JSON; charset=UTF-8"), body=b" { } ")],
    "a form": [
        typed(FORM, b"a=1+2&b=~"), typed(f"{FORM}; charset=utf-8", b"a=1%202&b=%7E"),
        typed("Application/X-WWW-Form-Urlencoded", b"a=1%202&b=%7e"),
    ],
    "a multipart form": [multipart("one"), multipart("another")],
    "text": [typed("text/plain; charset=UTF-8"), typed('TEXT/plain;charset="utf-8"')],
    "tags": [made(JSON, ("If-Match", '"a", W/"b"')), made(JSON, ("If-Match", '"a",W/"b"'))],
    "a range": [made(JSON, ("Range", "bytes=0-1, 5-9")), made(JSON, ("Range", "Bytes=0-1,5-9"))],
}  # fmt: skip
OTHERS = [
    made(JSON), accept("application/json"), accept("application/json, */*"),
    accept("*/*, application/json"), accept("*/*;q=0.5"), accept("text/html, application/json"),
    accept("application/json, text/html"), accept('text/html;a="*/*"'), accept("text/html;a=B"),
    accept("text/html;a=b"), made(JSON, ("If-Match", '"A"')), made(JSON, ("If-Match", '"a"')),
    made(JSON, ("If-Match", 'W/"a"')), made(JSON, ("If-Match", '"a,b"')),
    made(JSON, ("If-Match", '"a","b"')), made(JSON, ("If-Match", '"a, b"')),
    made(JSON, ("Range", "bytes=0-1")), made(JSON, ("Range", "lines=0-1")),
    typed("text/plain"), typed("text/plain; charset=utf-8"), typed("text/plain; a=B"),
    typed("text/plain; a=b"), typed("text/html"), typed('text/plain; a="x;c=d"'),
    typed("text/plain; a=x; c=d"), typed(FORM, b"a=1&b=2"), typed(FORM, b"b=2&a=1"),
    typed(FORM, b"a=1&a=2"), typed(FORM, b"a=1%262"), typed("application/json", b'[["a","1"]]'),
    typed(FORM, b"a=1"), multipart("b"), multipart("b", "2"), typed(FORM, b"a="),
]  # fmt: skip


@pytest.mark.row("T37")
@pytest.mark.parametrize("name", SAME)
def test_what_means_the_same_is_one_action(name):
    assert len({each.action_hash for each in SAME[name]}) == 1


def test_what_means_another_thing_is_another_action():
    alike = [
        (one.action, other.action)
        for one, other in combinations(OTHERS, 2)
        if one.action_hash == other.action_hash
    ]
    assert alike == []


def test_what_is_sent_is_what_came():
    prepared = accept("*/*;q=1.0")
    assert ("accept", "*/*;q=1.0") in prepared.headers


def test_under_a_key_what_is_volatile_of_a_form_counts_no_more_and_all_else_does():
    def of(body):
        return fingerprint(typed(FORM, body, path="/pay"))

    assert of(b"a=1&at=1") == of(b"a=1&at=2") != of(b"a=2&at=1")
    assert of(b"a=1&b=2&at=1") == of(b"a=1&b=2&at=2") != of(b"b=2&a=1&at=1")
    one, other = (multipart_at(at, "1") for at in "12")
    assert fingerprint(one) == fingerprint(other) != fingerprint(multipart_at("1", "2"))


def multipart_at(at, amount):
    head = 'Content-Disposition: form-data; name="'
    body = f'--b\r\n{head}at"\r\n\r\n{at}\r\n--b\r\n{head}a"\r\n\r\n{amount}\r\n--b--'
    return typed("multipart/form-data; boundary=b", body.encode(), path="/pay")


@given(
    st.sampled_from(["accept", "if-match", "if-none-match", "range", "content-type", "x-other"]),
    st.text('*/;=,q0.1"W abAB\t', max_size=30),
)
def test_a_meaning_means_itself(name, value):
    once = meant(((name, value),))
    assert meant(tuple(once)) == once


def test_the_gateways_own_form_is_no_tools_business():
    assert wants_authzen("text/html, Application/AuthZEN+json;q=0.5")
    assert not wants_authzen("application/json, */*")
    assert for_upstream("application/json, application/authzen+json;q=0.5") == "application/json"
    assert for_upstream("application/authzen+json") == ""


@pytest.mark.row("C")
def test_a_token_that_one_client_asked_for_opens_for_another_clients_way_to_say_the_same(tmp_path):
    async def main():
        async with rig(tmp_path) as each:
            asked = await each.refund("17", key="k", amount=500, accept="*/*")
            approval = asked.json["approval"]["id"]
            assert await each.approve(approval) is None
            token = (await each.ask("GET", f"/v1/approvals/{approval}")).json["token"]
            url = f"http://127.0.0.1:{each.server.port}/payments/orders/17/refunds"
            sent = {"Authorization": f"Bearer {each.agent}", "Idempotency-Key": "k",
                    "Approval-Token": token, "Content-Type": "application/json"}  # fmt: skip
            body = b'{"currency":"EUR","amount":5e2}'
            reader, writer = await asyncio.open_connection("127.0.0.1", each.server.port)
            lines = [f"POST {url.split(str(each.server.port))[1]} HTTP/1.1", "Host: gateway"]
            lines += [f"{name}: {value}" for name, value in sent.items()]
            lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
            writer.write("\r\n".join(lines).encode() + body)
            answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 201"), answer
            assert "accept" not in each.shop.seen[-1][2]

    asyncio.run(main())
