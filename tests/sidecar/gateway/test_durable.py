"""Durable calls: taken on with a 202, made until they have an end, dead letters for a person."""

import asyncio
import json

import pytest
from control_rig import control
from gateway_rig import AllowAll, Shop, rig
from msgspec import structs

from sidecar import clock
from sidecar.gateway.audit import verify
from sidecar.gateway.config import Config, Durable, Match, Tool, Upstream
from sidecar.gateway.driver import Gateway
from sidecar.gateway.durable.driver import DEAD_LETTER_NS
from sidecar.gateway.durable.rules import Again, Dead, Done, attempt_headers, judged, pause_ns
from sidecar.gateway.problem import Refusal, render
from sidecar.gateway.receipt import is_genuine
from sidecar.gateway.registry import Backoff
from sidecar.gateway.request import ToolReply
from sidecar.store.durable import DurableQuery
from sidecar.store.ledger import Claim

QUICK = Durable(attempts=3, backoff="10ms", backoff_max="20ms", deadline="1m")
CHANGES = {"durable": QUICK}
LATER = {"Prefer": "respond-async"}
RULES = Backoff(attempts=3, first_ns=1000, most_ns=6000, deadline_ns=10**9)
CLAIM = Claim(
    claim_id=1, project="p", principal="a", tool="t", key_hash="h", fingerprint="f",
    state="failed_safe", owner="o", lease_until_ns=0, fence=1, attempt=1, call_id="x",
    updated_at_ns=0, expires_at_ns=9,
)  # fmt: skip


def allowing(folder, **options):
    return rig(folder, **{"policy": AllowAll(), **options})


def run(folder, scenario, opened=allowing, **options):
    async def main():
        async with opened(folder, **options) as each:
            await scenario(each)

    asyncio.run(main())


async def ended(each, reply):
    """How a durable call stands when it has ended."""
    where = reply.headers["location"]
    async with asyncio.timeout(10):
        while True:
            told = (await each.ask("GET", where)).json["call"]
            if told["state"] != "waiting":
                return told
            await asyncio.sleep(0.02)


def problem(code, *, next_action="none", retry_after=None, approval=None, status=403):
    refusal = Refusal(
        status=status, code=code, detail="", next_action=next_action, retry_after=retry_after,
        approval=approval,
    )  # fmt: skip
    headers, body = render(refusal)
    return ToolReply(status=status, headers=headers, body=body)


def answered(status, **headers):
    return ToolReply(status=status, headers=tuple(headers.items()), body=b'{"a": 1}')


@pytest.mark.row("T39")
@pytest.mark.parametrize(
    ("state", "reply", "recoverable", "end"),
    [
        ("completed", answered(201), False, Done()),
        ("completed", answered(402), False, Done(code="upstream_402")),
        ("resolved_done", answered(200), False, Done()),
        ("unknown", problem("outcome_unknown"), False, Dead(code="outcome_unknown")),
        ("unknown", problem("outcome_unknown"), True, Again(code="outcome_unknown")),
        ("sent", problem("in_flight"), False, Again(code="in_flight", seconds=1, counted=False)),
        (
            "failed_safe",
            problem("upstream_unreachable", next_action="retry"),
            False,
            Again(code="upstream_unreachable"),
        ),
        (None, problem("fail_closed", next_action="retry", retry_after=7), False,
         Again(code="fail_closed", seconds=7)),
        (None, problem("approval_required", approval={"id": "x", "status": "pending"}), False,
         Again(code="approval_required", seconds=5, counted=False)),
        (None, problem("approval_denied", next_action="request"), True,
         Dead(code="approval_denied")),
        (None, problem("spending_limit"), True, Dead(code="spending_limit")),
        ("failed_safe", answered(429), False, Again(code="upstream_429")),
        ("failed_safe", answered(404, **{"retry-after": "9"}), False,
         Again(code="upstream_404", seconds=9)),
        ("failed_safe", answered(422), True, Dead(code="upstream_422")),
    ],
)  # fmt: skip
def test_the_claim_decides_what_an_attempt_means(state, reply, recoverable, end):
    """T39: waiting for the same call, or for a person, uses up no attempt and gives none back."""
    claim = structs.replace(CLAIM, state=state) if state else None
    assert judged(claim, reply, recoverable=recoverable) == end


def test_pauses_double_to_a_most_are_shared_out_and_honour_retry_after():
    assert [pause_ns(number, RULES, 0, 1.0) for number in (1, 2, 3, 4, 99)] == [
        *(1000, 2000, 4000, 6000, 6000),
    ]  # fmt: skip
    assert pause_ns(2, RULES, 0, 0.0) == 1000
    assert pause_ns(1, RULES, 3, 0.5) == 3_000_000_000
    kept = attempt_headers((("Prefer", "respond-async"), ("Idempotency-Key", "k")))
    assert kept == (("Idempotency-Key", "k"), ("prefer", "wait=1"))


@pytest.mark.requirement("DUR-01")
def test_a_call_that_is_put_off_is_made_and_its_key_answers(tmp_path):
    async def scenario(each):
        reply = await each.refund("17", key="a", **LATER)
        assert (reply.status, reply.json["call"]["state"]) == (202, "waiting")
        assert reply.headers["preference-applied"] == "respond-async"
        told = await ended(each, reply)
        accepted = each.ledger.get_receipt(reply.headers["gateway-receipt"])
        assert (accepted.phase, accepted.effect, accepted.status) == (
            *("accepted", "not_executed", 202),
        )
        assert accepted.call_id == told["id"] and accepted.decision_id == ""
        assert is_genuine(accepted, each.ledger.public_keys())
        assert (told["state"], told["attempts"], told["code"]) == ("done", 1, None)
        again = await each.refund("17", key="a", **LATER)
        assert (again.status, again.headers["idempotent-replayed"]) == (201, "true")
        other = await each.refund("17", key="a", amount=21, **LATER)
        assert (other.status, other.json["code"]) == (422, "key_reused")
        assert each.shop.effects() == 1
        stranger = each.credential()
        where = reply.headers["location"]
        assert (await each.ask("GET", where, credential=stranger)).status == 404

    run(tmp_path, scenario, tool_changes=CHANGES)


@pytest.mark.requirement("DUR-01")
def test_only_keyed_calls_that_ask_for_it_are_put_off(tmp_path):
    async def scenario(each):
        assert (await each.refund("17", key="a")).status == 201
        assert (await each.refund("17", key=None, **LATER)).status == 400
        note = await each.ask("POST", "/payments/orders/17/notes", json={"x": 1}, **LATER)
        assert note.status == 201  # a write without a key is made now, once
        assert each.ledger.list_durable(DurableQuery()) == []
        made = await each.refund("17", key="a", **LATER)  # its key answers already
        assert (made.status, made.headers["idempotent-replayed"]) == (201, "true")

    run(tmp_path, scenario, tool_changes=CHANGES)


@pytest.mark.requirement("DUR-01")
def test_a_call_that_was_not_made_can_still_be_put_off(tmp_path):
    async def scenario(each):
        tried = await each.refund("s429-x", key="a")
        assert tried.status == 429  # without effect: the key is free for another attempt
        other = await each.refund("s429-x", key="a", amount=21, **LATER)
        assert (other.status, other.json["code"]) == (422, "key_reused")
        put_off = await each.refund("s429-x", key="a", **LATER)
        assert put_off.status == 202
        assert (await ended(each, put_off))["code"] == "upstream_429"

    run(tmp_path, scenario, tool_changes=CHANGES)


@pytest.mark.requirement("DUR-01")
def test_many_that_ask_for_the_same_at_once_are_one_call(tmp_path):
    async def scenario(each):
        replies = await asyncio.gather(*(each.refund("17", key="a", **LATER) for _ in range(30)))
        assert {reply.status for reply in replies} <= {201, 202, 409}
        first = next(reply for reply in replies if reply.status == 202)
        taken_on = [reply for reply in replies if reply.status == 202]
        assert len({reply.headers["gateway-receipt"] for reply in taken_on}) == 1
        assert (await ended(each, first))["state"] == "done"
        assert each.shop.effects() == 1

    run(tmp_path, scenario, tool_changes=CHANGES)


@pytest.mark.requirement("DUR-01")
def test_a_tool_that_is_away_is_tried_again_until_it_is_there(tmp_path):
    async def scenario(each):
        port = each.shop.port
        await each.shop.stop()
        reply = await each.refund("17", key="a", **LATER)
        async with asyncio.timeout(10):
            while not each.ledger.list_durable(DurableQuery())[0].attempts:
                await asyncio.sleep(0.02)
        each.shop = Shop(each.folder / "shop.db")
        await each.shop.start(port)
        told = await ended(each, reply)
        assert told["state"] == "done" and 2 <= told["attempts"] <= 60
        assert each.shop.effects() == 1
        await each.shop.stop()

    patient = {"durable": structs.replace(QUICK, attempts=60, backoff_max="200ms")}
    run(tmp_path, scenario, tool_changes=patient)


@pytest.mark.requirement("DUR-01")
def test_what_would_be_the_same_again_and_what_nobody_knows_are_dead_letters(tmp_path):
    async def scenario(each):
        for order, code, attempts in (
            ("s429-x", "upstream_429", 3),  # tried as often as may be
            ("s422-x", "upstream_422", 1),
            ("drop", "outcome_unknown", 1),
        ):
            told = await ended(each, await each.refund(order, key=order, **LATER))
            assert (told["state"], told["code"], told["attempts"]) == ("dead", code, attempts)
        assert each.shop.effects() == 1  # what was lost is not sent again
        bodies = [
            json.loads(entry.body)
            for entry in each.ledger.entries_after(0, 999)
            if entry.kind == "durable_ended"
        ]
        assert [body["state"] for body in bodies] == ["dead"] * 3

    run(tmp_path, scenario, tool_changes=CHANGES)


@pytest.mark.requirement("DUR-01")
def test_a_call_that_needs_a_person_waits_for_them_and_is_made_then(tmp_path):
    async def scenario(each):
        reply = await each.refund("17", key="a", amount=500, **LATER)
        async with asyncio.timeout(10):
            while not (asked := each.ledger.list_approvals("default")):
                await asyncio.sleep(0.02)
        assert await each.approve(asked[0].approval_id) is None
        told = await ended(each, reply)
        assert told["state"] == "done" and each.shop.effects() == 1
        assert each.ledger.find_approval(asked[0].approval_id).status == "consumed"

    run(tmp_path, scenario, tool_changes=CHANGES, policy=None)


@pytest.mark.requirement("DUR-01")
def test_a_revoked_key_makes_no_attempt(tmp_path):
    async def scenario(each):
        await each.shop.stop()
        reply = await each.refund("17", key="a", **LATER)
        key_id = each.ledger.list_durable(DurableQuery())[0].principal.removeprefix("key:")
        each.keys.revoke_key(key_id, 1)
        async with asyncio.timeout(10):
            while (left := each.ledger.list_durable(DurableQuery())[0]).state == "waiting":
                await asyncio.sleep(0.02)
        assert (left.state, left.code) == ("dead", "key_revoked")
        assert reply.status == 202

    slow = {"durable": structs.replace(QUICK, attempts=50)}
    run(tmp_path, scenario, tool_changes=slow)


@pytest.mark.requirement("DUR-01")
def test_the_next_life_makes_what_the_last_one_took_on(tmp_path):
    async def first(each):
        await each.shop.stop()
        reply = await each.refund("17", key="a", **LATER)
        assert reply.status == 202

    async def second(each):
        async with asyncio.timeout(10):
            while (found := each.ledger.list_durable(DurableQuery())[0]).state == "waiting":
                await asyncio.sleep(0.02)
        assert (found.state, each.shop.effects()) == ("done", 1)
        head, keys = each.ledger.audit_head(), each.ledger.public_keys()
        assert verify(each.ledger.entries_after(0, 999), head, keys).fault is None

    patient = {"durable": structs.replace(QUICK, attempts=90, backoff_max="100ms")}
    run(tmp_path, first, tool_changes=patient)
    run(tmp_path, second, tool_changes=patient)


@pytest.mark.requirement("DUR-01")
def test_a_person_requeues_and_discards_dead_letters(tmp_path):
    async def scenario(each):
        for order in ("s422-x", "s422-y"):
            await ended(each, await each.refund(order, key=order, **LATER))
        listed = await each.http_ask("GET", "/v1/durable-calls?state=dead", by=each.reader)
        ids = {call["durable_id"] for call in listed.json["calls"]}
        assert len(ids) == 2
        again, away = sorted(ids)
        before = each.shop.requests
        for action, durable_id, state in (
            ("requeue", again, "waiting"),
            ("discard", away, "discarded"),
        ):
            path, body = f"/v1/durable-calls/{durable_id}/{action}", {"reason": "looked at it"}
            for credential in (each.agent, each.reader, each.admin):
                refused = await each.http_ask("POST", path, by=credential, json=body)
                assert (refused.status, refused.code) == (403, "forbidden")
            done = await each.http_ask("POST", path, by=each.approver, json=body)
            assert done.status == 200 and done.json["state"] in (state, "dead")
        gone = await each.http_ask("POST", path, by=each.approver, json=body)
        assert (gone.status, gone.code) == (409, "no_dead_letter")
        nowhere = path.replace(away, "nowhere")
        assert (await each.http_ask("POST", nowhere, by=each.approver, json=body)).status == 404
        async with asyncio.timeout(10):
            while each.ledger.find_durable(again).state != "dead":
                await asyncio.sleep(0.02)
        assert each.shop.requests == before + 1
        kinds = [entry.kind for entry in each.ledger.entries_after(0, 999)]
        assert kinds.count("durable_requeued") == kinds.count("durable_discarded") == 1

    run(tmp_path, scenario, control, tool_changes=CHANGES)


@pytest.mark.requirement("DUR-01")
def test_a_dead_letter_nobody_decides_is_discarded_in_the_end_and_the_chain_says_so(tmp_path):
    async def die(each):
        await ended(each, await each.refund("s422-x", key="a", **LATER))

    async def later(each):
        async with asyncio.timeout(10):
            while each.ledger.list_durable(DurableQuery())[0].state != "discarded":
                await asyncio.sleep(0.02)
        entry = each.ledger.entries_after(0, 999)[-1]
        said = json.loads(entry.body)
        assert (entry.kind, said["by"]) == ("durable_discarded", "gateway")

    async def main():
        async with allowing(tmp_path, tool_changes=CHANGES) as each:
            await die(each)
        async with allowing(tmp_path, tool_changes=CHANGES) as each:
            await each.gateway.stop()
            month_ns = DEAD_LETTER_NS + 10**9
            again = Gateway(
                each.gateway._ports, each.settings, now_ns=lambda: clock.now_ns() + month_ns
            )
            await again.start()
            try:
                await later(each)
            finally:
                await again.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("rules", "class_", "path"),
    [
        (Durable(attempts=0), "write", "attempts"),
        (Durable(attempts=101), "write", "attempts"),
        (Durable(backoff="soon"), "write", "backoff"),
        (Durable(deadline=""), "write", "deadline"),
        (Durable(), "read", ""),
    ],
)
def test_rules_that_cannot_be_kept_are_refused(rules, class_, path):
    match = Match(method="POST", path="/t")
    tool = Tool(name="t", upstream="u", class_=class_, match=match, durable=rules)
    upstream = Upstream(name="u", url="http://127.0.0.1:1", allow_cidrs=("127.0.0.0/8",))
    (found,) = Config(upstreams=(upstream,), tools=(tool,)).problems()
    assert found.path == f"tools.0.durable{'.' + path if path else ''}"
