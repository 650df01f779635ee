"""What an approver sees: everything, or nothing at all."""

import asyncio
import json
import unicodedata

import pytest
from gateway_rig import rig
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from processors.model.call import Action
from sidecar.gateway.shown import CHARS_MAX, LINES_MAX, Unshowable, summary, visible

ACTION = Action(
    tenant="p", agent="agent", tool="refund", upstream="payments", class_="irreversible",
    method="POST", path="/orders/17/refunds", media_type="application/json",
    body_digest="sha256:b", body_jcs_digest="sha256:j",
)  # fmt: skip
HIDDEN = (
    "\u2028\u2029\u3164\u115f\u1160\uffa0\ufe0f\ufe00\u034f\u202e\u2066\u200b\u200d\u00ad\u180e"
    "\u00a0\u2003\u2800\ufeff\U000e0041\U000e0100\ue000\u0378\x7f\x85\u17b4\u061c\ufff9"
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner),
    max_leaves=20,
)


def shown(arguments, body=None):
    return summary(structs.replace(ACTION, arguments=arguments), body)


def leaves(value):
    if value and isinstance(value, dict | list):
        children = value.values() if isinstance(value, dict) else value
        return [leaf for child in children for leaf in leaves(child)]
    return [value]


def test_padding_hides_no_field():
    sly = {"a": {"pad": "x" * 5000, "to": "mallory"}, "z": [{"iban": "DE00"}], "pad": "y" * 5000}
    text = shown(sly)
    for line in ('/a/to = "mallory"', '/z/0/iban = "DE00"', "(5000 characters, sha256:"):
        assert line in text
    sly["a"]["pad"] = "x" * 4999 + "y"
    assert shown(sly) != text


@pytest.mark.parametrize("character", HIDDEN)
def test_a_character_that_would_not_be_seen_is_spelt_out_in_names_and_values(character):
    text = shown({f"a{character}": f"b{character}c", "deep": {f"{character}": 1}})
    assert character not in text and text.count(f"{ord(character):04x}") >= 3


@given(st.characters())
def test_nothing_invisible_is_left_of_any_character(character):
    for one in visible(character):
        assert unicodedata.category(one)[0] != "C" and one not in HIDDEN
        assert unicodedata.category(one)[0] != "Z" or one == " "


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=5))
def test_every_leaf_has_exactly_one_line_of_its_own(arguments):
    wanted = sum(len(leaves(value)) for value in arguments.values())
    try:
        text = shown(arguments)
    except Unshowable:
        assert wanted > 100 or len(json.dumps(arguments)) > 1500
        return
    assert len(text.split("\n")) == 4 + wanted
    assert len(text.splitlines()) == 4 + wanted


def test_no_name_passes_for_another_line():
    assert '"/amount = 1 EUR" = 5' in shown({"amount = 1 EUR": 5})
    assert shown({"a/b": 1}) != shown({"a": {"b": 1}})
    assert shown({"a": "x\n/b = 1"}).count("\n/b = 1") == 0
    assert shown({"a": {}}) != shown({"a": []}) != shown({"a": "[]"})


def test_a_body_that_is_no_object_is_shown_too():
    assert 'body/0/to = "mallory"' in shown({}, [{"to": "mallory"}])
    conditional = structs.replace(ACTION, headers=(("accept", "a/b"), ("if-match", '"v1"')))
    assert "header if-match" in summary(conditional) and "a/b" not in summary(conditional)


@pytest.mark.parametrize(
    "arguments",
    [{f"k{n}": n for n in range(LINES_MAX)}, {"k" * CHARS_MAX: 1}, {"a": [1] * LINES_MAX}],
)
def test_what_is_too_large_to_be_judged_is_not_shown_in_part(arguments):
    with pytest.raises(Unshowable, match="approval_too_large"):
        shown(arguments)


def test_a_body_that_cannot_be_read_is_not_put_before_anybody():
    opaque = structs.replace(ACTION, media_type="image/png", body_jcs_digest=None)
    with pytest.raises(Unshowable, match="approval_unreadable"):
        summary(opaque)


@pytest.mark.requirement("APR-01")
def test_a_call_too_large_to_be_judged_is_refused_and_asked_of_nobody(tmp_path):
    async def main():
        async with rig(tmp_path) as each:
            body = {"amount": 500, "currency": "EUR", "pad": ["x"] * 300}
            path = "/payments/orders/17/refunds"
            reply = await each.ask("POST", path, key="a", json=body)
            assert (reply.status, reply.json["code"]) == (403, "approval_too_large")
            assert each.ledger.list_approvals() == [] and each.shop.effects() == 0

    asyncio.run(main())


@pytest.mark.requirement("IDM-01")
def test_the_same_json_in_other_words_is_the_same_call_and_the_same_approval(tmp_path):
    async def main():
        async with rig(tmp_path) as each:
            url = f"http://127.0.0.1:{each.server.port}/payments/orders/17/refunds"

            async def say(text, **headers):
                sent = {"Authorization": f"Bearer {each.agent}", "Idempotency-Key": '"a"'}
                sent |= {"Content-Type": "application/json", **headers}
                async with each.http.post(url, data=text, headers=sent) as answer:
                    return answer.status, answer.headers, await answer.json(content_type=None)

            asked = (await say('{"amount":500,"currency":"EUR"}'))[2]["approval"]["id"]
            spaced = '{ "currency": "EUR",\n "amount": 500 }'
            assert (await say(spaced, **{"Accept-Language": "de"}))[2]["approval"]["id"] == asked
            await each.approve(asked)
            token = (await each.ask("GET", f"/v1/approvals/{asked}")).json["token"]
            assert (await say(spaced, **{"Approval-Token": token}))[0] == 201
            assert each.shop.seen[-1][3] == spaced.encode()  # as it came
            status, headers, _ = await say('{"currency":"EUR","amount":500}')
            assert (status, headers["Idempotent-Replayed"]) == (201, "true")
            assert (await say('{"currency":"EUR","amount":501}'))[2]["code"] == "key_reused"
            assert each.shop.effects() == 1

    asyncio.run(main())
