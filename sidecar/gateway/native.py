"""The key that an upstream gets, in the form and the place where it looks for one.

**Rules**
1. The key is the gateway's own, made of the caller's: the same on every attempt and after every
   restart. It is no part of the action, which is what the agent asked for; that the gateway adds
   it, and where, is, by the tool's digest.
2. In a JSON body it is put before the first member, and no other byte changes: what is sent is,
   without it, the bytes that were hashed, judged and shown. An agent that sends the member, in
   whatever case, is refused: no reader finds a value of its own in that place.
3. The receipt's ``request_digest`` is of the bytes with it.
"""

import base64
import hmac
import json
from typing import Any

from sidecar.gateway.config import Idempotency
from sidecar.gateway.problem import Refused


def upstream_key(secret: bytes, hashed: str, form: str = "text") -> str:
    """The key the upstream gets: ``agw_`` and 52 characters, or a UUID."""
    mac = hmac.digest(secret, b"upk/1\n" + hashed.encode(), "sha256")
    if form == "uuid":
        return _uuid(mac)
    return "agw_" + base64.b32encode(mac).decode().rstrip("=").lower()


def _uuid(mac: bytes) -> str:
    """The first 16 bytes as a UUID of version 4 (RFC 9562 §5.4)."""
    first = (mac[6] & 0x0F) | 0x40
    second = (mac[8] & 0x3F) | 0x80
    digits = bytes((*mac[:6], first, mac[7], second, *mac[9:16])).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def header_of(rules: Idempotency) -> str | None:
    """The header, in lower case, that the key goes in; None where it is a member of the body."""
    if rules.upstream_header:
        return rules.upstream_header.lower()
    return None if rules.upstream_field else rules.header.lower()


def check_body(rules: Idempotency, value: Any) -> None:
    """That a body can be given the key, and has none in its place. Raises Refused 400 or 415."""
    field = rules.upstream_field
    if not field:
        return
    if not isinstance(value, dict):
        what = f"the body must be a JSON object: the gateway adds {field!r} to it"
        raise Refused(415, "body_not_object", what, next_action="request")
    if field.casefold() in map(str.casefold, value):
        what = f"{field!r} is the gateway's to fill in; send the key as {rules.header}"
        raise Refused(400, "argument_reserved", what, next_action="request")


def with_key(body: bytes, field: str, key: str) -> bytes:
    """The bytes of a JSON object with one member before its first."""
    start = body.index(b"{") + 1
    rest = body[start:]
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    member = b"%s:%s" % (json.dumps(field).encode(), json.dumps(key).encode())
    return body[:start] + member + comma + rest
