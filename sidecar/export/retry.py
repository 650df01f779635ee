"""What a downstream's answer means, and how long to wait before the next attempt.

Rules
1. Permanent or retryable is the protocol's own table; what is not in it is permanent. An answer
   that never came may have been taken: it is retryable, and the receiver may see the items twice.
2. RESOURCE_EXHAUSTED is retryable only with RetryInfo.
3. A pause is a throw between nothing and the current bound (full jitter), and never shorter than
   what the downstream asked for. The bound doubles from ``initial`` to ``max``.
4. A downstream that asks for more than an hour is asked again after an hour.

Source: OpenTelemetry protocol specification, "Failures", "Retryable Response Codes" and "OTLP/gRPC
Throttling"; M. Brooker, "Exponential Backoff And Jitter" (2015).
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from msgspec import Struct

_GRPC_RETRYABLE: Final = frozenset({1, 4, 10, 11, 14, 15})
_RESOURCE_EXHAUSTED: Final = 8
_HTTP_RETRYABLE: Final = frozenset({429, 502, 503, 504})
# Answers that may be about one item of the request rather than about the sender or its right.
_GRPC_DIVISIBLE: Final = frozenset({2, 3, 8, 9, 13})
_HTTP_DIVISIBLE: Final = frozenset({400, 413, 422, 500})
_ASKED_MAX_NS: Final = 3600 * 10**9
_SECOND: Final = 10**9


class Delivered(Struct, frozen=True, kw_only=True):
    """The downstream has it, but for ``rejected`` items it would not take."""

    rejected: int = 0
    message: str = ""


class Refused(Struct, frozen=True, kw_only=True):
    """It will never be taken as it is; ``divisible`` when a part of it might be."""

    fate: str
    message: str
    divisible: bool = False


class Failed(Struct, frozen=True, kw_only=True):
    """It may be taken later; ``asked_ns`` is how long the downstream wants to be left alone."""

    message: str
    asked_ns: int | None = None


Answer = Delivered | Refused | Failed


def grpc_answer(code: int, message: str, asked_ns: int | None) -> Answer:
    """The meaning of a google.rpc.Code; ``asked_ns`` is the delay of its RetryInfo."""
    if code in _GRPC_RETRYABLE or (code == _RESOURCE_EXHAUSTED and asked_ns is not None):
        return Failed(message=message, asked_ns=asked_ns)
    return Refused(fate=f"grpc_{code}", message=message, divisible=code in _GRPC_DIVISIBLE)


def http_answer(status: int, message: str, retry_after: str | None, now_ns: int) -> Answer:
    """The meaning of an HTTP status other than 2xx."""
    if status in _HTTP_RETRYABLE:
        return Failed(message=message, asked_ns=retry_after_ns(retry_after, now_ns))
    return Refused(fate=f"http_{status}", message=message, divisible=status in _HTTP_DIVISIBLE)


def retry_after_ns(text: str | None, now_ns: int) -> int | None:
    """The delay of a Retry-After header, in seconds or as a date; None where it says nothing."""
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        return int(text.strip()[:9]) * _SECOND
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return max(0, (since.days * 86400 + since.seconds) * _SECOND - now_ns)


class Pauses(Struct, frozen=True, kw_only=True):
    """The bounds of the pauses between attempts."""

    initial_ns: int
    max_ns: int

    def after(self, attempts: int, asked_ns: int | None, dice: float) -> int:
        """The pause after that many failed attempts in a row (from 1); ``dice`` is in [0, 1)."""
        bound = min(self.max_ns, self.initial_ns * 2 ** min(attempts - 1, 40))
        asked = min(asked_ns or 0, _ASKED_MAX_NS)
        return asked + int(dice * bound)
