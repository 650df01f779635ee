"""The whole sidecar: every part built, connected, started and stopped."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sidecar import clock
from sidecar.app.approving import approval_rules, open_notices
from sidecar.app.configured import config_note
from sidecar.app.deciding import open_decisions
from sidecar.app.desk import open_desk, open_house
from sidecar.app.dev import NotOfDev, check_dev, make_dev_keys
from sidecar.app.exporting import open_own_traces, prepare_export, start_export
from sidecar.app.holding import hold_folder
from sidecar.app.listening import open_certificate
from sidecar.app.opening import JOURNAL, open_backend
from sidecar.app.parts import start
from sidecar.app.people import open_identity, open_tokens
from sidecar.app.policy import follow_policy, policy_parts
from sidecar.app.sealing import check_keyring, keyring, master_key
from sidecar.app.settings import PipelineSettings
from sidecar.app.tools import open_probes, open_registry
from sidecar.app.trust import upstream_tls
from sidecar.app.upstreams import open_authz, open_authzen, open_upstreams
from sidecar.config import Loaded
from sidecar.control.driver import CursorWatch, Readiness, answers, holds
from sidecar.control.grpc import ControlGrpc
from sidecar.control.http import ControlServer
from sidecar.control.metrics.http import MetricsServer
from sidecar.control.worker import Desk
from sidecar.egress.client import Egress
from sidecar.gateway.checkpoint.driver import Checkpoints
from sidecar.gateway.driver import Gateway, Ports, Settings
from sidecar.gateway.http import GatewayServer
from sidecar.gateway.policy.opa import OpaServer
from sidecar.gateway.rpc.mcp import McpWire
from sidecar.gateway.spool.files import Spools
from sidecar.gateway.upstream import Upstreams
from sidecar.identity.driver import Authenticate
from sidecar.identity.login.http import CodeLogin
from sidecar.listen.address import split_address
from sidecar.pipeline.client import DropWatch, OutcomeWatch
from sidecar.pipeline.process import PipelineProcess
from sidecar.receive.driver import Trimmer
from sidecar.receive.grpc import GrpcReceiver
from sidecar.receive.http import HttpReceiver
from sidecar.receive.memory import keep_buffers, keep_objects
from sidecar.receive.worker import Admission
from sidecar.store.journal import journal_cursor
from sidecar.store.ports import GatewayLedger
from sidecar.store.sqlite.journal import SqliteJournal
from sidecar.store.sqlite.upkeep import settle_all
from sidecar.telemetry import cannot_listen

PIPELINE_MAIN = "sidecar.app.pipeline:pipeline_main"


class Serving(Struct, frozen=True, kw_only=True):
    """What a started sidecar tells: where it listens, and under --dev the keys it made."""

    addresses: dict[str, str]
    keys: dict[str, str]
    data_folder: str
    pids: dict[str, int | None]


def _as_it_is(part: Any) -> Any:
    return part


class Between(Struct, frozen=True, kw_only=True):
    """What stands between the gateway and two of its ports: nothing, but in a crash proof."""

    ledger: Callable[[GatewayLedger], GatewayLedger] = _as_it_is
    upstreams: Callable[[Upstreams], Upstreams] = _as_it_is


_NOTHING = Between()


def run_server(loaded: Loaded, *, dev: bool, ready: Callable[[Serving], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``ready`` is called once everything listens."""
    if dev:
        check_dev(loaded.config)
    keep_buffers()
    try:
        import uvloop
    except ImportError:  # uvloop has no wheel everywhere; the standard loop serves as well
        asyncio.run(_serve(loaded, dev, ready))
    else:
        uvloop.run(_serve(loaded, dev, ready))


async def _serve(loaded: Loaded, dev: bool, ready: Callable[[Serving], None]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with sidecar(loaded, dev=dev) as serving:
        keep_objects()
        ready(serving)
        await stop.wait()


@asynccontextmanager
async def sidecar(
    loaded: Loaded, *, dev: bool = False, between: Between = _NOTHING
) -> AsyncIterator[Serving]:
    """The whole sidecar, started; everything is stopped and closed at the end, in reverse."""
    config, folder = loaded.config, Path(loaded.store_folder)
    async with AsyncExitStack() as stack:
        master = master_key(loaded, make=dev)
        stack.enter_context(hold_folder(folder))
        stack.callback(settle_all, folder)
        stores = stack.enter_context(open_backend(loaded))
        keys = stack.enter_context(closing(stores.keys()))
        ring = keyring(keys, master)
        check_keyring(ring, [project.name for project in config.projects], loaded)
        dev_keys = make_dev_keys(keys, config.projects[0].name, master) if dev else {}
        ended = NotOfDev(keys, () if dev else [each.name for each in config.projects], master)
        keys.drop_retired_redaction_keys(clock.now_ns())
        own_ports: set[int] = set()
        tokens = open_tokens(loaded, stack, own_ports)
        if tokens is not None:
            await start(stack, tokens)
        who = open_identity(loaded, ended, tokens)
        journal = SqliteJournal(
            folder / JOURNAL,
            sealers=ring,
            bytes_max=config.receive.journal.bytes_max,
            new_id=clock.new_id,
        )
        stack.callback(journal.close)
        ledger = stack.enter_context(closing(stores.ledger(ring)))
        stores.migrate_traces()
        name = journal_cursor(journal.journal_id)
        prepare_export(loaded, stores, name)
        traces = stack.enter_context(closing(stores.traces(name)))
        egress = Egress(own_ports=own_ports, tls_of=upstream_tls(loaded))
        stack.push_async_callback(egress.close)
        registry = open_registry(loaded)
        open_probes(loaded)  # a probe that does not compile stops the start
        policy, release = policy_parts(config.policy, loaded, own_ports, ledger)
        ways = open_upstreams(config, registry, egress)
        decisions = open_decisions(loaded, master)
        notices = open_notices(loaded, ledger, egress)
        checkpoints = Checkpoints(ledger, config.audit, folder=loaded.path(""))
        gateway = Gateway(
            Ports(
                ledger=between.ledger(ledger),
                registry=registry,
                policy=policy,
                upstreams=between.upstreams(ways.upstreams),
                addresses=ways.addresses,
                unanchored=lambda: checkpoints.behind,
                decided=decisions.tell if decisions else lambda _: None,
                logs_decisions=decisions is not None,
                notice=notices.tell,
            ),
            Settings(
                mode=config.gateway.mode,
                accept_ephemeral_ledger=config.gateway.accept_ephemeral_ledger,
                approvals=approval_rules(config),
                budgets=config.budgets,
                organisations=config.organisations_of,
                body_bytes_max=config.gateway.body_bytes_max,
                policy_sequence=release.sequence if release else None,
                subjects={each.id: each for each in config.policy.subjects},
                probing=config.gateway.probing.rules,
            ),
        )
        settings = PipelineSettings(loaded=loaded, master=master)
        pipeline = PipelineProcess(PIPELINE_MAIN, msgspec.json.encode(settings))
        await start(stack, policy)
        if decisions is not None:
            await start(stack, decisions)
        await start(stack, gateway)
        await ledger.note(config_note(config, clock.now_ns()))
        await start(stack, notices)
        await start(stack, checkpoints)
        watch = follow_policy(policy, gateway, config.policy, loaded, ledger)
        if watch is not None:
            await start(stack, watch)
        await start(stack, pipeline)
        await start(stack, Trimmer(journal, lambda: traces.cursor(name)))
        await start(stack, DropWatch(traces))
        await start(stack, OutcomeWatch(stack.enter_context(closing(stores.published()))))
        ready = Readiness(
            {
                "journal": answers(journal.check),
                "ledger": answers(ledger.check),
                "pipeline": holds(lambda: pipeline.pid is not None, "its process is not running"),
                "pipeline cursor": CursorWatch(
                    lambda: journal.bytes_held, lambda: traces.cursor(name)
                ).check,
                "policy": holds(lambda: policy.answering, "no engine is running"),
                "policy age": holds(
                    lambda: isinstance(policy, OpaServer) or not policy.too_old,
                    "it could not be refreshed, or has been out of its time, for too long",
                ),
            }
        )
        house = open_house(config, registry, lambda: policy.revision)
        desk = open_desk(stack, loaded, who, ledger=ledger, calls=gateway, ring=ring, house=house)
        await start(stack, desk)
        addresses = await _listen(
            stack,
            loaded,
            who,
            journal=journal,
            gateway=gateway,
            mcp=ways.mcp,
            desk=desk,
            ready=ready,
            logins=() if tokens is None else tokens.logins,
        )
        own_ports |= {split_address(address)[1] for address in addresses.values()}
        pids: dict[str, int | None] = {"main": os.getpid(), "pipeline": pipeline.pid}
        if config.telemetry.traces.exporter is not None:
            await start(stack, open_own_traces(loaded, own_ports))
        if config.export:
            pids["export"] = await start_export(
                stack, loaded, stores, name, master, egress, own_ports
            )
        ended.retire()
        yield Serving(
            addresses=addresses,
            keys=dev_keys,
            data_folder=str(folder),
            pids=pids,
        )


async def _listen(
    stack: AsyncExitStack,
    loaded: Loaded,
    who: Authenticate,
    *,
    journal: SqliteJournal,
    gateway: Gateway,
    mcp: McpWire | None,
    desk: Desk,
    ready: Readiness,
    logins: Sequence[CodeLogin],
) -> dict[str, str]:
    """Start every listener that has an address; the addresses as bound."""
    config, tls = loaded.config, partial(open_certificate, loaded)
    room = Admission(config.receive)
    stack.push_async_callback(room.stop)
    metrics = MetricsServer(
        *split_address(config.metrics.listen or "127.0.0.1:0"),
        tls=tls("metrics.tls", config.metrics.tls),
    )
    grpc_tls = tls("receive.grpc_tls", config.receive.grpc_tls)
    http_tls = tls("receive.http_tls", config.receive.http_tls)
    listeners: list[tuple[str, str, Any]] = [
        (
            "receive.grpc",
            config.receive.grpc,
            GrpcReceiver(config.receive, journal, who, room, tls=grpc_tls),
        ),
        (
            "receive.http",
            config.receive.http,
            HttpReceiver(config.receive, journal, who, room, tls=http_tls),
        ),
        (
            "gateway.listen",
            config.gateway.listen,
            GatewayServer(
                gateway,
                who,
                listen=config.gateway.listen,
                body_bytes_max=config.gateway.body_bytes_max,
                tls=tls("gateway.tls", config.gateway.tls),
                mcp=mcp,
                authzen=open_authzen(config, gateway),
                spools=Spools(Path(loaded.store_folder)),
                resource=config.gateway.resource,
                issuers=[each.issuer for each in config.identity.oidc if each.knows_agents],
            ),
        ),
        (
            "control.listen",
            config.control.listen,
            ControlServer(
                desk,
                listen=config.control.listen,
                tls=tls("control.tls", config.control.tls),
                logins=logins,
                pages=approval_rules(config).pages,
            ),
        ),
        (
            "control.grpc",
            config.control.grpc,
            ControlGrpc(
                desk,
                listen=config.control.grpc,
                tls=tls("control.grpc_tls", config.control.grpc_tls),
                also=open_authz(config, gateway, who),
            ),
        ),
        ("metrics.listen", config.metrics.listen, metrics),
    ]
    bound = {}
    for key, address, part in listeners:
        if not address:
            continue
        host, port = split_address(address)
        try:
            await start(stack, part)
        except OSError as error:
            raise cannot_listen(key, host, port, error) from None
        bound[key] = f"{host}:{part.port}" if ":" not in host else f"[{host}]:{part.port}"
    metrics.reasons = ready.reasons
    return bound
