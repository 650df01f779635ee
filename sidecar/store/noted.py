"""What is done to the gateway itself, as entries of the audit chain."""

from typing import Any

from msgspec import Struct


class Note(Struct, frozen=True, kw_only=True):
    """One entry. ``state`` is a name and a value: where the value stands already, nothing is noted.

    ``body`` is an object of texts and numbers, without content or secrets.
    """

    kind: str
    project: str
    at_ns: int
    body: dict[str, Any]
    state: tuple[str, bytes] | None = None
