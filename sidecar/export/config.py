"""The exporters' configuration (key ``export``): a list, each item one way out.

Rules
1. A private address must be named in ``allow_cidrs``, as for everything this process dials.
2. An exporter's name is its place in the queue: with another name it starts anew.
3. What the sidecar listens on is no place to export to (docs/adr/0001).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar.egress.rules import Target, TargetRefused, read_target, vet
from sidecar.errors import Problem
from sidecar.store.journal import Signal

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_OURS = frozenset({"content-type", "content-encoding", "content-length", "host", "te"})
_QUEUE_BYTES_MIN = 1024**2
_BATCH_BYTES_MIN = 16 * 1024


class Credential(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A header whose value is the content of ``file``, read anew for each connection."""

    header: str
    file: str


class Retry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pauses between attempts: below ``initial`` first, doubling to below ``max``."""

    initial: str = "1s"
    max: str = "30s"


class Queue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``bytes_max``: sealed bytes that may wait for this exporter; older ones are given up."""

    bytes_max: int = 1024**3


class Batch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``bytes_max``: about how large a request may be, before compression."""

    bytes_max: int = 1024**2


class Otlp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OTLP downstream. Over http, ``/v1/traces`` and so on are put behind ``endpoint``."""

    endpoint: str
    protocol: Literal["grpc", "http"] = "grpc"
    allow_cidrs: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    credential: Credential | None = None
    ca_file: str = ""
    compression: Literal["gzip", "none"] = "gzip"
    timeout: str = "10s"
    signals: tuple[Signal, ...] = ("traces", "logs", "metrics")
    projects: tuple[str, ...] = ()
    retry: Retry = Retry()
    queue: Queue = Queue()
    batch: Batch = Batch()


class Exporter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way out; without ``name`` it is called after its endpoint."""

    otlp: Otlp
    name: str = ""

    @property
    def title(self) -> str:
        """The name it goes by: in the queue, in metrics, in the log."""
        return self.name or re.sub(r"^https?://", "", self.otlp.endpoint).rstrip("/")

    @property
    def target(self) -> Target:
        """Where it dials."""
        return Target(name=self.title, url=self.otlp.endpoint, allow_cidrs=self.otlp.allow_cidrs)

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below the list item."""
        return list(_problems(self))


class OwnTraces(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the sidecar's own spans go; nowhere without ``otlp``. ``ratio``: how many of the traces
    that the sidecar itself begins are kept; of a caller's trace, what the caller decided."""

    otlp: Otlp | None = None
    ratio: float = 1.0

    @property
    def exporter(self) -> Exporter | None:
        """The way out."""
        return Exporter(otlp=self.otlp, name="own traces") if self.otlp is not None else None

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        found = self.exporter.problems() if self.exporter is not None else []
        if not 0 <= self.ratio <= 1:
            found.append(Problem("ratio", "must be between 0 and 1"))
        return found


def problems(exporters: Sequence[Exporter]) -> Iterator[Problem]:
    """What is wrong with the list as a whole, and with each item, dotted below ``export``."""
    titles: dict[str, int] = {}
    for index, exporter in enumerate(exporters):
        for problem in exporter.problems():
            yield Problem(f"{index}.{problem.path}", problem.text)
        first = titles.setdefault(exporter.title, index)
        if first != index:
            yield Problem(f"{index}.name", f"is that of export.{first}; give each its own name")


def _problems(exporter: Exporter) -> Iterator[Problem]:
    otlp = exporter.otlp
    try:
        endpoint = read_target(exporter.target)
        if endpoint.literal:
            vet(endpoint, (endpoint.host,))
    except TargetRefused as error:
        yield Problem("otlp.endpoint", str(error))
    else:
        if otlp.protocol == "grpc" and endpoint.base_path:
            yield Problem("otlp.endpoint", "has a path, which gRPC has no use for")
        if otlp.ca_file and endpoint.scheme == "http":
            yield Problem("otlp.ca_file", "is for an endpoint with https://")
    for path, text in (
        ("otlp.timeout", otlp.timeout),
        ("otlp.retry.initial", otlp.retry.initial),
        ("otlp.retry.max", otlp.retry.max),
    ):
        try:
            duration_ns(text, least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            yield Problem(path, str(error))
    if otlp.queue.bytes_max < _QUEUE_BYTES_MIN:
        yield Problem("otlp.queue.bytes_max", f"must be at least {_QUEUE_BYTES_MIN}")
    if otlp.batch.bytes_max < _BATCH_BYTES_MIN:
        yield Problem("otlp.batch.bytes_max", f"must be at least {_BATCH_BYTES_MIN}")
    if not otlp.signals:
        yield Problem("otlp.signals", "names none")
    yield from _header_problems(otlp)


def _header_problems(otlp: Otlp) -> Iterator[Problem]:
    for name, value in otlp.headers.items():
        if not _HEADER.match(name) or name.lower() in _OURS:
            yield Problem(f"otlp.headers.{name}", "is no header to set here")
        elif not value.isascii() or not value.isprintable():
            yield Problem(f"otlp.headers.{name}", "has a value that no header can carry")
    credential = otlp.credential
    if credential is None:
        return
    if not _HEADER.match(credential.header) or credential.header.lower() in _OURS:
        yield Problem("otlp.credential.header", "is no header to set here")
    if credential.header.lower() in {name.lower() for name in otlp.headers}:
        yield Problem("otlp.credential.header", "stands among otlp.headers too")
