"""Data under an encoding within a text: JSON escapes, percent escapes, base64, UTF-16 below it.

Rules
1. ``readable`` undoes JSON's escapes of letters, slashes and blanks, however often escaped.
2. ``rewritten`` decodes each encoded run, has it looked at, and writes it again in its encoding
   only when that changed it: text in which nothing was found stays letter for letter.
3. Bytes that are no text are nobody's words: they are left alone in a text, and go where a value
   says that it is bytes.
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote

PERCENT: Final = r"%[0-9A-Fa-f]{2}"
# Twelve bytes below 128 in a row: the bits that are zero in each narrow two characters of four, so
# that digests and most names are told from text without decoding them.
BASE64: Final = r"(?:[A-Za-f][A-HQ-Xg-nw-z0-3][A-Za-z0-9+/_-]{2}){4}"
BINARY: Final = "[binary]"

_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")
_SLASH = re.compile(r"\\+/")
_BLANK = re.compile(r"\\+[bfnrt]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PERCENT_RUN = re.compile(rf"[^\s\"'<>&=;?#/\\,]*{PERCENT}[^\s\"'<>&=;?#/\\,]*")
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_URL_SAFE = str.maketrans("-_", "+/")

Look = Callable[[str], str]


def readable(text: str) -> str:
    """The text without surrogates and without JSON's escapes, which could hide a datum."""
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text)
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(lambda match: _character(match[1]), text)
    return _SLASH.sub("/", _BLANK.sub(" ", text))


def has_surrogates(text: str) -> bool:
    """Whether the text holds halves of characters, which no store can keep."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def rewritten(text: str, look: Look, *, percent: bool, packed: bool) -> str:
    """The text with what ``look`` changes inside percent-encoded and base64 runs."""
    if percent:
        text = _PERCENT_RUN.sub(lambda match: _requoted(match[0], look), text)
    if packed:
        text = _BASE64_RUN.sub(lambda match: _repacked(match[0], look), text)
    return text


def rewritten_bytes(encoded: str, look: Look) -> str | None:
    """Base64 of bytes, looked at as text; None for bytes that are no text."""
    plain = _unpacked(encoded)
    if plain is None:
        return None
    after = look(plain)
    return encoded if after == plain else base64.b64encode(after.encode("utf-8")).decode()


def hides(text: str, look: Look) -> bool:
    """Whether a base64 run of the text holds something that ``look`` changes."""
    for run in _BASE64_RUN.findall(text):
        plain = _unpacked(run)
        if plain is not None and look(plain) != plain:
            return True
    return False


def _requoted(run: str, look: Look) -> str:
    plain = unquote(run, errors="replace")
    after = look(plain)
    return run if after == plain else quote(after, safe="[]:@+ ")


def _repacked(run: str, look: Look) -> str:
    plain = _unpacked(run)
    if plain is None:
        return run
    after = look(plain)
    if after == plain:
        return run
    packed = base64.b64encode(after.encode("utf-8")).decode()
    if "-" in run or "_" in run:
        packed = packed.replace("+", "-").replace("/", "_")
    return packed if run.endswith("=") or len(run) % 4 == 0 else packed.rstrip("=")


def _unpacked(run: str) -> str | None:
    """What a base64 run says, where it is text: UTF-8, or UTF-16 of it."""
    body = run.rstrip("=").translate(_URL_SAFE)
    if len(body) % 4 == 1:
        return None
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
        return (_narrow(raw) if b"\0" in raw else raw).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None


def _narrow(raw: bytes) -> bytes:
    """UTF-16 as UTF-8; bytes that are none without their zeros."""
    order = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-16-le"
    try:
        return raw.decode("utf-16-be" if raw[:1] == b"\0" else order).encode()
    except UnicodeError:
        return raw.replace(b"\0", b"")


def _character(code: str) -> str:
    char = chr(int(code, 16))
    return "\ufffd" if _SURROGATE.match(char) else char
