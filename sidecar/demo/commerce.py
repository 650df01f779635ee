"""The demo's commerce service: the shop over HTTP, as a process of its own.

Rules
1. It knows nothing of the sidecar: it honours ``Idempotency-Key`` and answers plain JSON.
2. ``timeout_after`` commits the effect, then keeps the connection open without a word, once per
   key.
3. ``/desk`` is the shop's own counter (placing orders); no tool of the gateway's registry leads
   there.

``python -m sidecar.demo.commerce --database FILE [--port N]`` prints ``listening
http://127.0.0.1:PORT``.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from sidecar import clock
from sidecar.demo.listening import listening, serve
from sidecar.demo.shop import REFUND_POLICY, EmailRequest, Order, RefundRequest, Shop, ShopRefused

SILENCE_SECONDS = 60.0
Body = TypeVar("Body")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(shop: Shop, *, silence_seconds: float = SILENCE_SECONDS) -> web.Application:
    """The service over ``shop``; ``silence_seconds`` is how long a timeout keeps its connection."""
    app = web.Application(middlewares=[_refusals])
    routes = _Routes(shop, silence_seconds)
    app.router.add_get("/healthz", routes.healthz)
    app.router.add_get("/refund-policy", routes.policy)
    app.router.add_get("/orders/{order_id}", routes.order)
    app.router.add_post("/orders/{order_id}/refunds", routes.refund)
    app.router.add_get("/refunds", routes.refunds)
    app.router.add_post("/emails", routes.email)
    app.router.add_put("/desk/orders/{order_id}", routes.place)
    return app


class _Routes:
    """One method per path. SQLite is called on the loop: one customer, microseconds."""

    def __init__(self, shop: Shop, silence_seconds: float) -> None:
        self._shop = shop
        self._silence_seconds = silence_seconds

    async def healthz(self, _: web.Request) -> web.Response:
        return _json({"status": "ok"})

    async def policy(self, _: web.Request) -> web.Response:
        return _json(REFUND_POLICY)

    async def order(self, request: web.Request) -> web.Response:
        return _json(self._shop.order(request.match_info["order_id"]))

    async def refunds(self, request: web.Request) -> web.Response:
        order_id, key = request.query.get("order_id", ""), request.query.get("key", "")
        if not (order_id or key):
            raise ShopRefused(400, "name an order_id or a key")
        return _json({"refunds": self._shop.refunds(order_id=order_id, key=key)})

    async def refund(self, request: web.Request) -> web.Response:
        order_id, key = request.match_info["order_id"], _key(request)
        seen_before = bool(self._shop.refunds(key=key))
        self._shop.note_request("issue_refund", order_id, key)
        body = await _body(request, RefundRequest)
        answer = self._shop.refund(order_id, body, key=key, new_id=f"RF-{clock.new_id()}")
        if self._shop.behaviour(order_id) == "timeout_after" and not seen_before:
            await asyncio.sleep(self._silence_seconds)
        return _json(answer, 201)

    async def email(self, request: web.Request) -> web.Response:
        key = _key(request)
        self._shop.note_request("send_email", None, key)
        body = await _body(request, EmailRequest)
        return _json(self._shop.send_email(body, key=key, new_id=f"EM-{clock.new_id()}"), 202)

    async def place(self, request: web.Request) -> web.Response:
        order = await _body(request, Order)
        if order.order_id != request.match_info["order_id"]:
            raise ShopRefused(400, "the path and the body name different orders")
        self._shop.place(order)
        return _json({"order_id": order.order_id}, 201)


@web.middleware
async def _refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ShopRefused as refused:
        return _json({"error": str(refused)}, refused.status)


def _key(request: web.Request) -> str:
    key = request.headers.get("Idempotency-Key", "").strip('"')
    if not key:
        raise ShopRefused(400, "an Idempotency-Key is needed")
    return key


async def _body(request: web.Request, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.DecodeError as error:
        raise ShopRefused(400, f"the body is not right: {error}") from None


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json"
    )


def main() -> None:
    """Serve until told to stop."""
    parser = listening(argparse.ArgumentParser(description="the demo's commerce service"))
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--orders", type=Path, help="orders to start with, a JSON list")
    arguments = parser.parse_args()
    shop = Shop(arguments.database)
    try:
        if arguments.orders is not None:
            for order in msgspec.json.decode(arguments.orders.read_bytes(), type=list[Order]):
                shop.place(order)
        asyncio.run(serve(application(shop), arguments.host, arguments.port))
    finally:
        shop.close()


if __name__ == "__main__":
    main()
