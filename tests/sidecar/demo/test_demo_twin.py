"""The demo's twin answers as the real commerce service does: the same calls, side by side."""

import asyncio
from importlib import resources

import aiohttp
import pytest
from aiohttp import web

from sidecar.demo import commerce
from sidecar.demo.shop import Shop
from sidecar.demo.toolbox import BY_NAME
from sidecar.expression import document
from sidecar.twins.declaration import Declaration
from sidecar.twins.episode import Call, Episode, Setting
from sidecar.twins.twin import Twin
from sidecar.twins.world import World

ORDER = {
    "order_id": "ORD-1", "customer": "Ada", "email": "a@x.example", "item": "Kettle",
    "total": "49.00", "currency": "EUR", "status": "delivered", "days_since_delivery": 3,
}  # fmt: skip
REFUND = {"order_id": "ORD-1", "amount": "29.00", "currency": "EUR", "reason": "broken"}
EMAIL = {"to": "a@x.example", "subject": "s", "body": "b"}


def twin():
    path = resources.files("sidecar.demo") / "assets" / "twin.yaml"
    read = document.read(path.read_text("utf-8"), name="twin.yaml")
    declared = document.convert(read, Declaration)
    made = Twin(declared)
    document.report(read, [*declared.problems(), *made.problems])
    return made, World(declared)


CALLS = {
    "a refund, asked for twice with one key, and once more than is left": [
        ("get_order", {"order_id": "ORD-1"}, ""),
        ("get_refund_policy", {}, ""),
        ("issue_refund", REFUND, "k1"),
        ("issue_refund", REFUND, "k1"),
        ("get_order", {"order_id": "ORD-1"}, ""),
        ("issue_refund", REFUND, "k2"),
        ("issue_refund", {**REFUND, "amount": "20.00"}, "k3"),
        ("get_order", {"order_id": "ORD-1"}, ""),
        ("send_email", EMAIL, "k4"),
        ("send_email", EMAIL, "k4"),
    ],
    "what cannot be": [
        ("get_order", {"order_id": "ORD-9"}, ""),
        ("issue_refund", {**REFUND, "order_id": "ORD-9"}, "k1"),
        ("issue_refund", {**REFUND, "currency": "USD"}, "k2"),
        ("issue_refund", REFUND, "k3"),
        ("issue_refund", {**REFUND, "amount": "1.00"}, "k3"),
        ("get_order", {"order_id": "ORD-1"}, ""),
    ],
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
def test_shop_and_twin_answer_alike(calls, tmp_path):
    real = asyncio.run(from_shop(tmp_path, calls))
    assert from_twin(calls) == real


def test_the_twin_finds_a_refund_by_its_key_as_the_shop_does():
    made, world = twin()
    episode = Episode(made, world, Setting())
    episode.begin({"orders": [{**ORDER, "refunded": "0.00"}]})
    episode.call(Call(tool="issue_refund", arguments=REFUND, key="k1"))
    found = episode.call(Call(tool="list_refunds", arguments={"key": "k1"})).value["refunds"]
    assert [refund["amount"] for refund in found] == ["29.00"]
    none = episode.call(Call(tool="list_refunds", arguments={"key": "other"}))
    assert none.value == {"refunds": []}
    assert episode.close()


def from_twin(calls):
    made, world = twin()
    episode = Episode(made, world, Setting())
    episode.begin({"orders": [{**ORDER, "refunded": "0.00"}]})
    answers = []
    for tool, arguments, key in calls:
        reply = episode.call(Call(tool=tool, arguments=arguments, key=key))
        answers.append(comparable(reply.status, reply.value))
    assert episode.close()
    return answers


async def from_shop(tmp_path, calls):
    shop = Shop(tmp_path / "shop.db")
    runner = web.AppRunner(commerce.application(shop), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    answers = []
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as http:
        await http.put("/desk/orders/ORD-1", json=ORDER)
        for tool, arguments, key in calls:
            path, body = BY_NAME[tool].request(arguments)
            headers = {"Idempotency-Key": key} if key else {}
            async with http.request(
                BY_NAME[tool].method, path, data=body, headers=headers
            ) as answer:
                answers.append(comparable(answer.status, await answer.json()))
    await runner.cleanup()
    shop.close()
    return answers


def comparable(status, value):
    """An answer without what is made up on each side: ids, and the wording of refusals."""
    if status >= 400:
        return status, None
    return status, {
        name: item for name, item in value.items() if name not in {"refund_id", "email_id"}
    }
