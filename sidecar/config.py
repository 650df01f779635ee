"""The whole configuration: defaults < sidecar.yaml < environment < flags.

Rules
1. Each package owns its part; this file composes them, reads the sources and reports every
   problem at once, with file:line.
2. Unknown keys are refused, in the file and among ``SIDECAR_*`` variables: a misspelt limit is no
   limit.
3. YAML is read by the 1.2 core rules: ``off`` and ``no`` are text, not booleans.
"""

import ipaddress
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.inspect import (
    BoolType,
    FloatType,
    IntType,
    LiteralType,
    StrType,
    StructType,
    Type,
    type_info,
)

from processors.value import duration_ns
from sidecar.egress.rules import Target, TargetRefused, leads_back, read_target
from sidecar.errors import Problem, SidecarError
from sidecar.evaluate.judging.config import Judge, SyntheticUsers
from sidecar.export.config import Exporter, OwnTraces
from sidecar.export.config import problems as export_problems
from sidecar.expression.document import Document, read, shape_problems
from sidecar.gateway.budget import Budget
from sidecar.gateway.budget import problems as budget_problems
from sidecar.gateway.checkpoint.config import Audit
from sidecar.gateway.config import Approvals, Policy
from sidecar.gateway.config import Config as Gateway
from sidecar.identity.config import Config as Identity
from sidecar.identity.config import Organisation, organisation_problems
from sidecar.identity.projects import wrong_project_name
from sidecar.listen.address import split_address
from sidecar.listen.config import Tls
from sidecar.pipeline.config import Config as Assemble
from sidecar.pipeline.content import Content
from sidecar.pipeline.detection import Config as Detect
from sidecar.pipeline.hearing import Claims
from sidecar.probe.config import Database, Probe
from sidecar.probe.config import problems as probe_problems
from sidecar.receive.config import Config as Receive
from sidecar.replay.config import Config as Replay
from sidecar.store.location import is_postgres, read_location

DEFAULT_FILE = "sidecar.yaml"
_SQLITE = "sqlite:///"
ENVIRONMENT_PREFIX = "SIDECAR_"
# Parts that others refer to: while they have not their shape, references cannot be judged.
_REFERRED = frozenset({"gateway", "receive", "control", "metrics"})
_MAY_BE_OFF = frozenset({"receive.grpc", "receive.http", "control.grpc", "metrics.listen"})
# Set by us for agents (interfaces.md); not configuration, and harmless when inherited.
ENVIRONMENT_KNOWN = frozenset({"SIDECAR_GATEWAY_URL", "SIDECAR_AGENT_KEY"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_MEMORY = ":memory:"  # SQLite's word for a database of one process


class Store(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where data lives: ``sqlite:///<folder>``, or ``postgresql://<user>@<host>/<database>``.

    ``local`` is the data folder beside a Postgres: the journal stays there. ``password_file`` holds
    the password for it; without, what libpq reads counts (PGPASSWORD, a password file).
    """

    url: str = "sqlite:///./sidecar-data"
    local: str = "./sidecar-data"
    password_file: str = ""

    @property
    def on_postgres(self) -> bool:
        """Whether the ledger and the traces lie in a Postgres database."""
        return is_postgres(self.url)

    @property
    def folder(self) -> str:
        """The data folder as written."""
        return self.local if self.on_postgres else self.url.removeprefix(_SQLITE)

    def problems(self) -> list[Problem]:
        """What is wrong; a URL is never quoted, it may hold a secret."""
        if not self.on_postgres:
            if not self.url.startswith(_SQLITE):
                text = "must be sqlite:///<folder> or postgresql://<user>@<host>/<database>"
                return [Problem("url", text)]
            none = not self.folder or self.folder.startswith(_MEMORY)
            return [Problem("url", "names no folder: write sqlite:///<folder>")] if none else []
        try:
            read_location(self.url)
        except ValueError as error:
            return [Problem("url", str(error))]
        return [] if self.local else [Problem("local", "names no folder; the journal lies there")]


class Seal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``key_file``: 32 random bytes in hex or base64, outside the data folder."""

    key_file: str = ""


class Retention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long published traces, the sealed telemetry they were made from, and what items of
    datasets say that were made from runs, are kept."""

    traces: str = "30d"
    content: str = "7d"
    datasets: str = "365d"


class Project(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant."""

    name: str
    content: Content = Content()
    retention: Retention = Retention()


class Control(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where people and CI talk to the sidecar: by HTTP, and by gRPC where ``grpc`` is no empty
    address."""

    listen: str = "127.0.0.1:4320"
    tls: Tls = Tls()
    grpc: str = "127.0.0.1:4321"
    grpc_tls: Tls = Tls()


class Metrics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prometheus metrics and health; an empty address turns the listener off."""

    listen: str = "127.0.0.1:4322"
    tls: Tls = Tls()


class Telemetry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the sidecar tells of itself beside metrics and log; nothing unless configured."""

    traces: OwnTraces = OwnTraces()


class Client(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How commands reach a running sidecar: its control address and the caller's own key.

    ``ca_file``: PEM of who signed the control listener's certificate, where the system does not
    know it. ``project``: in which one, where the key is for several; empty: in its first.
    """

    url: str = "http://127.0.0.1:4320"
    key: str = ""
    ca_file: str = ""
    project: str = ""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything. ``folder`` of relative paths is that of the file they stand in."""

    store: Store = Store()
    seal: Seal = Seal()
    projects: tuple[Project, ...] = (Project(name="default"),)
    organisations: tuple[Organisation, ...] = ()
    identity: Identity = Identity()
    receive: Receive = Receive()
    assemble: Assemble = Assemble()
    detect: Detect = Detect()
    claims: Claims = Claims()
    gateway: Gateway = Gateway()
    policy: Policy = Policy()
    approvals: Approvals = Approvals()
    budgets: tuple[Budget, ...] = ()
    audit: Audit = Audit()
    databases: tuple[Database, ...] = ()
    probes: tuple[Probe, ...] = ()
    export: tuple[Exporter, ...] = ()
    control: Control = Control()
    metrics: Metrics = Metrics()
    telemetry: Telemetry = Telemetry()
    client: Client = Client()
    judge: Judge = Judge()
    synthetic_users: SyntheticUsers = SyntheticUsers()
    replay: Replay = Replay()

    def project(self, name: str) -> Project:
        """The project's settings; one that is not listed has the defaults."""
        return next((p for p in self.projects if p.name == name), Project(name=name))

    def problems(self) -> list[Problem]:
        """Every problem of every part, dotted from the root."""
        found = [
            *_below("receive", self.receive.problems()),
            *_below("assemble", self.assemble.problems()),
            *_below("detect", self.detect.problems()),
            *_below("claims", self.claims.problems()),
            *_below("gateway", self.gateway.problems()),
            *_below("policy", self.policy.problems()),
            *_below("approvals", self.approvals.problems()),
            *_below("audit", self.audit.problems()),
            *_below("judge", self.judge.problems()),
            *_below("synthetic_users", self.synthetic_users.problems()),
            *_below("replay", self.replay.problems()),
            *_below("budgets", budget_problems(self.budgets, self.gateway.priced)),
            *self._unorganised(),
            *self._unmeetable(),
        ]
        found += probe_problems(self.probes, self.databases, self._upstream_names())
        for path, tls in (("control.tls", self.control.tls), ("metrics.tls", self.metrics.tls)):
            found += _below(path, list(tls.problems()))
        found += _below("control.grpc_tls", list(self.control.grpc_tls.problems(grpc=True)))
        for path, address in self.addresses():
            found += _address_problems(path, address)
        found += [*_below("export", list(export_problems(self.export))), *self._loops()]
        found += _below("store", self.store.problems())
        found += _below("telemetry.traces", self.telemetry.traces.problems())
        found += _below("projects", list(self._named_projects()))
        names = [project.name for project in self.projects]
        found += _below("organisations", list(organisation_problems(self.organisations, names)))
        found += _below("identity", self.identity.problems(names, self.organisations))
        found += self._upstream_loops()
        for index, project in enumerate(self.projects):
            found += _retention_problems(f"projects.{index}.retention", project.retention)
            found += _below(f"projects.{index}.content", project.content.problems())
        return found

    def _loops(self) -> Iterator[Problem]:
        """Exporters that lead back to a listener of ours (docs/adr/0001)."""
        ways = [(f"export.{index}", each) for index, each in enumerate(self.export)]
        if self.telemetry.traces.exporter is not None:
            ways.append(("telemetry.traces", self.telemetry.traces.exporter))
        for path, exporter in ways:
            key = self._led_back(exporter.target)
            if key is not None:
                text = f"leads back to the sidecar itself, which listens there ({key})"
                yield Problem(f"{path}.otlp.endpoint", text)

    def _upstream_loops(self) -> list[Problem]:
        """Upstreams that are a listener of ours: no call of a tool is served there."""
        found = []
        named = [(f"upstreams.{n}", each.target) for n, each in enumerate(self.gateway.upstreams)]
        named += [(f"mcp.{n}", each.upstream.target) for n, each in enumerate(self.gateway.mcp)]
        for where, target in named:
            key = self._led_back(target)
            if key is not None:
                text = f"leads back to the sidecar itself, which listens there ({key})"
                found.append(Problem(f"gateway.{where}.url", text))
        return found

    def _led_back(self, target: Target) -> str | None:
        """The key of the listener that a target leads back to."""
        try:
            endpoint = read_target(target)
        except TargetRefused:
            return None  # told by its owner
        for key, address in self.addresses():
            if not address or _address_problems(key, address):
                continue
            if leads_back(endpoint, *split_address(address)):
                return key
        return None

    @property
    def organisations_of(self) -> dict[str, tuple[str, ...]]:
        """The names of the organisations that each project belongs to."""
        return {
            project: tuple(each.name for each in self.organisations if project in each.projects)
            for project in {name for each in self.organisations for name in each.projects}
        }

    def _unorganised(self) -> Iterator[Problem]:
        """Budgets of organisations where there are none: nothing would fall under them."""
        for index, budget in enumerate(self.budgets):
            if budget.scope == "organisation" and not self.organisations:
                yield Problem(f"budgets.{index}.scope", "there are no organisations")

    def _unmeetable(self) -> Iterator[Problem]:
        """Tools that demand a sign-in where no provider could tell of one: nobody would approve."""
        for index, tool in enumerate(self.gateway.tools):
            if tool.step_up.demand and not self.identity.oidc:
                text = "no sign-in can meet it: identity.oidc names no provider"
                yield Problem(f"gateway.tools.{index}.step_up", text)

    def _named_projects(self) -> Iterator[Problem]:
        if not self.projects:
            yield Problem("", "names none; leave the key out for the project default")
        seen: set[str] = set()
        for index, project in enumerate(self.projects):
            why = wrong_project_name(project.name)
            if why is not None:
                yield Problem(f"{index}.name", why)
            if project.name in seen:
                yield Problem(f"{index}.name", f"{project.name!r} is named twice")
            seen.add(project.name)

    def _upstream_names(self) -> set[str]:
        return {upstream.name for upstream in self.gateway.upstreams}

    def certificates(self) -> Iterator[tuple[str, Tls]]:
        """Each listener's TLS, by its key."""
        yield "receive.grpc_tls", self.receive.grpc_tls
        yield "receive.http_tls", self.receive.http_tls
        yield "gateway.tls", self.gateway.tls
        yield "control.tls", self.control.tls
        yield "control.grpc_tls", self.control.grpc_tls
        yield "metrics.tls", self.metrics.tls

    def addresses(self) -> Iterator[tuple[str, str]]:
        """Each listener's key and address; an empty address is off."""
        yield "receive.grpc", self.receive.grpc
        yield "receive.http", self.receive.http
        yield "gateway.listen", self.gateway.listen
        yield "control.listen", self.control.listen
        yield "control.grpc", self.control.grpc
        yield "metrics.listen", self.metrics.listen


class Loaded(Struct, frozen=True, kw_only=True):
    """A configuration and where it comes from.

    ``folder`` is where relative paths of the file start; ``store_folder`` is the data folder, taken
    from the working directory when a flag or variable names the store.
    """

    config: Config
    folder: str
    file: str | None
    store_folder: str

    def path(self, text: str) -> Path:
        """A path written in the configuration file."""
        return Path(self.folder) / text


def load(
    file: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    also: Callable[[Loaded], list[Problem]] = lambda _: [],
) -> Loaded:
    """Read, merge, check; ``overrides`` maps dotted paths to flags. Raises SidecarError.

    ``also`` finds what costs more to check than every command should pay.
    """
    environ = os.environ if environ is None else environ
    path = Path(file) if file else Path(DEFAULT_FILE)
    document = Document(name=str(path), value={}, lines={})
    if path.is_file():
        document = _read(path)
    elif file:
        raise SidecarError("there is no configuration file", where=file, do="Check --config.")
    used = str(path) if path.is_file() else None
    if not _is_usable(str(path)):
        raise SidecarError(
            "the configuration lies where a name is not UTF-8",
            where=ascii(str(path)),
            do="Name its folders and itself in UTF-8.",
        )
    tree = document.value
    problems = _environment_into(tree, environ)
    for dotted, value in (overrides or {}).items():
        if value is not None:
            _put(tree, dotted, value)
    shape = [*shape_problems(type_info(Config), tree, ""), *_unusable_texts(tree, "")]
    unshaped = {problem.path.partition(".")[0] for problem in shape}
    config = msgspec.convert({k: v for k, v in tree.items() if k not in unshaped}, Config)
    key = "store.local" if config.store.on_postgres else "store.url"
    named_here = _variable(key) in environ or (overrides or {}).get(key)
    loaded = Loaded(
        config=config,
        folder=str(path.parent),
        file=used,
        store_folder=str((Path() if named_here else path.parent) / config.store.folder),
    )
    problems += [*shape, *_meant([*config.problems(), *also(loaded)], unshaped)]
    if problems:
        raise SidecarError(_report(problems, document, used), do="Correct it and start again.")
    return loaded


def _is_usable(text: str) -> bool:
    """Whether a text can be told to another process and name a file: UTF-8 without NUL."""
    return "\0" not in text and (text.isascii() or _SURROGATE.search(text) is None)


def _unusable_texts(value: Any, path: str) -> Iterator[Problem]:
    """Texts that no file, process or store could be given; they are not quoted."""
    if isinstance(value, str):
        if not _is_usable(value):
            yield Problem(path, "must be UTF-8 without NUL")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _unusable_texts(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unusable_texts(item, f"{path}.{index}")


def _meant(problems: list[Problem], unshaped: set[str]) -> Iterator[Problem]:
    """The problems of values that do not only follow from a part that has not its shape."""
    follow = {"probes", "export"} if unshaped & _REFERRED else set()
    seen = set()
    for problem in problems:
        part = problem.path.partition(".")[0]
        if part not in unshaped | follow and (problem.path, problem.text) not in seen:
            seen.add((problem.path, problem.text))
            yield problem


def is_loopback(address: str) -> bool:
    """Whether the address binds to loopback only."""
    host, _ = split_address(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(path: Path) -> Document:
    try:
        document = read(path.read_text(encoding="utf-8"), name=str(path))
    except UnicodeDecodeError as error:
        raise SidecarError(f"the configuration is not UTF-8: {error}", where=str(path)) from None
    except OSError as error:
        raise SidecarError(
            f"the configuration cannot be read: {error.strerror}", where=str(path)
        ) from None
    if not isinstance(document.value, dict):
        raise SidecarError("the configuration must be a mapping", where=f"{path}:1")
    return document


def environment_names() -> dict[str, tuple[str, Type]]:
    """Every ``SIDECAR_*`` variable, with dotted key and type: one per scalar outside lists."""
    return {_variable(path): (path, kind) for path, kind in _scalars(type_info(Config), "")}


def _variable(path: str) -> str:
    return ENVIRONMENT_PREFIX + path.replace(".", "_").upper()


def _scalars(kind: Type, path: str) -> Iterator[tuple[str, Type]]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _scalars(
                field.type, f"{path}.{field.encode_name}" if path else field.encode_name
            )
    elif isinstance(kind, StrType | IntType | BoolType | FloatType | LiteralType):
        yield path, kind


def _environment_into(tree: dict[str, Any], environ: Mapping[str, str]) -> list[Problem]:
    names, problems = environment_names(), []
    for name in sorted(environ):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in ENVIRONMENT_KNOWN:
            continue
        if name not in names:
            problems.append(Problem(f"${name}", "is no configuration key"))
            continue
        path, kind = names[name]
        _put(tree, path, _from_text(environ[name], kind))
    return problems


def _from_text(text: str, kind: Type) -> Any:
    if isinstance(kind, IntType) and re.fullmatch(r"[-+]?[0-9]{1,18}", text):
        return int(text)
    if isinstance(kind, BoolType) and text in ("true", "false"):
        return text == "true"
    return text


def _put(tree: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for name in parents:
        below = tree.setdefault(name, {})
        if not isinstance(below, dict):
            return  # the shape check names this one
        tree = below
    tree[last] = value


def _address_problems(path: str, address: str) -> list[Problem]:
    if not address and path in _MAY_BE_OFF:
        return []
    try:
        split_address(address)
    except ValueError as error:
        return [Problem(path, str(error))]
    return []


def _retention_problems(path: str, retention: Retention) -> list[Problem]:
    found = []
    for key in ("traces", "content", "datasets"):
        try:
            duration_ns(getattr(retention, key))
        except ValueError as error:
            found.append(Problem(f"{path}.{key}", str(error)))
    return found


def _below(prefix: str, problems: list[Problem]) -> list[Problem]:
    return [
        Problem(f"{prefix}.{problem.path}" if problem.path else prefix, problem.text)
        for problem in problems
    ]


def _report(problems: list[Problem], document: Document, file: str | None) -> str:
    texts = []
    for problem in sorted(problems, key=lambda each: document.line(each.path) or 0):
        line = document.line(problem.path)
        where = f"{file}:{line}: " if file and line and not problem.path.startswith("$") else ""
        texts.append(f"{where}{problem.path or 'the file'} {problem.text}")
    count = "a problem" if len(texts) == 1 else f"{len(texts)} problems"
    return f"the configuration has {count}:\n  " + "\n  ".join(texts) + "\n"
