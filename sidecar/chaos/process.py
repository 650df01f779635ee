"""One life of a gateway under proof: the real one, that kills itself where its folder says.

**Rules**
1. Listener, policy worker, ledger, egress and keys are those of ``sidecar serve``, opened by
   ``app`` from a configuration file; a whole life is that sidecar itself, pipeline, receivers and
   control with it, and the policy that ships. A gateway alone has a policy of two rules, so that it
   starts soon. Only two ports are wrapped, to die before or after their work.
2. Death is SIGKILL: nothing is flushed, closed or told.
3. ``spoil`` is for tests of the proof itself: a ledger with a fault that the proof must find.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from msgspec import structs

from sidecar.app.loading import load_config
from sidecar.app.opening import open_backend
from sidecar.app.people import open_identity
from sidecar.app.policy import policy_port
from sidecar.app.sealing import keyring, master_key
from sidecar.app.serving import Between, sidecar
from sidecar.app.tools import open_registry
from sidecar.chaos.files import CONFIG, POLICY, armed
from sidecar.egress.client import Egress
from sidecar.gateway.client import HttpUpstreams
from sidecar.gateway.desk import Ports, Settings
from sidecar.gateway.driver import Gateway
from sidecar.gateway.http import GatewayServer
from sidecar.gateway.upstream import UpstreamReply, UpstreamRequest, Upstreams
from sidecar.listen.address import split_address
from sidecar.store.ledger import CallOutcome, Fence, Intent, IntentResult
from sidecar.store.ports import GatewayLedger
from sidecar.store.stop import BOTH, StopKind
from sidecar.telemetry import configure_logging

Spoil = Callable[[GatewayLedger], GatewayLedger]
Point = Callable[..., None]
"""Dies where the step is armed for a call that one of these names is of; any call where none is."""


def live(folder: Path, ready: Connection, spoil: Spoil | None, whole: bool = False) -> None:
    """Serve until killed, or until SIGTERM; the port is sent through ``ready``."""
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    os.close(log)
    configure_logging()
    asyncio.run((_whole if whole else _live)(folder, ready, _between(folder, spoil)))


def _between(folder: Path, spoil: Spoil | None) -> Between:
    def point(name: str, whose: Iterable[str | None] | None = None) -> None:
        step, *of = armed(folder) or ("",)
        if step == name and (whose is None or any(each in of for each in whose)):
            os.kill(os.getpid(), signal.SIGKILL)

    return Between(
        ledger=lambda ledger: cast(
            GatewayLedger, _Ledger(spoil(ledger) if spoil else ledger, point)
        ),
        upstreams=lambda upstreams: _Upstreams(upstreams, point),
    )


async def _whole(folder: Path, ready: Connection, between: Between) -> None:
    stop = _stopped()
    loaded = load_config(str(folder / CONFIG), None, thorough=True)
    async with sidecar(loaded, between=between) as serving:
        ready.send(split_address(serving.addresses["gateway.listen"])[1])
        ready.close()
        await stop.wait()


def _stopped() -> asyncio.Event:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


async def _live(folder: Path, ready: Connection, between: Between) -> None:
    stop = _stopped()
    loaded = load_config(str(folder / CONFIG), None, thorough=True)
    config = loaded.config
    async with AsyncExitStack() as stack:
        stores = stack.enter_context(open_backend(loaded))
        keys = stack.enter_context(closing(stores.keys()))
        opened = stores.ledger(keyring(keys, master_key(loaded)))
        ledger: GatewayLedger = stack.enter_context(closing(opened))
        egress = Egress()
        stack.push_async_callback(egress.close)
        registry = open_registry(loaded)
        quick = structs.replace(config.policy, bundle=config.policy.bundle or POLICY)
        policy = policy_port(quick, loaded)
        stack.push_async_callback(policy.stop)
        await policy.start()
        ports = Ports(
            ledger=between.ledger(ledger),
            registry=registry,
            policy=policy,
            upstreams=between.upstreams(HttpUpstreams(registry, egress)),
        )
        settings = Settings(
            accept_ephemeral_ledger=config.gateway.accept_ephemeral_ledger,
            budgets=config.budgets,
            organisations=config.organisations_of,
        )
        gateway = Gateway(ports, settings)
        await gateway.start()
        who = open_identity(loaded, keys)
        server = GatewayServer(gateway, who, listen=config.gateway.listen)
        stack.push_async_callback(server.stop)
        await server.start()
        ready.send(server.port)
        ready.close()
        await stop.wait()


class _Ledger:
    """The ledger, with death before and after its writes."""

    def __init__(self, ledger: GatewayLedger, point: Point) -> None:
        self._ledger = ledger
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def commit_intent(self, intent: Intent) -> IntentResult:
        self._point("before_claim", [intent.call.trace_id])
        # Marked apart, so that it can die in between, as between both commits of the writer.
        result = await self._ledger.commit_intent(structs.replace(intent, marks=()))
        self._point("after_claim", [intent.call.trace_id])
        return result

    async def mark_sent(self, claim: Fence, now_ns: int, kinds: Sequence[StopKind] = BOTH) -> bool:
        held = await self._ledger.mark_sent(claim, now_ns, kinds)
        self._point("after_intent")
        return held

    async def record(self, outcome: CallOutcome) -> bool:
        self._point("before_outcome", [outcome.call.trace_id])
        written = await self._ledger.record(outcome)
        self._point("after_outcome", [outcome.call.trace_id])
        return written


class _Upstreams:
    """The upstreams, with death between an answer and what is made of it."""

    def __init__(self, upstreams: Upstreams, point: Point) -> None:
        self._upstreams = upstreams
        self._point = point

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """The answer to one attempt. Raises UpstreamFailed."""
        reply = await self._upstreams.send(request)
        self._point("after_response", request.path.split("/"))
        return reply
