"""Files of a gateway under proof that are changed behind its back."""

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
