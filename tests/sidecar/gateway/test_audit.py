"""The audit chain: every way to tamper with it is found, at the first bad entry."""

import asyncio

import pytest
from gateway_rig import query, rig
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from processors.model.call import Receipt
from sidecar.canonical import canonical
from sidecar.errors import SidecarError
from sidecar.gateway import receipt, signing
from sidecar.gateway.audit import missing, verify
from sidecar.store import receipts
from sidecar.store.ledger import GENESIS, AuditEntry, AuditHead, entry_hash, head_document

KEY = signing.SigningKey(signing.make(bytes(32), 1))
KEYS = {KEY.kid: KEY.public}


def entries(count):
    made, prev = [], GENESIS
    for seq in range(1, count + 1):
        fields = {"at_ns": seq, "project": "pé", "kind": "approval_vote", "body": f'{{"n":{seq}}}'}
        hash_ = entry_hash(prev, seq=seq, **fields)
        made.append(AuditEntry(seq=seq, prev=prev, hash=hash_, **fields))
        prev = hash_
    return made


def head(chain, key=KEY):
    seq, hash_ = (chain[-1].seq, chain[-1].hash) if chain else (0, GENESIS)
    signature = key.sign(head_document(seq, hash_, 7))
    return AuditHead(seq=seq, hash=hash_, signed_at_ns=7, kid=key.kid, signature=signature)


def first_bad(chain, signed, keys=KEYS):
    fault = verify(chain, signed, keys).fault
    return fault.index if fault else None


@given(st.integers(0, 12))
def test_a_chain_as_written_is_good(count):
    chain = entries(count)
    found = verify(chain, head(chain), KEYS)
    assert (found.fault, found.entries) == (None, count)


@pytest.mark.row("I")
@given(st.integers(1, 8), st.data())
def test_any_change_of_any_field_is_found_at_its_entry(count, data):
    chain = entries(count)
    index = data.draw(st.integers(0, count - 1))
    field, value = data.draw(
        st.sampled_from(
            [("at_ns", 99), ("project", "q"), ("kind", "outcome"), ("body", '{"n":0}'),
             ("prev", "sha256:1"), ("hash", "sha256:1"), ("seq", 77)]
        )
    )  # fmt: skip
    tampered = [*chain]
    tampered[index] = structs.replace(chain[index], **{field: value})
    assert first_bad(tampered, head(chain)) == index + 1


@pytest.mark.row("I")
@given(st.integers(2, 8), st.data())
def test_a_missing_or_moved_entry_is_found(count, data):
    chain = entries(count)
    index = data.draw(st.integers(0, count - 1))
    assert first_bad(chain[:index] + chain[index + 1 :], head(chain)) == index + 1
    other = data.draw(st.integers(0, count - 1).filter(lambda n: n != index))
    swapped = [*chain]
    swapped[index], swapped[other] = (
        structs.replace(chain[other], seq=index + 1),
        structs.replace(chain[index], seq=other + 1),
    )
    assert first_bad(swapped, head(chain)) == min(index, other) + 1


@pytest.mark.row("I")
def test_a_cut_off_end_and_an_entry_beyond_the_head_are_found():
    chain = entries(5)
    assert first_bad(chain[:4], head(chain)) == 5
    assert first_bad([], head(chain)) == 1
    assert first_bad(chain, head(chain[:4])) == 5
    assert first_bad(chain, None) == 1


@pytest.mark.row("I")
def test_what_is_said_to_be_good_comes_before_what_is_bad():
    chain = entries(5)
    forged = structs.replace(head(chain), signature=b"0" * 64)
    strange = structs.replace(head(chain), kid="nobody")
    for said in (None, forged, strange, head(chain[:4]), head(entries(9))):
        verified = verify(chain, said, KEYS)
        assert verified.entries == verified.fault.index - 1, verified.fault.what


def test_a_chain_taken_away_whole_is_found_where_calls_are_recorded():
    empty = verify([], None, {})
    assert empty.fault is None
    assert missing(empty, None, calls=False).fault is None
    assert missing(empty, None, calls=True).fault.index == 1


@pytest.mark.row("I")
def test_a_chain_rewritten_with_right_hashes_needs_the_key():
    chain = entries(3)
    stranger = signing.SigningKey(signing.make(b"\x01" * 32, 1))
    assert first_bad(chain[:2], head(chain[:2], stranger)) == 2
    forged = structs.replace(head(chain[:2]), signature=bytes(64))
    assert first_bad(chain[:2], forged) == 2


RECEIPT = Receipt(
    receipt_id="r", call_id="c", phase="executed", project="p", principal="a",
    principal_kind="agent", tool="t", class_="irreversible", action_hash="h", decision_id="d",
    decision_effect="allow", reasons=("ok",), policy_revision="v", effect="confirmed", status=200,
    started_at_ns=1_764_000_000_000_000_000, finished_at_ns=1_764_000_000_000_000_001,
)  # fmt: skip


def test_a_receipt_is_genuine_until_any_field_changes():
    signed = receipt.sign(RECEIPT, KEY)
    assert receipt.is_genuine(signed, KEYS)
    for change in (
        {"effect": "unknown"},
        {"finished_at_ns": 2},
        {"reasons": ()},
        {"approval_id": "x"},
        {"kid": "other"},
        {"signature": signed.signature[:-2] + "AA"},
        {"signature": "%%%"},
    ):
        assert not receipt.is_genuine(structs.replace(signed, **change), KEYS)


def test_a_receipt_in_the_chain_must_be_signed_by_a_known_key():
    stranger = signing.SigningKey(signing.make(b"\x01" * 32, 1))
    for key, bad in ((KEY, None), (stranger, 1)):
        body = f'{{"receipt":{receipts.text(receipt.sign(RECEIPT, key))}}}'
        fields = {"at_ns": 1, "project": "p", "kind": "executed", "body": body}
        hash_ = entry_hash(GENESIS, seq=1, **fields)
        chain = [AuditEntry(seq=1, prev=GENESIS, hash=hash_, **fields)]
        assert first_bad(chain, head(chain)) == bad


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(TEXT, TEXT, st.integers(0, 999), st.none() | TEXT)
def test_a_receipts_document_is_rfc_8785_and_reads_back(tool, code, status, trace_id):
    made = structs.replace(
        RECEIPT, tool=tool, code=code, status=status, trace_id=trace_id, reasons=(code, tool)
    )
    document = receipts.to_document(made)
    assert receipts.text(made).encode() == canonical(document)
    assert receipts.from_document(document) == made


@pytest.mark.requirement("AUD-01")
@pytest.mark.requirement("RCP-01")
def test_a_real_ledgers_chain_is_good_and_a_cut_off_one_does_not_start(tmp_path):
    async def scenario():
        async with rig(tmp_path, gateways=1) as each:
            for number in range(3):
                await each.refund(f"o{number}", key=f"k{number}")
            chain = each.ledger.entries_after(0, 100)
            found = verify(chain, each.ledger.audit_head(), each.ledger.public_keys())
            assert found.fault is None and found.entries == 9  # two keys, policy, two a call

    asyncio.run(scenario())
    sql = "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit) RETURNING seq"
    query(tmp_path / "ledger.db", sql)

    async def restart():
        async with rig(tmp_path):
            pass

    with pytest.raises(SidecarError, match="entry 9"):
        asyncio.run(restart())
