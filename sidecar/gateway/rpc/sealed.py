"""What a client carries for us between two requests: readable, and of use to nobody who changed it.

**Rules**
1. It says what it is for, whose it is and until when; none of it is taken on trust.
2. It grants nothing: what it leads to is checked anew.
"""

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any

_CHARS_MAX = 4096


def seal(secret: bytes, purpose: str, content: dict[str, Any]) -> str:
    """The text a client is given."""
    body = _encode(json.dumps(content, separators=(",", ":")).encode())
    return f"{body}.{_encode(_mac(secret, purpose, body))}"


def unseal(
    secret: bytes, purpose: str, text: Any, *, principal: str, now_ns: int
) -> dict[str, Any] | None:
    """What was sealed for this purpose and principal, if it is that and still holds."""
    if not isinstance(text, str) or len(text) > _CHARS_MAX or not text.isascii():
        return None
    body, _, mac = text.partition(".")
    if not hmac.compare_digest(mac, _encode(_mac(secret, purpose, body))):
        return None
    try:
        content = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, ValueError):
        return None
    if not isinstance(content, dict) or content.get("sub") != principal:
        return None
    return content if content.get("exp", 0) > now_ns else None


def _mac(secret: bytes, purpose: str, body: str) -> bytes:
    return hmac.new(secret, f"{purpose}\n{body}".encode(), hashlib.sha256).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
