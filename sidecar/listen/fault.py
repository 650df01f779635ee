"""What a listener answers where no handler of ours did, and how long it waits for a peer.

**Rules**
1. Every text here is fixed: nothing of a request is ever repeated in an answer.
2. ``reason`` has a closed set of values, for it labels a metric.
"""

import json
from collections.abc import Callable
from http import HTTPStatus

from msgspec import Struct

SERVER = "sidecar"
MEDIA_TYPE = "application/problem+json"


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """What one listener grants its peers; times in seconds.

    ``head``: until a request's head is whole; ``body``: until its body is; ``idle``: between two
    requests; ``answer``: until a peer has taken its answer. At a stop ``flight`` is what a request
    that came whole may still take, ``stop`` what any other may.
    """

    connections_max: int = 512
    head_seconds: float = 10
    body_seconds: float = 30
    idle_seconds: float = 75
    answer_seconds: float = 30
    stop_seconds: float = 2
    flight_seconds: float = 60


class Fault(Struct, frozen=True, kw_only=True):
    """An answer that no handler gave: HTTP ``status``, stable ``reason``, text for people."""

    status: int
    reason: str
    detail: str


Render = Callable[[Fault, str], tuple[str, bytes]]
"""Media type and body of a fault's answer, given the request's media type ("" if unknown)."""
Record = Callable[[str, BaseException | None], None]
"""Told of each fault's reason, and of the exception behind it where there is one."""

MALFORMED = Fault(
    status=400, reason="request_malformed", detail="the request's head is not well-formed HTTP/1.1"
)
BODY_MALFORMED = Fault(
    status=400, reason="body_malformed", detail="the request's body is not framed as announced"
)
HEAD_SLOW = Fault(status=408, reason="head_slow", detail="the request's head took too long")
BODY_SLOW = Fault(status=408, reason="body_slow", detail="the request's body took too long")
CROWDED = Fault(
    status=503, reason="connections_full", detail="there are too many open connections; come later"
)
INTERNAL = Fault(
    status=500, reason="internal_fault", detail="the sidecar failed; its log says where"
)


def refused(status: int) -> Fault:
    """What stands for a plain HTTP error of the server library."""
    return Fault(status=status, reason="request_refused", detail=phrase(status).lower())


def problem(fault: Fault, media_type: str) -> tuple[str, bytes]:  # noqa: ARG001
    """A problem document (RFC 9457) with the members that all of ours have (interfaces.md)."""
    document = {
        "type": f"urn:agenttwin:problem:{fault.reason}",
        "title": phrase(fault.status),
        "status": fault.status,
        "code": fault.reason,
        "detail": fault.detail,
        "decision_id": "",
        "reasons": [fault.reason],
        "next_action": "retry" if fault.status in (408, 503) else "none",
    }
    return MEDIA_TYPE, json.dumps(document).encode()


def raw(fault: Fault, render: Render) -> bytes:
    """The whole answer as it goes over the wire, where there is no request to answer."""
    media_type, body = render(fault, "")
    head = (
        f"HTTP/1.1 {fault.status} {phrase(fault.status)}\r\nServer: {SERVER}\r\n"
        f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def phrase(status: int) -> str:
    """A status's reason phrase, its own and nobody's else."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"
