"""Probes over HTTP: ask, look again while state may still settle, and hand the evidence back.

Rules
1. A probe never raises: whatever goes wrong is evidence with ``held`` None and a code.
2. ``deadline`` bounds each try. While the expectation does not hold, it is asked again with growing
   pauses until ``until`` has passed; the last answer stands.
3. Only GET, never a redirect, through egress alone, with the upstream's credential if it has one.
4. At most ``_AT_ONCE`` probes of a trace are on their way.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from processors.model.evidence import Evidence
from sidecar import clock
from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.rules import Target
from sidecar.probe.plan import ProbeReply, ProbeRequest, judge_response, unknown

_AT_ONCE = 8
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.05, 2.0


class ProbeEndpoint(Struct, frozen=True, kw_only=True):
    """Where an upstream's probes go; its credential is read from the file at every try."""

    target: Target
    credential_header: str | None = None
    credential_file: str | None = None


class _CredentialUnreadable(Exception):
    """The credential's file cannot be read, or holds no header value."""


async def run(
    requests: Sequence[ProbeRequest],
    egress: Egress,
    endpoints: Mapping[str, ProbeEndpoint],
    *,
    now: clock.Now = clock.now_ns,
) -> tuple[Evidence, ...]:
    """The evidence of each request, in the same order. ``endpoints`` by upstream name."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(request: ProbeRequest) -> Evidence:
        async with turn:
            return await _settled(request, egress, endpoints, now)

    return tuple(await asyncio.gather(*(one(request) for request in requests)))


async def _settled(
    request: ProbeRequest,
    egress: Egress,
    endpoints: Mapping[str, ProbeEndpoint],
    now: clock.Now,
) -> Evidence:
    if request.refused is not None:
        return unknown(request, request.refused, now_ns=now())
    endpoint = _endpoint(request, endpoints)
    if endpoint is None:
        return unknown(request, "no_such_upstream", now_ns=now())
    ends_ns = clock.monotonic_ns() + request.until_ns
    pause, attempts = _PAUSE_SECONDS_MIN, 0
    while True:
        attempts += 1
        found = await _asked(request, egress, endpoint, now, attempts)
        left = (ends_ns - clock.monotonic_ns()) / 1e9
        if found.held or left <= 0:
            return found
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)


async def _asked(
    request: ProbeRequest, egress: Egress, endpoint: ProbeEndpoint, now: clock.Now, attempts: int
) -> Evidence:
    data = {"attempts": attempts}
    try:
        headers = (("accept", "application/json"), ("cache-control", "no-cache"))
        reply = await egress.request(
            endpoint.target,
            "GET",
            request.path_query,
            (*headers, *_credential(endpoint)),
            deadline_ns=request.deadline_ns,
            reuse=True,
        )
    except _CredentialUnreadable:
        return unknown(request, "credential_unreadable", now_ns=now(), data=data)
    except EgressFailed as error:
        code = "no_whole_answer" if error.sent else "unreachable"
        return unknown(request, code, now_ns=now(), data=data)
    whole = ProbeReply(status=reply.status, headers=reply.headers, body=reply.body)
    return judge_response(request, whole, now_ns=now(), attempts=attempts)


def _endpoint(
    request: ProbeRequest, endpoints: Mapping[str, ProbeEndpoint]
) -> ProbeEndpoint | None:
    if request.target is not None:
        return ProbeEndpoint(target=request.target)
    return endpoints.get(request.upstream or "")


def _credential(endpoint: ProbeEndpoint) -> tuple[tuple[str, str], ...]:
    if endpoint.credential_header is None or endpoint.credential_file is None:
        return ()
    try:
        value = Path(endpoint.credential_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _CredentialUnreadable from error
    if not value or not value.isprintable() or not value.isascii():
        raise _CredentialUnreadable
    return ((endpoint.credential_header.lower(), value),)
