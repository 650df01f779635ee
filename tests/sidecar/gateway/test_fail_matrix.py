"""The fail matrix (docs/specs/gateway.md): whatever fails, nothing irreversible is sent, and the
agent is told so. One row a failure, one column a class."""

import asyncio
import os
import signal
import sqlite3
from contextlib import closing, contextmanager

import pytest
from gateway_rig import AllowAll, rig
from msgspec import structs

from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.result import read_answer
from sidecar.gateway.policy.worker import PolicyWorker
from sidecar.store.ledger import CallQuery
from sidecar.store.sqlite import claims


def run(folder, scenario, **options):
    async def main():
        async with rig(folder, **options) as each:
            return await scenario(each)

    return asyncio.run(main())


async def one_of_each(each, order="17", key="m"):
    """Status and code of a read, a write and an irreversible call."""
    body = {"amount": 20, "currency": "EUR"}
    replies = (
        await each.ask("GET", f"/payments/orders/{order}"),
        await each.ask("POST", f"/payments/orders/{order}/notes", key=key, json=body),
        await each.refund(order, key=key),
    )
    return [
        (reply.status, reply.json.get("code") if reply.status >= 400 else None) for reply in replies
    ]


class BadPolicy(AllowAll):
    """A policy port that fails in one way."""

    revision = "r"
    reads: frozenset[str] = frozenset()

    def __init__(self, way):
        self._way = way

    async def decide(self, document):
        if self._way == "raises":
            raise RuntimeError("policy is gone")
        answers = {
            "undefined": "<undefined>",
            "nothing": None,
            "unknown effect": {"effect": "maybe"},
            "an allow without a reason": {"effect": "allow"},
            "an unknown obligation": {
                "effect": "allow",
                "reasons": [{"code": "ok"}],
                "obligations": [{"type": "dance"}],
            },
        }
        return read_answer(answers[self._way])


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize(
    "way",
    [
        *("raises", "undefined", "nothing", "unknown effect", "an allow without a reason"),
        "an unknown obligation",
    ],
)
@pytest.mark.row("G", "T11", "T17")
def test_a_policy_without_a_usable_answer_refuses_everything(tmp_path, way):
    async def scenario(each):
        assert await one_of_each(each) == [(503, "policy_error")] * 3
        assert each.shop.requests == 0
        assert {one.phase for one in each.ledger.list_calls(CallQuery())} == {"refused"}

    run(tmp_path, scenario, policy=BadPolicy(way))


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.row("G")
def test_a_policy_engine_that_dies_or_hangs_refuses_and_comes_back(tmp_path, number):
    async def scenario(each):
        for pid in each.policy.pids:
            os.kill(pid, number)
        replies = await asyncio.gather(*(each.refund("17", key=f"k{n}") for n in range(4)))
        assert {reply.status for reply in replies} <= {503, 201}
        if number == signal.SIGSTOP:  # a dead child may be replaced before anybody asks it
            assert any(reply.status == 503 for reply in replies)
        async with asyncio.timeout(20):
            while (await each.refund("17", key="again")).status != 201:
                await asyncio.sleep(0.05)
        sent = sum(reply.status == 201 for reply in replies) + 1
        assert each.shop.effects() == sent

    worker = PolicyWorker(load_bundle(), deadline_ns=300_000_000)
    run(tmp_path, scenario, policy=worker)


@contextmanager
def locked(folder):
    """Another process's long transaction, as this one sees it."""
    with closing(sqlite3.connect(folder / "ledger.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@pytest.mark.requirement("GW-04")
@pytest.mark.row("G")
def test_a_locked_ledger_refuses_everything_with_effects_and_nothing_is_sent(tmp_path):
    async def scenario(each):
        await each.ask("GET", "/payments/orders/17")
        with locked(tmp_path):
            answers = await one_of_each(each)
        assert answers == [(503, "fail_closed")] * 3
        assert each.shop.effects() == 0
        assert await one_of_each(each) == [(200, None), (201, None), (201, None)]

    run(tmp_path, scenario, busy_timeout_ms=50, ledger_path=tmp_path / "ledger.db")


def fill_up(ledger):
    """SQLite's own word for a full disk: no page may be added to the file."""
    ledger._writer.run_sync(lambda connection: connection.execute("PRAGMA max_page_count = 1"))


@pytest.mark.requirement("GW-04")
@pytest.mark.row("G")
def test_a_full_disk_refuses_everything_with_effects_and_nothing_is_sent(tmp_path):
    async def scenario(each):
        fill_up(each.ledger)
        answers = []
        for number in range(40):  # a few rows may still fit into the last pages
            answers.append(await one_of_each(each, key=f"k{number}"))
        assert answers[-1] == [(503, "fail_closed")] * 3
        sent = sum(each_status == (201, None) for row in answers for each_status in row[1:])
        unknown = sum(one[1] == "outcome_unknown" for row in answers for one in row)
        assert sent <= each.shop.effects() <= sent + unknown

    run(tmp_path, scenario, ledger_path=tmp_path / "ledger.db")


class FailingLedger:
    """The real ledger, but for one write that fails as a store fails."""

    def __init__(self, ledger, name):
        self._ledger = ledger
        self._name = name

    def __getattr__(self, name):
        if name != self._name:
            return getattr(self._ledger, name)

        async def fail(*arguments):
            from sidecar.errors import StoreUnavailable

            raise StoreUnavailable("the disk is gone")

        return fail


def unmarked(*_):
    raise OSError("the disk is gone")


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize(
    ("name", "irreversible", "effects"),
    [
        ("commit_intent", (503, "fail_closed"), 0),
        ("mark_sent", (503, "fail_closed"), 0),
        ("record", (409, "outcome_unknown"), 1),
    ],
)
@pytest.mark.row("T15", "G")
def test_a_write_that_fails_is_503_before_and_409_after_sending(
    tmp_path, monkeypatch, name, irreversible, effects
):
    def wrap(ports):
        return structs.replace(ports, ledger=FailingLedger(ports.ledger, name))

    if name == "mark_sent":  # neither right after the intent nor by itself
        monkeypatch.setattr(claims, "marked", unmarked)

    async def scenario(each):
        reply = await each.refund("17", key="a")
        assert (reply.status, reply.json["code"]) == irreversible
        assert "gateway-receipt" not in reply.headers or name == "mark_sent"
        assert each.shop.effects("17") == effects

    run(tmp_path, scenario, wrap=wrap, policy=AllowAll())


@pytest.mark.requirement("GW-04")
def test_an_upstream_that_hangs_drops_or_is_not_there(tmp_path):
    async def scenario(each):
        assert (await one_of_each(each, "hang", "h"))[1:] == [(409, "outcome_unknown")] * 2
        assert (await one_of_each(each, "drop", "d"))[1:] == [(409, "outcome_unknown")] * 2
        await each.shop._runner.cleanup()
        assert await one_of_each(each, "gone", "g") == [(502, "upstream_unreachable")] * 3

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize(
    ("name", "answer"),
    [("commit_intent", (503, "fail_closed")), ("record", (409, "outcome_unknown"))],
)
def test_a_fault_of_our_own_is_a_refusal_too(tmp_path, name, answer):
    class Faulty(FailingLedger):
        def __getattr__(self, wanted):
            if wanted != name:
                return getattr(self._ledger, wanted)
            raise ZeroDivisionError

    def wrap(ports):
        return structs.replace(ports, ledger=Faulty(ports.ledger, name))

    async def scenario(each):
        reply = await each.refund("17", key="a")
        assert (reply.status, reply.json["code"]) == answer

    run(tmp_path, scenario, wrap=wrap, policy=AllowAll())
