"""Detectors: what a secret or a personal datum looks like in a text.

Rules
1. One ``Set`` says which detectors match a text at all; only those then search it. RE2 throughout:
   linear in the text, whatever the text.
2. A match that has a check digit must pass it (cards: Luhn, IBAN: mod 97).
3. Two spellings of one datum have one ``canonical`` form, so that their digests are equal.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

import re2
from msgspec import Struct

from processors.redact.hidden import BASE64, PERCENT
from processors.redact.substitute import is_substitute
from processors.redact.terms import Kind

# A JSON member whose key's name says that its value is a secret (``leaves`` has the exact rule).
_NAMED_MEMBER = (
    r"(?i)(?:pass(?:word|wd|phrase|code)|pwd|secret|key|authorization|token|cookie|credentials?"
    r"|bearer|jwt|otp|cvv2?|cvc|pin|card[_-]?number|ssn|iban)\\*[\"']\s*:"
)

Span = tuple[int, int]
Check = Callable[[str], Iterator[Span]]
Found = tuple[int, int, Kind, str]
"""Where a datum begins and ends, its kind, and its canonical form."""


def _squeezed(text: str) -> str:
    return "".join(filter(str.isalnum, text))


class Detector(Struct, frozen=True, kw_only=True):
    """One kind of datum; ``check`` narrows a match to the spans within it that are real."""

    name: Kind
    pattern: str
    check: Check | None = None
    canonical: Callable[[str], str] = str

    @property
    def mask(self) -> str:
        """What stands in its place under ``mask``, e.g. ``[email]``."""
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
    start = 0 if text[0].isupper() else 1
    length, seen = _IBAN_LENGTHS.get(text[start : start + 2], 0), 0
    for end, char in enumerate(text[start:], start + 1):
        seen += char.isalnum()
        if seen == length:
            if _mod97(_squeezed(text[start:end])):
                yield start, end
            return


def _mod97(plain: str) -> bool:
    turned = plain[4:] + plain[:4]
    return plain.isascii() and int("".join(str(int(char, 36)) for char in turned)) % 97 == 1


def _behind_edge(text: str) -> Iterator[Span]:
    """A number or key without the character it was glued to."""
    yield int(not (text[0].isdigit() or text[0].isupper())), len(text)


def _ssn(text: str) -> Iterator[Span]:
    yield int(not text[0].isdigit()), len(text)


def _phone(text: str) -> Iterator[Span]:
    if 8 <= sum(char.isdigit() for char in text) <= 15:
        yield 0, len(text)


def _token(text: str) -> Iterator[Span]:
    """A token after its scheme, not a word: "basic information" is none."""
    token = text.split(maxsplit=1)[1]
    if any(char in "0123456789=_/+" for char in token):
        yield 0, len(text)


def _named(text: str) -> Iterator[Span]:
    """A secret behind its name, unless what stands there is our own substitute for it."""
    if not is_substitute(_behind_name(text)):
        yield 0, len(text)


def _queried(text: str) -> Iterator[Span]:
    """The value of a query parameter whose name says that it is a secret."""
    start = text.index("=") + 1
    if not is_substitute(text[start:]):
        yield start, len(text)


_NAME_ENDS = re.compile(r".*?(?:[=:]|\bis\b)[\s\\\"']*", re.DOTALL | re.IGNORECASE)


def _behind_name(text: str) -> str:
    return _NAME_ENDS.sub("", text, count=1)


def _bare(text: str) -> str:
    return text.lstrip("_")


def _userinfo(text: str) -> str:
    return text.partition("://")[2].rstrip("@")


_NAMED = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|client[_-]?secret|api[ _-]?key|access[ _-]?key"
    r"|secret[_-]?access[_-]?key|access[ _-]?token|refresh[ _-]?token|auth[_-]?token|id[_-]?token"
    r"|session[_-]?token|private[_-]?key|cvv2?|cvc"
)
_QUERIED = r"token|secret|key|sig|signature|passw(?:or)?d|pwd|auth|session|credential|jwt|otp|code"
# What streams in pieces is glued together again: a letter before a datum is no reason to miss it.
_EDGE = r"(?:\b|_)"
_GLUED = r"(?:\b|[a-z_])"

DETECTORS: tuple[Detector, ...] = (
    Detector(
        name="private_key",
        pattern=r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
        r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
        canonical=_squeezed,
    ),
    Detector(
        name="jwt",
        pattern=r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){1,3}",
    ),
    Detector(
        name="aws_key",
        pattern=_GLUED + r"(?:A[KS]IA|ABIA|ACCA|AGPA|AIDA|AROA|AN[PV]A)[A-Z0-9]{16}",
        check=_behind_edge,
    ),
    Detector(
        name="api_key",
        pattern=_EDGE + r"[spr]k[-_](?:[a-z0-9]{2,10}[-_])*[A-Za-z0-9]{12,}[A-Za-z0-9_-]*"
        r"|[spr]k[-_](?:proj|ant|live|test|svcacct|admin|or|agent|approver|reader)"
        r"(?:[-_][a-z0-9]{2,10})*[-_][A-Za-z0-9]{12,}[A-Za-z0-9_-]*"
        r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
        r"|xox[a-z]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|" + _EDGE + r"hf_[A-Za-z0-9]{20,}"
        r"|" + _EDGE + r"npm_[A-Za-z0-9]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
        r"|ya29\.[A-Za-z0-9_-]{20,}|whsec_[A-Za-z0-9]{16,}|ep1\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        canonical=_bare,
    ),
    Detector(
        name="bearer",
        pattern=r"(?i)(?:bearer|\bbasic)\s+[A-Za-z0-9._~+/-]{8,}=*",
        check=_token,
        canonical=lambda text: text.split(maxsplit=1)[1],
    ),
    Detector(
        name="credential",
        pattern=r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^/\s:@]{0,200}(?::[^/\s]{0,200})?@",
        canonical=_userinfo,
    ),
    Detector(
        name="secret",
        pattern=rf"(?i)(?:{_NAMED})\\*[\"']?\s*(?:=|:|\bis\b)\s*\\*[\"']?"
        r"[^\s\"',;\[\]]{4,}",
        check=_named,
        canonical=_behind_name,
    ),
    Detector(
        name="secret",
        pattern=rf"(?i)[?&;][a-z0-9_.-]*(?:{_QUERIED})=[^\s&;#\"'<>\[\]]+",
        check=_queried,
    ),
    Detector(
        name="email",
        pattern=r"[\pL\pN._%+-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)+",
        canonical=str.lower,
    ),
    Detector(
        name="iban",
        pattern=r"(?:\b|[a-z0-9_])[A-Z]{2}\d{2}(?:[ +]?[A-Z0-9]){11,30}",
        check=_iban,
        canonical=_squeezed,
    ),
    Detector(
        name="card",
        pattern=r"(?:\b|[A-Za-z_])[2-6](?:[ +-]?\d){12,}",
        check=_cards,
        canonical=_squeezed,
    ),
    Detector(
        name="ssn",
        pattern=r"(?:\b|[A-Za-z_])\d{3}-\d{2}-\d{4}",
        check=_ssn,
        canonical=_squeezed,
    ),
    Detector(
        name="phone",
        pattern=r"\+\d{1,3}(?:[ +./-]?\(?\d{1,5}\)?){2,6}"
        r"|\(\d{2,5}\) ?\d{3,4}[ .-]?\d{3,6}|\b\d{3}[ .-]\d{3}[ .-]\d{4}\b",
        check=_phone,
        canonical=_squeezed,
    ),
)
# RE2 builds its automaton as texts come; with its own 8 MiB real traffic makes it start over again
# and again, which costs three times the matching.
_AUTOMATON_BYTES_MAX = 64 * 1024**2
_COMPILED = tuple(re2.compile(detector.pattern) for detector in DETECTORS)
HIDDEN_PERCENT: Final = len(DETECTORS)
HIDDEN_BASE64: Final = HIDDEN_PERCENT + 1


def _prefilter() -> "re2.Set":
    options = re2.Options()
    options.max_mem = _AUTOMATON_BYTES_MAX
    found = re2.Set.SearchSet(options)
    for detector in DETECTORS:
        found.Add(detector.pattern)
    found.Add(PERCENT)
    found.Add(BASE64)
    found.Add(_NAMED_MEMBER)
    found.Compile()
    return found


_SET = _prefilter()


def matching(text: str) -> list[int]:
    """The numbers of the detectors that match; ``HIDDEN_PERCENT``, ``HIDDEN_BASE64`` for encodings.

    The number after those is a JSON member whose name says it is secret.
    """
    numbers: list[int] = _SET.Match(text) or []
    return numbers


def data(text: str, numbers: list[int]) -> Iterator[Found]:
    """Every datum that the detectors of these numbers find."""
    for number in numbers:
        if number >= HIDDEN_PERCENT:
            continue
        detector = DETECTORS[number]
        for match in _COMPILED[number].finditer(text):
            start, whole = match.start(), match[0]
            spans = ((0, len(whole)),) if detector.check is None else detector.check(whole)
            for first, last in spans:
                value = detector.canonical(whole[first:last])
                yield start + first, start + last, detector.name, value
