"""What is done to keys, as functions of the book of keys: made, revoked, given a new secret.

**Rules**
1. Who may make or end a key depends on whose it is: an agent's, a person's, an owner's
   (``identity.roles``). Nobody makes a key that may do more than they may give.
2. A key's text leaves in the answer to the request that made it and is nowhere else.
3. A key of another project, or of a whole organisation, is not there.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from processors.model.principal import Principal, StoredKey
from sidecar.control import documents
from sidecar.control.reads import Asked, KeyList, find_key, key_document
from sidecar.gateway.problem import Refused
from sidecar.identity.keys import KeyTerms, mint_key, rotated
from sidecar.identity.roles import (
    ACTOR_OF_KIND,
    KIND_OF_ROLE,
    Actor,
    Forbidden,
    Permission,
    require,
)

_SECOND_NS = 10**9


class KeyBook(KeyList, Protocol):
    """Keys, to be read and changed; every write is durable on return."""

    def add_key(self, key: StoredKey) -> None:
        """Store a new key."""
        ...

    def revoke_key(self, key_id: str, now_ns: int) -> bool:
        """Revoke a key; False when there is none."""
        ...

    def rotate_key(self, key_id: str, secret_sha256: str, previous_until_ns: int) -> bool:
        """A new secret; False when there is no such key or it is revoked."""
        ...


class Bench(Struct, frozen=True, kw_only=True):
    """What keys are made with."""

    keys: KeyBook
    random: Callable[[int], bytes]


def create_key(bench: Bench, asked: Asked) -> documents.CreatedKey:
    """A new key of the caller's project. Raises Refused 403."""
    role: Actor = asked.of.role
    _may(asked.principal, role)
    lifetime = asked.of.lifetime_seconds
    terms = KeyTerms(
        kind="agent" if role == "agent" else KIND_OF_ROLE[role],
        project=asked.project,
        name=asked.of.name,
        role=None if role == "agent" else role,
        tools=asked.of.tools,
        owner=asked.of.owner if role == "agent" else "",
        on_behalf_of=asked.of.on_behalf_of if role == "agent" else "",
        expires_at_ns=None if lifetime is None else asked.now_ns + lifetime * _SECOND_NS,
    )
    text, row = mint_key(
        terms,
        id_bytes=bench.random(8),
        secret_bytes=bench.random(32),
        now_ns=asked.now_ns,
    )
    bench.keys.add_key(row)
    return _created(row, text)


def revoke_key(bench: Bench, asked: Asked) -> documents.KeyDocument:
    """The key, revoked. Raises Refused 403, 404."""
    found = find_key(bench.keys, asked)
    _may(asked.principal, _actor(found))
    bench.keys.revoke_key(found.key_id, asked.now_ns)
    return key_document(find_key(bench.keys, asked))


def rotate_key(bench: Bench, asked: Asked) -> documents.CreatedKey:
    """The key with a new secret. Raises Refused 403, 404, and 409 for one that is revoked."""
    found = find_key(bench.keys, asked)
    _may(asked.principal, _actor(found))
    until_ns = asked.now_ns + asked.of.overlap_seconds * _SECOND_NS
    text, row = rotated(found, secret_bytes=bench.random(32), until_ns=until_ns)
    if not bench.keys.rotate_key(row.key_id, row.secret_sha256, until_ns):
        raise Refused(409, "key_revoked", "the key is revoked; make another")
    return _created(row, text)


def _created(row: StoredKey, text: str) -> documents.CreatedKey:
    shown = msgspec.to_builtins(key_document(row))
    return msgspec.convert({**shown, "key": text}, documents.CreatedKey)


def _actor(row: StoredKey) -> Actor:
    return row.role or ACTOR_OF_KIND[row.kind]


def _may(caller: Principal, whose: Actor) -> None:
    needed: Permission = "keys.people"
    if whose in ("agent", "owner"):
        needed = "keys.agents" if whose == "agent" else "keys.owners"
    try:
        require(caller, needed)
    except Forbidden as error:
        raise Refused(403, "forbidden", str(error)) from None


CHANGES = {each.__name__: each for each in (create_key, revoke_key, rotate_key)}
