"""Whether a ledger would survive: memory and tmpfs do not, and then at-most-once is no promise."""

from pathlib import Path

_VOLATILE = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_MOUNTS = Path("/proc/self/mounts")


def is_ephemeral(path: Path | str, mounts: Path = _MOUNTS) -> bool:
    """True for ``:memory:`` and for a file on a memory file system (Linux; elsewhere unknown is
    taken as lasting)."""
    if path == ":memory:":
        return True
    if not mounts.exists():
        return False
    resolved = Path(path).resolve()
    found, longest = "", -1
    for line in mounts.read_text().splitlines():
        fields = line.split(" ")
        point = Path(fields[1].encode().decode("unicode_escape"))
        if len(point.parts) >= longest and resolved.is_relative_to(point):
            found, longest = fields[2], len(point.parts)
    return found in _VOLATILE
