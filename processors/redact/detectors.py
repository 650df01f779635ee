"""Detectors: what a secret or a personal datum looks like in a text, and the mask put in its place.

Rules
1. One ``Set`` says which detectors match a text at all; only those then search it. RE2 throughout:
   linear in the text, whatever the text.
2. A match that has a check digit must pass it (cards: Luhn, IBAN: mod 97).
3. A mask is text that no detector matches, and masking runs to a fixed point: it is idempotent.
4. Each text is looked at once a Masker, which remembers a bounded number of them.
5. ``is_clean`` is certain when it says yes: a text in which no detector matches anywhere, with
   JSON's escapes read as blanks, holds no datum in any of its leaves either.
"""

import re
from collections.abc import Callable, Iterator

import re2
from msgspec import Struct

_SHORTEST = 6  # no detector matches less
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PASSES_MAX = 32
_REMEMBERED_MAX = 50_000
_ESCAPED_BLANK = re.compile(r"\\+[bfnrt]")
# A JSON member whose key's name says that its value is a secret (``leaves`` has the exact rule).
_NAMED_MEMBER = (
    r"(?i)(?:pass(?:word|wd|phrase|code)|pwd|secret|key|authorization|token|cookie|credentials?"
    r"|cvv2?|cvc|pin|card[_-]?number|ssn|iban)\\*[\"']\s*:"
)

Span = tuple[int, int]
Check = Callable[[str], Iterator[Span]]


class Detector(Struct, frozen=True, kw_only=True):
    """One kind of datum; ``check`` narrows a match to the spans within it that are real."""

    name: str
    pattern: str
    check: Check | None = None

    @property
    def mask(self) -> str:
        """What stands in its place, e.g. ``[email]``."""
        return f"[{self.name}]"


def _cards(text: str) -> Iterator[Span]:
    """The groups of digits within a run that make a card number (13 to 19 digits, Luhn)."""
    groups = [match.span() for match in re.finditer(r"\d+", text)]
    first = 0
    while first < len(groups):
        for last in range(len(groups), first, -1):
            start, end = groups[first][0], groups[last - 1][1]
            digits = "".join(text[a:b] for a, b in groups[first:last])
            if 13 <= len(digits) <= 19 and digits[0] in "23456" and _luhn(digits):
                yield start, end
                first = last
                break
        else:
            first += 1


def _luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0 and len(set(digits)) > 1


# ISO 13616 registry: how long a country's IBAN is.
_IBAN_LENGTHS = {
    country: int(length)
    for length, countries in (
        pair.split(":")
        for pair in (
            *("15:NO", "16:BE", "18:DK FI FO GL NL", "19:MK SI SK", "20:AT BA EE KZ LT LU XK MN"),
            *("21:CH HR LI LV", "22:BG BH CR DE GB GE IE ME RS VA", "23:AE GI IL IQ OM SO TL"),
            *("24:AD CZ ES MD PK RO SA SE TN VG", "25:LY PT ST", "26:IS TR"),
            *("27:BI DJ FR GR IT MC MR SM", "28:AL AZ BY CY DO GT HU LB NI PL SV"),
            *("29:BR EG PS QA UA", "30:JO KW MU", "31:MT SC", "32:LC", "33:RU"),
        )
    )
    for country in countries.split()
}


def _iban(text: str) -> Iterator[Span]:
    """The beginning of a candidate that is its country's IBAN (mod 97)."""
    length, seen = _IBAN_LENGTHS.get(text[:2], 0), 0
    for end, char in enumerate(text, 1):
        seen += char != " "
        if seen == length:
            if _mod97(text[:end].replace(" ", "")):
                yield 0, end
            return


def _mod97(plain: str) -> bool:
    turned = plain[4:] + plain[:4]
    return plain.isascii() and int("".join(str(int(char, 36)) for char in turned)) % 97 == 1


def _phone(text: str) -> Iterator[Span]:
    if 8 <= sum(char.isdigit() for char in text) <= 15:
        yield 0, len(text)


def _token(text: str) -> Iterator[Span]:
    """A token after its scheme, not a word: "basic information" is none."""
    token = text.split(maxsplit=1)[1]
    if any(char in "0123456789=_/+" for char in token):
        yield 0, len(text)


_NAMED = (
    r"pass(?:word|wd|phrase)|pwd|secret|client[_-]?secret|api[ _-]?key|access[ _-]?key"
    r"|secret[_-]?access[_-]?key|access[ _-]?token|refresh[ _-]?token|auth[_-]?token|id[_-]?token"
    r"|private[_-]?key|cvv|cvc"
)

DETECTORS: tuple[Detector, ...] = (
    Detector(
        name="private_key",
        pattern=r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
        r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
    Detector(
        name="jwt", pattern=r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){1,3}"
    ),
    Detector(
        name="aws_key", pattern=r"\b(?:A[KS]IA|ABIA|ACCA|AGPA|AIDA|AROA|AN[PV]A)[A-Z0-9]{16}\b"
    ),
    Detector(
        name="api_key",
        pattern=r"\b(?:[spr]k[-_](?:[a-z0-9]{2,10}[-_])*[A-Za-z0-9]{12,}[A-Za-z0-9_-]*"
        r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
        r"|xox[a-z]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{20,}"
        r"|npm_[A-Za-z0-9]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|ya29\.[A-Za-z0-9_-]{20,}"
        r"|whsec_[A-Za-z0-9]{16,}|ep1\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})",
    ),
    Detector(
        name="bearer", pattern=r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/-]{8,}=*", check=_token
    ),
    Detector(
        name="credential",
        pattern=r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^/\s:@]{1,200}:[^/\s@]{1,200}@",
    ),
    Detector(
        name="secret",
        pattern=rf"(?i)\b(?:{_NAMED})[\"']?\s*(?:=|:|\bis\b)\s*[\"']?[^\s\"',;\[\]]{{4,}}",
    ),
    Detector(name="email", pattern=r"[\pL\pN._%+-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)+"),
    Detector(name="iban", pattern=r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b", check=_iban),
    Detector(name="card", pattern=r"\d(?:[ -]?\d){12,}", check=_cards),
    Detector(name="ssn", pattern=r"\b\d{3}-\d{2}-\d{4}\b"),
    Detector(
        name="phone",
        pattern=r"\+\d{1,3}(?:[ ./-]?\(?\d{1,5}\)?){2,6}"
        r"|\(\d{2,5}\) ?\d{3,4}[ .-]?\d{3,6}\b|\b\d{3}[ .-]\d{3}[ .-]\d{4}\b",
        check=_phone,
    ),
)
_COMPILED = tuple(re2.compile(detector.pattern) for detector in DETECTORS)


def _prefilter() -> "re2.Set":
    found = re2.Set.SearchSet()
    for detector in DETECTORS:
        found.Add(detector.pattern)
    found.Add(_NAMED_MEMBER)
    found.Compile()
    return found


_SET = _prefilter()


class Masker:
    """Masks texts; remembers those it has seen. Make one for each trace."""

    def __init__(self) -> None:
        self._seen: dict[str, str | None] = {}  # None: nothing to mask
        self.documents: dict[str, str | None] = {}  # what ``leaves`` made of texts that are JSON
        self.secret_keys: dict[str, bool] = {}  # what ``leaves`` found out about keys' names

    def mask(self, text: str) -> str:
        """The text with every datum replaced by its mask; equal to the text when there is none."""
        if len(text) < _SHORTEST:
            return text
        try:
            known = self._seen[text]
        except KeyError:
            if len(self._seen) >= _REMEMBERED_MAX:
                self._seen.clear()
            after = self._masked(text)
            known = self._seen[text] = None if after == text else after
        return text if known is None else known  # the very object: callers compare by identity

    def is_clean(self, text: str) -> bool:
        """Whether a text that is JSON certainly holds nothing to mask. No is no answer."""
        if "\\u" in text or (not text.isascii() and _SURROGATE.search(text)):
            return False
        blank = _ESCAPED_BLANK.sub(" ", text) if "\\" in text else text
        return not _SET.Match(blank)

    def _masked(self, text: str) -> str:
        readable = _SURROGATE.sub("\ufffd", text) if not text.isascii() else text
        if "\\u" in readable:  # an escape must not hide an @
            readable = _ESCAPE.sub(lambda match: _character(match[1]), readable)
        result = _once(readable)
        if result == readable:
            return text
        for _ in range(_PASSES_MAX):
            after = _once(result)
            if after == result:
                return result
            result = after
        return "[secret]"


def _character(code: str) -> str:
    char = chr(int(code, 16))
    return "\ufffd" if _SURROGATE.match(char) else char


def _once(text: str) -> str:
    spans = sorted(_spans(text), key=lambda item: (item[0], -item[1]))
    if not spans:
        return text
    parts: list[str] = []
    position = 0
    for start, end, mask in spans:
        if start >= position:
            parts += (text[position:start], mask)
        position = max(position, end)
    parts.append(text[position:])
    return "".join(parts)


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    for number in _SET.Match(text) or ():
        if number == len(DETECTORS):
            continue
        detector = DETECTORS[number]
        for match in _COMPILED[number].finditer(text):
            if detector.check is None:
                yield match.start(), match.end(), detector.mask
                continue
            for start, end in detector.check(match[0]):
                yield match.start() + start, match.start() + end, detector.mask
