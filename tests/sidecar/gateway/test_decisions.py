"""The decision log: OPA's shape, nothing told that must not be, every loss counted."""

import asyncio
import json

import pytest
from gateway_rig import AllowAll, rig
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from processors.model.call import Decision, Reason
from processors.redact.masker import Masker
from sidecar.gateway.checkpoint.config import Audit, DecisionLog
from sidecar.gateway.decisions.event import Decided, Hiding, Rule, event
from sidecar.gateway.decisions.files import DecisionFile
from sidecar.telemetry import DECISIONS_LOGGED

CARD = "4111 1111 1111 1111"
DOCUMENT = {
    "subject": {"type": "agent", "id": "key:1"},
    "action": {"name": "http.post", "properties": {"idempotency": {"key_present": True}}},
    "arguments": {"note": f"card {CARD}", "password": "hush", "list": [{"api_key": "k"}, "b"]},
    "normalized": {"arguments": {"note": "x"}},
    "http": {"path": "/orders/17", "path_segments": ["orders", "17"], "query": {"a": ["1"]},
             "body": {"note": "x"}, "method": "POST", "headers": {"accept": "x"}},
    "context": {"time_ns": 1},
}  # fmt: skip


def said(document=DOCUMENT, **fields):
    decision = Decision(
        decision_id="d1", effect="allow_with_limits", reasons=(Reason(code="ok", rule="r"),),
        limits={"max_amount": "5", "currency": "EUR"}, policy_revision="rev", engine="e", **fields,
    )  # fmt: skip
    return Decided(
        decision=decision, document=document, project="p", principal="key:1", tool="t",
        call_id="c", trace_id="a" * 32, at_ns=1_764_000_000_000_000_001, took_ns=7,
    )  # fmt: skip


def told(capture="full", rules=(), document=DOCUMENT, **fields):
    hiding = Hiding(rules=rules, captures=lambda _: capture, secret=b"k" * 32)
    return event(said(document, **fields), hiding, {"id": "g"}, Masker())


def test_an_event_has_the_members_of_opas_and_ours_apart():
    made = told()
    assert made["bundles"] == {"agenttwin": {"revision": "rev"}}
    assert (made["decision_id"], made["path"]) == ("d1", "agenttwin/v1/decide")
    assert made["timestamp"] == "2025-11-24T16:00:00.000000001Z"
    assert made["result"]["limits"] == {"max_amount": "5", "currency": "EUR"}
    assert made["labels"] == {"id": "g"} and made["requested_by"] == "key:1"
    assert made["agenttwin"]["call_id"] == "c" and made["trace_id"] == "a" * 32
    assert "error" not in made
    failed = told(error="late")
    assert failed["error"]["message"] == "late"


@pytest.mark.parametrize("capture", ["off", "redacted", "full"])
def test_secrets_by_name_are_never_told(capture):
    text = json.dumps(told(capture))
    assert "hush" not in text and '"k"' not in text.replace('"key', "")
    if capture != "off":
        assert "/input/arguments/password" in told(capture)["erased"]
        assert "/input/arguments/list/0/api_key" in told(capture)["erased"]
    assert told(capture)["input"]["action"]["properties"]["idempotency"] == {"key_present": True}


def test_without_capture_nothing_the_agent_wrote_is_told():
    made = told("off")
    assert set(made["input"]) == {"subject", "action", "http", "context"}
    assert set(made["input"]["http"]) == {"method", "headers"}
    assert {"/input/arguments", "/input/http/body", "/input/http/path"} <= set(made["erased"])


def test_what_a_policy_quotes_of_the_agent_is_told_as_content_is():
    reasons = (Reason(code="no", message=f"card {CARD} is not yours"),)
    decision = structs.replace(said().decision, reasons=reasons)
    shown = {}
    for capture in ("off", "redacted", "full"):
        hiding = Hiding(rules=(), captures=lambda _, capture=capture: capture, secret=b"s")
        made = event(structs.replace(said(), decision=decision), hiding, {}, Masker())
        shown[capture] = made["result"]["reasons"][0].get("message")
    assert shown["off"] is None and CARD not in shown["redacted"] and CARD in shown["full"]


def test_redacted_content_is_masked_and_says_where():
    made = told("redacted")
    assert CARD not in json.dumps(made)
    assert "/input/arguments/note" in made["masked"]
    assert CARD in json.dumps(told("full"))


def test_pointers_of_the_configuration_are_erased_or_masked():
    rules = (
        Rule(pointer="/arguments/note", op="mask"), Rule(pointer="/arguments/list/1"),
        Rule(pointer="/nothing/there"), Rule(pointer="/arguments/list/99"),
    )  # fmt: skip
    made = told("full", rules)
    assert made["input"]["arguments"]["note"] == "**REDACTED**"
    assert made["masked"] == ["/input/arguments/note"]
    assert (
        made["erased"][0] == "/input/arguments/list/1"
        and "b" not in made["input"]["arguments"]["list"]
    )


def test_what_cannot_be_hidden_is_not_told_but_for_its_keyed_digest():
    deep = leaf = {}
    for _ in range(100):
        leaf["a"] = {}
        leaf = leaf["a"]
    leaf["note"] = "hush"
    made = told("full", document={"arguments": deep})
    assert "input" not in made and made["erased"] == ["/input"] and "hush" not in json.dumps(made)
    assert made["agenttwin"]["input_hmac"].startswith("hmac:")

    def broken(project):
        raise KeyError(project)

    hiding = Hiding(rules=(), captures=broken, secret=b"")
    assert "input" not in event(said(), hiding, {}, Masker())


def test_a_digest_is_of_the_whole_input_and_cannot_be_guessed_without_the_key():
    digests = {told(capture)["agenttwin"]["input_hmac"] for capture in ("off", "full")}
    assert len(digests) == 1
    other = Hiding(rules=(), captures=lambda _: "off", secret=b"other")
    assert event(said(), other, {}, Masker())["agenttwin"]["input_hmac"] not in digests


LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "token", "x/y", "~", "password"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(arguments=st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_what_is_said_to_be_erased_was_there_and_is_gone(arguments):
    made = told("redacted", document={"arguments": arguments})
    text = json.dumps(made["input"])
    assert '"password": "' not in text and '"token": "' not in text
    for pointer in made.get("erased", ()):
        assert pointer.startswith("/input/arguments")


def count(outcome):
    return DECISIONS_LOGGED.labels(outcome)._value.get()


def test_every_decision_of_the_gateway_is_a_line_of_the_file(tmp_path):
    hiding = Hiding(rules=(), captures=lambda _: "off", secret=b"s")
    file = DecisionFile(tmp_path / "decisions.jsonl", hiding, {})

    async def main():
        def wrap(ports):
            return structs.replace(ports, decided=file.tell)

        await file.start()
        async with rig(tmp_path, policy=AllowAll(), wrap=wrap) as each:
            replies = [await each.refund("17", key=key) for key in "abc"]
            await file.stop()
            await file.stop()
            return [reply.headers["gateway-decision"] for reply in replies]

    decisions = asyncio.run(main())
    lines = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert [line["decision_id"] for line in lines] == decisions
    assert {line["agenttwin"]["tool"] for line in lines} == {"issue_refund"}
    assert "refunds" not in (tmp_path / "decisions.jsonl").read_text()
    assert (tmp_path / "decisions.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.row("T63")
def test_what_finds_no_room_or_no_file_is_counted(tmp_path):
    hiding = Hiding(rules=(), captures=lambda _: "off", secret=b"s")
    before = count("dropped"), count("failed")
    file = DecisionFile(tmp_path / "away" / "d.jsonl", hiding, {}, queued_max=2)
    for _ in range(5):
        file.tell(said())

    async def drain():
        await file.start()
        await file.stop()

    asyncio.run(drain())
    assert (count("dropped") - before[0], count("failed") - before[1]) == (3, 2)


def test_a_pointer_that_is_none_is_told_at_the_start():
    wrong = Audit(decisions=DecisionLog(hide=(Rule(pointer="card"),)))
    assert [each.path for each in wrong.problems()] == ["decisions.hide.0.pointer"]
