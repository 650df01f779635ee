"""What the pipeline asks of the world: probes over their wires, an extractor of claims.

Rules
1. Loaded only where something is asked: most of what it needs, nobody else in that process does.
2. No probe may ask the sidecar itself: nothing it says of the world would be independent.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from processors.model.evidence import Evidence
from processors.model.trace import AgentTrace
from sidecar.app.tools import open_probes, resolved
from sidecar.app.trust import upstream_tls
from sidecar.config import Loaded
from sidecar.egress.client import Egress
from sidecar.errors import SidecarError
from sidecar.listen.address import split_address
from sidecar.pipeline.batch import Rules
from sidecar.pipeline.driver import Hear
from sidecar.pipeline.llm import LlmHearing
from sidecar.probe.driver import Asker, Askers, run
from sidecar.probe.http import HttpAsker, ProbeEndpoint
from sidecar.probe.mcp import McpAsker
from sidecar.probe.plan import plan


class Asking(Struct, frozen=True, kw_only=True):
    """The ports of the pipeline that ask; ``close`` ends what they hold."""

    probed: Callable[[AgentTrace], bool]
    probe: Callable[[AgentTrace], Awaitable[tuple[Evidence, ...]]]
    hear: Hear | None
    close: Callable[[], Awaitable[None]]


def open_asking(loaded: Loaded, rules: Rules) -> Asking:
    """What is configured to be asked. Raises SidecarError."""
    listening = (split_address(address)[1] for _, address in loaded.config.addresses() if address)
    probes = open_probes(loaded)
    egress = Egress(own_ports=frozenset(listening), tls_of=upstream_tls(loaded))
    holding = AsyncExitStack()
    holding.push_async_callback(egress.close)
    askers = open_askers(loaded, egress, holding)
    return Asking(
        probed=lambda trace: bool(plan(trace, probes)),
        probe=lambda trace: run(plan(trace, probes), askers),
        hear=hearing(loaded, egress, rules),
        close=holding.aclose,
    )


def open_askers(loaded: Loaded, egress: Egress, holding: AsyncExitStack) -> Askers:
    """The wires by which probes ask; ``holding`` ends what they hold.

    Raises SidecarError where the one for SQL is not installed.
    """
    http = HttpAsker(egress, probe_endpoints(loaded))
    sql: Asker = http  # nobody asks a database where none is named
    if loaded.config.databases:
        from sidecar.probe.sql.client import SqlAsker, installed

        if not installed():
            raise SidecarError(
                "probes by SQL need asyncpg, which is not installed",
                where="configuration key databases",
                do="pip install 'agenttwin-sidecar[postgres]'",
            )
        asker = SqlAsker(loaded.config.databases, egress, Path(loaded.folder))
        holding.push_async_callback(asker.close)
        sql = asker
    return Askers(http=http, sql=sql, mcp=McpAsker(egress, Path(loaded.folder)))


def probe_endpoints(loaded: Loaded) -> dict[str, ProbeEndpoint]:
    """Where probes of each upstream go, with its credential."""
    return {
        upstream.name: ProbeEndpoint(
            target=upstream.target,
            credential_header=upstream.credential.header if upstream.credential else None,
            credential_file=upstream.credential.file if upstream.credential else None,
        )
        for upstream in map(partial(resolved, loaded), loaded.config.gateway.upstreams)
    }


def hearing(loaded: Loaded, egress: Egress, rules: Rules) -> Hear | None:
    """The extractor of claims, where one is configured."""
    terms = loaded.config.claims.llm
    if not terms.url:
        return None
    file = str(loaded.path(terms.credential_file)) if terms.credential_file else ""
    terms = msgspec.structs.replace(terms, credential_file=file)
    return LlmHearing(terms, egress, rules.tools).hear
