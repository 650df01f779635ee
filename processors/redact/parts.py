"""Parts of a trace's texts that stand elsewhere in it once more: claims, excerpts.

Rules
1. A part has lost what stood around it, and with it what a secret is known by (``password=`` before
   it, the lines of a key around it). So no part shows a word that the redacted trace does not.
2. Where redaction changed nothing of the texts that parts are cut from, parts stay as they are.
3. Words are compared, not places: a sentence is cut out without its marks and quotations.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields

from processors.model.step import Step
from processors.redact.substitute import BY_KEY

_WORD: Final = re.compile(r"\w+")
_ESCAPE: Final = re.compile(r"\\+(?:u[0-9a-fA-F]{4}|.)?")
_NUMBER: Final = re.compile(r"\d[\d.,'’\u00a0\u202f ]*")
_REPEATED: Final = re.compile(rf"{re.escape(BY_KEY)}(?:\W{{0,3}}{re.escape(BY_KEY)})+")
_NO_DIGIT: Final = re.compile(r"\D")


class Parts:
    """What parts of one trace may show. ``kept`` and ``final`` are redacted, the others are not."""

    def __init__(
        self,
        steps: tuple[Step, ...],
        kept: tuple[Step, ...],
        original: str | None,
        final: str | None,
    ) -> None:
        self._kept, self._final = kept, final
        self._same = final == original and kept == steps

    def text(self, part: str, after: str) -> str:
        """``after``, what redaction made of a part alone, without the words shown nowhere else."""
        if self._same:
            return after
        ours = set(_WORD.findall(after)) - set(_WORD.findall(part))
        shown = _WORD.sub(lambda word: self._word(word[0], ours), after)
        return after if shown == after else _REPEATED.sub(BY_KEY, shown)

    def shows(self, part: str, after: str) -> bool:
        """Whether a part, redacted to ``after``, stays as it is."""
        return self.text(part, after) == after

    def shows_amount(self, amount: str) -> bool:
        """Whether a number is among those shown, however it is written there."""
        return self._same or _digits(amount) in self._numbers

    def _word(self, word: str, ours: set[str]) -> str:
        return word if word in self._words or word in ours else BY_KEY

    @cached_property
    def _words(self) -> set[str]:
        return {word for text in self._texts for word in _WORD.findall(text)}

    @cached_property
    def _numbers(self) -> set[str]:
        return {_digits(number) for text in self._texts for number in _NUMBER.findall(text)}

    @cached_property
    def _texts(self) -> list[str]:
        found = [self._final] if self._final else []
        return found + [_ESCAPE.sub(" ", text) for text in _leaves(self._kept)]


def _digits(number: str) -> str:
    """What two ways to write an amount have in common: 1.250,00 and 1250."""
    try:
        number = format(Decimal(number), "f")
    except InvalidOperation:
        pass
    return _NO_DIGIT.sub("", number).strip("0")


def _leaves(value: Any) -> Iterator[str]:
    """Every text and number of a value, keys too, without recursion: it may be deep."""
    left: list[Any] = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            left += item.keys()
            left += item.values()
        elif isinstance(item, list | tuple):
            left += item
        elif isinstance(item, Struct):
            left += _members(item)
        elif isinstance(item, int | float | Decimal) and not isinstance(item, bool):
            yield str(item)


def _members(item: Struct) -> Iterable[Any]:
    return (getattr(item, field.name) for field in fields(item))
