"""Parts of a trace's texts that stand elsewhere in it once more: claims, excerpts.

Rules
1. A part has lost what stood around it, and with it what a secret is known by (``password=`` before
   it, the lines of a key around it). So no part shows a word that the redacted trace does not.
2. Nor two words in a row, or marks in a row, that it does not: a secret may be made of words that
   are all said elsewhere.
3. Where redaction changed nothing of the texts that parts are cut from, parts stay as they are.
4. Words are compared, not places: a sentence is cut out without its marks and quotations. What
   redaction put in place of a datum stays; a word that it only uncovered (an escape undone) does
   not.
5. An amount is shown when a number is that, read with either mark; its digits alone are not enough.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields

from processors.model.step import Step
from processors.redact.hidden import BINARY
from processors.redact.leaves import UNREADABLE
from processors.redact.substitute import BY_KEY, SUBSTITUTED

_WORD: Final = re.compile(r"\w+")
# Two words and the little between them; where a quotation was taken out stand several blanks.
_NEXT: Final = re.compile(r"(?<!\w)(?=(\w+)((?:[^\w\s\"{}\[\]]|\s(?!\s)){1,3})(\w+))")
_INDEX: Final = re.compile(r"\d{1,3}\Z")  # in a list; fewer digits than a secret has
_MARKS: Final = re.compile(r"[^\w\s]{4,}")
_BLANK: Final = re.compile(r"[^\S ]")
_ESCAPE: Final = re.compile(r"\\+(?:u[0-9a-fA-F]{4}|.)?")
_NUMBER: Final = re.compile(r"(\d(?:[\d.,'’\u00a0\u202f ]*\d)?)( ?万)?")
_GROUPS: Final = re.compile(r"['’\u00a0\u202f ]")
_REPEATED: Final = re.compile(rf"{re.escape(BY_KEY)}(?:\W{{0,3}}{re.escape(BY_KEY)})+")
_PUT: Final = re.compile(
    rf"({SUBSTITUTED.pattern[1:-1]}|{re.escape(BINARY)}|{re.escape(UNREADABLE)})"
)
_MANY: Final = 10_000  # 万


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

    def text(self, after: str) -> str:
        """``after``, what redaction made of a part alone, without what is shown nowhere else."""
        if self._same:
            return after
        pieces = _PUT.split(after)  # every second one was put in place of a datum
        pieces[::2] = [self._shown(piece) for piece in pieces[::2]]
        shown = "".join(pieces)
        return after if shown == after else _REPEATED.sub(BY_KEY, shown)

    def place(self, after: str) -> str:
        """A dotted place, redacted to ``after``, without the keys that are shown nowhere else."""
        if self._same:
            return after
        keys = after.split(".")
        return ".".join(key if _INDEX.match(key) else self.text(key) for key in keys)

    def shows(self, after: str) -> bool:
        """Whether a part, redacted to ``after``, stays as it is."""
        return self.text(after) == after

    def shows_amount(self, amount: str) -> bool:
        """Whether a number is among those shown, however it is written there."""
        exact = _exact(amount)
        return self._same or (exact is not None and exact in self._numbers)

    def _shown(self, piece: str) -> str:
        hidden = [match.span() for match in _WORD.finditer(piece) if match[0] not in self._words]
        hidden += [match.span() for match in _MARKS.finditer(piece) if match[0] not in self._marks]
        for match in _NEXT.finditer(_BLANK.sub(" ", piece)):
            both = {match[1], match[3]} <= self._words
            if both and match.groups() not in self._next:
                hidden += (match.span(1), match.span(3))
        for start, end in sorted(set(hidden), reverse=True):
            piece = f"{piece[:start]}{BY_KEY}{piece[end:]}"
        return piece

    @cached_property
    def _words(self) -> set[str]:
        return {word for text in self._texts for word in _WORD.findall(text)}

    @cached_property
    def _next(self) -> set[tuple[str, ...]]:
        return {pair for text in self._texts for pair in _NEXT.findall(_BLANK.sub(" ", text))}

    @cached_property
    def _marks(self) -> set[str]:
        return {marks for text in self._texts for marks in _MARKS.findall(text)}

    @cached_property
    def _numbers(self) -> set[Decimal]:
        return {
            value
            for text in self._texts
            for number, many in _NUMBER.findall(text)
            for value in _readings(number, _MANY if many else 1)
        }

    @cached_property
    def _texts(self) -> list[str]:
        found = [self._final] if self._final else []
        return found + [_ESCAPE.sub(" ", text) for text in _leaves(self._kept)]


def _exact(number: str) -> Decimal | None:
    try:
        return Decimal(number)
    except InvalidOperation:
        return None


def _readings(number: str, many: int) -> Iterator[Decimal]:
    """What a number as it is written may mean: 1.250 is 1250 in one language, 1.25 in another."""
    for one in {number, *_GROUPS.split(number), *number.split(", ")}:
        plain = _GROUPS.sub("", one).strip(".,")
        marks = [mark for mark in plain if mark in ".,"]
        cents = plain[plain.rindex(marks[-1]) + 1 :] if marks else ""
        written = {plain} if len(marks) == 0 else set()
        if marks and marks.count(marks[-1]) == 1:
            written.add(f"{re.sub('[.,]', '', plain[: -len(cents) - 1])}.{cents}")
        if len(cents) == 3 and plain[0] != "0":
            written.add(re.sub("[.,]", "", plain))
        for text in written:
            value = _exact(text)
            if value is not None:
                yield value * many


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
