"""What comes in and what goes out of the gateway, and what the request's headers say about a call.

**Rules**
1. A header that decides something is read once, here; said twice it is refused, not merged.
2. A malformed ``Idempotency-Key`` or ``Prefer`` is the caller's fault and refused; a malformed
   ``traceparent`` or ``baggage`` is ignored, as the W3C says.
"""

import re
from urllib.parse import unquote

from msgspec import Struct

from processors.model.names import BAGGAGE_EPISODE
from sidecar.gateway.action import ToolRequest as ToolRequest
from sidecar.gateway.content import OWS, Headers
from sidecar.gateway.problem import Refused

WAIT_SECONDS_MAX = 55
KEY_CHARS_MAX = 255
_SF_STRING = re.compile(r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"\Z')
_BARE_KEY = re.compile(r"[\x21\x23-\x7e]{1,255}\Z")  # no quotes: they make a string
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?\Z")
_WAIT = re.compile(r"wait=(\d{1,6})\Z")


class ToolReply(Struct, frozen=True, kw_only=True):
    """The whole answer for the agent; ``streamed``: it had it while it came, but for its end."""

    status: int
    headers: Headers
    body: bytes
    streamed: bool = False


class Preferences(Struct, frozen=True, kw_only=True):
    """RFC 7240: ``respond_async`` wants 202 while approval is pending, ``wait_s`` a held call."""

    respond_async: bool = False
    wait_s: int = 0


class TraceContext(Struct, frozen=True, kw_only=True):
    """The caller's span (W3C traceparent), where it sent one."""

    trace_id: str | None = None
    span_id: str | None = None


def single(headers: Headers, name: str) -> str | None:
    """The value of a header that may stand once; None when absent. Raises Refused."""
    values = [value for key, value in headers if key.lower() == name]
    if len(values) > 1:
        raise Refused(400, "header_repeated", f"the header {name} stands twice; send it once")
    return values[0].strip(OWS) if values else None


def idempotency_key(headers: Headers, name: str) -> str | None:
    """The key sent: an RFC 8941 string or a bare token of printable ASCII. Raises Refused."""
    text = single(headers, name.lower())
    if text is None:
        return None
    quoted = _SF_STRING.match(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text
    if not 0 < len(key) <= KEY_CHARS_MAX or not (quoted or _BARE_KEY.match(text)):
        raise Refused(
            400,
            "idempotency_key_invalid",
            f"{name} must be 1 to {KEY_CHARS_MAX} printable ASCII characters without spaces, "
            "or such a string in double quotes",
            next_action="request",
        )
    return key


def preferences(headers: Headers) -> Preferences:
    """What ``Prefer`` asks for; unknown preferences are ignored (RFC 7240 §2)."""
    asynchronous, wait_s = False, 0
    for name, value in headers:
        if name.lower() != "prefer":
            continue
        for part in value.split(","):
            preference = part.split(";")[0].strip().lower().replace(" ", "")
            asynchronous = asynchronous or preference == "respond-async"
            if waited := _WAIT.match(preference):
                wait_s = min(int(waited[1]), WAIT_SECONDS_MAX)
    return Preferences(respond_async=asynchronous, wait_s=wait_s)


def trace_context(headers: Headers) -> TraceContext:
    """The caller's trace and span ids; empty when ``traceparent`` is absent or malformed."""
    values = [value.strip(OWS) for name, value in headers if name.lower() == "traceparent"]
    match = _TRACEPARENT.match(values[0]) if len(values) == 1 else None
    if match is None or match[1] == "ff" or not int(match[2], 16) or not int(match[3], 16):
        return TraceContext()
    return TraceContext(trace_id=match[2], span_id=match[3])


def episode_token(headers: Headers) -> str | None:
    """The ``agenttwin-episode`` member of ``baggage``, if any (W3C Baggage)."""
    for name, value in headers:
        if name.lower() != "baggage":
            continue
        for member in value.split(","):
            key, _, text = member.split(";")[0].partition("=")
            if key.strip() == BAGGAGE_EPISODE:
                return unquote(text.strip())
    return None
