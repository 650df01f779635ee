"""The commerce service over HTTP: keys are honoured, and its timeouts happen after the effect."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from sidecar.demo import commerce
from sidecar.demo.shop import Shop

ORDER = {
    "order_id": "ORD-1",
    "customer": "Ada",
    "email": "a@x.example",
    "item": "Kettle",
    "total": "49.00",
}
REFUND = {"amount": "49.00", "currency": "EUR", "reason": "broken"}


@pytest.fixture
def play(tmp_path):
    def run(scenario):
        async def main():
            shop = Shop(tmp_path / "shop.db")
            runner = web.AppRunner(
                commerce.application(shop, silence_seconds=60), access_log=None,
                handler_cancellation=True, shutdown_timeout=0.1,
            )  # fmt: skip
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            try:
                async with aiohttp.ClientSession(url) as http:
                    await scenario(http, shop)
            finally:
                await runner.cleanup()
                shop.close()

        asyncio.run(main())

    return run


async def refund(http, key, body=REFUND, **more):
    async with http.post(
        "/orders/ORD-1/refunds", json=body, headers={"Idempotency-Key": key}, **more
    ) as r:
        return r.status, await r.json()


def test_the_same_key_gives_the_same_refund_and_no_key_gives_none(play):
    async def scenario(http, shop):
        await http.put("/desk/orders/ORD-1", json=ORDER)
        status, first = await refund(http, "k")
        assert status == 201
        assert await refund(http, "k") == (201, first)
        assert (await refund(http, ""))[0] == 400
        async with http.get("/refunds", params={"key": "k"}) as found:
            assert [r["refund_id"] for r in (await found.json())["refunds"]] == [first["refund_id"]]

    play(scenario)


def test_a_timeout_comes_after_the_effect_and_only_once_per_key(play):
    async def scenario(http, shop):
        await http.put("/desk/orders/ORD-1", json={**ORDER, "behaviour": "timeout_after"})
        with pytest.raises(asyncio.TimeoutError):
            await refund(http, "k", timeout=aiohttp.ClientTimeout(total=0.3))
        assert len(shop.refunds(order_id="ORD-1")) == 1
        assert (await refund(http, "k"))[0] == 201
        assert len(shop.refunds(order_id="ORD-1")) == 1
        assert shop.requests("issue_refund", "ORD-1") == 2

    play(scenario)


def test_what_is_malformed_is_told_why(play):
    async def scenario(http, shop):
        status, body = await refund(http, "k", body={"amount": 49})
        assert status == 400 and "body is not right" in body["error"]
        async with http.get("/orders/ORD-9") as answer:
            assert answer.status == 404
        async with http.get("/refunds") as answer:
            assert answer.status == 400

    play(scenario)
