"""API keys: minted once, stored as a hash, checked in constant time; and signed episode tokens.

Rules
1. A key is ``sk_<kind>_<id>_<secret>``: the id finds the row, the secret proves it. Only the
   SHA-256 of the
   secret is stored; 256 random bits need no slow hash.
2. The kind in the text is for people; the row decides.
3. An episode token is a credential of a twin-mode gateway only: HMAC-SHA-256 over its claims, with
   expiry.
"""

import base64
import hashlib
import hmac
import json
import re
from typing import Protocol

from msgspec import Struct

from processors.model.principal import KeyKind, Principal, StoredKey

KEY_KINDS: tuple[KeyKind, ...] = ("agent", "approver", "reader", "admin")
_KEY = re.compile(r"sk_(agent|approver|reader|admin)_([0-9a-f]{16})_([A-Za-z0-9_-]{43})\Z")
_EPISODE_PREFIX = "ep1."


class KeyStore(Protocol):
    """Where keys are found; one indexed read."""

    def find_key(self, key_id: str) -> StoredKey | None:
        """The key of that id, revoked or not."""
        ...


class Unauthenticated(Exception):
    """No credential, or one that proves nothing; the text says which without repeating it."""


def mint(
    kind: KeyKind, project: str, name: str, *, id_bytes: bytes, secret_bytes: bytes, now_ns: int
) -> tuple[str, StoredKey]:
    """A new key's text (shown once) and its row, from 8 and 32 random bytes."""
    assert len(id_bytes) == 8 and len(secret_bytes) == 32
    key_id = id_bytes.hex()
    secret = base64.urlsafe_b64encode(secret_bytes).rstrip(b"=").decode()
    row = StoredKey(
        key_id=key_id,
        kind=kind,
        project=project,
        name=name,
        secret_sha256=hashlib.sha256(secret.encode()).hexdigest(),
        created_at_ns=now_ns,
    )
    return f"sk_{kind}_{key_id}_{secret}", row


def bearer(header: str | None) -> str:
    """The token of an ``Authorization: Bearer`` value. Raises Unauthenticated."""
    if not header:
        raise Unauthenticated("no credential: send Authorization: Bearer <key>")
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("the credential is not a bearer token")
    return token.strip()


def authenticate(header: str | None, keys: KeyStore) -> Principal:
    """The principal behind an Authorization value. Raises Unauthenticated."""
    match = _KEY.match(bearer(header))
    if match is None:
        raise Unauthenticated("the credential has not the form of a key")
    row = keys.find_key(match[2])
    given = hashlib.sha256(match[3].encode()).hexdigest()
    expected = row.secret_sha256 if row is not None else "0" * 64
    if not hmac.compare_digest(given, expected) or row is None:
        raise Unauthenticated("the key is not known")
    if row.revoked_at_ns is not None:
        raise Unauthenticated("the key is revoked")
    return Principal(id=f"key:{row.key_id}", kind=row.kind, project=row.project, name=row.name)


def mint_dev(
    kind: KeyKind, project: str, *, master: bytes, turn: int, now_ns: int
) -> tuple[str, StoredKey]:
    """The key that ``--dev`` gives at every start of one store: derived, so that a restart keeps
    the principal and with it its idempotency keys. ``turn`` counts those that were revoked."""

    def derive(what: str) -> bytes:
        said = f"dev-key/1\n{what}\n{kind}\n{project}\n{turn}"
        return hmac.new(master, said.encode(), hashlib.sha256).digest()

    # Names differ: keys of one name are one person's, and nobody approves their own agent's calls.
    name, id_bytes = f"dev-{kind}", derive("id")[:8]
    return mint(
        kind, project, name, id_bytes=id_bytes, secret_bytes=derive("secret"), now_ns=now_ns
    )


class EpisodeClaims(Struct, frozen=True, kw_only=True):
    """What an episode token says."""

    episode: str
    project: str
    agent: str
    expires_at_ns: int


def mint_episode(claims: EpisodeClaims, *, key: bytes) -> str:
    """A signed episode token; safe in a baggage value and as a bearer token."""
    body = json.dumps(
        [claims.episode, claims.project, claims.agent, claims.expires_at_ns], separators=(",", ":")
    ).encode()
    mac = hmac.new(key, b"agenttwin-episode/1\n" + body, hashlib.sha256).digest()
    return _EPISODE_PREFIX + _b64(body) + "." + _b64(mac)


def read_episode(token: str, *, key: bytes, now_ns: int) -> EpisodeClaims:
    """The claims of a genuine, unexpired token. Raises Unauthenticated."""
    try:
        body_text, mac_text = token.removeprefix(_EPISODE_PREFIX).split(".")
        body, mac = _unb64(body_text), _unb64(mac_text)
    except ValueError:
        raise Unauthenticated("the episode token is malformed") from None
    expected = hmac.new(key, b"agenttwin-episode/1\n" + body, hashlib.sha256).digest()
    if not token.startswith(_EPISODE_PREFIX) or not hmac.compare_digest(mac, expected):
        raise Unauthenticated("the episode token is not ours")
    episode, project, agent, expires_at_ns = json.loads(body)
    if expires_at_ns <= now_ns:
        raise Unauthenticated("the episode token has expired")
    return EpisodeClaims(episode=episode, project=project, agent=agent, expires_at_ns=expires_at_ns)


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    if not re.fullmatch(r"[A-Za-z0-9_-]*", text):
        raise ValueError("not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
