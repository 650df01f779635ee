"""The composition root: the only file that knows everybody.

Rules
1. Stores are opened here and nowhere else; everybody else is handed ports.
2. Nothing is decided here: this file builds, connects, starts and stops.
3. Secrets are read here from files and handed on; they are never printed or logged.
"""

import asyncio
import base64
import binascii
import hashlib
import itertools
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Set
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from functools import cache, partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from processors.model.principal import KeyKind, StoredKey
from processors.redact.masker import digest
from processors.redact.terms import Kind, RedactionKey
from processors.value import duration_ns
from sidecar import clock
from sidecar.config import Config, Loaded, is_loopback, load
from sidecar.control.changes import Bench
from sidecar.control.documents import PolicyDocument, ProjectDocument, Version
from sidecar.control.driver import CursorWatch, Readiness, answers, holds
from sidecar.control.grpc import ControlGrpc
from sidecar.control.http import ControlServer
from sidecar.control.operations import API_VERSION
from sidecar.control.reads import House, Views, tool_document
from sidecar.control.worker import Desk
from sidecar.egress.client import Egress
from sidecar.egress.rules import LeadsBack, Target, TargetRefused
from sidecar.errors import Problem, SidecarError, StoreUnavailable
from sidecar.export.client import open_lane
from sidecar.export.driver import dice, export
from sidecar.export.worker import ExportWatch
from sidecar.gateway.client import HttpUpstreams
from sidecar.gateway.config import Policy, Upstream
from sidecar.gateway.driver import Gateway, Ports, Settings
from sidecar.gateway.http import GatewayServer
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.worker import PolicyWorker
from sidecar.gateway.registry import Registry, compiled_tools
from sidecar.identity.certificate import CertificateGrants
from sidecar.identity.declared import DeclaredKeys
from sidecar.identity.driver import Authenticate, Identity
from sidecar.identity.http import ANSWER_BYTES_MAX, KeySource, OidcTokens
from sidecar.identity.keys import KeyStore, KeyTerms, mint_dev, mint_key, rotated
from sidecar.listen.address import split_address
from sidecar.listen.config import Tls
from sidecar.listen.files import Certificate
from sidecar.pipeline.batch import ProjectRules, Rules
from sidecar.pipeline.client import DropWatch, OutcomeWatch
from sidecar.pipeline.driver import Hear
from sidecar.pipeline.driver import Ports as PipelinePorts
from sidecar.pipeline.keepers import Keepers, KeyOf
from sidecar.pipeline.leaving import Leaving
from sidecar.pipeline.llm import LlmHearing
from sidecar.pipeline.process import PipelineProcess
from sidecar.pipeline.worker import Life, Work, live
from sidecar.pipeline.worker import serve as serve_pipeline
from sidecar.probe.driver import Asker, Askers
from sidecar.probe.driver import run as run_probes
from sidecar.probe.http import HttpAsker, ProbeEndpoint
from sidecar.probe.mcp import McpAsker
from sidecar.probe.plan import LoadedProbe, plan
from sidecar.probe.plan import load as load_probes
from sidecar.receive.driver import Trimmer
from sidecar.receive.grpc import GrpcReceiver
from sidecar.receive.http import HttpReceiver
from sidecar.receive.memory import keep_buffers
from sidecar.receive.worker import Admission
from sidecar.replay.stage.driver import StagePorts
from sidecar.store.backend import (
    Backend,
    KeyBook,
    Ledger,
    LedgerReader,
    PublishedStore,
    TracesStore,
    VerdictStore,
)
from sidecar.store.envelope import KEY_BYTES, Keyring, SealBroken, Sealer
from sidecar.store.journal import journal_cursor
from sidecar.store.location import Location, read_location
from sidecar.store.outbox import Lane
from sidecar.store.ports import OpenTraces
from sidecar.store.redaction import RedactionKeys
from sidecar.store.sqlite.backend import LEDGER, TRACES, SqliteBackend
from sidecar.store.sqlite.journal import SqliteJournal, SqliteJournalReader
from sidecar.store.sqlite.ledger import SqliteLedger
from sidecar.telemetry import MetricsServer, cannot_listen, log

_VET_NS = 2 * 10**9
JOURNAL = "journal.db"
_PRUNE_MAX, _PRUNE_LOOKS = 256, 2
DISTRIBUTION = "agenttwin-sidecar"


def load_config(
    file: str | None, store: str | None, *, thorough: bool = False, **overrides: object
) -> Loaded:
    """The configuration with ``--config`` and ``--store`` applied. Raises SidecarError.

    ``thorough`` also reads schemas and compiles expressions, as a server must before it starts.
    """
    flags = {name.replace("__", "."): value for name, value in overrides.items()}
    also = costly_problems if thorough else (lambda _: [])
    return load(file, overrides={"store.url": store, **flags}, also=also)


def _location(loaded: Loaded) -> Location:
    """The database, with the password of ``store.password_file``. Raises SidecarError."""
    store = loaded.config.store
    if not store.password_file:
        return read_location(store.url)
    path = loaded.path(store.password_file)
    try:
        return read_location(store.url, path.read_text().rstrip("\r\n"))
    except OSError as error:
        raise SidecarError(
            f"the database's password cannot be read: {error.strerror}",
            where=str(path),
            do="Correct store.password_file.",
        ) from None
    except UnicodeDecodeError:
        raise SidecarError(
            "the database's password is not UTF-8",
            where=str(path),
            do="Correct store.password_file.",
        ) from None


@contextmanager
def open_backend(loaded: Loaded) -> Iterator[Backend]:
    """The stores the configuration names. Raises SidecarError."""
    on_postgres = loaded.config.store.on_postgres
    stores: Backend = _postgres(loaded) if on_postgres else SqliteBackend(Path(loaded.store_folder))
    with closing(stores):
        yield stores


def _postgres(loaded: Loaded) -> Backend:
    try:  # imported here: the driver comes with the extra ``postgres``
        from sidecar.store.postgres.backend import PostgresBackend
    except ImportError as error:
        raise _no_driver(error) from None
    return PostgresBackend(_location(loaded))


def _no_driver(error: ImportError) -> SidecarError:
    return SidecarError(
        f"the driver of a store on Postgres is not installed: {error}",
        where="configuration key store.url",
        do="Install agenttwin-sidecar[postgres].",
    )


@contextmanager
def open_keys(loaded: Loaded) -> Iterator[KeyBook]:
    """The key store of the ledger, made when absent."""
    with open_backend(loaded) as stores, closing(stores.keys()) as keys:
        yield keys


@contextmanager
def open_traces(loaded: Loaded) -> Iterator[TracesStore]:
    """The published traces, read only. Raises StoreUnavailable where there is no store."""
    with open_backend(loaded) as stores, closing(stores.traces()) as traces:
        yield traces


@contextmanager
def open_published(loaded: Loaded) -> Iterator[PublishedStore]:
    """Published revisions in their order. Raises StoreUnavailable where there is no store."""
    with open_backend(loaded) as stores, closing(stores.published()) as published:
        yield published


@contextmanager
def open_ledger(loaded: Loaded) -> Iterator[LedgerReader]:
    """The gateway's ledger, read only; the seal key is read when something sealed is shown.

    Raises StoreUnavailable where there is no store.
    """
    with ExitStack() as stack:
        stores = stack.enter_context(open_backend(loaded))

        @cache
        def ring() -> Keyring:
            return keyring(stack.enter_context(closing(stores.keys())), master_key(loaded))

        ledger = stack.enter_context(closing(stores.read_ledger(lambda project: ring()(project))))
        try:
            yield ledger
        except SealBroken:
            raise _wrong_seal("what is asked for", loaded) from None


@contextmanager
def open_verdicts(loaded: Loaded, *, write: bool = False) -> Iterator[VerdictStore]:
    """The gate's verdicts; ``write`` makes the store when absent. Raises StoreUnavailable."""
    with open_backend(loaded) as stores, closing(stores.verdicts(write=write)) as verdicts:
        yield verdicts


class Pruned(Struct, frozen=True, kw_only=True):
    """How many revisions are gone, and of how many traces the sealed telemetry."""

    revisions: int
    telemetry: int


def prune_store(loaded: Loaded) -> Pruned:
    """Delete now what projects keep no longer; how much. Raises StoreUnavailable.

    A running sidecar does the same by itself, a little at a time.
    """
    with ExitStack() as stack:
        stores = stack.enter_context(open_backend(loaded))
        stack.enter_context(closing(stores.traces()))  # an empty store is not made to be pruned

        @cache
        def ring() -> Keyring:
            return keyring(stack.enter_context(closing(stores.keys())), master_key(loaded))

        opened = stack.enter_context(
            closing(
                stores.open_traces(
                    lambda project: ring()(project), loaded.config.assemble.bounds, "prune"
                )
            )
        )
        return asyncio.run(_pruned(opened, pipeline_rules(loaded.config)))


async def _pruned(store: OpenTraces, rules: Rules) -> Pruned:
    revisions = telemetry = 0
    idle = 0
    while idle < _PRUNE_LOOKS:  # once more: another sidecar may have been at it
        now_ns = clock.now_ns()
        gone = await store.expire(now_ns, _PRUNE_MAX)
        old = await store.prune(rules.retention(now_ns, _PRUNE_MAX))
        telemetry, revisions = telemetry + gone, revisions + old
        idle = 0 if gone or old else idle + 1
    return Pruned(revisions=revisions, telemetry=telemetry)


@asynccontextmanager
async def replay_ports(loaded: Loaded) -> AsyncIterator[StagePorts]:
    """What a replay needs: a ledger of its own that goes with it, and the configured policy.

    Nothing waits for the policy but the replay, so a busy machine must not become a denial.
    """
    data_key = clock.random_bytes(KEY_BYTES)
    sealer = Sealer(data_key, clock.random_bytes)
    policy = policy_port(replace(loaded.config.policy, deadline="5s"), loaded)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="sidecar-replay-"))
        ledger = SqliteLedger(Path(folder) / "ledger.db", lambda _: sealer)
        stack.callback(ledger.close)
        await _start(stack, policy)
        yield StagePorts(
            ledger=ledger,
            policy=policy,
            approvals=loaded.config.approvals,
            episode_key=clock.random_bytes(32),
        )


def create_key(keys: KeyBook, terms: KeyTerms) -> tuple[str, StoredKey]:
    """A new key's text, shown once, and its stored row."""
    text, row = new_key(terms)
    keys.add_key(row)
    return text, row


def rotate_key(keys: KeyBook, key_id: str, overlap_ns: int) -> tuple[str, StoredKey] | None:
    """A key's new text, shown once, and its row; None where there is none to rotate."""
    found = keys.find_key(key_id)
    if found is None:
        return None
    until_ns = clock.now_ns() + overlap_ns
    text, row = rotated(found, secret_bytes=clock.random_bytes(32), until_ns=until_ns)
    return (text, row) if keys.rotate_key(key_id, row.secret_sha256, until_ns) else None


def new_key(terms: KeyTerms) -> tuple[str, StoredKey]:
    """A key that no store knows yet: its text and its row."""
    return mint_key(
        terms,
        id_bytes=clock.random_bytes(8),
        secret_bytes=clock.random_bytes(32),
        now_ns=clock.now_ns(),
    )


def revoke_key(keys: KeyBook, key_id: str) -> bool:
    """Revoke now; False when there is no such key."""
    return keys.revoke_key(key_id, clock.now_ns())


def master_key(loaded: Loaded, *, make: bool = False) -> bytes:
    """The key that wraps the projects' data keys, from ``seal.key_file``; ``make`` creates it.

    Without ``seal.key_file`` it lies beside the data folder, never in it. Raises SidecarError.
    """
    path = seal_key_path(loaded)
    if not _is_there(path):
        if not make:
            raise SidecarError(
                "there is no seal key",
                where=str(path),
                do="Make one with: openssl rand -hex 32 > FILE, and name it in seal.key_file.",
            )
        _write_new(path, clock.random_bytes(KEY_BYTES).hex().encode() + b"\n")
    try:
        return _key_bytes(path.read_bytes().strip())
    except OSError as error:
        raise SidecarError(
            f"the seal key cannot be read: {error.strerror}", where=str(path)
        ) from None
    except (ValueError, binascii.Error):
        raise SidecarError(
            "the seal key is not 32 bytes in hex or base64",
            where=str(path),
            do="Make one with: openssl rand -hex 32",
        ) from None


def _is_there(path: Path) -> bool:
    """Whether a file is there, or may be: where nobody lets us look, reading it says so."""
    try:
        return path.exists()
    except OSError:
        return True


def seal_key_path(loaded: Loaded) -> Path:
    """Where the master key lies. Raises SidecarError when that is inside the data folder."""
    folder = Path(loaded.store_folder)
    if not loaded.config.seal.key_file:
        return folder.parent / f"{folder.name}.seal-key"
    path = loaded.path(loaded.config.seal.key_file)
    if path.resolve().is_relative_to(folder.resolve()):
        raise SidecarError(
            "the seal key lies inside the data folder it protects",
            where=str(path),
            do="Move it elsewhere and correct seal.key_file.",
        )
    return path


def keyring(keys: KeyBook, master: bytes) -> Keyring:
    """The Sealer of each project, under the master key."""
    return Keyring(Sealer(master, clock.random_bytes), keys, clock.random_bytes)


class Digests(Struct, frozen=True, kw_only=True):
    """How a value looks under one key; ``retires_at_ns`` is None for the key in use."""

    key_id: str
    token: str
    hash: str
    retires_at_ns: int | None


def redaction_keys(keys: KeyBook, ring: Keyring) -> RedactionKeys:
    """The keys of each project's digests."""
    return RedactionKeys(keys, ring, clock.random_bytes)


@contextmanager
def open_redaction_keys(loaded: Loaded) -> Iterator[RedactionKeys]:
    """The keys of digests, opened with the seal key. Raises SidecarError."""
    with open_keys(loaded) as keys:
        yield redaction_keys(keys, keyring(keys, master_key(loaded)))


def rotate_redaction_key(loaded: Loaded, project: str, overlap_ns: int) -> RedactionKey:
    """Make a project's digests with a new key from now on; the one before stays for a while."""
    with open_redaction_keys(loaded) as keys:
        return keys.rotate(project, overlap_ns=overlap_ns, now_ns=clock.now_ns())


def rotate_data_key(loaded: Loaded, project: str) -> int:
    """Seal a project's operational bytes with a new key from now on; its number."""
    with open_keys(loaded) as keys:
        ring = keyring(keys, master_key(loaded))
        check_keyring(ring, [project], loaded)
        return ring.rotate(project, clock.now_ns())


def digests_of(loaded: Loaded, project: str, kind: Kind, value: str) -> list[Digests]:
    """What a value's digests are under each live key, that in use first."""
    with open_redaction_keys(loaded) as keys:
        live = keys.live(project, clock.now_ns())
    return [
        Digests(
            key_id=each.key.key_id,
            token=digest("tokenise", kind, value, each.key),
            hash=digest("hash", kind, value, each.key),
            retires_at_ns=each.retires_at_ns,
        )
        for each in live
    ]


def check_keyring(ring: Keyring, projects: list[str], loaded: Loaded, *, make: bool = True) -> None:
    """Open every project's data key now, so that a wrong master key stops the start, not a call.

    ``make``: give a project without one its own. Raises SidecarError.
    """
    for project in projects:
        try:
            if make:
                ring(project)
            else:
                ring.check(project)
        except SealBroken:
            raise _wrong_seal(f"project {project}", loaded) from None


def _wrong_seal(what: str, loaded: Loaded) -> SidecarError:
    return SidecarError(
        f"the seal key is not the one that sealed {what}",
        where=str(seal_key_path(loaded)),
        do="Put back the key the store was made with, or start with an empty store.",
    )


def _key_bytes(text: bytes) -> bytes:
    key = (
        binascii.unhexlify(text)
        if len(text) == 2 * KEY_BYTES
        else base64.b64decode(text, validate=True)
    )
    if len(key) != KEY_BYTES:
        raise ValueError("wrong length")
    return key


def _write_new(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return  # another process of ours made it first
    except OSError as error:
        raise SidecarError(
            f"the seal key cannot be written: {error.strerror}",
            where=str(path),
            do="Make the folder writable, or name a file in seal.key_file.",
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


class Serving(Struct, frozen=True, kw_only=True):
    """What a started sidecar tells: where it listens, and under --dev the keys it made."""

    addresses: dict[str, str]
    keys: dict[str, str]
    data_folder: str
    pids: dict[str, int | None]


class PipelineSettings(Struct, frozen=True, kw_only=True):
    """One line to the pipeline's process; the master key travels by pipe, never by argument."""

    loaded: Loaded
    master: bytes


class ExportSettings(Struct, frozen=True, kw_only=True):
    """The same to the exporters' process; ``own_ports`` are never dialled on this machine.

    ``source`` names this sidecar among those that share a database.
    """

    loaded: Loaded
    master: bytes
    own_ports: tuple[int, ...]
    source: str


class _Part(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def run_server(loaded: Loaded, *, dev: bool, ready: Callable[[Serving], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``ready`` is called once everything listens."""
    if dev:
        _check_dev(loaded.config)
    keep_buffers()
    try:
        import uvloop
    except ImportError:  # uvloop has no wheel everywhere; the standard loop serves as well
        asyncio.run(_serve(loaded, dev, ready))
    else:
        uvloop.run(_serve(loaded, dev, ready))


def pipeline_main() -> int:
    """The entry of the pipeline's process (see ``pipeline.worker``)."""
    return serve_pipeline(_open_pipeline)


def export_main() -> int:
    """The entry of the exporters' process (see ``pipeline.worker``)."""
    return live(_open_export, "export")


async def _serve(loaded: Loaded, dev: bool, ready: Callable[[Serving], None]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with sidecar(loaded, dev=dev) as serving:
        ready(serving)
        await stop.wait()


@asynccontextmanager
async def sidecar(loaded: Loaded, *, dev: bool = False) -> AsyncIterator[Serving]:
    """The whole sidecar, started; everything is stopped and closed at the end, in reverse."""
    config, folder = loaded.config, Path(loaded.store_folder)
    async with AsyncExitStack() as stack:
        master = master_key(loaded, make=dev)
        stores = stack.enter_context(open_backend(loaded))
        keys = stack.enter_context(closing(stores.keys()))
        ring = keyring(keys, master)
        check_keyring(ring, [project.name for project in config.projects], loaded)
        dev_keys: dict[str, str] = {}
        for project in config.projects:
            if not dev:
                _retire_dev_keys(keys, project.name, master)
            elif not dev_keys:
                dev_keys = _dev_keys(keys, project.name, master)
        keys.drop_retired_redaction_keys(clock.now_ns())
        own_ports: set[int] = set()
        tokens = open_tokens(loaded, stack, own_ports)
        await _start(stack, tokens)
        who = open_identity(loaded, keys, tokens)
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
        _prepare_export(loaded, stores, name)
        traces = stack.enter_context(closing(stores.traces(name)))
        egress = Egress(own_ports=own_ports)
        stack.push_async_callback(egress.close)
        registry = open_registry(loaded)
        open_probes(loaded)  # a probe that does not compile stops the start
        policy = policy_port(config.policy, loaded)
        gateway = Gateway(
            Ports(
                ledger=ledger,
                registry=registry,
                policy=policy,
                upstreams=HttpUpstreams(registry, egress),
            ),
            Settings(
                mode=config.gateway.mode,
                accept_ephemeral_ledger=config.gateway.accept_ephemeral_ledger,
                approvals=config.approvals,
                body_bytes_max=config.gateway.body_bytes_max,
            ),
        )
        settings = PipelineSettings(loaded=loaded, master=master)
        pipeline = PipelineProcess("sidecar.app:pipeline_main", msgspec.json.encode(settings))
        await _start(stack, policy)
        await _start(stack, gateway)
        await _start(stack, pipeline)
        await _start(stack, Trimmer(journal, lambda: traces.cursor(name)))
        await _start(stack, DropWatch(traces))
        await _start(stack, OutcomeWatch(stack.enter_context(closing(stores.published()))))
        ready = Readiness(
            {
                "journal": answers(journal.check),
                "ledger": answers(ledger.check),
                "pipeline": holds(lambda: pipeline.pid is not None, "its process is not running"),
                "pipeline cursor": CursorWatch(
                    lambda: journal.bytes_held, lambda: traces.cursor(name)
                ).check,
                "policy": holds(lambda: policy.answering, "no engine is running"),
            }
        )
        house = open_house(config, registry, policy.revision)
        desk = open_desk(stack, loaded, who, ledger=ledger, ring=ring, house=house)
        await _start(stack, desk)
        addresses = await _listen(
            stack,
            loaded,
            who,
            journal=journal,
            gateway=gateway,
            desk=desk,
            ready=ready,
        )
        own_ports |= {split_address(address)[1] for address in addresses.values()}
        pids: dict[str, int | None] = {"main": os.getpid(), "pipeline": pipeline.pid}
        if config.telemetry.traces.exporter is not None:
            await _start(stack, open_own_traces(loaded, own_ports))
        if config.export:
            pids["export"] = await _start_export(
                stack, loaded, stores, name, master, egress, own_ports
            )
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
    desk: Desk,
    ready: Readiness,
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
            ),
        ),
        (
            "control.listen",
            config.control.listen,
            ControlServer(
                desk,
                listen=config.control.listen,
                tls=tls("control.tls", config.control.tls),
            ),
        ),
        (
            "control.grpc",
            config.control.grpc,
            ControlGrpc(
                desk,
                listen=config.control.grpc,
                tls=tls("control.grpc_tls", config.control.grpc_tls),
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
            await _start(stack, part)
        except OSError as error:
            raise cannot_listen(key, host, port, error) from None
        bound[key] = f"{host}:{part.port}" if ":" not in host else f"[{host}]:{part.port}"
    metrics.reasons = ready.reasons
    return bound


def open_desk(
    stack: AsyncExitStack,
    loaded: Loaded,
    who: Authenticate,
    *,
    ledger: Ledger,
    ring: Keyring,
    house: House,
) -> Desk:
    """What both wires of the control API ask, over connections of its own: nobody's list holds up
    the gateway's."""
    stores = stack.enter_context(open_backend(loaded))
    keys = stack.enter_context(closing(stores.keys()))
    views = Views(
        ledger=stack.enter_context(closing(stores.read_ledger(ring))),
        traces=stack.enter_context(closing(stores.traces())),
        published=stack.enter_context(closing(stores.published())),
        verdicts=stack.enter_context(closing(stores.verdicts(write=False))),
        keys=keys,
        house=house,
    )
    bench = Bench(keys=keys, random=clock.random_bytes)
    return Desk(views, bench, ledger, who, approvals=loaded.config.approvals)


def open_house(config: Config, registry: Registry, revision: str) -> House:
    """What the control API tells of the sidecar itself."""
    mode, rules = config.gateway.mode, config.approvals
    shown = {
        project.name: ProjectDocument(
            name=project.name,
            role="",
            capture=project.content.capture,
            traces_retention=project.retention.traces,
            content_retention=project.retention.content,
        )
        for project in (config.project(""), *config.projects)
    }
    try:
        version = distribution_version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a folder that was never installed
        version = "unknown"
    return House(
        version=Version(name=DISTRIBUTION, version=version, api=API_VERSION),
        policy=PolicyDocument(
            engine=config.policy.engine,
            revision=revision,
            mode=mode,
            approvers=rules.approvers,
            approvals_expire=rules.expires,
            distinct_from=rules.distinct_from,
        ),
        tools=tuple(tool_document(registry.tools[name], mode) for name in sorted(registry.tools)),
        projects=shown,
        project=shown[""],
    )


def open_certificate(loaded: Loaded, key: str, tls: Tls) -> Certificate | None:
    """The certificate of a listener; None where it speaks in clear. Raises SidecarError."""
    if not tls.on:
        return None

    def path(file: str) -> str:
        return str(loaded.path(file)) if file else ""

    def tell(what: str, error: SidecarError | None) -> None:
        say = log("listen").info if error is None else log("listen").error
        say(what, listener=key, **({} if error is None else {"why": error}))

    files = replace(
        tls,
        cert_file=path(tls.cert_file),
        key_file=path(tls.key_file),
        client_ca_file=path(tls.client_ca_file),
    )
    where = f"configuration key {key}"
    return Certificate(files, where=where, now_s=lambda: clock.now_ns() / 1e9, tell=tell)


def _prepare_export(loaded: Loaded, stores: Backend, source: str) -> None:
    """A place in the outbox for each exporter, before anything is put in."""
    lanes = [
        Lane(name=exporter.title, bytes_max=exporter.otlp.queue.bytes_max)
        for exporter in loaded.config.export
    ]
    forgotten = stores.prepare_outbox(lanes, source)
    if forgotten:
        log("export").warning(
            "export_forgotten", requests=forgotten, reason="their exporter is gone"
        )


async def _start_export(
    stack: AsyncExitStack,
    loaded: Loaded,
    stores: Backend,
    source: str,
    master: bytes,
    egress: Egress,
    own_ports: set[int],
) -> int | None:
    """The exporters' process, and the watch over it. Raises SidecarError for one that leads back.

    It starts when everything listens: only then are all ports of ours known.
    """
    for index, exporter in enumerate(loaded.config.export):
        try:
            await egress.vetted(exporter.target, deadline_ns=_VET_NS)
        except LeadsBack:
            raise SidecarError(
                "an exporter leads back to the sidecar itself",
                where=f"configuration key export.{index}.otlp.endpoint",
                do="Export to another receiver (docs/howto/collector.md).",
            ) from None
        except TargetRefused as error:
            log("export").warning("export_not_reachable_yet", reason=str(error))
    progress = stack.enter_context(closing(stores.export_progress()))
    settings = ExportSettings(
        loaded=loaded, master=master, own_ports=tuple(sorted(own_ports)), source=source
    )
    process = PipelineProcess("sidecar.app:export_main", msgspec.json.encode(settings), "export")
    await _start(stack, process)
    await _start(stack, ExportWatch(progress))
    return process.pid


def open_own_traces(loaded: Loaded, own_ports: Set[int]) -> _Part:
    """The sidecar's own spans, on their way out. Raises SidecarError for an unusable ca_file."""
    from sidecar.export.own.client import OwnTracing  # the SDK is loaded by who asked for it

    config = loaded.config.telemetry.traces
    assert config.exporter is not None
    lane = open_lane(config.exporter, Path(loaded.folder), frozenset(own_ports))
    timeout_ns = duration_ns(config.exporter.otlp.timeout)
    return OwnTracing(lane.sender, ratio=config.ratio, timeout_ns=timeout_ns)


async def _start(stack: AsyncExitStack, part: _Part) -> None:
    stack.push_async_callback(part.stop)
    await part.start()


def open_registry(loaded: Loaded) -> Registry:
    """The tool registry with its schemas and credentials read from files. Raises SidecarError."""
    config = loaded.config.gateway
    schemas = {
        tool.arguments.schema: _read_schema(loaded, tool.arguments.schema)
        for tool in config.tools
        if tool.arguments.schema
    }
    upstreams = [_resolved(loaded, upstream) for upstream in config.upstreams]
    return Registry.from_config(upstreams, config.tools, schemas)


def open_probes(loaded: Loaded) -> tuple[LoadedProbe, ...]:
    """The configured probes, compiled. Raises SidecarError."""
    try:
        return load_probes(loaded.config.probes)
    except Problem as problem:
        raise SidecarError(f"a probe cannot be used: {problem}", where=loaded.file or "") from None


def costly_problems(loaded: Loaded) -> list[Problem]:
    """What is wrong with schemas, costs, recipes and probes: found by reading and compiling."""
    found: list[Problem] = []
    schemas: dict[str, Any] = {}
    for index, tool in enumerate(loaded.config.gateway.tools):
        name = tool.arguments.schema
        if name and name not in schemas:
            try:
                schemas[name] = _read_schema(loaded, name)
            except SidecarError as error:
                schemas[name] = True  # told once, here; any value fits this schema
                found.append(
                    Problem(f"gateway.tools.{index}.arguments.schema", f"{error.what}: {name}")
                )
    found += compiled_tools(loaded.config.gateway.tools, schemas)[1]
    for index, probe in enumerate(loaded.config.probes):
        try:
            load_probes((probe,))
        except Problem as problem:
            found.append(
                Problem(problem.path.replace("probes.0", f"probes.{index}", 1), problem.text)
            )
    return found


def probe_endpoints(loaded: Loaded) -> dict[str, ProbeEndpoint]:
    """Where probes of each upstream go, with its credential."""
    return {
        upstream.name: ProbeEndpoint(
            target=Target(name=upstream.name, url=upstream.url, allow_cidrs=upstream.allow_cidrs),
            credential_header=upstream.credential.header if upstream.credential else None,
            credential_file=upstream.credential.file if upstream.credential else None,
        )
        for upstream in map(partial(_resolved, loaded), loaded.config.gateway.upstreams)
    }


def open_askers(loaded: Loaded, egress: Egress) -> Askers:
    """The wires by which probes ask. Raises SidecarError where the one for SQL is not installed."""
    http = HttpAsker(egress, probe_endpoints(loaded))
    sql: Asker = http  # nobody asks a database where none is named
    if loaded.config.databases:
        try:
            from sidecar.probe.postgres import SqlAsker
        except ImportError:
            raise SidecarError(
                "probes by SQL need asyncpg, which is not installed",
                where="configuration key databases",
                do="pip install 'agenttwin-sidecar[postgres]'",
            ) from None
        sql = SqlAsker(loaded.config.databases, egress, Path(loaded.folder))
    return Askers(http=http, sql=sql, mcp=McpAsker(egress, Path(loaded.folder)))


def policy_port(policy: Policy, loaded: Loaded) -> PolicyWorker:
    """The engine the configuration names. Raises SidecarError for a bundle that cannot be used."""
    bundle = load_bundle(loaded.path(policy.bundle) if policy.bundle else "")
    return PolicyWorker(bundle, deadline_ns=duration_ns(policy.deadline))


def _hearing(loaded: Loaded, egress: Egress, rules: Rules) -> Hear | None:
    """The extractor of claims, where one is configured."""
    terms = loaded.config.claims.llm
    if not terms.url:
        return None
    file = str(loaded.path(terms.credential_file)) if terms.credential_file else ""
    terms = msgspec.structs.replace(terms, credential_file=file)
    return LlmHearing(terms, egress, rules.tools).hear


def pipeline_rules(config: Config, key_of: KeyOf | None = None) -> Rules:
    """What the stages need of the configuration; ``key_of`` where digests are made of content."""
    default = next(iter(config.projects)).__class__(name="default")
    return Rules(
        tools={tool.name: tool.class_ for tool in config.gateway.tools},
        projects={
            project.name: ProjectRules(
                capture=project.content.capture,
                terms=project.content.terms,
                content_ns=duration_ns(project.retention.content),
                traces_ns=duration_ns(project.retention.traces),
            )
            for project in config.projects
        },
        otherwise=ProjectRules(
            content_ns=duration_ns(default.retention.content),
            traces_ns=duration_ns(default.retention.traces),
        ),
        limits=config.receive.limits,
        detect=config.detect,
        keepers=Keepers(key_of),
    )


def _open_pipeline(settings: bytes) -> Work:
    given = msgspec.json.decode(settings, type=PipelineSettings)
    loaded, folder = given.loaded, _existing(given.loaded)
    stack = ExitStack()
    stores = stack.enter_context(open_backend(loaded))
    keys = stack.enter_context(closing(stores.keys()))
    ring = keyring(keys, given.master)
    journal = stack.enter_context(closing(SqliteJournalReader(folder / JOURNAL, sealers=ring)))
    source, bounds = journal_cursor(journal.journal_id), loaded.config.assemble.bounds
    opened = stack.enter_context(closing(stores.open_traces(ring, bounds, source)))
    traces = stack.enter_context(closing(stores.traces()))
    ledger = stack.enter_context(closing(stores.read_ledger(ring)))
    # No probe may ask the sidecar itself: nothing it says of the world would be independent.
    listening = (split_address(address)[1] for _, address in loaded.config.addresses() if address)
    probes, egress = open_probes(loaded), Egress(own_ports=frozenset(listening))
    digest_keys = redaction_keys(keys, ring)
    rules = pipeline_rules(loaded.config, lambda p: digest_keys.current(p, clock.now_ns()))
    askers = open_askers(loaded, egress)
    ports = PipelinePorts(
        journal=journal,
        open_traces=opened,
        traces=traces,
        facts_after=ledger.facts_after,
        probed=lambda trace: bool(plan(trace, probes)),
        probe=lambda trace: run_probes(plan(trace, probes), askers),
        leaving=_leaving(loaded.config, rules, journal.journal_id, given.master),
        hear=_hearing(loaded, egress, rules),
    )

    return Work(
        ports=ports,
        config=loaded.config.assemble,
        rules=rules,
        finish=egress.close,
        close=stack.close,
    )


def _existing(loaded: Loaded) -> Path:
    """The data folder of a child. Raises StoreUnavailable rather than making a store anew.

    The parent made all of them: what is missing was taken away, and stands in for nothing empty.
    """
    folder = Path(loaded.store_folder)
    for name in (JOURNAL,) if loaded.config.store.on_postgres else (LEDGER, JOURNAL, TRACES):
        if not (folder / name).exists():
            raise StoreUnavailable(
                "the store was deleted while it was in use",
                where=str(folder / name),
                do="Stop the sidecar, put the data folder back, and start again.",
            )
    return folder


def _leaving(config: Config, rules: Rules, sidecar_id: str, master: bytes) -> Leaving | None:
    if not config.export:
        return None
    secret = hashlib.blake2b(b"export", key=master).digest()
    return Leaving(rules, sidecar_id=sidecar_id, secret=secret)


def _open_export(settings: bytes) -> Life:
    given = msgspec.json.decode(settings, type=ExportSettings)
    _existing(given.loaded)
    stack = ExitStack()
    stores = stack.enter_context(open_backend(given.loaded))
    keys = stack.enter_context(closing(stores.keys()))
    ring = keyring(keys, given.master)
    outbox = stack.enter_context(closing(stores.outbox(ring, given.source)))
    own_ports = frozenset(given.own_ports)
    start = Path(given.loaded.folder)
    lanes = [open_lane(each, start, own_ports) for each in given.loaded.config.export]

    return Life(run=partial(export, lanes, outbox, dice), close=stack.close)


def open_identity(loaded: Loaded, keys: KeyStore, tokens: OidcTokens | None = None) -> Authenticate:
    """Who callers are, by keys, by tokens, and by what is configured of certificates."""
    config = loaded.config
    return Identity(
        DeclaredKeys(_declared_keys(loaded), keys),
        clock.now_ns,
        organisations={each.name: each.projects for each in config.organisations},
        certificates=CertificateGrants(config.identity.mtls),
        tokens=tokens if config.identity.oidc else None,  # without, a token is no form of key
        remote=config.store.on_postgres,
    )


def open_tokens(loaded: Loaded, stack: AsyncExitStack, own_ports: Set[int]) -> OidcTokens:
    """The identity providers, each asked through a way out of its own. Raises SidecarError."""
    sources = []
    for index, provider in enumerate(loaded.config.identity.oidc):
        tls = None
        if provider.ca_file:
            path = loaded.path(provider.ca_file)
            try:
                tls = ssl.create_default_context(cafile=str(path))
            except OSError as error:
                raise SidecarError(
                    f"the provider's ca_file cannot be used: {error.strerror or error}",
                    where=f"{path}, configuration key identity.oidc.{index}.ca_file",
                    do="Name a PEM file with the authority's certificate.",
                ) from None
        egress = Egress(own_ports=own_ports, tls=tls, response_bytes_max=ANSWER_BYTES_MAX)
        stack.push_async_callback(egress.close)
        sources.append((provider, KeySource(provider, egress, clock.monotonic_ns)))
    organisations = {each.name: each.projects for each in loaded.config.organisations}
    return OidcTokens(sources, clock.now_ns, organisations)


def _declared_keys(loaded: Loaded) -> dict[str, StoredKey]:
    """The keys that the configuration names by file, by id. Raises SidecarError."""
    found: dict[str, StoredKey] = {}
    for index, declared in enumerate(loaded.config.identity.keys):
        path = loaded.path(declared.file)
        try:
            row = declared.read(path.read_text(encoding="utf-8"), now_ns=clock.now_ns())
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            why = "is not text"
        except ValueError as error:
            why = str(error)
        else:
            found[row.key_id] = row
            continue
        raise SidecarError(
            f"the file of a declared key {why}",
            where=f"{path}, configuration key identity.keys.{index}.file",
            do="Mount the secret, or take the entry out.",
        )
    return found


def _check_dev(config: Config) -> None:
    for key, address in config.addresses():
        if address and not is_loopback(address):
            raise SidecarError(
                f"--dev makes keys for whoever reads this terminal, and {address} is not loopback",
                where=f"configuration key {key}",
                do="Listen on 127.0.0.1, or start without --dev and create keys.",
            )


def _dev_keys(keys: KeyBook, project: str, master: bytes) -> dict[str, str]:
    """An agent key and an approver key, the same at every start of one store under --dev."""
    kinds: tuple[KeyKind, ...] = ("agent", "approver")
    return {kind: _dev_key(keys, kind, project, master) for kind in kinds}


def _dev_key(keys: KeyBook, kind: KeyKind, project: str, master: bytes) -> str:
    for turn in itertools.count():
        text, row = mint_dev(kind, project, master=master, turn=turn, now_ns=clock.now_ns())
        found = keys.find_key(row.key_id)
        if found is None:
            keys.add_key(row)
        if found is None or found.revoked_at_ns is None:
            return text
    raise AssertionError("unreachable: the turns never end")


def _retire_dev_keys(keys: KeyBook, project: str, master: bytes) -> None:
    """Without --dev its keys open nothing."""
    kinds: tuple[KeyKind, ...] = ("agent", "approver")
    for kind in kinds:
        for turn in itertools.count():
            _, row = mint_dev(kind, project, master=master, turn=turn, now_ns=clock.now_ns())
            if keys.find_key(row.key_id) is None:
                break
            revoke_key(keys, row.key_id)


def _resolved(loaded: Loaded, upstream: Upstream) -> Upstream:
    """The upstream with its credential's file as a path from here."""
    if upstream.credential is None:
        return upstream
    file = str(loaded.path(upstream.credential.file))
    return replace(upstream, credential=replace(upstream.credential, file=file))


def _read_schema(loaded: Loaded, name: str) -> Any:
    path = loaded.path(name)
    try:
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise SidecarError(
            f"a tool's schema cannot be read: {error.strerror}",
            where=str(path),
            do="Check arguments.schema in gateway.tools.",
        ) from None
    except msgspec.DecodeError as error:
        raise SidecarError(f"a tool's schema is not JSON: {error}", where=str(path)) from None
