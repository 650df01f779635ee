"""From raw request to action: arguments, hashes, costs, headers, and what is turned down."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.principal import Principal
from sidecar.errors import SidecarError
from sidecar.gateway.action import ToolRequest, action_hash, prepare
from sidecar.gateway.config import (
    Arguments,
    Config,
    Cost,
    Credential,
    Idempotency,
    Match,
    Tool,
    Upstream,
)
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import Registry

AGENT = Principal(id="key:1", kind="agent", project="shop")
UPSTREAMS = (Upstream(name="payments", url="http://payments"),)
SCHEMA = {
    "type": "object",
    "required": ["order_id", "amount"],
    "properties": {
        "order_id": {"type": "string", "pattern": "^[0-9]+$"},
        "amount": {"type": "number", "exclusiveMinimum": 0},
        "currency": {"type": "string"},
        "note": {},
    },
}
REFUND = Tool(
    name="issue_refund",
    upstream="payments",
    match=Match(method="POST", path="/orders/{order_id}/refunds"),
    arguments=Arguments(schema="refund.json"),
    cost=Cost(amount="arguments.amount", currency="arguments.currency"),
)
READ = Tool(
    name="get_order",
    upstream="payments",
    class_="read",
    match=Match(method="GET", path="/orders/{order_id}"),
)
LATEST = Tool(
    name="latest",
    upstream="payments",
    class_="read",
    match=Match(method="GET", path="/orders/latest"),
)
NOTE = Tool(
    name="note", upstream="payments", class_="write", match=Match(method="POST", path="/notes")
)
REGISTRY = Registry.from_config(UPSTREAMS, (REFUND, READ, LATEST, NOTE), {"refund.json": SCHEMA})
JSON_TYPE = (("Content-Type", "application/json"),)


def refund(
    body=b'{"amount": 12.50, "currency": "EUR"}', path="/orders/42/refunds", headers=JSON_TYPE
):
    request = ToolRequest(
        upstream="payments", method="POST", raw_path=path, headers=headers, body=body
    )
    return prepare(request, AGENT, REGISTRY)


def call(method, path, headers=(), body=b"", upstream="payments"):
    request = ToolRequest(
        upstream=upstream, method=method, raw_path=path, headers=tuple(headers), body=body
    )
    return prepare(request, AGENT, REGISTRY)


def refused(action, *args, **kwargs):
    with pytest.raises(Refused) as caught:
        action(*args, **kwargs)
    return caught.value


def test_a_refund_becomes_an_action_with_its_arguments_and_its_price():
    prepared = refund()
    assert prepared.tool.name == "issue_refund"
    assert prepared.arguments == {"order_id": "42", "amount": 12.5, "currency": "EUR"}
    assert (prepared.action.cost_amount, prepared.action.cost_currency) == ("12.5", "EUR")
    assert prepared.action.tenant == "shop" and prepared.action.class_ == "irreversible"
    assert prepared.body == b'{"amount": 12.50, "currency": "EUR"}'
    assert prepared.action_hash == action_hash(prepared.action)
    assert prepared.action_hash.startswith("sha256:")


def test_the_hash_tells_every_part_of_an_action_apart_and_nothing_else():
    first = refund()
    same = refund(headers=(*JSON_TYPE, ("traceparent", "00-1"), ("Idempotency-Key", "k")))
    assert same.action_hash == first.action_hash
    others = [
        refund(path="/orders/43/refunds"),
        refund(path="/orders/42/refunds?dry=1"),
        refund(body=b'{"amount": 12.51, "currency": "EUR"}'),
        refund(body=b'{"amount": 12.50, "currency": "EUR", "note": null}'),
        refund(headers=(*JSON_TYPE, ("Accept", "text/csv"))),
    ]
    assert len({first.action_hash, *(other.action_hash for other in others)}) == 6
    for field in ("tenant", "agent", "mode", "tool_digest"):
        changed = msgspec.structs.replace(first.action, **{field: "twin"})
        assert action_hash(changed) != first.action_hash


def test_the_same_json_in_other_words_is_the_same_action():
    noise = (("Content-Type", "application/json; charset=utf-8"), ("Accept-Language", "de"))
    one = refund(b'{"amount":12.5,"currency":"EUR"}')
    other = refund(b'{"currency":"EUR", "amount":\t12.50}', headers=noise)
    assert one.action_hash == other.action_hash and one.body != other.body
    assert dict(other.headers)["accept-language"] == "de"  # sent on all the same
    assert dict(other.headers)["content-type"] == "application/json; charset=utf-8"


def test_equal_json_in_other_bytes_has_one_canonical_digest_and_two_body_digests():
    one, other = (
        refund(b'{"amount":12.5,"currency":"EUR"}'),
        refund(b'{"currency":"EUR", "amount":12.50}'),
    )
    assert one.action.body_jcs_digest == other.action.body_jcs_digest
    assert one.action.body_digest != other.action.body_digest


@pytest.mark.requirement("GW-05")
@pytest.mark.parametrize(
    ("body", "headers", "status", "code", "detail"),
    [
        (b'{"amount": 1, "amount": 2}', JSON_TYPE, 400, "json_malformed", "stands twice"),
        (b'{"amount": 0}', JSON_TYPE, 400, "arguments_invalid", "/amount"),
        (b'{"amount": 1, "order_id": "43"}', JSON_TYPE, 400, "argument_ambiguous", "order_id"),
        (b'{"amount": 1, "_method": "GET"}', JSON_TYPE, 400, "method_override", "_method"),
        (b'{"amount": 1}', (), 415, "media_type_missing", "Content-Type"),
        (b'{"amount": 1}', (("content-type", "text/plain"),), 415, "media_type_unreadable", "JSON"),
        (
            b'{"amount": 1}',
            (("content-type", "application/json; charset=utf-16"),),
            415,
            "charset",
            "",
        ),
        (b"x", (*JSON_TYPE, ("Content-Encoding", "gzip")), 415, "content_encoding", ""),
        (b"x", (*JSON_TYPE, ("Content-Encoding", "gzip, gzip")), 415, "content_encoding", ""),
        (b"{}", (*JSON_TYPE, ("content-type", "text/csv")), 400, "header_repeated", "content-type"),
        (b"{}", (*JSON_TYPE, ("accept", "a\r\nb: c")), 400, "header_malformed", ""),
        (b'"' + b"x" * 2**20 + b'"', JSON_TYPE, 413, "body_too_large", "1048576"),
        (b'{"amount": 1, "currency": "euro"}', JSON_TYPE, 400, "cost_invalid", "ISO 4217"),
    ],
)
def test_what_is_wrong_with_a_request_is_refused_with_its_code(body, headers, status, code, detail):
    error = refused(refund, body, headers=headers)
    assert (error.status, error.code) == (status, code)
    assert detail in error.detail


def test_a_refusal_by_schema_does_not_repeat_the_value():
    error = refused(refund, b'{"amount": 1, "order": 2}', path="/orders/secret-4711/refunds")
    assert error.code == "arguments_invalid" and "/order_id" in error.detail
    assert "4711" not in error.detail


def test_there_is_no_default_tool():
    assert refused(call, "GET", "/orders", upstream="other").code == "no_such_upstream"
    for method, path in (("GET", "/orders/1/refunds"), ("PUT", "/orders/1"), ("GET", "/orders/1/")):
        error = refused(call, method, path)
        assert (error.status, error.code) == (404, "no_such_tool")


def test_the_literal_segment_wins_and_a_head_is_its_read():
    assert call("GET", "/orders/latest").tool.name == "latest"
    assert call("GET", "/orders/%6Catest").tool.name == "latest"
    head = call("HEAD", "/orders/7")
    assert (head.tool.name, head.action.method) == ("get_order", "HEAD")
    assert refused(call, "HEAD", "/notes").status == 404


def test_query_and_form_values_are_arguments_and_repeated_names_are_lists():
    read = call("GET", "/orders/7?tag=a&tag=b&q=x+y")
    assert read.arguments == {"order_id": "7", "tag": ["a", "b"], "q": "x y"}
    assert read.query_raw == "tag=a&tag=b&q=x%20y"
    form = call(
        "POST", "/notes", [("content-type", "application/x-www-form-urlencoded")], b"text=hi%21&n=1"
    )
    assert form.arguments == {"text": "hi!", "n": "1"}


def test_only_allow_listed_headers_are_forwarded():
    headers = [
        *(("Authorization", "Bearer x"), ("X-HTTP-Method-Override", "DELETE"), ("X_Approval", "1")),
        *(("X-Forwarded-For", "1"), ("Connection", "accept"), ("Cookie", "a=b"), ("Host", "evil")),
        *(("Idempotency-Key", "k"), ("baggage", "a=b"), ("Accept", "application/json")),
        *(("traceparent", "00-ab-cd-01"), ("Content-Type", "application/json")),
    ]
    read = call("GET", "/orders/7", headers)
    assert read.headers == (("accept", "application/json"), ("traceparent", "00-ab-cd-01"))
    assert read.action.headers == (("accept", "application/json"),)


@pytest.mark.requirement("GW-05")
def test_a_header_that_means_something_to_a_tool_is_judged_hashed_and_sent_on():
    tool = msgspec.structs.replace(READ, headers=("x-store", "api-version"))
    registry = Registry.from_config(UPSTREAMS, (tool,), {})

    def read(*headers):
        request = ToolRequest(
            upstream="payments", method="GET", raw_path="/orders/7", headers=headers
        )
        return prepare(request, AGENT, registry)

    sent = read(("X-Store", " berlin "), ("X-Other", "1"))
    assert sent.headers == (("x-store", "berlin"),) == sent.action.headers
    assert sent.action_hash != read(("X-Store", "paris")).action_hash
    with pytest.raises(Refused) as twice:
        read(("X-Store", "a"), ("x-store", "b"))
    assert twice.value.code == "header_repeated"


@pytest.mark.parametrize(
    "name",
    ["X-Store", "a b", "", "authorization", "cookie", "host", "te", "x-forwarded-for", "forwarded",
     "x-http-method-override", "proxy-connection", "gateway-decision", "content-length",
     "idempotency-key", "paypal-request-id", "paypal_request_id", "x-api-key", "x_api_key",
     "x_forwarded_for", "transfer_encoding", "content_length"],
)  # fmt: skip
@pytest.mark.requirement("GW-05")
@pytest.mark.row("CVE-2026-110279")
def test_a_tool_cannot_ask_for_headers_of_a_connection_a_caller_or_a_proxy(name):
    keys = Idempotency(header="PayPal-Request-Id")
    tool = msgspec.structs.replace(READ, headers=(name,), idempotency=keys)
    ours = Credential(header="X-API-Key", file="key")
    upstreams = tuple(msgspec.structs.replace(each, credential=ours) for each in UPSTREAMS)
    config = Config(upstreams=upstreams, tools=(tool,))
    assert [each.path for each in config.problems()] == ["tools.0.headers"]


def test_two_headers_that_a_server_may_take_for_one_are_not_both_sent_on():
    tool = msgspec.structs.replace(READ, headers=("x-store", "x_store"))
    config = Config(upstreams=UPSTREAMS, tools=(tool,))
    assert [each.path for each in config.problems()] == ["tools.0.headers"]


@pytest.mark.parametrize(
    "name",
    ["", "X Key", "X-Key\r\nHost: evil", "X-K\xe9y", "Host", "Content-Length", "content_length",
     "Transfer-Encoding", "Connection", "Expect"],
)  # fmt: skip
@pytest.mark.requirement("GW-05")
@pytest.mark.row("GHSA-v2x6-wwfw-r2rq")
def test_a_header_of_ours_is_one_that_frames_nothing(name):
    keyed = msgspec.structs.replace(READ, idempotency=Idempotency(header=name))
    ours = Credential(header=name, file="key")
    upstreams = tuple(msgspec.structs.replace(each, credential=ours) for each in UPSTREAMS)
    said = [each.path for each in Config(upstreams=upstreams, tools=(keyed,)).problems()]
    assert {"upstreams.0.credential.header", "tools.0.idempotency.header"} <= set(said)


def test_a_key_is_not_in_the_header_of_the_credential():
    keyed = msgspec.structs.replace(READ, idempotency=Idempotency(header="X_Api_Key"))
    ours = Credential(header="X-API-Key", file="key")
    upstreams = tuple(msgspec.structs.replace(each, credential=ours) for each in UPSTREAMS)
    said = [each.path for each in Config(upstreams=upstreams, tools=(keyed,)).problems()]
    assert said == ["tools.0.idempotency.header"]


@pytest.mark.parametrize(
    ("body", "amount"),
    [
        (b'{"amount": 100}', "100"),
        (b'{"amount": 1e2}', "100"),
        (b'{"amount": 0.1}', "0.1"),
        (b'{"amount": 12.50}', "12.5"),
    ],
)
def test_a_price_is_decimal_text(body, amount):
    priced = refund(body[:-1] + b', "currency": "EUR"}')
    assert priced.action.cost_amount == amount


def test_a_price_that_cannot_be_known_is_none_and_one_that_is_noise_is_refused():
    noisy = msgspec.structs.replace(REFUND, cost=Cost(amount="arguments.amount * 3.0"))
    registry = Registry.from_config(UPSTREAMS, (noisy,), {"refund.json": SCHEMA})

    def send(body):
        request = ToolRequest(
            upstream="payments",
            method="POST",
            raw_path="/orders/1/refunds",
            headers=JSON_TYPE,
            body=body,
        )
        return prepare(request, AGENT, registry)

    assert send(b'{"amount": 3}').action.cost_amount is None
    assert refused(send, b'{"amount": 0.1}').code == "cost_invalid"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cost": Cost(amount="arguments.")}, "tools.0.cost.amount"),
        ({"cost": Cost(amount="amount")}, "no variable 'amount'"),
        ({"arguments": Arguments(schema="absent.json")}, "'absent.json' is missing"),
        ({"match": Match(method="post", path="/a")}, "tools.0.match.method"),
        ({"match": Match(method="POST", path="/{a}/{a}")}, "names a parameter twice"),
        ({"match": Match(method="POST", path="/x{a}")}, "a parameter is a whole segment"),
        ({"match": Match(method="POST", path="/notes")}, "is the same as that of"),
    ],
)
def test_a_bad_registry_is_refused_at_load_naming_the_entry(change, why):
    with pytest.raises(SidecarError, match=why):
        Registry.from_config(
            UPSTREAMS, (msgspec.structs.replace(REFUND, **change), NOTE), {"refund.json": SCHEMA}
        )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "http://127.0.0.1:1/s.json"},
        {"pattern": "(?=a)"},
        {"maximum": 2**60},
    ],
)
def test_a_schema_that_cannot_be_used_offline_and_in_linear_time_is_refused(schema):
    with pytest.raises(SidecarError, match=r"tools\.0"):
        Registry.from_config(UPSTREAMS, (REFUND,), {"refund.json": schema})


def test_the_tool_digest_follows_the_definition_and_the_schema():
    digest = REGISTRY.tools["issue_refund"].tool_digest
    changed = Registry.from_config(UPSTREAMS, (REFUND,), {"refund.json": {**SCHEMA, "title": "x"}})
    assert changed.tools["issue_refund"].tool_digest != digest


MUTATIONS = st.sampled_from(
    [
        b'"amount"',
        b'"a\\u006dount"',
        b":",
        b",",
        b"{",
        b"}",
        b"1",
        b"1e400",
        b"0.1",
        b"NaN",
        b'"\\ud800"',
    ]
)


@pytest.mark.requirement("GW-05")
@given(st.lists(MUTATIONS, max_size=7).map(b"".join), st.integers(0, 35))
def test_for_each_mutated_body_it_is_refused_or_policy_sees_what_is_sent(piece, position):
    good = b'{"amount": 12.50, "currency": "EUR"}'
    body = good[:position] + piece + good[position:]
    try:
        prepared = refund(body)
    except Refused as error:
        assert error.status in (400, 415)
        return
    assert prepared.body == body
    seen = {name: value for name, value in prepared.arguments.items() if name != "order_id"}
    first_wins = dict(reversed(json.loads(body, object_pairs_hook=list)))
    assert seen == json.loads(body) == first_wins
