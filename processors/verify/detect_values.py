"""Values worth following through a run: addresses, accounts, identifiers and amounts, in one form.

Rules
1. Equal values are equal however they were written: case, spaces, full-width and invisible letters,
   entities, percent and base64 encoding, ``name [at] host``, ``1,250.00`` and ``1250``.
2. What many runs have in common (small whole numbers, words) is no value to follow.
3. Work is bounded: of one text at most ``TEXT_MAX`` characters, half from each end.

What is searched was written by strangers: RE2, and ``re`` only for patterns that never step back.
"""

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Collection, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from urllib.parse import unquote

import re2

Value = tuple[str, str]
"""Kind (email, url, host, handle, account, id, amount) and normal form."""

TEXT_MAX: Final = 262_144
LEAVES_MAX: Final = 20_000
_BLOBS_MAX: Final = 32
_BLOB_CHARACTERS_MAX: Final = 65_536
DESTINATIONS: Final = frozenset({"email", "url", "host", "handle", "account"})
KINDS: Final = DESTINATIONS | {"id", "amount"}
_BIDI_AND_TAGS = dict.fromkeys((*range(917504, 917632), 173, 847, 4447, 12644))

_EMAIL = re2.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}")
_SPELLED = re2.compile(
    r"(?i)([\w.+-]{1,64}) ?(?:[\[({]\s?(?:at|@)\s?[\])}]| at ) ?"
    r"([\w-]{1,63}(?: ?(?:[\[({]\s?(?:dot|\.)\s?[\])}]| dot |\.) ?[\w-]{1,63}){1,6})"
)
_DOT = re2.compile(r"(?i) ?(?:[\[({]\s?(?:dot|\.)\s?[\])}]| dot ) ?")
_URL = re2.compile(r"(?i)\b(?:https?|hxxps?|ftp|wss?)://[^\s<>\"'`|\\^{}\[\]]+")
_HOST = re2.compile(r"(?i)(?:^|[^\w@./-])((?:[a-z0-9-]{1,63}\.){1,6}[a-z]{2,24})(?:$|[^\w@-])")
_HANDLE = re2.compile(r"(?:^|[^\w@.])(@[A-Za-z]\w{1,31})")
_DIGITS = re2.compile(r"\+?\d(?:[ \-().]{0,2}\d){5,29}")
_IBAN = re2.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b")
_ID = re.compile(r"[A-Za-z0-9#][A-Za-z0-9_\-#/.:]{2,79}")
_DIGIT = re.compile(r"[0-9]")
# Not the digits of an identifier or a date.
_NUMBER = re.compile(
    r"(?<![\w\-/#.,])(?:\d{1,15}(?:[.,'’ ]\d{3}){1,5}(?:[.,]\d{1,4})?|\d{1,18}(?:[.,]\d{1,8})?)"
    r"(?!\w|[-/]\w)"
)
_BLOB = re2.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_PERCENT = re2.compile(r"%[0-9A-Fa-f]{2}")


def leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """The texts and numbers of a JSON value with their dotted places, in order, at most 20,000."""
    if isinstance(value, str):
        yield "", value
        return
    stack: list[tuple[str, Any]] = [("", value)]
    left = LEAVES_MAX
    while stack and left:
        place, item = stack.pop()
        left -= 1
        if isinstance(item, dict):
            inside = [
                (f"{place}.{key}" if place else str(key), child) for key, child in item.items()
            ]
            stack.extend(reversed(inside[:left]))
        elif isinstance(item, list | tuple):
            inside = [(f"{place}.{n}" if place else str(n), x) for n, x in enumerate(item[:left])]
            stack.extend(reversed(inside))
        elif isinstance(item, str | int | float) and not isinstance(item, bool):
            yield place, item


def plain(text: str) -> str:
    """A text as it reads: no invisible letters, one width, no entities or percent encoding."""
    if len(text) > TEXT_MAX:
        text = f"{text[: TEXT_MAX // 2]}\n{text[-TEXT_MAX // 2 :]}"
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_BIDI_AND_TAGS))
        text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    if "&" in text:
        text = html.unescape(text)
    if "%" in text and _PERCENT.search(text):
        text = unquote(text, errors="replace")
    return text


def hidden(text: str) -> list[str]:
    """The readable texts that stand in a text as base64, at most 32."""
    found = []
    for number, match in enumerate(_BLOB.finditer(text)):
        if number >= _BLOBS_MAX:
            break
        decoded = _decoded(match.group(0)[:_BLOB_CHARACTERS_MAX])
        if decoded is not None:
            found.append(decoded)
    return found


def _decoded(blob: str) -> str | None:
    raw = blob.rstrip("=").replace("-", "+").replace("_", "/")
    raw = raw[: len(raw) - (len(raw) % 4 == 1)]
    try:
        text = base64.b64decode(raw + "=" * (-len(raw) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    readable = sum(char.isalnum() or char in " .,:;@/_-\n" for char in text)
    return text if len(text) >= 8 and readable >= 0.9 * len(text) else None


def values(text: str, kinds: Collection[str] = KINDS) -> set[Value]:
    """All values of some kinds in a plain text."""
    found: set[Value] = set()
    if "email" in kinds:
        if "@" in text:
            found.update(("email", match.lower().strip(".")) for match in _EMAIL.findall(text))
        if " at " in text or ("at" in text and ("[" in text or "(" in text or "{" in text)):
            found.update(
                ("email", f"{name.lower()}@{_DOT.sub('.', host.lower())}")
                for name, host in _SPELLED.findall(text)
            )
    if "handle" in kinds and "@" in text:
        found.update(("handle", match.lower()) for match in _HANDLE.findall(text))
    if "://" in text and ("url" in kinds or "host" in kinds):
        for match in _URL.findall(text):
            found.update(_link(match))
    if "host" in kinds and "." in text:
        found.update(("host", match.lower()) for match in _HOST.findall(text))
    if _DIGIT.search(text):
        found.update(_numbered(text, kinds))
    return found


def _link(match: str) -> Iterator[Value]:
    link = match[:2000].rstrip(".,;:!?)").lower().replace("hxxp", "http", 1)
    host = link.partition("://")[2].partition("/")[0].partition("?")[0]
    yield "url", link.rstrip("/")
    yield "host", host.rpartition("@")[2].partition(":")[0]


def _numbered(text: str, kinds: Collection[str]) -> Iterator[Value]:
    if "account" in kinds:
        for match in _IBAN.findall(text):
            yield "account", match.replace(" ", "").lower()
    if "account" in kinds or "id" in kinds:
        for match in _DIGITS.findall(text):
            digits = "".join(char for char in match if char.isdigit())
            if len(digits) >= 6:
                yield ("account" if len(digits) >= 8 else "id"), digits
        for match in _ID.findall(text):
            if match.isalpha():
                continue
            word = match.strip("#/.:-_").lower()
            if len(word) >= 4 and _DIGIT.search(word) and any(c.isalpha() for c in word):
                yield ("account" if len(word) >= 24 else "id"), word
    if "amount" in kinds:
        for match in _NUMBER.findall(text):
            for amount in _readings(match):
                yield "amount", amount


def number_values(number: int | float) -> set[Value]:
    """The values a JSON number stands for: an amount, and an identifier where it is long."""
    found: set[Value] = set()
    try:
        amount = Decimal(repr(number))
    except InvalidOperation:
        return found
    if not amount.is_finite():
        return found
    found.update(("amount", text) for text in _amount(abs(amount)))
    if isinstance(number, int) and abs(number) >= 100_000:
        digits = str(abs(number)) if abs(number) < 10**40 else ""
        found.add(("account" if len(digits) >= 8 else "id", digits))
    return found


def _readings(text: str) -> Iterator[str]:
    """What a written number may mean: the last mark is a point, or all marks are groups."""
    marks = [char for char in text if not char.isdigit()]
    if not marks:
        yield from _amount(Decimal(text))
        return
    head, _, tail = text.rpartition(marks[-1])
    digits = "".join(char for char in head if char.isdigit())
    if len(tail) == 3:
        yield from _amount(Decimal(digits + tail))
    if marks[-1] in ".,":
        yield from _amount(Decimal(f"{digits or '0'}.{tail or '0'}"))


def _amount(amount: Decimal) -> Iterator[str]:
    """One form of an amount; none of small whole numbers, which stand everywhere."""
    if amount < 10 and amount == amount.to_integral_value():
        return
    if amount.adjusted() > 30 or amount.adjusted() < -8:
        return
    yield format(amount.normalize(), "f")


def minor_units(found: set[Value]) -> set[Value]:
    """The amounts among some values in cents for units, and in units for cents."""
    scaled: set[Value] = set()
    for kind, text in found:
        if kind == "amount":
            for amount in (Decimal(text) * 100, Decimal(text) / 100):
                scaled.update(("amount", one) for one in _amount(amount))
    return scaled
