"""Twins behind the gateway's port: what in production is an HTTP service is a twin here.

Rules
1. The twin of the call's own episode answers; a call without one never gets here (the gateway
   refuses).
2. A twin that does not answer is an upstream that was reached and fell silent: ``sent`` is true.
3. Nothing waits: a timeout of the twin's is told at once, virtual time alone moves.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from sidecar.gateway.registry import Registry
from sidecar.gateway.upstream import UpstreamFailed, UpstreamReply, UpstreamRequest
from sidecar.twins.episode import Call, Reply
from sidecar.twins.group import GroupEpisode

_SILENCE: Mapping[str, str] = {
    "": "timeout: the twin fell silent",
    "timeout": "timeout: the twin fell silent",
    "hang": "timeout: the twin never answered",
    "dropped": "connection lost before an answer",
    "refused": "connection refused",
    "truncated": "truncated answer",
}


class TwinUpstreams:
    """The gateway's upstreams in replay; ``episodes`` maps open episodes to their twins."""

    def __init__(self, registry: Registry, episodes: Mapping[str, GroupEpisode]) -> None:
        self._registry = registry
        self._episodes = episodes

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """The twin's answer. Raises UpstreamFailed."""
        episode = self._episodes.get(request.episode or "")
        if episode is None:
            raise UpstreamFailed(sent=False, reason="the episode has ended")
        tool, arguments = self._read(request)
        reply = episode.call(
            Call(
                tool=tool,
                arguments=arguments,
                key=request.idempotency_key or "",
                call_id=request.call_id,
            )
        )
        if reply.failure or reply.status is None:
            raise UpstreamFailed(sent=reply.failure != "refused", reason=_SILENCE[reply.failure])
        return _on_the_wire(reply, reply.status)

    def _read(self, request: UpstreamRequest) -> tuple[str, dict[str, Any]]:
        matched = self._registry.match(request.upstream, request.method, request.path)
        if matched.tool.name == request.tool:
            return request.tool, request.arguments
        # The gateway asks on behalf of another tool (to reconcile): what is asked is the path's.
        query = dict(parse_qsl(request.query_raw, keep_blank_values=True))
        return matched.tool.name, {**query, **matched.path_arguments}


def _on_the_wire(reply: Reply, status: int) -> UpstreamReply:
    body = reply.body()
    headers = tuple((name.lower(), value) for name, value in reply.headers)
    told = any(name == "content-type" for name, _ in headers)
    kind = (("content-type", "application/json"),) if reply.has_body and not told else ()
    return UpstreamReply(status=status, headers=(*kind, *headers), body=body)
