"""The places for those who wait or follow: there are so many, and nobody has most of them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PLACES: Final = 64
PLACES_EACH: Final = PLACES // 4


class Full(Exception):
    """There is no place now."""


class Places:
    """``PLACES`` in all, ``PLACES_EACH`` for one principal: whoever takes its own holds up only
    itself."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def are_free(self, principal: str) -> bool:
        """Whether a principal may take one more."""
        return self._taken.total() < PLACES and self._taken[principal] < PLACES_EACH

    @contextmanager
    def taken(self, principal: str) -> Iterator[None]:
        """One of the places, while the context lasts. Raises Full."""
        if not self.are_free(principal):
            raise Full
        self._taken[principal] += 1
        try:
            yield
        finally:
            self._taken[principal] -= 1
            if not self._taken[principal]:
                del self._taken[principal]
