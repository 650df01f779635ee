"""A request's path and query, canonicalised once: canonical is what policy sees and what goes on
the wire.

**Rules**
1. Raw text in, canonical text out, or NotCanonicalTarget; canonicalising twice changes nothing.
2. Path: ASCII; unreserved characters decoded, other escapes upper-cased; dots resolved. Refused:
   ``%00``, ``%2F``, ``%5C``, ``\\``, ``;``, ``//``, fragments, control characters, escapes that are
   not UTF-8, double encoding of any of these, a way above the root, and what RFC 3986 does not
   allow raw.
3. Query: an ordered list of decoded pairs, written back in one spelling. ``+`` is a space, ``;``
   separates nothing, a name without ``=`` is refused because readers differ on it. A form is read
   alike but leaves as the bytes it came as, so that a bare ``;`` in it is refused.
4. Nothing is normalised but spelling: no NFC, no case folding.
"""

import re

CHARS_MAX = 4096
PAIRS_MAX = 1000
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PCHAR = _UNRESERVED | frozenset(b"!$&'()*+,=:@")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_PLAIN = re.compile(r"[A-Za-z0-9._~!$&'()*+,=:@/%-]*\Z")
_HIDDEN = re.compile(r"%(?:25)+(?:00|2[Ee]|2[Ff]|5[Cc]|3[Bb])")
_FORBIDDEN = {0x00: "NUL", 0x2F: "/", 0x5C: "\\"}

Pairs = tuple[tuple[str, str], ...]


class NotCanonicalTarget(ValueError):
    """The path or query could be read in two ways, or is not allowed; the message says where."""


def canonical_path(raw: str) -> str:
    """The canonical form of a raw path without query. Raises NotCanonicalTarget."""
    if not raw.startswith("/"):
        raise NotCanonicalTarget("the path does not start with /")
    if len(raw) > CHARS_MAX:
        raise NotCanonicalTarget(f"the path is longer than {CHARS_MAX} characters")
    _refuse_raw(raw)
    decoded = _ESCAPE.sub(_path_escape, raw)
    if hidden := _HIDDEN.search(decoded):
        raise NotCanonicalTarget(f"{hidden[0]} in the path is encoded twice")
    if "%" in decoded:
        path_bytes(decoded)
    if "//" in decoded:
        raise NotCanonicalTarget("the path has an empty segment (//)")
    return _without_dots(decoded)


def segments(path: str) -> tuple[str, ...]:
    """The decoded segments of a canonical path; the last is empty after a final slash."""
    parts = path[1:].split("/")
    if "%" not in path:
        return tuple(parts)
    return tuple(path_bytes(segment).decode("utf-8") for segment in parts)


def path_bytes(text: str) -> bytes:
    """The bytes behind a path's escapes. Raises NotCanonicalTarget where they are not UTF-8."""
    data = _unescape(text)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotCanonicalTarget("the path's escapes are not UTF-8") from error
    return data


def read_pairs(raw: str, *, what: str = "query") -> Pairs:
    """The decoded pairs of a query or of a form body. Raises NotCanonicalTarget."""
    if not raw.isascii():
        raise NotCanonicalTarget(f"the {what} has a character beyond ASCII; escape it")
    if "#" in raw:
        raise NotCanonicalTarget(f"the {what} has a fragment")
    if what == "form" and ";" in raw:  # a query is written anew; a form leaves as it came
        raise NotCanonicalTarget("the form has a ; at which some readers part it; escape it")
    parts = [part for part in raw.split("&") if part]
    if len(parts) > PAIRS_MAX:
        raise NotCanonicalTarget(f"the {what} has more than {PAIRS_MAX} pairs")
    return tuple(_pair(part, what) for part in parts)


def write_pairs(pairs: Pairs) -> str:
    """The one spelling of a list of pairs: everything but unreserved characters is escaped."""
    return "&".join(f"{escape(name)}={escape(value)}" for name, value in pairs)


def _refuse_raw(raw: str) -> None:
    if _PLAIN.match(raw):
        return
    for position, character in enumerate(raw):
        if character in "/%":
            continue
        if not character.isascii() or ord(character) not in _PCHAR:
            raise NotCanonicalTarget(f"{character!a} at character {position} of the path")


def _path_escape(match: re.Match[str]) -> str:
    if match[1] is None:
        raise NotCanonicalTarget("a % in the path is not followed by two hex digits")
    code = int(match[1], 16)
    if code in _FORBIDDEN or code < 0x20 or code == 0x7F:
        raise NotCanonicalTarget(
            f"the path has an escaped {_FORBIDDEN.get(code, 'control character')}"
        )
    return chr(code) if code in _UNRESERVED else f"%{code:02X}"


def _without_dots(path: str) -> str:
    kept: list[str] = []
    parts = path[1:].split("/")
    for part in parts:
        if part == "..":
            if not kept:
                raise NotCanonicalTarget("the path leads above its root")
            kept.pop()
        elif part != ".":
            kept.append(part)
    if parts[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _pair(part: str, what: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise NotCanonicalTarget(
            f"{part[:80]!r} in the {what} has no =; write {part[:80]}= instead"
        )
    return _decode(name, what), _decode(value, what)


def _decode(text: str, what: str) -> str:
    for match in _ESCAPE.finditer(text):
        if match[1] is None:
            raise NotCanonicalTarget(f"a % in the {what} is not followed by two hex digits")
    try:
        decoded = _unescape(text.replace("+", " ")).decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotCanonicalTarget(f"the {what}'s escapes are not UTF-8") from error
    if "\x00" in decoded:
        raise NotCanonicalTarget(f"the {what} has a NUL")
    return decoded


def _unescape(text: str) -> bytes:
    first, *rest = text.encode("ascii").split(b"%")
    return first + b"".join(bytes((int(part[:2], 16),)) + part[2:] for part in rest)


def escape(text: str) -> str:
    """Text as a segment, or as a query's name or value: only unreserved characters stand plain."""
    return "".join(
        chr(code) if code in _UNRESERVED else f"%{code:02X}" for code in text.encode("utf-8")
    )
