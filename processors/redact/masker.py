"""Masker: texts with every datum replaced on a project's terms.

Rules
1. Replacing runs to a fixed point, so that doing it twice changes nothing; a text in which it finds
   none is replaced whole. So is one that is percent-encoded over and over.
2. Each text is looked at once a Masker, which remembers a bounded number of bytes and of texts.
3. ``is_clean`` is certain when it says yes: a JSON text in which no detector matches anywhere, its
   escapes read as blanks, holds no datum in any of its leaves either.
4. Where nothing need change, the very same object comes back.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from processors.redact import detectors, hidden
from processors.redact.substitute import BY_KEY, DROPPED, Substitutes, digests
from processors.redact.terms import Action, Kind, RedactionKey, Terms

MASKING: Final = Terms(capture="redacted")
_SHORTEST = 6  # no detector matches less
_PASSES_MAX = 32
_NESTED_MAX = 6
_TEXTS_MAX = 50_000
_CHARACTERS_MAX = 4_000_000
_KEYS_MAX = 50_000
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_KEY = re.compile(
    r"(?:^|[._-])(?:pass(?:word|wd|phrase|code)|pwd|secret|api[_-]?key|apikey|authorization"
    r"|token|bearer|jwt|otp|cookie|set-cookie|access[_-]?key|signing[_-]?key|encryption[_-]?key"
    r"|private[_-]?key|credentials?|cvv2?|cvc|pin|card[_-]?number|ssn|iban)$"
)


def names_secret(key: str) -> bool:
    """Whether a key's name says that its value is a secret."""
    return _SECRET_KEY.search(_CAMEL.sub("_", key).lower()) is not None


def digest(action: Action, kind: Kind, value: str, key: RedactionKey) -> str:
    """What stands for a value of a kind under a key, however the value is written."""
    found = list(detectors.data(value, detectors.matching(value)))
    plain = next((item[3] for item in found if item[2] == kind), value)
    return Substitutes(Terms(actions={kind: action}, key=key)).of(kind, plain)


class Memory:
    """What became of texts; forgets everything when it holds too much."""

    def __init__(self, texts_max: int = _TEXTS_MAX, characters_max: int = _CHARACTERS_MAX) -> None:
        self.known: dict[str, str | None] = {}  # None: nothing to replace
        self._left = self._characters_max = characters_max
        self._texts_max = texts_max

    def keep(self, text: str, after: str | None) -> None:
        """Remember one more."""
        size = len(text) + (len(after) if after is not None else 0)
        if size > self._left or len(self.known) >= self._texts_max:
            self.known.clear()
            self._left = self._characters_max
        if size <= self._left:
            self.known[text] = after
            self._left -= size


class Masker:
    """Replaces data in texts. Make one for a project's terms and use it for all its traces."""

    def __init__(self, terms: Terms = MASKING) -> None:
        self._substitutes = Substitutes(terms)
        self._texts = Memory()
        self._secret_keys: dict[str, bool] = {}
        self.documents = Memory()  # what ``leaves`` made of texts that are JSON

    def mask(self, text: str) -> str:
        """The text with every datum replaced; equal to the text when there is none."""
        if len(text) < _SHORTEST:
            return text
        try:
            known = self._texts.known[text]
        except KeyError:
            known = self._looked_at(text)
            self._texts.keep(text, known)
        return text if known is None else known

    def _looked_at(self, text: str) -> str | None:
        if text.isascii() and "\\" not in text and not detectors.matching(text):
            return None
        after = self._masked(text, 0)
        return None if after == text else after

    def secret(self, value: str) -> str:
        """What stands for a value whose key says that it is a secret."""
        return self._substitutes.of("secret", value)

    def names_secret(self, key: str) -> bool:
        """``names_secret``, remembered."""
        secret = self._secret_keys.get(key)
        if secret is None:
            if len(self._secret_keys) >= _KEYS_MAX:
                self._secret_keys.clear()
            secret = self._secret_keys[key] = names_secret(key)
        return secret

    def bytes(self, encoded: str) -> str:
        """Base64 of bytes with every datum in them replaced; bytes that are no text go."""
        after = hidden.rewritten_bytes(encoded, self.mask)
        return hidden.BINARY if after is None else after

    def is_clean(self, text: str) -> bool:
        """Whether a text that is JSON certainly holds nothing to replace. No is no answer."""
        if "\\u" in text or "\\/" in text or hidden.has_surrogates(text):
            return False
        blank = hidden.readable(text)
        numbers = detectors.matching(blank)
        if not numbers:
            return True
        return numbers == [detectors.HIDDEN_BASE64] and not hidden.hides(blank, self.mask)

    def together(self, texts: Sequence[str]) -> str | None:
        """Texts masked as one, where that hides more or other than each alone; None where not.

        What each hides alone stays hidden: beside another text a datum may look like none.
        """
        plain = [self.mask(text) for text in texts]
        whole = "".join(texts)
        after = self.mask(whole)
        if after == "".join(plain):
            return None
        return after if plain == list(texts) else self._united(texts, whole)

    def _united(self, texts: Sequence[str], whole: str) -> str:
        """The whole without what is seen in it, or in a part of it alone."""
        pieces = [hidden.readable(text) for text in texts]
        joined = "".join(pieces)
        if joined != hidden.readable(whole) or any(map(self._is_odd, (joined, *pieces))):
            return BY_KEY  # encoded, or seen at the second look: what stands where is not known
        found = list(detectors.data(joined, detectors.matching(joined)))
        start = 0
        for piece in pieces:
            for each in detectors.data(piece, detectors.matching(piece)):
                found.append((each[0] + start, each[1] + start, *each[2:]))
            start += len(piece)
        return self.mask(self._without(joined, found))

    def _is_odd(self, text: str) -> bool:
        numbers = detectors.matching(text)
        odd = {detectors.HIDDEN_PERCENT, detectors.HIDDEN_BASE64}
        return not odd.isdisjoint(numbers) or self._masked(text, 0) != self._once(text, 0)

    def _masked(self, text: str, depth: int) -> str:
        readable = hidden.readable(text)
        result = self._once(readable, depth)
        if result == readable:
            return text
        for _ in range(_PASSES_MAX):
            after = self._once(result, depth)
            if after == result:
                return result
            result = after
        return BY_KEY

    def _once(self, text: str, depth: int) -> str:
        numbers = detectors.matching(text)
        if not numbers:
            return text
        result = self._replaced(text, numbers)
        percent, packed = detectors.HIDDEN_PERCENT in numbers, detectors.HIDDEN_BASE64 in numbers
        if not percent and not packed:
            return result
        if depth >= _NESTED_MAX:
            return BY_KEY if percent else result
        return hidden.rewritten(
            result, lambda plain: self._masked(plain, depth + 1), percent=percent, packed=packed
        )

    def _replaced(self, text: str, numbers: list[int]) -> str:
        return self._without(text, detectors.data(text, numbers))

    def _without(self, text: str, data: Iterable[detectors.Found]) -> str:
        ours = digests(text)
        found = sorted(
            (item for item in data if not _within(item, ours)),
            key=lambda item: (item[0], -item[1]),
        )
        parts: list[str] = []
        position = 0
        for start, end, kind, value in found:
            if self._substitutes.action(kind) == "drop":
                return DROPPED
            if start >= position:
                parts += (text[position:start], self._substitutes.of(kind, value))
            position = max(position, end)
        parts.append(text[position:])
        return "".join(parts)


def _within(item: detectors.Found, spans: list[tuple[int, int]]) -> bool:
    return any(start <= item[0] and item[1] <= end for start, end in spans)
