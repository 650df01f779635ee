"""The keys of ``--dev``."""

import itertools
from collections.abc import Iterable, Iterator

from processors.model.principal import KeyKind, StoredKey
from sidecar import clock
from sidecar.app.minting import revoke_key
from sidecar.config import Config, is_loopback
from sidecar.errors import SidecarError
from sidecar.identity.keys import mint_dev
from sidecar.store.backend import (
    KeyBook,
)

_KINDS: tuple[KeyKind, ...] = ("agent", "approver")


def check_dev(config: Config) -> None:
    for key, address in config.addresses():
        if address and not is_loopback(address):
            raise SidecarError(
                f"--dev makes keys for whoever reads this terminal, and {address} is not loopback",
                where=f"configuration key {key}",
                do="Listen on 127.0.0.1, or start without --dev and create keys.",
            )


def make_dev_keys(keys: KeyBook, project: str, master: bytes) -> dict[str, str]:
    """An agent key and an approver key, the same at every start of one store under --dev."""
    return {kind: _dev_key(keys, kind, project, master) for kind in _KINDS}


def _dev_key(keys: KeyBook, kind: KeyKind, project: str, master: bytes) -> str:
    for turn in itertools.count():
        text, row = mint_dev(kind, project, master=master, turn=turn, now_ns=clock.now_ns())
        found = keys.find_key(row.key_id)
        if found is None:
            keys.add_key(row)
        if found is None or found.revoked_at_ns is None:
            return text
    raise AssertionError("unreachable: the turns never end")


class NotOfDev:
    """Stored keys without those of ``--dev``: nothing is opened by them where it is not given.

    They open nothing from the first connection on, and are revoked (``retire``) only once the start
    has not failed: one that fails leaves the store to ``--dev`` as it was.
    """

    def __init__(self, keys: KeyBook, projects: Iterable[str], master: bytes) -> None:
        self._keys = keys
        self._made = frozenset(
            key_id for project in projects for key_id in _made(keys, project, master)
        )

    def find_key(self, key_id: str) -> StoredKey | None:
        """The key of that id, revoked or not."""
        return None if key_id in self._made else self._keys.find_key(key_id)

    def retire(self) -> None:
        """Revoke them."""
        for key_id in self._made:
            revoke_key(self._keys, key_id)


def _made(keys: KeyBook, project: str, master: bytes) -> Iterator[str]:
    for kind in _KINDS:
        for turn in itertools.count():
            _, row = mint_dev(kind, project, master=master, turn=turn, now_ns=clock.now_ns())
            if keys.find_key(row.key_id) is None:
                break
            yield row.key_id
