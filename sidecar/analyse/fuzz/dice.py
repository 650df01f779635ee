"""Dice that are a function of a seed and a name, and of nothing else.

Rules
1. What is drawn under one name never shifts what is drawn under another.
2. Draws of one name come in order: the n-th is HMAC-SHA-256(seed, ``name|n``).
"""

import hmac
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Draws under one name."""

    def __init__(self, seed: int, name: str) -> None:
        self._key = str(seed).encode()
        self._name = name
        self._number = 0

    def chance(self) -> float:
        """A number in [0, 1)."""
        return self._next() / 2**64

    def below(self, bound: int) -> int:
        """A whole number in [0, bound)."""
        return self._next() % bound

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, which are not empty."""
        return options[self.below(len(options))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """The options in some order (Fisher and Yates)."""
        made = list(options)
        for last in range(len(made) - 1, 0, -1):
            other = self.below(last + 1)
            made[last], made[other] = made[other], made[last]
        return made

    def _next(self) -> int:
        self._number += 1
        message = f"{self._name}|{self._number}".encode()
        return int.from_bytes(hmac.digest(self._key, message, "sha256")[:8], "big")
