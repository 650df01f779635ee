"""Envelopes, the tree of hashes and the log: what they are made of, and that nothing slips by."""

import base64
import hashlib
import resource

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import SidecarError
from sidecar.gate import dsse, merkle
from sidecar.gate.chain import START, Entry, entries, following, line_of, log_faults
from sidecar.gate.files import append_log, log_path, read_log

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)


def entry(name, root="sha256:1"):
    return Entry(
        number=0, previous="", project="p/q", verdict_id=name, status="PASS", digest="sha256:2",
        root=root, at_ns=1_764_550_000_000_000_000,
    )  # fmt: skip


def logged(count):
    found = []
    for number in range(count):
        found.append(following(found[-1] if found else None, entry(f"v{number}")))
    return b"".join(map(line_of, found))


def test_what_is_signed_is_the_pre_authentication_encoding_of_the_specification():
    assert dsse.pae(b"hello world", "http://example.com/HelloWorld") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_an_envelope_is_opened_by_its_one_spelling_only():
    data = dsse.encoded(dsse.signed(b'{"a": 1}', (KEY,)))
    envelope = dsse.opened(data)
    assert dsse.payload(envelope) == b'{"a": 1}'
    keys = {dsse.keyid(KEY.public_key()): KEY.public_key()}
    assert dsse.signers(envelope, keys) == tuple(keys)
    with pytest.raises(dsse.DsseInvalid, match="no public key"):
        dsse.signers(envelope, {})
    for bad in (b"{}", b"[", data + b" ", data.replace(b"in-toto", b"in_toto")):
        with pytest.raises(dsse.DsseInvalid):
            dsse.opened(bad)


def test_keys_are_ed25519_and_their_id_is_the_hash_of_their_bytes():
    raw = KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    assert dsse.keyid(KEY.public_key()) == "sha256:" + hashlib.sha256(raw).hexdigest()
    again = dsse.read_private(dsse.private_pem(KEY))
    assert dsse.keyid(again.public_key()) == dsse.keyid(KEY.public_key())
    other = ec.generate_private_key(ec.SECP256R1())
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for read, bad in (
        (dsse.read_private, pem),
        (dsse.read_private, b"no"),
        (dsse.read_public, pem),
        (dsse.read_public, dsse.private_pem(KEY)),
    ):
        with pytest.raises(dsse.DsseInvalid):
            read(bad)


def _root(leaves):
    """RFC 6962's own recursion: split at the largest power of two below the count."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + _root(leaves[:split]) + _root(leaves[split:])).digest()


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=40))
def test_the_root_is_that_of_rfc_6962(leaves):
    assert merkle.root(leaves) == "sha256:" + _root(leaves).hex()


def test_the_root_of_nothing_is_the_hash_of_nothing():
    assert merkle.root([]) == "sha256:" + hashlib.sha256(b"").hexdigest()


@pytest.mark.requirement("EVD-01")
@given(st.integers(1, 5), st.data())
def test_a_log_with_any_byte_changed_is_found(count, data):
    log = logged(count)
    assert entries(log)[1] == "" and len(entries(log)[0]) == count
    place = data.draw(st.integers(0, len(log) - 1))
    changed = bytearray(log)
    changed[place] ^= data.draw(st.integers(1, 255))
    assert entries(bytes(changed))[1]


def test_a_log_with_a_line_out_of_its_middle_is_found_and_each_verdict_has_its_line():
    lines = logged(3).splitlines(keepends=True)
    assert "line 2" in entries(lines[0] + lines[2])[1]
    assert list(log_faults(b"".join(lines), "v1", "sha256:1", "sha256:2")) == []
    assert "no line" in next(log_faults(lines[0], "v1", "sha256:1", "sha256:2"))
    assert "another root" in next(log_faults(lines[0], "v0", "sha256:9", "sha256:2"))
    assert entries(lines[0])[0][0].previous == START
    assert "is cut" in entries(lines[0][:-1])[1]


def test_a_log_on_disk_grows_line_by_line_and_is_not_added_to_once_it_was_changed(tmp_path):
    path = log_path(tmp_path / "evidence", "p/q")
    assert path.name == "p%2Fq.log.jsonl" and read_log(path) == b""
    for name in ("v0", "v1"):
        append_log(path, entry(name))
    assert [one.number for one in entries(read_log(path))[0]] == [1, 2]
    assert path.stat().st_mode & 0o77 == 0
    path.write_bytes(read_log(path).replace(b"PASS", b"WARN", 1))
    with pytest.raises(SidecarError, match="does not hold: line 1"):
        append_log(path, entry("v2"))


def test_a_line_that_finds_no_room_leaves_the_log_whole(tmp_path):
    path = log_path(tmp_path / "evidence", "p")
    append_log(path, entry("v0"))
    whole, limits = read_log(path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 40, limits[1]))
    try:
        with pytest.raises(SidecarError, match="cannot be written"):
            append_log(path, entry("v1"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read_log(path) == whole
    assert append_log(path, entry("v2")).number == 2


def test_a_payload_of_another_spelling_of_base64_is_refused():
    envelope = dsse.signed(b"ab", (KEY,))
    text = base64.b64encode(b"ab").decode()
    assert envelope.payload == text == "YWI="
    loose = dsse.Envelope(
        payload_type=envelope.payload_type, payload="YWJ=", signatures=envelope.signatures
    )
    with pytest.raises(dsse.DsseInvalid, match="spelt"):
        dsse.opened(dsse.encoded(loose))
