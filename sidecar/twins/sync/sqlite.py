"""Rows of a SQLite file by one SELECT: opened to be read, and read only.

Rules
1. The file is opened read-only and its connection may do nothing but read: no ATTACH, no PRAGMA,
   no extension.
2. Values are bound. More rows than asked for, and more time than granted, end the question.
"""

import base64
import sqlite3
from pathlib import Path
from typing import Any

from sidecar import clock
from sidecar.twins.sync.plan import SqlSource
from sidecar.twins.sync.rows import BadRows

_READS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
_STEPS = 10_000


def sqlite_rows(path: Path, sql: SqlSource, *, rows_max: int, ends_ns: int) -> list[dict[str, Any]]:
    """At most ``rows_max`` and one rows, until the monotonic time ``ends_ns``. Raises BadRows."""
    if not path.is_file():
        raise BadRows("there is no such database file")
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        raise BadRows("the database file cannot be opened") from None
    try:
        connection.set_authorizer(_only_reads)
        connection.set_progress_handler(lambda: clock.monotonic_ns() > ends_ns, _STEPS)
        values = {str(place): value for place, value in enumerate(sql.parameters, 1)}
        cursor = connection.execute(sql.query, values)
        names = [column[0] for column in cursor.description or ()]
        if len(set(names)) != len(names):
            raise BadRows("the query names a column twice: write AS")
        found = cursor.fetchmany(rows_max + 1)
    except sqlite3.Error as error:
        late = clock.monotonic_ns() > ends_ns
        raise BadRows("the deadline passed" if late else f"the query is refused: {error}") from None
    finally:
        connection.close()
    return [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in found]


def _only_reads(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
