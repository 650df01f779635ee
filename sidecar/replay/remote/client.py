"""Agents over HTTP: one POST, through egress as every way out.

Rules
1. One attempt: an agent may have acted when its answer is lost, so it is never asked twice.
2. Addresses are vetted as an upstream's are; the replay's own ports are never dialled.
3. The deadline covers everything from resolution to the last byte. One that is reached and does not
   answer in time has failed its case as any other agent; one that is not reached says nothing.
"""

from collections.abc import Set
from typing import Any

import msgspec

from sidecar import clock
from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.rules import undialable
from sidecar.errors import SidecarError
from sidecar.gateway.client import with_credential
from sidecar.gateway.config import Upstream
from sidecar.gateway.upstream import UpstreamFailed
from sidecar.replay.config import Agents
from sidecar.replay.environment import Addresses, Identity
from sidecar.replay.process import OUTPUT_BYTES_MAX
from sidecar.replay.record import AgentExit
from sidecar.replay.reference import AgentRef, origin
from sidecar.replay.remote.exchange import read_answer, request_headers, unreachable

_NAME = "the agent"


class RemoteAgents:
    """Asks agents for one replay; ``close`` it at the end."""

    def __init__(self, terms: Agents, addresses: Addresses, own_ports: Set[int]) -> None:
        self._terms = terms
        self._addresses = addresses
        self._egress = Egress(own_ports=own_ports, response_bytes_max=OUTPUT_BYTES_MAX)

    async def run(
        self, agent: AgentRef, who: Identity, request: dict[str, Any], deadline_s: float
    ) -> AgentExit:
        """Have the agent answer one request."""
        base, path = origin(agent.rest)
        ends_ns = clock.monotonic_ns() + int(deadline_s * 1e9)
        at = _upstream(base, self._terms)
        try:
            headers = with_credential(at, request_headers(self._addresses, who))
            reply = await self._egress.request(
                at.target,
                "POST",
                path,
                headers,
                msgspec.json.encode(request),
                deadline_ns=int(deadline_s * 1e9),
            )
        except UpstreamFailed as error:
            return unreachable(error.reason)
        except EgressFailed as error:
            if error.sent and clock.monotonic_ns() >= ends_ns:
                return AgentExit(ending="timed_out", detail="stopped at its deadline")
            return unreachable(error.reason)
        return read_answer(reply.status, reply.headers, reply.body)

    async def close(self) -> None:
        """Close its connections."""
        await self._egress.close()


def refuse_undialable(agent: AgentRef, terms: Agents) -> None:
    """Raises SidecarError for an agent at an address that is never dialled."""
    if agent.kind != "url":
        return
    why = undialable(_upstream(origin(agent.rest)[0], terms).target)
    if why is not None:
        raise SidecarError(
            why.removeprefix(f"{_NAME}: "),
            where=agent.text,
            do="Name its range in replay.agents.allow_cidrs, if it is yours.",
        )


def _upstream(base: str, terms: Agents) -> Upstream:
    return Upstream(
        name=_NAME, url=base, allow_cidrs=terms.allow_cidrs, credential=terms.credential
    )
