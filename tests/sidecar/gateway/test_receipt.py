"""Receipts say where a call went, and those of before stay what they were signed as."""

import asyncio
import json

import pytest
from gateway_rig import AllowAll, rig
from ledger_rig import SIGNER, call, signed
from msgspec import structs

from sidecar.gateway.receipt import is_genuine
from sidecar.store.ledger import CallQuery
from sidecar.store.receipts import from_document, signed_bytes, to_document

KEYS = {SIGNER.kid: SIGNER.public}


@pytest.mark.requirement("RCP-01")
def test_a_receipt_says_for_whom_the_call_was_and_where_it_was_dialled(tmp_path):
    async def main():
        async with rig(tmp_path, policy=AllowAll()) as each:
            await each.refund("17", key="a")
            row = each.ledger.get_call(each.ledger.list_calls(CallQuery())[0].call_id)
            receipts = [each.ledger.get_receipt(one) for one in row.receipts]
            authority = f"127.0.0.1:{each.shop.port}"
            assert [one.upstream_authority for one in receipts] == [authority] * 2
            assert [one.upstream_address for one in receipts] == [None, "127.0.0.1"]
            keys = each.ledger.public_keys()
            assert all(is_genuine(one, keys) for one in receipts)
            moved = structs.replace(receipts[1], upstream_address="10.0.0.1")
            assert not is_genuine(moved, keys)

    asyncio.run(main())


def test_a_receipt_of_before_these_fields_is_still_genuine():
    before = signed(call(), phase="executed", status=201)
    document = to_document(before)
    assert not document.keys() & {"upstream_authority", "upstream_address"}
    read = from_document(json.loads(json.dumps(document)))
    assert read == before and is_genuine(read, KEYS)
    named = structs.replace(before, upstream_authority="shop:80")
    assert b"shop:80" in signed_bytes(named) and not is_genuine(named, KEYS)
