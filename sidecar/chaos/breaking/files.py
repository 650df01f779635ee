"""Files of a gateway under proof that are changed behind its back, and its processes as files."""

import sqlite3
from contextlib import closing
from pathlib import Path


def break_bundle(folder: Path) -> str:
    """A policy bundle that does not compile; its folder's name."""
    bundle = folder / "bundle"
    bundle.mkdir()
    (bundle / "broken.rego").write_text("package agw.v1\n\ndecide := {\n")
    return "bundle"


def change_seal_key(folder: Path, text: str) -> None:
    """Another key than the one the ledger was sealed with."""
    (folder / "seal-key").write_text(text)


def cut_chain(ledger: Path) -> None:
    """Take the last entry of the audit chain away."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)")


def children_of(pid: int) -> list[int]:
    """The processes a process has started and that run programs of their own.

    One that has forked and not yet executed is left out: its parent waits for it, and would for
    ever if it were stopped there.
    """
    found: list[int] = []
    own = _command(pid)
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue  # that thread has just ended
    return [child for child in found if _command(child) not in (own, b"")]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
