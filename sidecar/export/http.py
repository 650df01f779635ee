"""OTLP/HTTP (protobuf) to a downstream: one request an attempt, its status read by ``retry``.

Rules
1. All goes through ``egress``: the address is vetted each time, redirects are not followed.
2. Bodies of refusals are not logged: they may quote what was sent.
"""

import gzip

from sidecar import clock
from sidecar.egress.client import Egress, EgressFailed, EgressReply
from sidecar.egress.rules import Target
from sidecar.export.batch import Request
from sidecar.export.config import Otlp
from sidecar.export.files import CredentialUnusable, headers_of
from sidecar.export.retry import Answer, Delivered, Failed, http_answer
from sidecar.otlp import reply
from sidecar.store.journal import Signal

_PATHS: dict[Signal, str] = {
    "traces": "/v1/traces",
    "logs": "/v1/logs",
    "metrics": "/v1/metrics",
}
_GZIP_LEVEL = 4  # within a tenth of level 6 in size, at half its cost


class HttpSender:
    """Sends to one downstream. ``timeout_ns`` bounds an attempt as a whole."""

    def __init__(self, target: Target, otlp: Otlp, egress: Egress, *, timeout_ns: int) -> None:
        self._target = target
        self._otlp = otlp
        self._egress = egress
        self._timeout_ns = timeout_ns

    async def send(self, request: Request) -> Answer:
        """One attempt."""
        try:
            headers = [("content-type", "application/x-protobuf"), *headers_of(self._otlp)]
        except CredentialUnusable as error:
            return Failed(message=str(error))
        body = request.payload
        if self._otlp.compression == "gzip":
            headers.append(("content-encoding", "gzip"))
            body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
        try:
            answer = await self._egress.request(
                self._target,
                "POST",
                _PATHS[request.signal],
                headers,
                body,
                deadline_ns=self._timeout_ns,
                reuse=True,
            )
        except EgressFailed as error:
            return Failed(message=error.reason)
        return _meaning(request.signal, answer)

    async def close(self) -> None:
        """Close the connections."""
        await self._egress.close()


def _meaning(signal: Signal, answer: EgressReply) -> Answer:
    if 200 <= answer.status < 300:
        return Delivered(rejected=reply.partial_success(signal, answer.body))
    retry_after = dict(answer.headers).get("retry-after")
    return http_answer(answer.status, f"HTTP status {answer.status}", retry_after, clock.now_ns())
