"""The fail matrix (gateway.md §2.7) as one table: what fails, and what each class of call gets.

Rows that need a process, a bundle or an MCP server of their own are tested where those are; the
last table says where.
"""

import ast
import asyncio
from pathlib import Path

import pytest
from gateway_rig import AllowAll, Settings, query, rig
from msgspec import structs

from sidecar.errors import SidecarError, StoreUnavailable
from sidecar.gateway.budget import Budget
from sidecar.gateway.policy.result import denied, read_answer

TESTS = Path(__file__).parents[2]
FAIL_CLOSED, POLICY, FINE = "fail_closed", "policy_error", None
BODY = {"amount": 20, "currency": "EUR"}


async def of_each(each, key="m", **headers):
    """What a read, a write and an irreversible call get: a code, None where it was made."""
    replies = (
        await each.ask("GET", "/payments/orders/17", **headers),
        await each.ask("POST", "/payments/orders/17/notes", key=key, json=BODY, **headers),
        await each.refund("17", key=key, **headers),
    )
    assert all(reply.status >= 400 for reply in replies if reply.json.get("code"))
    return [reply.json.get("code") if reply.status >= 400 else None for reply in replies]


class Answers(AllowAll):
    def __init__(self, raw):
        self._raw = raw

    async def decide(self, document):
        if isinstance(self._raw, Exception):
            raise self._raw
        return structs.replace(read_answer(self._raw), revision=self.revision)


class Late(AllowAll):
    async def decide(self, document):
        return denied("no answer within 100 ms")


class Failing:
    """The real ledger, but for some of it that fails as a store fails."""

    def __init__(self, ledger, *names):
        self._ledger, self._names = ledger, names

    def __getattr__(self, name):
        found = getattr(self._ledger, name)
        if name not in self._names:
            return found

        def fail(*_, **__):
            raise StoreUnavailable("the disk is gone")

        async def fail_later(*_, **__):
            raise StoreUnavailable("the disk is gone")

        return fail_later if asyncio.iscoroutinefunction(found) else fail


def failing(*names):
    return {"wrap": lambda ports: structs.replace(ports, ledger=Failing(ports.ledger, *names))}


def budgeted(*budgets, **more):
    return {"settings": Settings(accept_ephemeral_ledger=True, budgets=budgets), **more}


NEEDS_APPROVAL = {"effect": "require_approval", "reasons": [{"code": "ask"}]}
CALLS = Budget(scope="project", limit="100", unit="calls")
EUROS = Budget(scope="project", limit="100", currency="EUR", tools=("issue_refund",))

# what fails: how it is made to fail, then what a read, a write and an irreversible call get
TABLE = {
    "policy raises": ({"policy": Answers(RuntimeError("gone"))}, [POLICY] * 3),
    "policy is late": ({"policy": Late()}, [POLICY] * 3),
    "policy is undefined": ({"policy": Answers(None)}, [POLICY] * 3),
    "policy says nonsense": ({"policy": Answers({"effect": "maybe"})}, [POLICY] * 3),
    "policy allows without a reason": ({"policy": Answers({"effect": "allow"})}, [POLICY] * 3),
    "ledger cannot take a receipt": (failing("record", "commit_intent"), [FAIL_CLOSED] * 3),
    "ledger cannot be read": (
        failing("find_claim", "prior_tools", "stop_of"), [FAIL_CLOSED] * 3,
    ),
    "kill state cannot be read": (failing("stop_of"), [FAIL_CLOSED] * 3),
    "approval store is down": (
        {**failing("ask_approval"), "policy": Answers(NEEDS_APPROVAL)},
        ["idempotency_key_required", FAIL_CLOSED, FAIL_CLOSED],
    ),
    "budget store is down, a budget for all": (
        budgeted(CALLS, **failing("standings")), [FAIL_CLOSED] * 3,
    ),
    "budget store is down, a budget for some": (
        budgeted(EUROS, **failing("standings")), [FINE, FINE, FAIL_CLOSED],
    ),
    "intents cannot be written, no budget for reads": (
        failing("commit_intent"), [FINE, FAIL_CLOSED, FAIL_CLOSED],
    ),
    "audit anchors are behind beyond the cap": (
        {"wrap": lambda ports: structs.replace(ports, unanchored=lambda: True)},
        [FINE, "audit_not_anchored", "audit_not_anchored"],
    ),
    "ledger would not survive": (
        {"settings": Settings(), "ledger_path": ":memory:"},
        [FINE, FINE, "ephemeral_ledger"],
    ),
    "upstream's address is blocked": (
        {"upstream_url": "http://10.1.2.3:80"}, ["upstream_unreachable"] * 3,
    ),
    "upstream's address is the metadata service": (
        {"upstream_url": "http://169.254.169.254"}, ["upstream_unreachable"] * 3,
    ),
    "policy fails, reads are let through": (
        {"policy": Late(), "tool_changes": {"read": {"policy_failure": "allow"}}},
        [FINE, POLICY, POLICY],
    ),
    "nothing": ({}, [FINE] * 3),
}  # fmt: skip


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize("failure", TABLE)
@pytest.mark.row("G")
def test_whatever_fails_each_class_gets_what_the_table_says(tmp_path, failure):
    options, expected = TABLE[failure]

    async def main():
        async with rig(tmp_path, **{"policy": AllowAll(), **options}) as each:
            assert await of_each(each) == expected
            with_effects = sum(code is None for code in expected[1:])
            assert each.shop.effects() == with_effects

    asyncio.run(main())


@pytest.mark.requirement("GW-04")
def test_a_read_that_is_let_through_says_so_in_its_receipt_and_is_counted(tmp_path):
    from sidecar.telemetry import DEGRADED

    count = DEGRADED.labels("read", "policy")._value
    changes = {"read": {"policy_failure": "allow"}}

    async def main():
        before = count.get()
        async with rig(tmp_path, policy=Late(), tool_changes=changes) as each:
            reply = await each.ask("GET", "/payments/orders/17")
            assert reply.status == 200
            receipt = each.ledger.get_receipt(reply.headers["gateway-receipt"])
            assert receipt.enforcement.split(",")[-1] == "degraded"
        assert count.get() - before == 1

    asyncio.run(main())


@pytest.mark.parametrize("class_", ["write", "irreversible"])
def test_nothing_with_effects_can_be_configured_to_be_let_through(class_):
    from sidecar.gateway.config import Config, Match, Tool

    tool = Tool(
        name="t", upstream="u", class_=class_, policy_failure="allow",
        match=Match(method="POST", path="/t"),
    )  # fmt: skip
    told = [each.path for each in Config(tools=(tool,)).problems()]
    assert "tools.0.policy_failure" in told


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"data": b"{" + b" " * 5_000 + b"}"}, 413),
        ({"data": b'{"amount": 1, "amount": 2}'}, 400),
        ({"data": b"\xff\xfe"}, 400),
        ({"data": b"\x1f\x8b", "headers": {"Content-Encoding": "gzip"}}, 415),
        ({"data": b"x", "headers": {"Content-Type": "application/octet-stream"}}, 415),
    ],
    ids=["too large", "ambiguous", "unparsable", "encoded", "unreadable"],
)
@pytest.mark.row("G")
def test_a_body_nobody_can_judge_is_not_sent_whatever_the_class(tmp_path, sent, status):
    async def main():
        async with rig(tmp_path, policy=AllowAll(), body_bytes_max=1_000) as each:
            for path in ("notes", "refunds"):
                headers = {
                    "Authorization": f"Bearer {each.agent}", "Idempotency-Key": "k",
                    "Content-Type": "application/json", **sent.get("headers", {}),
                }  # fmt: skip
                url = f"http://127.0.0.1:{each.server.port}/payments/orders/17/{path}"
                async with each.http.post(url, data=sent["data"], headers=headers) as response:
                    assert response.status == status
            assert each.shop.requests == 0

    asyncio.run(main())


@pytest.mark.requirement("GW-04")
@pytest.mark.row("G")
def test_a_clock_that_was_set_makes_no_token_fresh(tmp_path):
    async def main():
        async with rig(tmp_path, gateways=1) as each:
            token = await each.approved_token("17", key="a")
            right = each.gateway._steady
            for off in (31, -31):
                wrong = structs.replace(right, wall_ns=right.wall_ns + off * 10**9)
                each.gateway._steady = wrong
                refused = await each.refund("17", key="a", amount=500, Approval_Token=token)
                assert (refused.status, refused.json["code"]) == (503, "clock_skewed")
                held = await each.refund("17", key="a", amount=500, Prefer="wait=1")
                assert (held.status, held.json["code"]) == (503, "clock_skewed"), "without it too"
                unasked = await each.refund("18", key="b", amount=500)
                assert (unasked.status, unasked.json["code"]) == (503, "clock_skewed")
                assert (await each.ask("GET", "/payments/orders/17")).status == 200
            assert each.shop.effects() == 0
            each.gateway._steady = structs.replace(right, wall_ns=right.wall_ns + 29 * 10**9)
            done = await each.refund("17", key="a", amount=500, Approval_Token=token)
            assert done.status == 201

    asyncio.run(main())


@pytest.mark.requirement("GW-04")
@pytest.mark.row("G")
def test_a_signing_key_that_fails_sends_nothing(tmp_path):
    async def main():
        async with rig(tmp_path, policy=AllowAll(), gateways=1) as each:

            class Lost:
                kid = "lost"

                def sign(self, data):
                    raise RuntimeError("the key is gone")

            each.gateway._desk = structs.replace(each.gateway._desk, signer=Lost())
            assert await of_each(each) == [FAIL_CLOSED] * 3
            assert each.shop.effects() == 0

    asyncio.run(main())


@pytest.mark.requirement("GW-04")
@pytest.mark.row("G")
def test_a_chain_that_is_not_as_signed_stops_the_start_before_anything_is_added(tmp_path):
    path = tmp_path / "ledger.db"

    async def life():
        async with rig(tmp_path, policy=AllowAll()) as each:
            await each.refund("17", key="a")

    asyncio.run(life())
    last = "SELECT max(seq) FROM audit"
    query(path, f"UPDATE audit SET body = '{{}}', hash = 'x' WHERE seq = ({last}) RETURNING seq")
    before = query(path, "SELECT count(*), max(seq) FROM audit")
    with pytest.raises(SidecarError, match="not as it was written"):
        asyncio.run(life())
    assert query(path, "SELECT count(*), max(seq) FROM audit") == before


ELSEWHERE = {
    "policy engine crashes or hangs": (
        "sidecar/gateway/test_fail_matrix.py",
        "test_a_policy_engine_that_dies_or_hangs_refuses_and_comes_back",
    ),
    "ledger locked": (
        "sidecar/gateway/test_fail_matrix.py",
        "test_a_locked_ledger_refuses_everything_with_effects_and_nothing_is_sent",
    ),
    "disk full": (
        "sidecar/gateway/test_fail_matrix.py",
        "test_a_full_disk_refuses_everything_with_effects_and_nothing_is_sent",
    ),
    "upstream hangs, drops, is not there": (
        "sidecar/gateway/test_fail_matrix.py",
        "test_an_upstream_that_hangs_drops_or_is_not_there",
    ),
    "bundle bad at the start": (
        "sidecar/gateway/policy/test_worker.py",
        "test_a_bundle_that_does_not_parse_or_breaks_a_rule_refuses_to_start",
    ),
    "one of many addresses is blocked": (
        "sidecar/egress/test_rules.py",
        "test_one_bad_answer_refuses_the_name",
    ),
    "anchors away within the cap": (
        "sidecar/gateway/test_checkpoints.py",
        "test_an_anchor_that_is_away_loses_nothing_and_stops_effects_once_it_lags_too_far",
    ),
}


@pytest.mark.parametrize("failure", ELSEWHERE)
def test_the_rows_tested_elsewhere_are(failure):
    file, name = ELSEWHERE[failure]
    tree = ast.parse((TESTS / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
