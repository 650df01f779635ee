"""Keeping a store: which schemas it has, and what a backup holds.

Rules
1. A backup is of one moment: what the pipeline had taken in, and what it had taken it from.
2. What lies sealed in the store lies sealed in the backup; the seal key is never in it.
3. The manifest is written last: a folder without one is no backup.
"""

from typing import Final, Literal

from msgspec import Struct

MANIFEST: Final = "manifest.json"
SUMS: Final = "SHA256SUMS"


class SchemaState(Struct, frozen=True, kw_only=True):
    """One schema of a store: its ``number`` (0: there is none), and what this program would add."""

    name: str
    number: int
    newest: int
    pending: tuple[str, ...] = ()


class BackupFile(Struct, frozen=True, kw_only=True):
    """A file of a backup, named inside its folder."""

    name: str
    size_bytes: int
    sha256: str


class BackupManifest(Struct, frozen=True, kw_only=True):
    """What a backup is of, and how to tell that it is whole."""

    kind: Literal["sqlite", "postgres"]
    made_at_ns: int
    schemas: tuple[SchemaState, ...]
    files: tuple[BackupFile, ...]


def sums(files: tuple[BackupFile, ...]) -> str:
    """The digests as ``sha256sum --check`` reads them."""
    return "".join(f"{file.sha256}  {file.name}\n" for file in files)
