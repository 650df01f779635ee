"""Probes over HTTP: one GET a try, through egress alone, never a redirect.

Rules
1. Whatever goes wrong is evidence with ``held`` None and a code.
2. The upstream's credential goes along, if it has one; it is read from its file at every try.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from processors.model.evidence import Evidence
from sidecar import clock
from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.rules import Target
from sidecar.probe.plan import ProbeReply, ProbeRequest, judge_response, unknown


class ProbeEndpoint(Struct, frozen=True, kw_only=True):
    """Where an upstream's probes go; its credential is read from the file at every try."""

    target: Target
    credential_header: str | None = None
    credential_file: str | None = None


class CredentialUnreadable(Exception):
    """The credential's file cannot be read, or holds no header value."""


class HttpAsker:
    """Asks by GET. ``endpoints`` by upstream name."""

    def __init__(self, egress: Egress, endpoints: Mapping[str, ProbeEndpoint]) -> None:
        self._egress = egress
        self._endpoints = endpoints

    async def ask(self, request: ProbeRequest, attempts: int, now: clock.Now) -> Evidence:
        """One try."""
        endpoint = _endpoint(request, self._endpoints)
        if endpoint is None:
            return unknown(request, "no_such_upstream", now_ns=now())
        data = {"attempts": attempts}
        headers = [("accept", "application/json"), ("cache-control", "no-cache")]
        try:
            if endpoint.credential_header and endpoint.credential_file:
                pair = endpoint.credential_header, endpoint.credential_file
                headers.append(credential(*pair))
            reply = await self._egress.request(
                endpoint.target,
                "GET",
                request.path_query,
                headers,
                deadline_ns=request.deadline_ns,
                reuse=True,
            )
        except CredentialUnreadable:
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


def credential(header: str, file: str) -> tuple[str, str]:
    """A header with the content of a file. Raises CredentialUnreadable."""
    try:
        value = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialUnreadable from error
    if not value or not value.isprintable() or not value.isascii():
        raise CredentialUnreadable
    return header.lower(), value
