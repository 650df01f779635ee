"""Canonical JSON (RFC 8785) and the digests made of it.

Rules
1. Two values have one digest if and only if RFC 8785 gives them the same bytes.
2. What RFC 8785 cannot say exactly is refused: NaN, infinities, integers beyond 2**53 - 1, keys
   that are
   not text, lone surrogates. Nothing is rounded to fit.
3. Every digest is domain-separated by a prefix and spelt ``sha256:<hex>``.
"""

import hashlib
from typing import Any

import rfc8785


class NotCanonical(ValueError):
    """The value has no RFC 8785 form."""


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON-like value. Raises NotCanonical where there are none."""
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
