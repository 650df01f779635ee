"""A served twin where the real service would stand: the production gateway calls it as any
upstream, with the episode's token as its credential.
"""

import asyncio

import pytest
from gateway_rig import AllowAll, rig
from msgspec import structs
from twin_server_rig import serving

from sidecar.egress.client import Egress
from sidecar.gateway.client import HttpUpstreams
from sidecar.gateway.config import Credential, Match, Tool, Upstream
from sidecar.gateway.registry import Registry

pytestmark = pytest.mark.requirement("TWN-01")
TOOLS = (
    Tool(
        name="refund",
        upstream="shop",
        class_="irreversible",
        match=Match(method="POST", path="/orders/{order_id}/refunds"),
        timeout="2s",
    ),
    Tool(
        name="get_order",
        upstream="shop",
        class_="read",
        match=Match(method="GET", path="/orders/{order_id}"),
    ),
)
PATH = "/shop/orders/A-1/refunds"


@pytest.fixture
def shop(tmp_path):
    with serving(tmp_path, silence_seconds=30) as running:
        yield running


def through(shop, folder, token, work):
    """What a coroutine of a gateway in front of the twin gives."""
    (folder / "token").write_text(f"Bearer {token}\n")
    upstream = Upstream(
        name="shop",
        url=f"{shop.url}/shop",
        allow_cidrs=("127.0.0.0/8",),
        credential=Credential(header="Authorization", file=str(folder / "token")),
    )
    registry = Registry.from_config((upstream,), TOOLS, {})

    async def run():
        egress = Egress()
        upstreams = HttpUpstreams(registry, egress)

        def wrap(ports):
            return structs.replace(
                ports, registry=registry, upstreams=upstreams, addresses=upstreams.addresses
            )

        try:
            async with rig(folder / "gate", policy=AllowAll(), wrap=wrap, gateways=1) as gate:
                return await work(gate)
        finally:
            await egress.close()

    return asyncio.run(run())


def effects(shop):
    name = shop.hall.names[0]
    return len(shop.lead("GET", f"/{name}/rows?entity=refunds")[1]["rows"])


def test_a_call_through_the_gateway_is_one_effect_of_the_twin_with_its_receipt(shop, tmp_path):
    token = shop.open()

    async def work(gate):
        first = await gate.ask("POST", PATH, key="k-1", json={"amount": "9.00"})
        again = await gate.ask("POST", PATH, key="k-1", json={"amount": "9.00"})
        return first, again

    first, again = through(shop, tmp_path, token, work)
    assert (first.status, first.json["refund_id"]) == (201, "RF-1")
    assert first.headers["gateway-receipt"]
    assert (again.status, again.body) == (201, first.body)
    assert effects(shop) == 1


def test_a_fault_of_the_twin_is_to_the_gateway_what_a_services_would_be(shop, tmp_path):
    faults = [
        {"fault": "dropped_connection", "phase": "after", "tool": "refund"},
        {"fault": "http_503", "tool": "get_order"},
    ]
    token = shop.open(faults=faults)

    async def work(gate):
        lost = await gate.ask("POST", PATH, key="k-1", json={"amount": "9.00"})
        return lost, await gate.ask("GET", "/shop/orders/A-1")

    lost, down = through(shop, tmp_path, token, work)
    assert (lost.status, lost.json["code"]) == (409, "outcome_unknown")
    assert down.status == 503
    assert effects(shop) == 1


def test_a_token_whose_episode_has_ended_is_a_service_that_lets_nobody_in(shop, tmp_path):
    token = shop.open(name="over")
    shop.lead("DELETE", "/over")

    async def work(gate):
        return await gate.ask("GET", "/shop/orders/A-1")

    assert through(shop, tmp_path, token, work).status == 401
