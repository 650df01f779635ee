"""Calls through the whole gateway: real HTTP, ledger, policy worker, egress and an upstream that
counts its effects in its own database."""

import asyncio

from gateway_rig import rig


def run(folder, scenario, **options):
    async def main():
        async with rig(folder, **options) as each:
            return await scenario(each)

    return asyncio.run(main())


def test_a_read_is_forwarded_and_leaves_one_signed_receipt(tmp_path):
    async def scenario(each):
        reply = await each.ask("GET", "/payments/orders/17?verbose=1")
        assert (reply.status, reply.json["path"]) == (200, "/orders/17?verbose=1")
        receipt = each.ledger.get_receipt(reply.headers["gateway-receipt"])
        assert (receipt.phase, receipt.effect, receipt.tool) == (
            "executed",
            "confirmed",
            "get_order",
        )
        assert receipt.decision_id == reply.headers["gateway-decision"]

    run(tmp_path, scenario)


def test_an_irreversible_call_has_two_receipts_and_its_answer_is_replayed_under_the_same_key(
    tmp_path,
):
    async def scenario(each):
        first = await each.refund("17", key="a")
        second = await each.refund("17", key="a")
        assert (first.status, second.status, second.body) == (201, 201, first.body)
        assert second.headers["idempotent-replayed"] == "true"
        assert second.headers["gateway-receipt"] == first.headers["gateway-receipt"]
        assert each.shop.effects() == 1
        receipt = each.ledger.get_receipt(first.headers["gateway-receipt"])
        call = each.ledger.get_call(receipt.call_id)
        phases = [each.ledger.get_receipt(one).phase for one in call.receipts]
        assert phases == ["authorised", "executed"]
        assert call.state == "completed"

    run(tmp_path, scenario)
