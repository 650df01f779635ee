"""Why a request is not accepted, and what each wire says then. One table for both wires.

Rules
1. A sender may retry exactly ``busy``, ``full`` and ``unavailable``; everything else would fail
   again (OTLP specification, "Failures").
2. The text tells what is wrong and never repeats a credential or content.
"""

from typing import Literal

from msgspec import Struct

from sidecar.errors import StoreUnavailable
from sidecar.identity.keys import ProviderUnavailable, Unauthenticated
from sidecar.identity.roles import Forbidden
from sidecar.otlp.errors import TooMany, Undecodable
from sidecar.store.journal import JournalFull

Reason = Literal[
    "unauthenticated",
    "forbidden",
    "undecodable",
    "media_type",
    "content_encoding",
    "too_large",
    "too_many",
    "slow",
    "busy",
    "full",
    "unavailable",
    "no_path",
    "method",
    "internal",
]


class Refused(Exception):
    """The request is not accepted, for ``reason``."""

    def __init__(self, reason: Reason, message: str, retry_after_s: int | None = None) -> None:
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        super().__init__(message)


class Answer(Struct, frozen=True):
    """A row of the table: the google.rpc.Code number and the HTTP status."""

    code: int
    http: int


ANSWERS: dict[Reason, Answer] = {
    "unauthenticated": Answer(16, 401),
    "forbidden": Answer(7, 403),
    "undecodable": Answer(3, 400),
    "media_type": Answer(3, 415),
    "content_encoding": Answer(3, 415),
    "too_large": Answer(3, 413),
    "too_many": Answer(3, 413),
    "slow": Answer(4, 408),
    "busy": Answer(8, 429),
    "full": Answer(8, 429),
    "unavailable": Answer(14, 503),
    "no_path": Answer(5, 404),
    "method": Answer(12, 405),
    "internal": Answer(13, 500),
}
UNAVAILABLE_RETRY_S = 5


def refused(error: Exception) -> Refused | None:
    """The refusal an expected error stands for; None for one that is nobody's but ours."""
    # Its traceback holds the request it is about, in a ring, until somebody collects garbage.
    error.__traceback__ = None
    match error:
        case Refused():
            return error
        case Unauthenticated():
            return Refused("unauthenticated", str(error))
        case Forbidden():
            return Refused("forbidden", str(error))
        case Undecodable():
            return Refused("undecodable", str(error))
        case TooMany():
            return Refused("too_many", str(error))
        case JournalFull():
            return Refused("full", str(error), error.retry_after_s)
        case ProviderUnavailable():
            said = "who you are cannot be told now: the identity provider cannot be asked"
            return Refused("unavailable", said, UNAVAILABLE_RETRY_S)
        case StoreUnavailable():
            # The sender need not know where our disk is; the operator reads it in the log.
            return Refused("unavailable", "the store cannot take it now", UNAVAILABLE_RETRY_S)
    return None
