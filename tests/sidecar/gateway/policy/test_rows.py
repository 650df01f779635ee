"""Rows of gateway.md §1.4 about policy that no other test names: each once went wrong somewhere."""

import asyncio
import json
import sys

import pytest

from processors.model.principal import Principal
from sidecar.app.policy import policy_parts
from sidecar.config import load
from sidecar.errors import SidecarError
from sidecar.gateway.policy import opa
from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.document import Situation, ToolFacts, encode, list_document
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.release import Terms, make, read
from sidecar.gateway.policy.worker import PolicyWorker

AGENT = Principal(id="key:1", kind="agent", project="shop", name="bot")
HEAD = """package agenttwin.v1

list := {"effect": "allow", "reasons": [{"code": "seen"}]} if input.resource

"""


def decided(rules, *documents, deadline_ns=2_000_000_000):
    async def main():
        bundle = make_bundle([Module("decide.rego", HEAD + rules)], [])
        worker = PolicyWorker(bundle, deadline_ns=deadline_ns)
        await worker.start()
        try:
            return [await worker.decide(each) for each in documents]
        finally:
            await worker.stop()

    return asyncio.run(main())


ALLOW = '{"effect": "allow", "reasons": [{"code": "ok"}]}'


@pytest.mark.requirement("GW-03")
@pytest.mark.row("T1", "T2", "T4")
def test_t1_t2_t4_listing_is_asked_apart_from_calling_and_says_so_without_arguments():
    facts = ToolFacts(name="pay", upstream="u", class_="irreversible", tool_digest="sha256:0")
    made = list_document(facts, AGENT, Situation(time_ns=1, request_id="r"))
    assert made["action"]["name"] == "tools.list" and "arguments" not in made
    rules = f'decide := {ALLOW} if input.arguments.amount == "1"'

    async def main():
        worker = PolicyWorker(make_bundle([Module("decide.rego", HEAD + rules)], []))
        await worker.start()
        try:
            return await worker.visible(made), await worker.decide(made)
        finally:
            await worker.stop()

    seen, called = asyncio.run(main())
    assert (seen.effect, called.effect) == ("allow", "deny")


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize(
    ("rules", "document"),
    [
        ('decide := {"decision": true} if input.resource', {"resource": 1}),  # T11: another shape
        (f'decide := {ALLOW} if net.cidr_contains("", "127.0.0.1")', {}),  # T20: an empty network
        (f'decide := {ALLOW} if net.cidr_contains(input.a, "127.0.0.1")', {"a": ""}),
        (f"decide := {ALLOW} if to_number(input.a) > 1", {"a": "NaN"}),  # T11: no number
        (f"decide := {ALLOW} if to_number(input.a) > 1", {"a": "Infinity"}),
        (f"decide := {ALLOW} if to_number(input.a) > 1", {"a": "1e999"}),
        (f"decide := {ALLOW} if input.a > 1", {}),  # T18: undefined is no permission
    ],
)
@pytest.mark.row("T11", "T18", "T20")
def test_t11_t18_t20_what_has_no_meaning_is_no_permission(rules, document):
    (answer,) = decided(rules, document)
    assert (answer.effect, answer.reasons[0].code) == ("deny", "policy_error")


@pytest.mark.row("T13")
def test_t13_an_absent_field_is_not_null_and_the_shipped_bundle_takes_neither_for_small():
    rules = f"decide := {ALLOW} if input.action.amount == null"
    absent, null = decided(rules, {"action": {}}, {"action": {"amount": None}})
    assert (absent.effect, null.effect) == ("deny", "allow")


@pytest.mark.parametrize("pattern", ["[", "(?=a)", "(a", "\\\\1"])
@pytest.mark.row("T11")
def test_t11_a_pattern_that_no_engine_can_run_is_refused_before_it_decides(pattern):
    with pytest.raises(SidecarError, match="pattern"):
        decided(f'decide := {ALLOW} if regex.match("{pattern}", input.a)', {"a": "a"})


@pytest.mark.parametrize("content", [None, b"", b"package agenttwin.v1\n\ndecide := ", b"\xff\xfe"])
@pytest.mark.row("T14", "T15")
def test_t14_t15_a_missing_or_malformed_policy_is_not_an_empty_one(tmp_path, content):
    folder = tmp_path / "policies"
    if content is not None:
        folder.mkdir()
        (folder / "a.rego").write_bytes(content)

    async def main():
        await PolicyWorker(load_bundle(folder)).start()

    with pytest.raises(SidecarError):
        asyncio.run(main())


@pytest.mark.row("T12")
def test_t12_without_the_client_of_opa_it_does_not_start_and_nothing_takes_its_place(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "opa_client", None)
    (tmp_path / "sidecar.yaml").write_text(
        'policy: {engine: opa, url: "http://127.0.0.1:1", allow_cidrs: ["127.0.0.1/32"]}\n'
    )
    loaded = load(str(tmp_path / "sidecar.yaml"), environ={})
    port, release = policy_parts(loaded.config.policy, loaded)
    assert isinstance(port, opa.OpaServer) and release is None
    with pytest.raises(SidecarError, match="opa-python-client"):
        asyncio.run(port.start())


@pytest.mark.row("T56")
def test_t56_a_large_document_is_judged_whole():
    text = "x" * 1_000_000
    rules = f'decide := {ALLOW} if {{ endswith(input.a, "y"); count(input.a) == 1000001 }}'
    whole, cut = decided(rules, {"a": text + "y"}, {"a": text})
    assert (whole.effect, cut.effect) == ("allow", "deny")


def test_what_is_said_twice_in_a_bundles_data_is_refused_and_not_the_last_taken(tmp_path):
    (tmp_path / "a.rego").write_text(HEAD + f"decide := {ALLOW} if input.a\n")
    (tmp_path / "data.json").write_text('{"limit": "1", "limit": "1000000"}')
    with pytest.raises(SidecarError, match="twice"):
        load_bundle(tmp_path)


def test_a_document_has_one_reading_wherever_it_is_judged():
    made = {"a": 2**53 - 1, "b": 0.1, "c": "\u00e9\u0000\u2028", "d": [None, True, {}], "e": ""}
    assert json.loads(encode(made)) == made
    files = {"a.rego": (HEAD + f"decide := {ALLOW} if input.a").encode()}
    assert (
        read(make(files), Terms(), 0).bundle.revision
        == make_bundle([Module("a.rego", files["a.rego"].decode())], []).revision
    )
