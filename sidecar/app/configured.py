"""The configuration in force, as the audit chain has it: digests that nothing can be read from."""

import hashlib

import msgspec

from sidecar.canonical import canonical
from sidecar.config import Config
from sidecar.store.noted import Note

_STATE = "configuration"


def config_note(config: Config, now_ns: int) -> Note:
    """``config_changed``: the digest of the whole and of each part; noted where it is another.

    Secrets lie in files that the configuration names: their contents are no part of it.
    """
    parts = {name: _digest(getattr(config, name)) for name in config.__struct_fields__}
    whole = _digest(parts)
    return Note(
        kind="config_changed",
        project="",
        at_ns=now_ns,
        body={"digest": whole, "parts": parts},
        state=(_STATE, whole.encode()),
    )


def _digest(value: object) -> str:
    return "sha256:" + hashlib.sha256(canonical(msgspec.to_builtins(value))).hexdigest()
