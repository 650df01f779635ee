"""The digests of many runs in order, in 32 bytes each.

**Rules**
1. What comes out is what went in: a text that is no ``sha256:<hex>`` is held as it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload

_PREFIX: Final = "sha256:"
_SIZE: Final = 32


class Digests(Sequence[str]):
    """Texts as a list has them; equal to any sequence of the same ones."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._packed = bytearray()
        self._other: dict[int, str] = {}
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add one at the end."""
        packed = _packed(text)
        if packed is None:
            self._other[len(self)] = text
        self._packed += packed or bytes(_SIZE)

    def __len__(self) -> int:
        return len(self._packed) // _SIZE

    def __iter__(self) -> Iterator[str]:
        return map(self._at, range(len(self)))

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        places = range(len(self))[at]
        return self._at(places) if isinstance(places, int) else tuple(map(self._at, places))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return [*self] == [*other]

    def __repr__(self) -> str:
        return f"Digests({[*self]!r})"

    def _at(self, place: int) -> str:
        found = self._other.get(place)
        return (
            _PREFIX + self._packed[place * _SIZE : (place + 1) * _SIZE].hex()
            if found is None
            else found
        )


def _packed(text: str) -> bytes | None:
    """Its bytes; None where they would not give the same text again."""
    try:
        found = bytes.fromhex(text.removeprefix(_PREFIX))
    except ValueError:
        return None
    return found if len(found) == _SIZE and _PREFIX + found.hex() == text else None
