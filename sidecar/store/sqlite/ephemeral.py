"""Whether a ledger would survive: memory and tmpfs do not, and then at-most-once is no promise."""

import os
import re
from pathlib import Path

_VOLATILE = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_MOUNTS = Path("/proc/self/mounts")
_FIELDS_MIN = 3
# Blanks and backslashes of a name (proc(5), fstab(5)); every other byte stands as it is.
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")


def is_ephemeral(path: Path | str, mounts: Path = _MOUNTS) -> bool:
    """True for ``:memory:`` and for a file on a memory file system (Linux; elsewhere unknown is
    taken as lasting)."""
    if path == ":memory:":
        return True
    if not mounts.exists():
        return False
    resolved = Path(path).resolve()
    found, longest = "", -1
    for line in mounts.read_bytes().split(b"\n"):
        fields = line.split(b" ")
        if len(fields) < _FIELDS_MIN:
            continue
        point = Path(os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), fields[1])))
        if len(point.parts) >= longest and resolved.is_relative_to(point):
            found, longest = os.fsdecode(fields[2]), len(point.parts)
    return found in _VOLATILE
