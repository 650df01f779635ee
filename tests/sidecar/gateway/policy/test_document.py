"""The policy's document: the published schema describes it, and no secret is in it."""

import json
from pathlib import Path

import jsonschema_rs
import pytest

from processors.model.call import Action
from processors.model.principal import Principal
from sidecar.gateway.policy.document import (
    Situation,
    ToolFacts,
    document,
    encode,
    input_digest,
    list_document,
)

SCHEMA = json.loads((Path(__file__).parents[4] / "policies/schema/input.json").read_text())
AGENT = Principal(id="key:1", kind="agent", project="shop", name="bot")
ACTION = Action(
    tenant="shop",
    agent="key:1",
    tool="issue_refund",
    upstream="payments",
    class_="irreversible",
    method="POST",
    path="/orders/4%202/refunds",
    query=(("tag", "a"), ("tag", "b")),
    headers=(("accept", "*/*"),),
    media_type="application/json",
    arguments={"order_id": "4 2", "Note": ["ＤＲＯＰ Straße", 1.5, None]},
    cost_amount="12.5",
    cost_currency="EUR",
)
NOW = Situation(
    time_ns=1_800_000_000_123_456_789,
    request_id="r",
    key_present=True,
    prior_tools=("get_order",),
    budget={"project": {"limit": "100.00", "used": "0", "reserved": "0"}},
)


@pytest.mark.parametrize("situation", [NOW, Situation(time_ns=1, request_id="r")])
def test_the_document_is_what_the_published_schema_says(situation):
    made = json.loads(encode(document(ACTION, AGENT, situation, {"a": 1})))
    jsonschema_rs.validate(SCHEMA, made)


def test_a_list_document_is_the_same_without_arguments():
    tool = ToolFacts(name="t", upstream="u", class_="read", tool_digest="sha256:0")
    made = list_document(tool, AGENT, NOW)
    assert set(made) == {"subject", "action", "resource", "context"}


def test_normalized_text_is_folded_and_the_arguments_are_not():
    made = document(ACTION, AGENT, NOW)
    assert made["normalized"]["arguments"]["Note"] == ["drop strasse", 1.5, None]
    assert made["arguments"]["Note"][0] == "ＤＲＯＰ Straße"
    assert made["http"]["query"] == {"tag": ["a", "b"]}
    assert made["http"]["path_segments"] == ["orders", "4%202", "refunds"]


def test_one_document_has_one_encoding_and_digest_and_time_is_exact():
    first = document(ACTION, AGENT, NOW)
    shuffled = dict(reversed(list(first.items())))
    assert encode(first) == encode(shuffled)
    assert input_digest(encode(first)).startswith("sha256:")
    assert json.loads(encode(first))["context"]["time_ns"] == NOW.time_ns
