"""Payloads as a tape holds them: JSON values in one canonical spelling, and what JSON lacks.

**Rules**
1. RFC 8785. NaN, infinities, lone surrogates, keys that are no text, and sets are refused; 25 and
   25.0 are one number; text is not normalised.
2. Bytes are ``{"$b64": …}``, integers beyond 2**53 - 1 (and floats there that RFC 8785
   writes as such) ``{"$int": "…"}``, an object that only looks so ``{"$obj": …}``: no two values
   share a spelling, and ``decoded`` gives an equal value back.
3. A payload's digest is SHA-256 of those bytes alone: the name of its blob, checkable by anyone.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sidecar.canonical import NotCanonical, canonical

INTEGER_MAX: Final = 2**53 - 1
DEPTH_MAX: Final = 100
_EXPONENT_FROM: Final = 1e21
_MARKS: Final = ("$b64", "$int", "$obj")
_HEX: Final = frozenset("0123456789abcdef")


def encoded(value: Any, depth: int = 0) -> Any:
    """A Python value as JSON-like values only. Raises NotCanonical for what has no spelling."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is float:
        if not value.is_integer() or abs(value) >= _EXPONENT_FROM:
            return value
        # RFC 8785 writes these without a point: they come back as integers, where it has them.
        whole = int(value)
        return whole if -INTEGER_MAX <= whole <= INTEGER_MAX else _big(whole)
    if kind is int:
        return value if -INTEGER_MAX <= value <= INTEGER_MAX else _big(value)
    if depth > DEPTH_MAX:
        raise NotCanonical("nested deeper than a tape holds")
    if isinstance(value, Mapping):
        found = {_key(key): encoded(item, depth + 1) for key, item in value.items()}
        return {"$obj": found} if _looks_marked(found) else found
    if isinstance(value, list | tuple):
        return [encoded(item, depth + 1) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$b64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return encoded(int(value), depth)
    if isinstance(value, float):
        return encoded(float(value), depth)
    raise NotCanonical(f"a {kind.__name__} has no form on a tape")


def decoded(value: Any) -> Any:
    """The Python value that was encoded; tuples are lists."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((mark, inner),) = value.items()
        if mark == "$b64" and isinstance(inner, str):
            try:
                return base64.b64decode(inner, validate=True)
            except binascii.Error:
                raise NotCanonical("bytes that are no base64") from None
        if mark == "$int" and isinstance(inner, str):
            try:
                return int(inner)
            except ValueError:
                raise NotCanonical("an integer that is none") from None
        if mark == "$obj" and isinstance(inner, dict):
            return {key: decoded(item) for key, item in inner.items()}
    return {key: decoded(item) for key, item in value.items()}


def marked(value: Any) -> str | None:
    """``$b64`` or ``$int`` where an encoded value is bytes or a large integer; None elsewhere."""
    if len(value) != 1:
        return None
    ((mark, inner),) = value.items()
    if mark not in _MARKS[:2] or not isinstance(inner, str):
        return None
    try:
        decoded(value)
    except NotCanonical:
        return None
    return str(mark)


def payload(value: Any) -> bytes:
    """The canonical bytes of an encoded value. Raises NotCanonical."""
    return canonical(value)


def address(data: bytes) -> str:
    """``sha256:<hex>`` of a payload's bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def matches(digest: str, data: bytes) -> bool:
    """Whether bytes are those of a digest, ``sha256:`` or the imported ``b2b:`` (BLAKE2b-256)."""
    algorithm, _, text = digest.partition(":")
    if algorithm == "sha256":
        return hashlib.sha256(data).hexdigest() == text
    if algorithm == "b2b":
        return hashlib.blake2b(data, digest_size=32).hexdigest() == text
    return False


def is_digest(text: str) -> bool:
    """Whether a text is a digest a tape may hold; nothing else becomes part of a path."""
    algorithm, _, name = text.partition(":")
    return algorithm in ("sha256", "b2b") and len(name) == 64 and _HEX.issuperset(name)


def read_payload(data: bytes) -> Any:
    """The encoded value of a payload's bytes. Raises NotCanonical where they are no JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise NotCanonical("a payload that is no JSON") from error


def _big(value: int) -> dict[str, str]:
    try:
        return {"$int": str(value)}
    except ValueError:  # more digits than the interpreter turns into text
        raise NotCanonical("an integer of too many digits") from None


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise NotCanonical(f"a key that is a {type(key).__name__}, not text")
    return str(key)


def _looks_marked(found: dict[str, Any]) -> bool:
    return len(found) == 1 and next(iter(found)) in _MARKS
