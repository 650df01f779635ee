"""What really happened, counted in the commerce service's own database, past the sidecar.

Rules
1. Read-only and straight from the file: what is counted here owes nothing to what is being shown.
"""

import sqlite3
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct


class Counted(Struct, frozen=True, kw_only=True):
    """An order in the shop: refunds made, their sum, and the requests that arrived."""

    refunds: int
    requests: int
    amounts: tuple[str, ...]


def count(database: Path, order_id: str) -> Counted:
    """Count what the shop holds for an order."""
    uri = f"file:{quote(str(database))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True)
    try:
        amounts = [
            row[0]
            for row in connection.execute(
                "SELECT amount FROM refunds WHERE order_id = ? ORDER BY rowid", (order_id,)
            )
        ]
        (requests,) = connection.execute(
            "SELECT count(*) FROM requests WHERE tool = 'issue_refund' AND order_id = ?",
            (order_id,),
        ).fetchone()
    finally:
        connection.close()
    return Counted(refunds=len(amounts), requests=requests, amounts=tuple(amounts))
