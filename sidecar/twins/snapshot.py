"""A snapshot: whose state a folder holds, as of when, in which version, and whether it is too old.

Rules
1. Its digest is over the bytes of its files: a file that was changed since is not of the snapshot.
2. Age is told, and decides nothing here: a gate makes of it what its policy says.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from processors.value import duration_ns
from sidecar.canonical import digest
from sidecar.twins import timeline

FORMAT = "agenttwin-snapshot/1"
FILE = "snapshot.json"


class Part(Struct, frozen=True, kw_only=True):
    """One entity of it: its source, when it was read, and the digest of its file."""

    source: str
    taken_at: str
    rows: int
    digest: str
    secrets: tuple[str, ...] = ()


class Snapshot(Struct, frozen=True, kw_only=True):
    """A whole snapshot; ``taken_at`` is when the first of its sources was read, RFC 3339 in UTC."""

    format: str = FORMAT
    version: int
    taken_at: str
    sync: str
    sync_digest: str
    digest: str
    entities: dict[str, Part]

    @property
    def taken_at_ns(self) -> int:
        """The time in nanoseconds."""
        return timeline.start_ns(self.taken_at)


def digest_of(parts: Mapping[str, Part]) -> str:
    """``sha256:<hex>`` over the files of a snapshot."""
    files: dict[str, Any] = {name: part.digest for name, part in parts.items()}
    return digest(files, domain="agenttwin-snapshot/1")


def read_snapshot(text: bytes) -> Snapshot:
    """The snapshot a file describes. Raises ValueError."""
    found = msgspec.json.decode(text, type=Snapshot)
    if found.format != FORMAT:
        raise ValueError(f"its format is {found.format[:40]!r}, not {FORMAT}")
    if found.digest != digest_of(found.entities):
        raise ValueError("its digest is not that of its parts")
    assert found.taken_at_ns >= 0
    return found


def why_stale(snapshot: Snapshot, age_max: str, now_ns: int) -> str | None:
    """Why a state is too old for a twin that declares ``age_max``; None where it is not."""
    if not age_max:
        return None
    age_ns = now_ns - snapshot.taken_at_ns
    if age_ns <= duration_ns(age_max):
        return None
    return (
        f"its state (version {snapshot.version}) is of {snapshot.taken_at}, "
        f"{age_ns // 1_000_000_000} s ago: more than {age_max}"
    )
