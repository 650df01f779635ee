"""What once let calls pass elsewhere: a way in beside the check, a log it hung on, silence."""

import asyncio
import resource

import pytest
from gateway_rig import AllowAll, rig
from mcp_rig import AllowListed
from msgspec import structs
from test_ext_authz import refund as checked
from test_ext_authz import run as with_ext_authz
from test_mcp import code_of, envelope, modern_headers
from test_mcp import run as with_mcp

from sidecar.gateway.config import Durable
from sidecar.gateway.decisions.event import Hiding
from sidecar.gateway.decisions.files import DecisionFile
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.result import read_answer
from sidecar.gateway.policy.worker import PolicyWorker
from sidecar.identity.keys import KeyTerms, authenticate, mint_key
from sidecar.store.ledger import CallQuery
from sidecar.telemetry import DECISIONS_LOGGED

REFUND = "/payments/orders/17/refunds"
BODY = {"amount": 20, "currency": "EUR"}


def run(folder, scenario, policy=None, **options):
    async def main():
        async with rig(folder, policy=policy or AllowAll(), **options) as each:
            return await scenario(each)

    return asyncio.run(main())


def only(each, *tools):
    """A key that is for some tools."""
    from sidecar import clock

    text, row = mint_key(
        KeyTerms(kind="agent", role=None, project="default", tools=tools),
        id_bytes=clock.random_bytes(8), secret_bytes=clock.random_bytes(32),
        now_ns=clock.now_ns(),
    )  # fmt: skip
    each.keys.add_key(row)
    assert authenticate(f"Bearer {text}", each.keys, now_ns=clock.now_ns()).tools == tools
    return text


class Denies(AllowAll):
    """A policy port that denies all."""

    async def decide(self, document):
        answer = read_answer({"effect": "deny", "reasons": [{"code": "not_this"}]})
        return structs.replace(answer, revision=self.revision)


async def every_way(each, credential):
    """The code that each way in to a refund answers with."""
    who = {"credential": credential}
    explicit = {"tool": "issue_refund", "arguments": {"order_id": "17", **BODY}}
    proxied = f"http://127.0.0.1:{each.shop.port}/orders/17/refunds"
    found = {
        "reverse proxy": await each.ask("POST", REFUND, key="a", json=BODY, **who),
        "action": await each.ask("POST", "/v1/actions", key="b", json=explicit, **who),
        "later": await each.ask("POST", REFUND, key="c", json=BODY, Prefer="respond-async", **who),
        "a held call": await each.ask("POST", REFUND, key="d", json=BODY, Prefer="wait=1", **who),
    }
    headers = {"Proxy-Authorization": f"Bearer {credential}", "Idempotency-Key": "e"}
    proxy = f"http://127.0.0.1:{each.server.port}"
    async with each.http.post(proxied, proxy=proxy, json=BODY, headers=headers) as answer:
        codes = {"forward proxy": (await answer.json())["code"]}
    for way, reply in found.items():
        codes[way] = reply.json["code"] if reply.status != 202 else await durable(each, reply, who)
    return codes


async def durable(each, reply, who):
    async with asyncio.timeout(10):
        while True:
            told = (await each.ask("GET", reply.headers["location"], **who)).json["call"]
            if told["state"] != "waiting":
                return told["code"]
            await asyncio.sleep(0.02)


@pytest.mark.requirement("GW-04")
@pytest.mark.row("T5", "T7")
@pytest.mark.parametrize("log", ["none", "fails"])
def test_no_way_in_passes_a_check_by_and_none_hangs_on_the_log(tmp_path, log):
    def broken(_said):
        raise RuntimeError("the log is gone")

    wrap = (lambda ports: structs.replace(ports, decided=broken)) if log == "fails" else None

    async def scenario(each):
        codes = await every_way(each, only(each, "get_order"))
        assert set(codes.values()) == {"tool_not_granted"} and len(codes) == 5
        codes = await every_way(each, each.agent)
        assert set(codes.values()) == {"not_this" if log == "none" else "fail_closed"}
        assert each.shop.effects() == 0

    changes = {"durable": Durable(attempts=1, backoff="10ms")}
    options = {"wrap": wrap} if wrap else {}
    run(tmp_path, scenario, Denies(), tool_changes=changes, **options)


@pytest.mark.row("T7")
def test_envoys_question_is_judged_as_any_other(tmp_path):
    async def scenario(each, ask):
        headers = {"authorization": f"Bearer {only(each, 'get_order')}"}
        assert (await ask(**checked(headers=headers)))[2] == "tool_not_granted"
        assert (await ask(**checked()))[2] == "not_this"

    with_ext_authz(tmp_path, scenario, policy=Denies(), irreversible=True)


@pytest.mark.requirement("MCP-01")
@pytest.mark.row("T8", "T9")
def test_a_server_that_is_missing_denied_or_empty_is_told_apart(tmp_path):
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": envelope()}}

    async def listed(each):
        return await each.post(asked, headers=modern_headers("tools/list"))

    async def nothing_shown(each):
        status, _, answer = await listed(each)
        assert (status, code_of(answer)) == (200, (-32001, "no_tools"))
        assert answer["error"]["data"]["withheld"] == {"denied": 3}
        each.url = each.url.replace("/mcp/crm", "/mcp/elsewhere")
        status, _, answer = await listed(each)
        assert status == 404 and "result" not in (answer or {})

    hidden = {"crm/find_customer", "crm/add_note", "crm/delete_customer"}
    hidden |= {each.partition("/")[2] for each in hidden}
    with_mcp(tmp_path, nothing_shown, policy=AllowListed(hidden=hidden))

    async def none_reviewed(each):
        _, _, answer = await listed(each)
        assert code_of(answer)[1] == "no_tools"
        assert answer["error"]["data"]["withheld"] == {"new": 3}

    (tmp_path / "b").mkdir()
    with_mcp(tmp_path / "b", none_reviewed, configured=(), definitions={"tools": []})


@pytest.mark.requirement("GW-04")
@pytest.mark.row("T10")
def test_a_tool_server_is_dialled_by_egress_only_where_its_address_may_be(tmp_path):
    async def scenario(each):
        before = len(each.crm.notes)
        target = structs.replace(each.upstreams._servers["crm"], allow_cidrs=())
        each.upstreams._servers["crm"] = target
        each.upstreams.catalogue.expire("crm")
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": envelope()}}
        _, _, answer = await each.post(asked, headers=modern_headers("tools/list"))
        assert code_of(answer) == (-32603, "server_unreachable")
        assert "127.0.0.1" not in str(answer) and len(each.crm.notes) == before

    with_mcp(tmp_path, scenario)


@pytest.mark.requirement("AUD-01")
@pytest.mark.row("T15", "T63")
def test_what_the_decision_log_drops_is_counted_and_in_the_chain_all_the_same(tmp_path):
    hiding = Hiding(rules=(), captures=lambda _: "off", secret=b"s")
    file = DecisionFile(tmp_path / "d.jsonl", hiding, {}, queued_max=2)  # nobody writes it
    dropped = DECISIONS_LOGGED.labels("dropped")._value

    async def scenario(each):
        before = dropped.get()
        replies = [await each.refund("17", key=str(number)) for number in range(5)]
        assert dropped.get() - before == 3
        assert {reply.status for reply in replies} == {201}
        entries = each.ledger.entries_after(0, 99)
        assert sum(entry.kind == "executed" for entry in entries) == 5
        assert sum(entry.kind == "authorised" for entry in entries) == 5
        calls = each.ledger.list_calls(CallQuery())
        assert {row.decision_effect for row in calls} == {"allow"} and len(calls) == 5

    run(tmp_path, scenario, wrap=lambda ports: structs.replace(ports, decided=file.tell))


NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "-1", "٣")


@pytest.mark.row("T11", "T13")
def test_a_number_that_is_none_disables_no_rule(tmp_path):
    async def scenario(each):
        headers = {
            "Authorization": f"Bearer {each.agent}", "Idempotency-Key": "a",
            "Content-Type": "application/json",
        }  # fmt: skip
        url = f"http://127.0.0.1:{each.server.port}{REFUND}"
        for number in NO_NUMBERS:
            data = f'{{"amount": {number}, "currency": "EUR"}}'.encode()
            async with each.http.post(url, data=data, headers=headers) as answer:
                assert answer.status in (400, 403), await answer.text()
            text = await each.refund("17", key=f"b{number}", amount=number)
            assert text.status in (400, 403), text.json
        assert each.shop.effects() == 0

    run(tmp_path, scenario, PolicyWorker(load_bundle(), deadline_ns=2_000_000_000))


@pytest.mark.requirement("GW-04")
@pytest.mark.row("G")
def test_a_file_that_the_system_does_not_let_grow_stops_what_has_effects(tmp_path):
    path = tmp_path / "ledger.db"

    async def scenario(each):
        assert (await each.refund("1", key="first")).status == 201
        largest = max(file.stat().st_size for file in tmp_path.glob("ledger.db*"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
        try:
            replies = [await each.refund(str(number), key=f"k{number}") for number in range(2, 12)]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        codes = {reply.json.get("code") for reply in replies if reply.status != 201}
        assert "fail_closed" in codes and codes <= {"fail_closed", "outcome_unknown"}
        done = 1 + sum(reply.status == 201 for reply in replies)
        unknown = sum(reply.json.get("code") == "outcome_unknown" for reply in replies)
        assert done <= each.shop.effects() <= done + unknown
        assert (await each.refund("99", key="after")).status == 201

    run(tmp_path, scenario, ledger_path=path, gateways=1)
