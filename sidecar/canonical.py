"""Canonical JSON (RFC 8785) and the digests made of it.

Rules
1. Two values have one digest if and only if RFC 8785 gives them the same bytes.
2. What RFC 8785 cannot say exactly is refused: NaN, infinities, integers beyond 2**53 - 1, keys
   that are not text, lone surrogates. Nothing is rounded to fit.
3. Every digest is domain-separated by a prefix and spelt ``sha256:<hex>``.
4. Where keys are ASCII and numbers are small integers, or fractions of a size that everybody spells
   alike, sorted orjson is RFC 8785 at a quarter of the cost; there, and only there, it is used, and
   the standard library's encoder where it is not installed.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import rfc8785

_INTEGER_MAX = 2**53 - 1
_FRACTION_MIN, _FRACTION_END = 1e-4, 1e15  # no exponent, in any of the three spellings


class NotCanonical(ValueError):
    """The value has no RFC 8785 form."""


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON-like value. Raises NotCanonical where there are none."""
    try:
        if _is_plain(value):
            text = _FAST(value)
            if text.isascii() or _has_ascii_keys(value):
                return text
    except (TypeError, RecursionError):
        pass  # the other way says what is wrong
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise NotCanonical(str(error)) from error


def sha256(data: bytes) -> str:
    """``sha256:<hex>`` of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(value: Any, *, domain: str) -> str:
    """``sha256:<hex>`` of ``domain`` and the canonical form, e.g. domain ``agwa/1`` for actions."""
    return sha256(domain.encode() + b"\n" + canonical(value))


def digest_of_many(value: Mapping[str, Any], *, domain: str) -> str:
    """The same digest of a record with long lists, which may be iterators: its form is not made as
    a whole, and takes memory for the largest item of such a list. Raises NotCanonical."""
    made = hashlib.sha256(domain.encode() + b"\n")
    for part in _parts(value):
        made.update(part)
    return "sha256:" + made.hexdigest()


def _parts(value: Mapping[str, Any]) -> Iterator[bytes]:
    """The canonical form of a record in pieces: 3.2.3 sorts names by their UTF-16 code units."""
    try:
        names = sorted(value, key=lambda one: one.encode("utf-16-be"))
    except (AttributeError, UnicodeEncodeError) as error:  # it is no text, or half a character
        raise NotCanonical(str(error)) from error
    before = b"{"
    for name in names:
        yield before + canonical(name) + b":"
        yield from _items(value[name])
        before = b","
    yield b"{}" if before == b"{" else b"}"


def _items(value: Any) -> Iterator[bytes]:
    if not isinstance(value, list | tuple | Iterator):
        yield canonical(value)
        return
    before = b"["
    for one in value:
        yield before + canonical(one)
        before = b","
    yield b"[]" if before == b"[" else b"]"


def _is_plain(value: Any) -> bool:
    kind: type = type(value)
    if kind is dict:
        value, kind = value.values(), list
    if kind is list or kind is tuple:
        for item in value:  # a call for each text would cost more than all the rest
            kind = type(item)
            if kind is not str and item is not None and not _is_plain(item):
                return False
        return True
    if kind is int:
        return bool(-_INTEGER_MAX <= value <= _INTEGER_MAX)
    if kind is float:
        return _FRACTION_MIN <= abs(value) < _FRACTION_END and not value.is_integer()
    return kind is str or kind is bool or value is None


def _has_ascii_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(key.isascii() and _has_ascii_keys(item) for key, item in value.items())
    return not isinstance(value, list | tuple) or all(map(_has_ascii_keys, value))


def _find_fast() -> Callable[[Any], bytes]:
    try:
        import orjson
    except ImportError:  # the light installation does without
        return _encoded
    return lambda value: orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


def _encoded(value: Any) -> bytes:
    if not _has_text_keys(value):
        raise TypeError("a key that is not text")
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        raise TypeError("a lone surrogate") from None


def _has_text_keys(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and _has_text_keys(item) for key, item in value.items())
    return type(value) not in (list, tuple) or all(map(_has_text_keys, value))


_FAST = _find_fast()
