"""A request's body that is not held in memory."""

from collections.abc import AsyncIterator
from typing import Protocol


class Upload(Protocol):
    """So many bytes, to be read from the beginning as often as they are sent."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """All of them in order, in pieces that fit memory. Raises OSError."""
        ...
