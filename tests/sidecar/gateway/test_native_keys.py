"""The key an upstream gets where it looks for it: another header, or a member of its JSON body."""

import asyncio
import json
import uuid

import pytest
from gateway_rig import AllowAll, rig
from hypothesis import given
from hypothesis import strategies as st

from sidecar.canonical import sha256
from sidecar.gateway.config import Config, Idempotency, Match, Tool, Upstream
from sidecar.gateway.native import upstream_key, with_key
from sidecar.gateway.registry import compiled_tools

pytestmark = pytest.mark.requirement("IDM-01")
BODY = b'{ "amount" : 20,\n "currency":"EUR" }'


def run(folder, scenario, rules, **options):
    async def main():
        changes = {"idempotency": rules}
        async with rig(folder, policy=AllowAll(), tool_changes=changes, **options) as each:
            return await scenario(each)

    return asyncio.run(main())


async def refund(each, order, key, body=BODY):
    """A refund whose body is these bytes."""
    url = f"http://127.0.0.1:{each.server.port}/payments/orders/{order}/refunds"
    headers = {"Authorization": f"Bearer {each.agent}", "Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    async with each.http.post(url, data=body, headers=headers) as answer:
        return answer.status, json.loads(await answer.read()), answer.headers


@pytest.mark.row("T36", "T41")
def test_the_key_is_a_member_of_the_body_and_every_other_byte_is_what_was_hashed(tmp_path):
    rules = Idempotency(upstream_field="requestId", upstream_form="uuid")

    async def scenario(each):
        first = await refund(each, "s400-a", "k1")
        assert first[0] == 400  # without an effect: the same key makes the next attempt
        again = await refund(each, "s400-a", "k1")
        other = await refund(each, "17", "k2")
        sent = [(headers, body) for _, _, headers, body in each.shop.seen]
        keys = [json.loads(body)["requestId"] for _, body in sent]
        assert keys[0] == keys[1] != keys[2]
        assert uuid.UUID(keys[0]).version == 4
        assert all("idempotency-key" not in headers for headers, _ in sent)
        for body, key in zip((body for _, body in sent), keys, strict=True):
            assert body.replace(f'"requestId":"{key}",'.encode(), b"") == BODY
        receipts = [
            each.ledger.get_receipt(reply[2]["Gateway-Receipt"]) for reply in (first, again, other)
        ]
        assert [r.request_digest for r in receipts] == [sha256(body) for _, body in sent]
        assert receipts[0].action_hash == receipts[1].action_hash
        return keys

    before = run(tmp_path, scenario, rules)
    (tmp_path / "shop.db").unlink()

    async def later(each):
        each.agent = each.credential("agent")
        await refund(each, "s400-a", "k1")
        return json.loads(each.shop.seen[-1][3])["requestId"]

    assert run(tmp_path, later, rules) not in before  # another principal's key is its own


def test_a_key_counts_in_the_tools_header_and_in_the_usual_one(tmp_path):
    rules = Idempotency(header="PayPal-Request-Id")

    async def scenario(each):
        url = f"http://127.0.0.1:{each.server.port}/payments/orders/17/refunds"
        bearer = {"Authorization": f"Bearer {each.agent}", "Content-Type": "application/json"}

        async def ask(**headers):
            async with each.http.post(url, data=BODY, headers={**bearer, **headers}) as answer:
                return answer.status, answer.headers.get("Idempotent-Replayed")

        assert await ask(**{"Idempotency-Key": "k"}) == (201, None)
        for same in (
            {"Idempotency-Key": "k"}, {"PayPal-Request-Id": "k"},
            {"PayPal-Request-Id": "k", "Idempotency-Key": '"k"'},
        ):  # fmt: skip
            assert await ask(**same) == (201, "true")
        assert await ask(**{"PayPal-Request-Id": "k", "Idempotency-Key": "l"}) == (400, None)
        assert await ask(**{"PayPal-Request-Id": "l", "Idempotency-Key": ""}) == (400, None)
        [(_, _, headers, _)] = each.shop.seen
        assert headers["paypal-request-id"].startswith("agw_")
        assert "idempotency-key" not in headers

    run(tmp_path, scenario, rules)


def test_the_key_is_the_same_after_a_restart(tmp_path):
    rules = Idempotency(upstream_field="idempotency_key")

    async def scenario(each):
        await refund(each, "s400-a", "k1")
        body = json.loads(each.shop.seen[-1][3])
        assert body["idempotency_key"].startswith("agw_")
        return each.agent, body["idempotency_key"]

    agent, key = run(tmp_path, scenario, rules)

    async def later(each):
        each.agent = agent
        await refund(each, "s400-a", "k1")
        return json.loads(each.shop.seen[-1][3])["idempotency_key"]

    assert run(tmp_path, later, rules) == key


def test_an_agent_that_fills_in_the_member_itself_or_sends_no_object_is_refused(tmp_path):
    async def scenario(each):
        for body, code in (
            (b'{"amount": 20, "requestId": "mine"}', "argument_reserved"),
            (b'{"amount": 20, "requestId": null}', "argument_reserved"),
            (b'{"amount": 20, "REQUEST\\u0049D": "mine"}', "argument_reserved"),
            (b"[1]", "body_not_object"), (b"", "body_not_object"), (b'"x"', "body_not_object"),
        ):  # fmt: skip
            status, said, _ = await refund(each, "17", "k", body)
            assert (status // 100, said["code"]) == (4, code), body
        assert each.shop.requests == 0
        assert (await refund(each, "17", "k", b"{}"))[0] == 201
        assert json.loads(each.shop.seen[0][3]).keys() == {"requestId"}

    run(tmp_path, scenario, Idempotency(upstream_field="requestId"))


def test_the_key_may_have_a_header_of_its_own(tmp_path):
    async def scenario(each):
        await refund(each, "17", "k1")
        headers = each.shop.seen[0][2]
        assert headers["paypal-request-id"].startswith("agw_")
        assert "idempotency-key" not in headers and each.shop.seen[0][3] == BODY

    run(tmp_path, scenario, Idempotency(upstream_header="PayPal-Request-Id"))


def test_a_call_without_a_key_is_sent_as_it_came(tmp_path):
    rules = Idempotency(upstream_field="requestId", duplicate_window="60s")

    async def scenario(each):
        assert (await refund(each, "17", ""))[0] == 201
        assert each.shop.seen[0][3] == BODY

    run(tmp_path, scenario, rules)


@given(
    st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=3), st.sampled_from(["", " "])
)
def test_a_body_with_its_key_reads_as_the_body_and_the_key(members, space):
    members.pop("k\u00e9y", None)
    body = (space + json.dumps(members, ensure_ascii=False) + space).encode()
    read = json.loads(with_key(body, "k\u00e9y", "v"))
    assert read == {"k\u00e9y": "v", **members} and next(iter(read)) == "k\u00e9y"


def test_both_forms_are_of_one_secret_and_key():
    made = {
        upstream_key(s, h, f) for s in (b"a", b"b") for h in ("1", "2") for f in ("text", "uuid")
    }
    assert len(made) == 8 and upstream_key(b"a", "1") in made


def problems(**rules):
    tool = Tool(name="t", upstream="u", match=Match(method="POST", path="/"),
                idempotency=Idempotency(**rules))  # fmt: skip
    config = Config(upstreams=(Upstream(name="u", url="https://u.example"),), tools=(tool,))
    return [each.path for each in config.problems()]


def test_a_place_where_no_key_can_be_is_told_at_the_start():
    assert problems(upstream_field="requestId", upstream_header="X-Request-Key") == []
    assert problems(upstream_field="a b") == ["tools.0.idempotency.upstream_field"]
    for name in ("Authorization", "Content-Length", "a b"):
        assert problems(upstream_header=name) == ["tools.0.idempotency.upstream_header"]


def test_a_schema_that_asks_the_agent_for_the_gateways_own_member_is_told_at_the_start():
    tool = Tool(name="t", upstream="u", match=Match(method="POST", path="/"),
                idempotency=Idempotency(upstream_field="requestId"))  # fmt: skip
    from msgspec.structs import replace

    from sidecar.gateway.config import Arguments

    asks = replace(tool, arguments=Arguments(schema="s"))
    (problem,) = compiled_tools((asks,), {"s": {"required": ["requestId"]}})[1]
    assert problem.path == "gateway.tools.0.idempotency.upstream_field"
