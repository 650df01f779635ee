"""API keys: minted once, stored as a hash, checked in constant time; and signed episode tokens.

Rules
1. A key is ``sk_<kind>_<id>_<secret>``: the id finds the row, the secret proves it. Only the
   SHA-256 of the secret is stored; 256 random bits need no slow hash.
2. The kind in the text is for people; the row decides.
3. A rotated key has two secrets until the overlap ends, never three, and stays the same principal.
4. An episode token is a credential of a twin-mode gateway only: HMAC-SHA-256 over its claims, with
   expiry.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from processors.model.principal import Grant, KeyKind, Principal, Role, StoredKey
from sidecar.errors import StoreUnavailable
from sidecar.identity.roles import ACTOR_OF_KIND

KEY_KINDS: tuple[KeyKind, ...] = ("agent", "approver", "reader", "admin")
_KEY = re.compile(r"sk_(agent|approver|reader|admin)_([0-9a-f]{16})_([A-Za-z0-9_-]{43})\Z")
_EPISODE_PREFIX = "ep1."


class KeyStore(Protocol):
    """Where keys are found; one indexed read."""

    def find_key(self, key_id: str) -> StoredKey | None:
        """The key of that id, revoked or not."""
        ...


class ProviderUnavailable(StoreUnavailable):
    """The provider's keys are not known and cannot be asked for now."""


class Unauthenticated(Exception):
    """No credential, or one that proves nothing; the text says which without repeating it."""


class KeyTerms(Struct, frozen=True, kw_only=True):
    """What a new key may do: its kind, in a project or an organisation, and its limits."""

    kind: KeyKind
    project: str = ""
    name: str = ""
    role: Role | None = None
    organisation: str | None = None
    tools: tuple[str, ...] = ()
    expires_at_ns: int | None = None
    owner: str = ""
    on_behalf_of: str = ""


def mint(
    kind: KeyKind, project: str, name: str, *, id_bytes: bytes, secret_bytes: bytes, now_ns: int
) -> tuple[str, StoredKey]:
    """A new key's text (shown once) and its row, from 8 and 32 random bytes."""
    terms = KeyTerms(kind=kind, project=project, name=name)
    return mint_key(terms, id_bytes=id_bytes, secret_bytes=secret_bytes, now_ns=now_ns)


def mint_key(
    terms: KeyTerms, *, id_bytes: bytes, secret_bytes: bytes, now_ns: int
) -> tuple[str, StoredKey]:
    """The same for a key with more to say than kind, project and name."""
    assert len(id_bytes) == 8 and len(secret_bytes) == 32
    key_id, secret = id_bytes.hex(), _b64(secret_bytes)
    row = StoredKey(
        key_id=key_id,
        kind=terms.kind,
        project=terms.project,
        name=terms.name,
        secret_sha256=_hashed(secret),
        created_at_ns=now_ns,
        role=terms.role,
        organisation=terms.organisation,
        tools=terms.tools,
        expires_at_ns=terms.expires_at_ns,
        owner=terms.owner,
        on_behalf_of=terms.on_behalf_of,
    )
    return _text(row, secret), row


def row_of_text(text: str, *, now_ns: int) -> StoredKey | None:
    """The row of a key's whole text, of no project yet; None where it is no key's."""
    match = _KEY.match(text)
    if match is None:
        return None
    return StoredKey(
        key_id=match[2],
        kind=next(kind for kind in KEY_KINDS if kind == match[1]),
        project="",
        name="",
        secret_sha256=_hashed(match[3]),
        created_at_ns=now_ns,
    )


def rotated(row: StoredKey, *, secret_bytes: bytes, until_ns: int) -> tuple[str, StoredKey]:
    """A key's new text and its row; the secret it had opens until then."""
    assert len(secret_bytes) == 32
    secret = _b64(secret_bytes)
    new = replace(
        row,
        secret_sha256=_hashed(secret),
        previous_sha256=row.secret_sha256,
        previous_until_ns=until_ns,
    )
    return _text(row, secret), new


def bearer(header: str | None) -> str:
    """The token of an ``Authorization: Bearer`` value. Raises Unauthenticated."""
    if not header:
        raise Unauthenticated("no credential: send Authorization: Bearer <key>")
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("the credential is not a bearer token")
    return token.strip()


def authenticate(
    header: str | None,
    keys: KeyStore,
    *,
    now_ns: int,
    organisations: Mapping[str, Sequence[str]] = {},
) -> Principal:
    """The principal behind an Authorization value. Raises Unauthenticated.

    ``organisations``: the projects of each; a key of one acts in them.
    """
    match = _KEY.match(bearer(header))
    if match is None:
        raise Unauthenticated("the credential has not the form of a key")
    row = keys.find_key(match[2])
    given = _hashed(match[3])
    current, previous = _expected(row, now_ns)
    # Both are compared always: how long it takes tells nothing.
    known = hmac.compare_digest(given, current) | hmac.compare_digest(given, previous)
    if not known or row is None:
        raise Unauthenticated("the key is not known")
    if row.revoked_at_ns is not None:
        raise Unauthenticated("the key is revoked")
    if row.expires_at_ns is not None and row.expires_at_ns <= now_ns:
        raise Unauthenticated("the key has expired")
    return _principal(row, organisations)


def _expected(row: StoredKey | None, now_ns: int) -> tuple[str, str]:
    """The digests of the secrets that open a row now; of none what nothing hashes to."""
    none = "0" * 64
    if row is None:
        return none, none
    overlapping = row.previous_until_ns is not None and now_ns < row.previous_until_ns
    return row.secret_sha256, (row.previous_sha256 or none) if overlapping else none


def _principal(row: StoredKey, organisations: Mapping[str, Sequence[str]]) -> Principal:
    found = Principal(
        id=f"key:{row.key_id}",
        kind=row.kind,
        project=row.project,
        name=row.name,
        role=row.role,
        tools=row.tools,
        owner=row.owner,
        on_behalf_of=row.on_behalf_of,
    )
    if row.organisation is None:
        return found
    role = row.role or ACTOR_OF_KIND[row.kind]
    projects = organisations.get(row.organisation, ())
    if not projects or role == "agent":
        raise Unauthenticated("the key's organisation has no project here")
    grants = tuple(Grant(project=each, role=role) for each in projects)
    return replace(found, project=projects[0], role=role, grants=grants)


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


def _text(row: StoredKey, secret: str) -> str:
    return f"sk_{row.kind}_{row.key_id}_{secret}"


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    if not re.fullmatch(r"[A-Za-z0-9_-]*", text):
        raise ValueError("not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
