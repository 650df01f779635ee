"""DSSE envelopes (Dead Simple Signing Envelope 1.0) with Ed25519 signatures.

**Rules**
1. What is signed is PAE(type, payload): the bytes as they stand, so no reader has to agree on any
   canonical form.
2. A key's id is ``sha256:<hex>`` of its 32 raw public bytes: it says which key, not whose.
3. An envelope has one spelling; another one of the same content is not the one that was written.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

from sidecar.canonical import sha256

PAYLOAD_TYPE = "application/vnd.in-toto+json"


class DsseInvalid(ValueError):
    """It is no envelope, or no key; the message says why."""


class Signature(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signature, base64."""

    keyid: str
    sig: str


class Envelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One signed payload, base64."""

    payload_type: str
    payload: str
    signatures: tuple[Signature, ...]


def pae(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The pre-authentication encoding: lengths in ASCII decimals, then the bytes."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def signed(payload: bytes, keys: Sequence[Ed25519PrivateKey]) -> Envelope:
    """The envelope with one signature of each key."""
    return Envelope(
        payload_type=PAYLOAD_TYPE,
        payload=base64.b64encode(payload).decode(),
        signatures=tuple(
            Signature(
                keyid=keyid(key.public_key()), sig=base64.b64encode(key.sign(pae(payload))).decode()
            )
            for key in keys
        ),
    )


def encoded(envelope: Envelope) -> bytes:
    """The one spelling of an envelope."""
    return msgspec.json.encode(envelope)


def opened(data: bytes) -> Envelope:
    """The envelope of its one spelling. Raises DsseInvalid."""
    try:
        envelope = msgspec.json.decode(data, type=Envelope)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DsseInvalid(f"it is no DSSE envelope: {error}") from None
    if encoded(envelope) != data or base64.b64encode(payload(envelope)).decode() != (
        envelope.payload
    ):
        raise DsseInvalid("it is not spelt as it was written")
    if envelope.payload_type != PAYLOAD_TYPE:
        raise DsseInvalid(f"its payload is {envelope.payload_type!r}, not {PAYLOAD_TYPE}")
    return envelope


def payload(envelope: Envelope) -> bytes:
    """The signed bytes. Raises DsseInvalid."""
    return _decoded(envelope.payload, "payload")


def signers(envelope: Envelope, keys: Mapping[str, Ed25519PublicKey]) -> tuple[str, ...]:
    """The ids of the keys that signed it. Raises DsseInvalid where one signature does not hold.

    Every signature must hold: one that nobody can check may be the one that was changed.
    """
    text = pae(payload(envelope), envelope.payload_type)
    for one in envelope.signatures:
        key = keys.get(one.keyid)
        if key is None:
            raise DsseInvalid(f"there is no public key {one.keyid}")
        made = _decoded(one.sig, "signature")
        if base64.b64encode(made).decode() != one.sig:
            raise DsseInvalid("a signature is not spelt as it was written")
        try:
            key.verify(made, text)
        except InvalidSignature:
            raise DsseInvalid(f"the signature of {one.keyid} does not hold") from None
    if not envelope.signatures:
        raise DsseInvalid("it is not signed")
    return tuple(one.keyid for one in envelope.signatures)


def keyid(key: Ed25519PublicKey) -> str:
    """The id of a key."""
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return sha256(raw)


def public_pem(key: Ed25519PublicKey) -> bytes:
    """The key as PEM."""
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def private_pem(key: Ed25519PrivateKey) -> bytes:
    """The key as PEM (PKCS 8, not encrypted)."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def read_public(pem: bytes) -> Ed25519PublicKey:
    """The key of a PEM. Raises DsseInvalid."""
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise DsseInvalid("it is no public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise DsseInvalid("it is no Ed25519 key")
    return key


def read_private(pem: bytes) -> Ed25519PrivateKey:
    """The key of a PEM that no password protects. Raises DsseInvalid."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise DsseInvalid("it is no private key in PEM without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise DsseInvalid("it is no Ed25519 key")
    return key


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise DsseInvalid(f"its {what} is no base64") from None
