"""kill -9 at every point of a call: at most one effect, and the next life knows what it can."""

import asyncio
import json
import multiprocessing
import sqlite3
from contextlib import closing

import pytest
from crash_life import life, one_call
from gateway_rig import Shop, keyring

from sidecar.gateway.audit import verify
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.ledger import SqliteLedger

pytestmark = pytest.mark.full  # chaos/test_crash_proof.py plays a few in the fast tier

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["crash_life"])

# point: state of the claim the first life left, effects it had, answer of the next life
POINTS = {
    "before_commit_intent": (None, 0, 201),
    "after_commit_intent": ("claimed", 0, 201),
    "between_commits": ("claimed", 0, 201),
    "before_mark_sent": ("claimed", 0, 201),
    "after_mark_sent": ("sent", 0, 409),
    "mid_send": ("sent", 0, 409),
    "after_send": ("sent", 1, 409),
    "after_response": ("sent", 1, 409),
    "before_record": ("sent", 1, 409),
    "after_record": ("completed", 1, 201),
}


def in_folder(folder, scenario):
    async def main():
        shop = Shop(folder / "shop.db")
        await shop.start()
        try:
            return await scenario(shop)
        finally:
            await shop.stop()

    return asyncio.run(main())


async def crash(folder, shop, class_, point, *, reconcile=False):
    process = CONTEXT.Process(target=life, args=(folder, shop.port, class_, point, reconcile))
    process.start()
    await asyncio.to_thread(process.join, 60)
    assert process.exitcode == -9, f"{point}: the life did not end there ({process.exitcode})"


def claim_state(folder):
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        row = connection.execute("SELECT state FROM claim").fetchone()
    return row[0] if row else None


def chain_fault(folder):
    keys = SqliteKeys(folder / "ledger.db")
    ledger = SqliteLedger(folder / "ledger.db", keyring(keys))
    try:
        found = verify(ledger.entries_after(0, 999), ledger.audit_head(), ledger.public_keys())
        return found.fault
    finally:
        ledger.close()
        keys.close()


@pytest.mark.row("A", "T34")
@pytest.mark.requirement("IDM-02")
@pytest.mark.parametrize(
    ("class_", "point"),
    [*(("irreversible", point) for point in POINTS), ("write", "after_send")],
)
def test_a_call_killed_at_any_point_has_at_most_one_effect(tmp_path, point, class_):
    state, effects, answer = POINTS[point]

    async def scenario(shop):
        await crash(tmp_path, shop, class_, point)
        assert (claim_state(tmp_path), shop.effects()) == (state, effects)
        reply = await one_call(tmp_path, shop.port, class_)
        assert reply.status == answer, reply.body
        if answer == 409:
            assert json.loads(reply.body)["code"] == "outcome_unknown"
            assert (claim_state(tmp_path), shop.effects()) == ("unknown", effects)
        else:
            assert (claim_state(tmp_path), shop.effects()) == ("completed", 1)

    in_folder(tmp_path, scenario)
    assert chain_fault(tmp_path) is None


@pytest.mark.row("A", "T34")
@pytest.mark.requirement("IDM-01")
@pytest.mark.parametrize(("point", "answer"), [("after_mark_sent", 201), ("after_send", 200)])
def test_the_next_life_reconciles_what_the_dead_one_left(tmp_path, point, answer):
    async def scenario(shop):
        await crash(tmp_path, shop, "irreversible", point, reconcile=True)
        reply = await one_call(tmp_path, shop.port, "irreversible", reconcile=True, settle=True)
        assert (reply.status, shop.effects()) == (answer, 1)

    in_folder(tmp_path, scenario)
    assert chain_fault(tmp_path) is None


@pytest.mark.row("A")
@pytest.mark.parametrize("point", ["after_response", "before_record", "after_record"])
def test_a_read_killed_at_any_point_is_simply_asked_again(tmp_path, point):
    async def scenario(shop):
        await crash(tmp_path, shop, "read", point)
        assert (await one_call(tmp_path, shop.port, "read")).status == 200
        assert claim_state(tmp_path) is None

    in_folder(tmp_path, scenario)
    assert chain_fault(tmp_path) is None
