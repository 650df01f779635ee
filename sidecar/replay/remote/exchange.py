"""What an agent that runs elsewhere is told with a request, and what its answer comes to.

Rules
1. It is given the same JSON as any other agent, and who the episode is in headers: the token in
   ``baggage``, which telemetry libraries pass on by themselves, and as the agent's key.
2. Only a 2xx answer that is a JSON object with ``output`` is an answer. Anything else (a redirect,
   an error, a page of some proxy's) says nothing of the agent: ``unreachable``, never a failure.
3. A redirect is told, never followed.
"""

from typing import Any
from urllib.parse import quote

import msgspec

from processors.model.names import BAGGAGE_EPISODE
from processors.value import too_deep
from sidecar.replay.environment import Addresses, Identity
from sidecar.replay.record import AgentExit

_TOLD_CHARS = 200


def request_headers(addresses: Addresses, who: Identity) -> tuple[tuple[str, str], ...]:
    """The headers of one request to an agent."""
    token = quote(who.token, safe="")
    return (
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("traceparent", f"00-{who.trace_id}-{who.span_id}-01"),
        ("baggage", f"{BAGGAGE_EPISODE}={token}"),
        ("sidecar-gateway-url", addresses.gateway_url),
        ("sidecar-agent-key", who.token),
    )


def read_answer(status: int, headers: tuple[tuple[str, str], ...], body: bytes) -> AgentExit:
    """What an answer comes to."""
    if 300 <= status < 400:
        return unreachable(f"it answered {status}, and redirects are not followed")
    if not 200 <= status < 300:
        said = " ".join(body[: 4 * _TOLD_CHARS].decode("utf-8", "replace").split())[:_TOLD_CHARS]
        return unreachable(f"it answered {status}: {said}" if said else f"it answered {status}")
    kind = next((value for name, value in headers if name == "content-type"), "none")
    try:
        text = body.decode()
        value: Any = msgspec.json.decode(text)
        msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError):
        return unreachable(f"its answer (content type {kind[:80]}) is no JSON")
    if too_deep(value, text):
        return unreachable("its answer is nested too deep")
    if not isinstance(value, dict) or "output" not in value:
        return unreachable('its answer is no object with "output"')
    return AgentExit(ending="completed", output=value["output"])


def unreachable(detail: str) -> AgentExit:
    """An episode of which nothing can be said."""
    return AgentExit(ending="unreachable", detail=detail)
