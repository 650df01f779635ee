"""Two gateway processes on one ledger, and durable calls through kill -9, on either backend."""

import asyncio
import json
import multiprocessing
import os
import signal
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import aiohttp
import pytest
from msgspec import structs
from postgres_rig import database

from sidecar import clock
from sidecar.app.loading import load_config
from sidecar.app.minting import create_key
from sidecar.app.opening import open_backend, open_keys, open_ledger
from sidecar.chaos.files import Ground, prepare
from sidecar.chaos.http import ChaosShop
from sidecar.chaos.worker import Lives
from sidecar.gateway.audit import verify
from sidecar.identity.keys import KeyTerms
from sidecar.store.budget import Hold
from sidecar.store.durable import DurableQuery

pytestmark = pytest.mark.full  # processes of real gateways, a real Postgres

CALLS = 200
SEAL = "07" * 32


@contextmanager
def ground(backend):
    if backend == "sqlite":
        yield ""
        return
    with database() as url:
        yield url


def configured(folder, shop, store, budgets=(), **tool):
    """The folder of a gateway; ``tool`` is added to the tools with effects."""
    folder.mkdir(exist_ok=True)
    file = prepare(folder, "plain", Ground(port=shop.port, store=store, seal_key=SEAL))
    document = json.loads(file.read_text())
    for each in document["gateway"]["tools"]:
        if each["class"] != "read":
            each.update(tool)
    document["budgets"] = list(budgets)
    file.write_text(json.dumps(document))
    return load_config(str(file), None)


@asynccontextmanager
async def fleet(tmp_path, store, count, **tool):
    """``count`` gateway processes on one ledger, the shop behind them, and an agent's client."""
    multiprocessing_ = multiprocessing.get_context("forkserver")
    multiprocessing_.set_forkserver_preload(["sidecar.chaos.process"])
    async with AsyncExitStack() as stack:
        shop = ChaosShop(tmp_path, "plain")
        await shop.start()
        stack.push_async_callback(shop.stop)
        folders = [tmp_path / (str(number) if store else "a") for number in range(count)]
        loaded = [configured(folder, shop, store, **tool) for folder in folders]
        with open_backend(loaded[0]) as stores:
            stores.migrate()
        with open_keys(loaded[0]) as keys:
            made = [
                create_key(keys, KeyTerms(kind="agent", project="default", name=name))[0]
                for name in ("one", "other")
            ]
        lives = [Lives(multiprocessing_, folder, None) for folder in folders]
        for each in lives:
            stack.push_async_callback(each.stop)
            await each.start()
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def ask(life, order, key, *, amount="20.00", credential=made[0], **headers):
            url = f"http://127.0.0.1:{life.port}/shop/orders/{order}/refunds"
            sent = {"Authorization": f"Bearer {credential}", "Idempotency-Key": key, **headers}
            body = {"amount": amount, "currency": "EUR"}
            async with session.post(url, json=body, headers=sent) as response:
                return response.status, json.loads(await response.read()), response.headers

        ledger = stack.enter_context(open_ledger(loaded[0]))
        yield shop, lives, ask, ledger, made


def whole(ledger):
    entries, after = [], -1
    while page := ledger.entries_after(after, 1000):
        entries += page
        after = page[-1].seq
    return verify(entries, ledger.audit_head(), ledger.public_keys()).fault is None


@pytest.mark.row("B", "T35", "T38", "T43")
@pytest.mark.requirement("IDM-01")
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_200_calls_with_one_key_over_two_processes_make_one_effect(tmp_path, backend):
    """Row B; T35, T38, T43."""

    async def scenario(store):
        async with fleet(tmp_path, store, 2) as (shop, lives, ask, ledger, made):
            asks = [ask(lives[number % 2], "o1", "k") for number in range(CALLS)]
            replies = await asyncio.gather(*asks)
            assert shop.effects("o1") == 1
            told = Counter(
                "replayed" if headers.get("Idempotent-Replayed") else body.get("code", status)
                for status, body, headers in replies
            )
            assert told[201] == 1
            assert told["replayed"] + told["in_flight"] == CALLS - 1, told
            late = await asyncio.gather(*(ask(life, "o1", "k") for life in lives))
            assert [body for _, body, _ in late] == [{"order": "o1"}] * 2
            for life in lives:
                status, body, _ = await ask(life, "o1", "k", amount="21.00")
                assert (status, body["code"]) == (422, "key_reused")
                assert "order" not in body  # nothing of the stored answer
            assert (await ask(lives[0], "o1", "k", credential=made[1]))[0] == 201
            assert shop.effects("o1") == 2  # another principal's key is another key
            assert whole(ledger)

    with ground(backend) as store:
        asyncio.run(scenario(store))


@pytest.mark.row("T34")
@pytest.mark.requirement("DUR-01")
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_durable_calls_are_made_once_each_through_kill_9(tmp_path, backend):
    quick = {"attempts": 50, "backoff": "100ms", "backoff_max": "500ms"}

    async def scenario(store):
        async with fleet(tmp_path, store, 1, durable=quick) as (shop, lives, ask, ledger, _):
            (life,) = lives
            port = shop.port
            await shop.close()  # nothing can be sent yet
            orders = [f"o{number}" for number in range(12)]
            for order in orders:
                status, body, _ = await ask(life, order, order, Prefer="respond-async")
                assert (status, body["call"]["state"]) == (202, "waiting")
            os.kill(life.pid, signal.SIGKILL)
            assert await life.killed()
            await shop.start(port)
            await life.start()
            async with asyncio.timeout(90):
                while ledger.list_durable(DurableQuery(state="waiting")):
                    await asyncio.sleep(0.1)
            # What was marked sent when it was killed may have left: that is a person's.
            lost = ledger.list_durable(DurableQuery(state="dead"))
            assert {each.code for each in lost} <= {"outcome_unknown"} and len(lost) < len(orders)
            assert sum(map(shop.effects, orders)) == len(orders) - len(lost)
            assert max(map(shop.effects, orders)) == 1
            replies = [await ask(life, each, each, Prefer="respond-async") for each in orders]
            assert [status for status, _, _ in replies].count(201) == len(orders) - len(lost)
            assert whole(ledger)

    with ground(backend) as store:
        asyncio.run(scenario(store))


EUR = {"scope": "project", "limit": "50", "currency": "EUR", "window": "24h", "name": "eur"}


@pytest.mark.row("A", "H")
@pytest.mark.requirement("BUD-01")
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_what_a_killed_gateway_held_stays_held_at_the_other_while_its_effect_is_possible(
    tmp_path, backend
):
    async def scenario(store):
        async with fleet(tmp_path, store, 2, budgets=[EUR]) as (shop, lives, ask, ledger, _):
            first, other = lives
            shop.arm("o1", "after_send", lambda: os.kill(first.pid, signal.SIGKILL))
            with pytest.raises(aiohttp.ClientError):
                await ask(first, "o1", "k1")
            assert await first.killed() and shop.effects("o1") == 1
            assert (await ask(other, "o2", "k2"))[0] == 201
            status, body, _ = await ask(other, "o3", "k3")  # 20 held and 20 spent of 50
            assert (status, body["code"]) == (429, "budget_exceeded")
            async with asyncio.timeout(60):
                while (again := await ask(other, "o1", "k1"))[1]["code"] == "in_flight":
                    await asyncio.sleep(0.1)
            assert (again[0], again[1]["code"]) == (409, "outcome_unknown")
            assert (await ask(other, "o3", "k3"))[0] == 429
            asked = Hold(
                budget="eur",
                subject="",
                unit="EUR",
                amount="0",
                limit="50",
                length_ns=86400 * 10**9,
            )
            (stands,) = ledger.standings("default", [asked], clock.now_ns())
            assert (stands.held, stands.spent) == ("20", "20")
            assert [shop.effects(order) for order in ("o1", "o2", "o3")] == [1, 1, 0]
            assert whole(ledger)

    with ground(backend) as store:
        asyncio.run(scenario(store))


def everything(ledger):
    entries, after = [], -1
    while page := ledger.entries_after(after, 1000):
        entries += page
        after = page[-1].seq
    return entries


@pytest.mark.row("I")
@pytest.mark.requirement("AUD-01")
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_two_processes_write_one_chain_and_every_change_of_it_is_found_at_its_place(
    tmp_path, backend
):
    async def scenario(store):
        async with fleet(tmp_path, store, 2) as (_, lives, ask, ledger, _made):
            orders = [f"o{number}" for number in range(30)]
            asks = [ask(lives[n % 2], order, order) for n, order in enumerate(orders)]
            replies = await asyncio.gather(*asks)
            assert {status for status, _, _ in replies} == {201}
            entries, head, keys = everything(ledger), ledger.audit_head(), ledger.public_keys()
            assert verify(entries, head, keys).fault is None and len(entries) >= 60
            authors = {json.loads(each.body)["receipt"]["call_id"] for each in entries
                       if each.kind == "executed"}  # fmt: skip
            assert len(authors) == 30
            place = len(entries) // 2
            flipped = structs.replace(entries[place], body=entries[place].body.replace("o1", "o2"))
            flipped = structs.replace(flipped, at_ns=flipped.at_ns ^ 1)
            swapped = [*entries]
            swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
            other = [*entries[:-1], structs.replace(entries[-1], at_ns=1)]
            for changed, index in (
                ([*entries[:place], flipped, *entries[place + 1 :]], place + 1),
                ([*entries[:place], *entries[place + 1 :]], place + 1),
                (swapped, place + 1),
                (entries[:-1], len(entries)),
                (other, len(entries)),
                ([*entries, entries[-1]], len(entries) + 1),
            ):
                assert verify(changed, head, keys).fault.index == index

    with ground(backend) as store:
        asyncio.run(scenario(store))
