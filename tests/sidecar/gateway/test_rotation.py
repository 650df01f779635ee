"""Signing keys follow one another: old signatures hold, and what is revoked signs no more."""

import asyncio
import json

import pytest
from gateway_rig import keyring, rig
from ledger_rig import NOW, ledgers
from test_audit import KEY, RECEIPT, entries, head

from sidecar import clock
from sidecar.canonical import canonical
from sidecar.errors import StoreUnavailable
from sidecar.gateway import keyset, receipt, signing
from sidecar.gateway.audit import verify
from sidecar.gateway.rotation import driver
from sidecar.gateway.rotation.driver import SigningKeys
from sidecar.store.ledger import AuditEntry, entry_hash
from sidecar.store.noted import Note
from sidecar.store.receipts import text
from sidecar.store.sealing import GATEWAY_SEAL, seal_key
from sidecar.store.signing import KnownKey
from sidecar.store.signing import signing as signing_now

SECOND = 10**9
OLD, NEW = signing.make(b"\x01" * 32, NOW), signing.make(b"\x02" * 32, NOW + SECOND)


def known(kid, signs_from=0, revoked=None, created=1):
    return KnownKey(
        kid=kid, public=b"p", created_at_ns=created, signs_from_ns=signs_from, revoked_at_ns=revoked
    )  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "kid"),
    [
        ((), None),
        ((known("a"),), "a"),
        ((known("a"), known("b", 100)), "a"),
        ((known("a"), known("b", 50)), "b"),
        ((known("a"), known("b", 50), known("c", 40)), "b"),
        ((known("a"), known("b", 50, revoked=50)), "a"),
        ((known("a", revoked=9),), None),
        ((known("a", created=1), known("b", created=2)), "b"),
    ],
)
def test_the_newest_key_whose_time_has_come_signs(keys, kid):
    found = signing_now(keys, 50)
    assert (found.kid if found else None) == kid


def test_a_key_set_is_read_as_it_was_written_and_names_keys_by_themselves():
    first, second = signing.make(b"\x01" * 32, 1), signing.make(b"\x02" * 32, 2)
    said = keyset.document(
        KnownKey(
            kid=each.kid, public=each.public, created_at_ns=1, signs_from_ns=0, revoked_at_ns=r
        )
        for each, r in ((first, 9), (second, None))
    )
    assert [each.get("revoked_at_ns") for each in said["keys"]] == ["9", None]
    assert keyset.read(json.dumps(said)) == {k.kid: k.public for k in (first, second)}
    said["keys"][0]["kid"] = second.kid  # a key is not what a file calls it
    assert set(keyset.read(json.dumps(said))) == {first.kid, second.kid}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"keys": []}', '{"keys": [1]}',
     '{"keys": [{"kty": "RSA", "crv": "Ed25519"}]}',
     '{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AA"}]}',
     '{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "é"}]}'],
)  # fmt: skip
def test_what_is_no_key_set_is_refused(text):
    with pytest.raises(keyset.NotAKeySet):
        keyset.read(text)


def grown(chain, *bodies):
    """A chain with further entries (kind, body)."""
    made, prev = list(chain), chain[-1].hash
    for kind, body in bodies:
        fields = {"at_ns": 9, "project": "p", "kind": kind, "body": body}
        hash_ = entry_hash(prev, seq=len(made) + 1, **fields)
        made.append(AuditEntry(seq=len(made) + 1, prev=prev, hash=hash_, **fields))
        prev = hash_
    return made


@pytest.mark.row("I")
def test_what_a_key_signed_after_its_revocation_is_a_fault_of_the_chain_and_before_is_none():
    after = signing.SigningKey(NEW)
    keys = {KEY.kid: KEY.public, after.kid: after.public}
    signed = ("executed", f'{{"receipt":{text(receipt.sign(RECEIPT, KEY))}}}')
    revoked = ("signing_key_revoked", canonical({"key_id": KEY.kid, "kind": "ed25519"}).decode())
    good = grown(entries(1), signed, revoked)
    assert verify(good, head(good, after), keys).fault is None
    bad = grown(entries(1), revoked, signed)
    assert verify(bad, head(bad, after), keys).fault.index == 3
    assert "unknown key" in verify(good, head(good, KEY), keys).fault.what


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.full)])
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


def follow(store, made, at_ns):
    """Make ``made`` known to the store: it signs from then on."""
    with store.keys() as keys:
        return keys.add_signing_key(seal_key(made, keyring(keys)(GATEWAY_SEAL)), at_ns)


def revoke(store, kid, now_ns):
    with store.keys() as keys:
        return keys.revoke_signing_key(kid, now_ns, now_ns)


@pytest.mark.requirement("AUD-01")
def test_two_processes_on_one_ledger_take_the_new_key_when_its_time_comes(store):
    now = [NOW]

    async def scenario(one, other):
        sides = [SigningKeys(one, lambda: now[0]), SigningKeys(other, lambda: now[0])]
        for side in sides:
            await side.open()
            side.begin()
        old = sides[0].signer.kid
        assert sides[1].signer.kid == old
        assert follow(store, NEW, NOW + 30 * SECOND)
        assert not revoke(store, old, NOW + 10 * SECOND)  # nothing has followed it yet
        now[0] = NOW + 10 * SECOND
        for side in sides:
            await side.turn()
            assert side.signer.kid == old  # not yet
            assert side.public[NEW.kid] == NEW.public  # and known everywhere already
        now[0] = NOW + 31 * SECOND
        await sides[0].turn()
        assert (sides[0].signer.kid, sides[1].signer.kid) == (NEW.kid, old)
        for opened in (one, other, one):  # both sign, until the second has looked
            await opened.note(Note(kind="t", project="p", at_ns=now[0], body={}))
        assert revoke(store, old, now[0]) and not revoke(store, old, now[0])
        with pytest.raises(StoreUnavailable):
            await other.note(Note(kind="t", project="p", at_ns=now[0], body={}))
        await sides[1].turn()
        assert sides[1].signer.kid == NEW.kid and old not in sides[1].public
        await other.note(Note(kind="t", project="p", at_ns=now[0], body={}))
        found = one.entries_after(0, 99)
        kinds = [each.kind for each in found]
        assert kinds == ["signing_key_created"] * 2 + ["t"] * 3 + ["signing_key_revoked", "t"]
        assert verify(found, one.audit_head(), one.public_keys()).fault is None
        assert verify(found, one.audit_head(), {NEW.kid: NEW.public}).fault is None
        assert not revoke(store, NEW.kid, now[0])  # the one that signs has no successor

    with store.ledger() as one, store.ledger() as other:
        asyncio.run(scenario(one, other))


def test_a_store_without_a_key_has_none_to_follow(store):
    with store.ledger():
        assert not follow(store, NEW, NOW)


@pytest.mark.requirement("RCP-01")
def test_tokens_of_the_key_before_stay_good_and_those_of_a_revoked_one_are_refused(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(driver, "LOOK_SECONDS", 0.01)

    async def until(check):
        async with asyncio.timeout(20):
            while not check():
                await asyncio.sleep(0.01)

    async def main():
        async with rig(tmp_path) as each:
            desk = each.gateway._open_desk
            old = desk.signer.kid
            first = await each.approved_token("17", key="a")
            second = await each.approved_token("18", key="b")
            made = signing.make(clock.random_bytes(32), clock.now_ns())
            sealed = seal_key(made, keyring(each.keys)(GATEWAY_SEAL))
            assert each.keys.add_signing_key(sealed, clock.now_ns())
            await until(lambda: desk.signer.kid == made.kid)
            done = await each.refund("17", key="a", amount=500, Approval_Token=first)
            assert done.status == 201, done.json
            told = each.ledger.get_receipt(done.headers["gateway-receipt"])
            assert told.kid == made.kid and receipt.is_genuine(told, each.ledger.public_keys())
            third = await each.approved_token("19", key="c")
            assert each.keys.revoke_signing_key(old, clock.now_ns(), clock.now_ns())
            await until(lambda: old not in desk.house.keys)
            refused = await each.refund("18", key="b", amount=500, Approval_Token=second)
            assert refused.json["code"] == "approval_invalid"
            done = await each.refund("19", key="c", amount=500, Approval_Token=third)
            assert done.status == 201
            found, keys = each.ledger.entries_after(0, 999), each.ledger.public_keys()
            assert verify(found, each.ledger.audit_head(), keys).fault is None

    asyncio.run(main())
