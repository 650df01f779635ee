"""Answers no upstream should give, requests no reader should choke on, and what is told of them."""

import asyncio
import json
import sqlite3
from contextlib import asynccontextmanager, closing

import pytest
from gateway_rig import rig
from hypothesis import given
from hypothesis import strategies as st

from sidecar.gateway.amount import read_amount
from sidecar.gateway.config import Cost, Credential
from sidecar.gateway.cost import price
from sidecar.gateway.policy.result import read_answer
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import _cost
from sidecar.gateway.strict import NotStrict, read_json


@asynccontextmanager
async def raw_upstream(answer):
    """An upstream that answers everything with these bytes."""

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                await reader.readexactly(int(line.split(b":")[1]))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


def run(folder, scenario, answer=None, **options):
    async def main():
        if answer is None:
            async with rig(folder, **options) as each:
                return await scenario(each)
        async with raw_upstream(answer) as url, rig(folder, upstream_url=url, **options) as each:
            return await scenario(each)

    asyncio.run(main())


def test_a_header_with_a_control_character_is_left_out_and_the_answer_is_not_lost(tmp_path):
    answer = b"HTTP/1.1 201 Created\r\nX-A: a\x01\x7fb\r\nX-B: b\r\nContent-Length: 2\r\n\r\n{}"

    async def scenario(each):
        for _ in range(2):  # at once, and stored
            reply = await each.refund("17", key="a")
            assert (reply.status, reply.body, reply.headers["x-b"]) == (201, b"{}", "b")
            assert "x-a" not in reply.headers
        assert reply.headers["idempotent-replayed"] == "true"

    run(tmp_path, scenario, answer)


@pytest.mark.parametrize("status", ["101 Switching", "000 Zero", "099 Odd", "600 Odd", "999 Odd"])
def test_a_status_that_is_no_answer_is_not_passed_on(tmp_path, status):
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode()

    async def scenario(each):
        effect = await each.refund("17", key="a")
        assert (effect.status, effect.json["code"]) == (409, "outcome_unknown")
        read = await each.ask("GET", "/payments/orders/17")
        assert (read.status, read.json["code"]) == (502, "upstream_broken")

    run(tmp_path, scenario, answer)


@pytest.mark.parametrize("number", ["1e-9999999999999999999999", "1e9999999999999999999", "-0e-9"])
def test_a_number_beyond_all_bounds_is_a_refusal_with_a_receipt(tmp_path, number):
    async def scenario(each):
        url = f"http://127.0.0.1:{each.server.port}/payments/orders/17/notes"
        headers = {"Authorization": f"Bearer {each.agent}", "Content-Type": "application/json"}
        async with each.http.post(url, data=f'{{"x":{number}}}', headers=headers) as answer:
            document = await answer.json(content_type=None)
            if answer.status != 201:
                assert (answer.status, document["code"]) == (400, "json_malformed")
                assert answer.headers["content-type"] == "application/problem+json"
            assert "gateway-receipt" in answer.headers

    run(tmp_path, scenario)


NUMBERS = r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,30})?"


@given(st.from_regex(NUMBERS, fullmatch=True))
def test_every_number_json_can_spell_is_read_or_refused(text):
    try:
        value = read_json(b"[" + text.encode() + b"]")[0]
    except NotStrict:
        return
    assert value == float(text)


def test_a_fault_of_ours_is_a_problem_with_a_receipt_and_nothing_is_sent(tmp_path):
    async def scenario(each):
        registry = each.gateway._ports.registry
        registry.match = lambda *_: 1 / 0
        reply = await each.refund("17", key="a")
        assert (reply.status, reply.json["code"]) == (500, "gateway_fault")
        assert each.ledger.get_receipt(reply.headers["gateway-receipt"]).effect == "not_executed"
        assert each.shop.effects() == 0

    run(tmp_path, scenario)


def test_asking_for_an_approval_of_a_broken_ledger_is_a_problem(tmp_path):
    async def scenario(each):
        asked = await each.refund("17", key="a", amount=500)
        where = f"/v1/approvals/{asked.json['approval']['id']}"
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
            connection.execute("UPDATE approval SET summary = x'0102030405'")
            broken = await each.ask("GET", where)
            assert (broken.status, broken.json["code"]) == (503, "fail_closed")
            connection.execute("ALTER TABLE approval RENAME TO gone")
            assert (await each.ask("GET", where)).status == 503
            connection.execute("ALTER TABLE api_key RENAME TO no_key")
            lost = await each.ask("GET", where)
            assert (lost.status, lost.json["code"]) == (503, "fail_closed")

    run(tmp_path, scenario, ledger_path=tmp_path / "ledger.db")  # what is broken is SQLite's


ODD = [
    *("1_0.00", "\uff15.00", "5.00\n", " 5.00", "+5", "-5", "5.", ".5", "05", "1e2"),
    *("\u0663", "NaN", "1,5", ""),
]


@pytest.mark.parametrize("text", ODD)
def test_an_amount_in_an_odd_spelling_is_refused_wherever_it_stands(text):
    problems = []
    model = _cost(Cost(amount="arguments.amount"), "cost", problems)
    with pytest.raises(Refused) as caught:
        price(model, {"amount": text})
    assert (caught.value.code, problems) == ("cost_invalid", [])
    limits = {"max_amount": text, "currency": "EUR"}
    answer = read_answer({"effect": "allow_with_limits", "limits": limits})
    assert answer.effect == "deny" and answer.error


@given(st.decimals(min_value=0, max_value=10**20, places=2, allow_nan=False))
def test_a_plain_amount_is_read_exactly(amount):
    assert read_amount(f"{amount:f}") == amount


def test_what_the_agent_is_told_names_no_address_and_no_file(tmp_path):
    async def scenario(each):
        upstreams = each.gateway._ports.registry.upstreams
        refused = await each.refund("17", key="a")
        assert refused.json["code"] == "upstream_unreachable"
        assert "127.0.0" not in refused.body.decode() and ":9" not in refused.body.decode()
        secret = tmp_path / "secret-file"
        upstreams["payments"] = replaced(upstreams["payments"], str(secret))
        unusable = await each.refund("17", key="b")
        assert unusable.json["code"] == "upstream_unreachable"
        assert "secret-file" not in unusable.body.decode()

    run(tmp_path, scenario, upstream_url="http://127.0.0.1:9")


def replaced(upstream, file):
    from msgspec import structs

    return structs.replace(upstream, credential=Credential(header="authorization", file=file))


def test_a_private_address_that_is_not_named_is_not_told(tmp_path):
    async def scenario(each):
        reply = await each.refund("17", key="a")
        assert "10.1.2.3" not in reply.body.decode() and reply.status == 502

    run(tmp_path, scenario, upstream_url="http://10.1.2.3:80")


def test_a_replayed_answers_receipt_has_the_decision_of_the_call_that_got_it(tmp_path):
    async def scenario(each):
        first = await each.refund("17", key="a")
        await each.refund("17", key="a")
        rows = each.query("SELECT body FROM audit WHERE kind = 'replayed'")
        (replayed,) = [json.loads(row[0])["receipt"] for row in rows]
        made = each.ledger.get_receipt(first.headers["gateway-receipt"])
        said = (replayed["decision_effect"], replayed["decision_id"], replayed["policy_revision"])
        assert said == (made.decision_effect, made.decision_id, made.policy_revision)
        assert made.decision_effect != "deny"

    run(tmp_path, scenario)
