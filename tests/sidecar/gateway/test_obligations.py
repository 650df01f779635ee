"""Obligations of a decision: kept to the letter, or the call is denied."""

import asyncio
import json
from decimal import Decimal

import pytest
from gateway_rig import AllowAll, rig
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from sidecar.canonical import sha256
from sidecar.gateway.masking import MASKED, WITHHELD, mask
from sidecar.gateway.policy.result import read_answer
from sidecar.gateway.upstream import UpstreamReply
from sidecar.store.ledger import CallQuery

JSON = (("content-type", "application/json"),)


class Obliges(AllowAll):
    """A policy port whose decisions all have these obligations."""

    def __init__(self, *obligations, effect="allow"):
        raw = {"effect": effect, "reasons": [{"code": "ok"}], "obligations": list(obligations)}
        self._answer = structs.replace(read_answer(raw), revision=self.revision)

    async def decide(self, document):
        return self._answer


def run(folder, scenario, policy, **options):
    async def main():
        async with rig(folder, policy=policy, **options) as each:
            return await scenario(each)

    return asyncio.run(main())


MASKS = {"type": "mask_response", "properties": {"paths": ["/refunded", "/order"]}}


@pytest.mark.requirement("GW-02")
def test_a_masked_answer_is_masked_for_the_agent_and_when_it_is_told_again(tmp_path):
    async def scenario(each):
        for replayed in (False, True):
            reply = await each.refund("17", key="a")
            assert reply.status == 201 and ("idempotent-replayed" in reply.headers) is replayed
            assert reply.json == {"refunded": MASKED, "order": MASKED}
        row = each.ledger.get_call(each.ledger.list_calls(CallQuery())[-1].call_id)
        receipt = each.ledger.get_receipt(row.receipts[1])
        whole = json.dumps({"refunded": 20, "order": "17"}).encode()
        assert receipt.response_digest == sha256(whole)

    run(tmp_path, scenario, Obliges(MASKS))


def test_an_observed_call_is_told_whole(tmp_path):
    async def scenario(each):
        assert (await each.refund("17", key="a")).json["refunded"] == 20

    run(tmp_path, scenario, Obliges(MASKS), tool_changes={"mode": "observe"})


@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_a_quarantined_agent_is_frozen_whatever_the_decision(tmp_path, effect):
    quarantine = {"type": "quarantine_agent", "properties": {"reason": "probing"}}

    async def scenario(each):
        first = await each.refund("17", key="a")
        assert first.json["code"] == ("frozen" if effect == "allow" else "ok")
        assert (await each.refund("17", key="b")).json["code"] == "frozen"
        assert each.shop.effects() == 0
        (stop,) = each.ledger.list_stops()
        assert (stop.kind, stop.scope, stop.reason) == ("freeze", "agent", "probing")
        assert stop.set_by == "policy:allow-all"

    run(tmp_path, scenario, Obliges(quarantine, effect=effect))


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize(
    "obligation",
    [
        {"type": "dance"}, {"type": None}, "mask_response", {},
        {"type": "mask_response"}, {"type": "mask_response", "properties": {"paths": []}},
        {"type": "mask_response", "properties": {"paths": ["card"]}},
        {"type": "mask_response", "properties": {"paths": ["/a"], "how": "hash"}},
        {"type": "log_extra", "properties": {"fields": {"case": ["x"]}}},
        {"type": "quarantine_agent", "properties": {"reason": 1}},
        {"type": "require_receipt", "properties": {"sign": True}},
        {"type": "step_up"}, {"type": "delay_until"}, {"type": "cool_off"},
        {"type": "cool_off", "properties": {"seconds": 0}},
    ],
)  # fmt: skip
def test_an_obligation_that_cannot_be_kept_denies(obligation):
    raw = {"effect": "allow", "reasons": [{"code": "ok"}], "obligations": [obligation]}
    answer = read_answer(raw)
    assert (answer.effect, answer.reasons[0].code) == ("deny", "policy_error")


def masked(body, *paths, headers=JSON):
    return mask(UpstreamReply(status=200, headers=headers, body=body), paths)


def test_pointers_name_members_items_and_every_item():
    body = b'{"a":[{"b":1,"c":2},{"b":3}],"x/y":{"~":4}}'
    found = json.loads(masked(body, "/a/-/b", "/a/0/c", "/x~1y/~0", "/none/there", "/a/9").body)
    assert found == {"a": [{"b": MASKED, "c": MASKED}, {"b": MASKED}], "x/y": {"~": MASKED}}


def test_numbers_are_kept_as_they_are_written():
    body = b'{"a":1,"n":[1.10,12345678901234567890123.5,9007199254740993,0.1],"s":"x"}'
    found = json.loads(masked(body, "/a").body, parse_float=Decimal)
    assert [str(each) for each in found["n"]] == [
        *("1.10", "12345678901234567890123.5", "9007199254740993", "0.1")
    ]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"card 4111", (("content-type", "text/plain"),)),
        (b"\x1f\x8b", (*JSON, ("content-encoding", "gzip"))),
        (b'{"a":', JSON),
        (b"data: {}\n\n", (("content-type", "text/event-stream"),)),
        (b"\xff", JSON),
        (b'{"a":1}', ()),
    ],
)
def test_what_cannot_be_masked_is_withheld(body, headers):
    found = masked(body, "/a", headers=headers)
    assert found.body == WITHHELD and found.status == 200
    assert found.headers == JSON


def test_headers_that_tell_of_the_bytes_do_not_stay():
    told = (*JSON, ("etag", '"x"'), ("Content-Digest", "sha-256=:x:"), ("x", "y"))
    assert masked(b'{"a":1}', "/a", headers=told).headers == (*JSON, ("x", "y"))
    assert masked(b"", "/a", headers=told).headers == told


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=80, deadline=None)
@given(value=VALUES, path=st.lists(st.sampled_from(["a", "b", "-", "0"]), min_size=1, max_size=3))
def test_masking_changes_what_it_names_and_nothing_else(value, path):
    pointer = "/" + "/".join(path)
    once = masked(json.dumps(value).encode(), pointer)
    assert masked(once.body, pointer).body == once.body

    def same(before, after, parts):
        if not parts:
            return after == MASKED
        if isinstance(before, dict):
            return before.keys() == after.keys() and all(
                same(before[k], after[k], parts[1:]) if k == parts[0] else before[k] == after[k]
                for k in before
            )
        if isinstance(before, list) and (parts[0] == "-" or parts[0].isdecimal()):
            hit = range(len(before)) if parts[0] == "-" else [int(parts[0])]
            return len(before) == len(after) and all(
                same(before[i], after[i], parts[1:]) if i in hit else before[i] == after[i]
                for i in range(len(before))
            )
        return before == after

    assert same(value, json.loads(once.body), path)
