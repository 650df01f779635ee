"""What is said between the sidecar and the process that asks a database: JSON, one a line."""

from typing import Any

from msgspec import Struct

LINE_BYTES_MAX = 2 * 1024**2
"""Of a question, and of an answer: rows as JSON."""


class Job(Struct, frozen=True, kw_only=True):
    """One question. ``address`` is the vetted literal to dial, ``host`` the name that TLS verifies;
    files are read at every try."""

    identity: int
    address: str
    port: int
    host: str
    user: str
    database: str
    password_file: str
    tls: bool
    ca_file: str
    query: str
    values: tuple[Any, ...]
    deadline_ns: int


class Told(Struct, frozen=True, kw_only=True):
    """The rows, or the ``code`` of why there are none."""

    identity: int
    code: str = ""
    rows: list[dict[str, Any]] = []
