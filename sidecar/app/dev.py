"""The keys of ``--dev``."""

import itertools

from processors.model.principal import KeyKind
from sidecar import clock
from sidecar.app.minting import revoke_key
from sidecar.config import Config, is_loopback
from sidecar.errors import SidecarError
from sidecar.identity.keys import mint_dev
from sidecar.store.backend import (
    KeyBook,
)


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
    kinds: tuple[KeyKind, ...] = ("agent", "approver")
    return {kind: _dev_key(keys, kind, project, master) for kind in kinds}


def _dev_key(keys: KeyBook, kind: KeyKind, project: str, master: bytes) -> str:
    for turn in itertools.count():
        text, row = mint_dev(kind, project, master=master, turn=turn, now_ns=clock.now_ns())
        found = keys.find_key(row.key_id)
        if found is None:
            keys.add_key(row)
        if found is None or found.revoked_at_ns is None:
            return text
    raise AssertionError("unreachable: the turns never end")


def retire_keys_of_dev(keys: KeyBook, project: str, master: bytes) -> None:
    """Without --dev its keys open nothing."""
    kinds: tuple[KeyKind, ...] = ("agent", "approver")
    for kind in kinds:
        for turn in itertools.count():
            _, row = mint_dev(kind, project, master=master, turn=turn, now_ns=clock.now_ns())
            if keys.find_key(row.key_id) is None:
                break
            revoke_key(keys, row.key_id)
