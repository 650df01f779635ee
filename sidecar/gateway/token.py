"""The approval token: a compact JWS that proves which approval a call uses.

**Rules**
1. Header exactly {alg: EdDSA, typ: agw-approval+jwt, kid}; the key is looked up by kid among ours,
   by nothing the token carries; every other header or algorithm is refused.
2. iss, aud, sub, jti, iat, nbf, exp, act, idk, pol, tool are required and checked; no leeway.
3. It grants nothing by itself: the ledger must hold the same approval, unspent.
4. It runs out with its approval, and ten minutes after it was made at the latest.

Source: gateway.md §2.4; RFC 7515, RFC 7519, RFC 8037.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from processors.model.call import Approval
from sidecar.gateway import signing
from sidecar.store.ledger import Signer

TYPE = "agw-approval+jwt"
LIFETIME_NS = 600_000_000_000
"""The longest a token is good for, however long its approval is."""
_CHARS_MAX = 8192
_SECOND_NS = 1_000_000_000


class TokenInvalid(Exception):
    """The token proves nothing; the text says why and does not repeat it."""


class Approver(Struct, frozen=True, kw_only=True):
    """One who approved, and the digest of what they were shown."""

    sub: str
    shown: str


class Claims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a token says: ``act`` action hash, ``idk`` key hash, ``pol`` policy revision, ``tool``
    tool digest, ``jti`` the approval's id, ``fld`` keyed digests of the action's fields; times are
    whole seconds."""

    iss: str
    aud: str
    sub: str
    jti: str
    iat: int
    nbf: int
    exp: int
    act: str
    idk: str
    pol: str
    tool: str
    apr: tuple[Approver, ...]
    max_uses: int
    fld: tuple[str, ...] = ()


def mint(approval: Approval, signer: Signer, *, gateway_id: str, now_ns: int) -> str:
    """The token of an approved request."""
    claims = Claims(
        iss=gateway_id,
        aud=gateway_id,
        sub=approval.requester,
        jti=approval.approval_id,
        iat=now_ns // _SECOND_NS,
        nbf=now_ns // _SECOND_NS,
        exp=min(approval.expires_at_ns, now_ns + LIFETIME_NS) // _SECOND_NS,
        act=approval.action_hash,
        idk=approval.key_hash,
        pol=approval.policy_revision,
        tool=approval.tool_digest,
        apr=tuple(
            Approver(sub=vote.voter, shown=vote.shown_digest)
            for vote in approval.votes
            if vote.decision == "approve"
        ),
        max_uses=1,
        fld=approval.fields,
    )
    header = {"alg": "EdDSA", "typ": TYPE, "kid": signer.kid}
    signed = f"{_encode(json.dumps(header).encode())}.{_encode(msgspec.json.encode(claims))}"
    return f"{signed}.{_encode(signer.sign(signed.encode()))}"


def read(text: str, keys: Mapping[str, bytes], *, gateway_id: str, now_ns: int) -> Claims:
    """The claims of a genuine token that is valid now; ``keys`` is id -> public. TokenInvalid."""
    head, body, signature = _parts(text)
    public = _key(_json(head), keys)
    signed = text.rpartition(".")[0].encode()
    if not signing.verify(public, signature, signed):
        raise TokenInvalid("its signature does not fit")
    try:
        claims = msgspec.json.decode(body, type=Claims)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise TokenInvalid("its claims are not those of an approval token") from None
    _check(claims, gateway_id, now_ns // _SECOND_NS)
    return claims


def _key(header: Any, keys: Mapping[str, bytes]) -> bytes:
    if not isinstance(header, dict) or set(header) != {"alg", "typ", "kid"}:
        raise TokenInvalid("its header is not alg, typ and kid")
    if header["alg"] != "EdDSA" or header["typ"] != TYPE:
        raise TokenInvalid("its alg or typ is not that of an approval token")
    kid = header["kid"]
    public = keys.get(kid) if isinstance(kid, str) else None
    if public is None:
        raise TokenInvalid("its key is not one of ours")
    return public


def _check(claims: Claims, gateway_id: str, now: int) -> None:
    if claims.iss != gateway_id or claims.aud != gateway_id:
        raise TokenInvalid("it was made for another gateway")
    if claims.exp <= now:
        raise TokenInvalid("it has expired")
    if claims.nbf > now or claims.iat > now:
        raise TokenInvalid("it is not valid yet")
    if claims.max_uses != 1:
        raise TokenInvalid("it is not a single-use token")


def _parts(text: str) -> tuple[bytes, bytes, bytes]:
    parts = text.split(".") if len(text) <= _CHARS_MAX else []
    if len(parts) != 3:
        raise TokenInvalid("it is not a compact JWS")
    head, body, signature = (_decode(part) for part in parts)
    return head, body, signature


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise TokenInvalid("its header is not JSON") from None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(part: str) -> bytes:
    try:
        data = base64.urlsafe_b64decode(part.encode("ascii") + b"=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise TokenInvalid("a part of it is not base64url") from None
    if _encode(data) != part:  # one spelling only
        raise TokenInvalid("a part of it is not base64url")
    return data
