"""The configuration of probes (``probes``, ``databases``): evidence to gather after a trace."""

import re
from collections.abc import Iterator
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar.egress.rules import Target, undialable
from sidecar.errors import Problem
from sidecar.store.location import read_location

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_VALUE = re.compile(r"(?:arguments|step|trace)(?:\.[A-Za-z_][A-Za-z0-9_]*)+\Z")
_PLACEHOLDER = re.compile(r"\$([0-9]+)")
POSTGRES_PORT = 5432


class HttpProbe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GET at a gateway upstream (``upstream`` + path) or at a ``url`` with ``allow_cidrs``."""

    get: str = ""
    upstream: str = ""
    url: str = ""
    allow_cidrs: tuple[str, ...] = ()


class SqlProbe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One SELECT at a database of ``databases``. ``$1``, ``$2`` … are bound to ``parameters``, each
    a value such as ``arguments.order_id``; nothing is ever put into the text."""

    database: str
    query: str
    parameters: tuple[str, ...] = ()


class McpCredential(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A header whose value is the content of ``file``, read at every try."""

    header: str
    file: str


class McpProbe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ``resources/read`` at an MCP server (streamable HTTP). ``resource``: a URI in which
    ``{arguments.x}`` stands for a value, percent-encoded."""

    url: str
    resource: str
    allow_cidrs: tuple[str, ...] = ()
    credential: McpCredential | None = None


class Database(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Postgres that probes may ask, as a role that can only read.

    ``url`` holds no password: that is in ``password_file``. ``tls``: require verifies the server
    by ``ca_file`` or the system's authorities.
    """

    name: str
    url: str
    password_file: str = ""
    allow_cidrs: tuple[str, ...] = ()
    tls: Literal["require", "off"] = "require"
    ca_file: str = ""

    @property
    def target(self) -> Target:
        """Where it is dialled, for egress to vet."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        url = f"https://{host}:{parts.port or POSTGRES_PORT}"
        return Target(name=self.name, url=url, allow_cidrs=self.allow_cidrs)

    def problems(self) -> Iterator[Problem]:
        """What is wrong with the values."""
        if not _NAME.match(self.name):
            yield Problem("name", f"{self.name!r} is no name")
        try:
            read_location(self.url)
        except ValueError as error:
            yield Problem("url", str(error).replace("store.password_file", "password_file"))
            return
        parts = urlsplit(self.url)
        if not parts.hostname or not parts.username:
            yield Problem("url", "must be postgresql://<role>@<host>[:port]/<database>")
        elif (why := undialable(self.target)) is not None:
            yield Problem("url", why)
        if parts.query:
            yield Problem("url", "has options; use the keys tls and ca_file")
        if self.ca_file and self.tls == "off":
            yield Problem("ca_file", "is for tls: require")


class Probe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One probe: ``when`` picks steps (CEL: step, trace), ``expect`` judges (CEL: step, trace,
    arguments, and response or rows). ``deadline`` bounds one try; ``until`` is how long state may
    take to settle; ``stable_for`` is how long it must then stay so; ``fresh`` is how long after the
    step state still speaks of it (empty: for ever)."""

    name: str
    when: str
    expect: str
    http: HttpProbe | None = None
    sql: SqlProbe | None = None
    mcp: McpProbe | None = None
    deadline: str = "5s"
    until: str = "0s"
    stable_for: str = "0s"
    fresh: str = ""

    @property
    def deadline_ns(self) -> int:
        """``deadline`` in nanoseconds."""
        return duration_ns(self.deadline)

    @property
    def until_ns(self) -> int:
        """``until`` in nanoseconds; never less than ``stable_for``, which needs the time."""
        return max(duration_ns(self.until), self.stable_ns)

    @property
    def stable_ns(self) -> int:
        """``stable_for`` in nanoseconds."""
        return duration_ns(self.stable_for)

    @property
    def fresh_ns(self) -> int | None:
        """``fresh`` in nanoseconds; None for no bound."""
        return duration_ns(self.fresh) if self.fresh else None

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below the probe."""
        return list(_problems(self))


def problems(
    probes: tuple[Probe, ...], databases: tuple[Database, ...], upstreams: set[str]
) -> Iterator[Problem]:
    """What is wrong with both lists, dotted from the root."""
    names: set[str] = set()
    for index, database in enumerate(databases):
        for problem in database.problems():
            yield Problem(f"databases.{index}.{problem.path}", problem.text)
        if database.name in names:
            yield Problem(f"databases.{index}.name", f"{database.name!r} is named twice")
        names.add(database.name)
    for index, probe in enumerate(probes):
        for problem in probe.problems():
            yield Problem(f"probes.{index}.{problem.path}", problem.text)
        if probe.http is not None and probe.http.upstream not in {"", *upstreams}:
            text = f"there is no upstream {probe.http.upstream!r}"
            yield Problem(f"probes.{index}.http.upstream", text)
        if probe.sql is not None and probe.sql.database not in names:
            text = f"there is no database {probe.sql.database!r} in databases"
            yield Problem(f"probes.{index}.sql.database", text)


def _problems(probe: Probe) -> Iterator[Problem]:
    least = {"deadline": TIMEOUT_LEAST_NS, "until": 0, "stable_for": 0}
    if probe.fresh:
        least["fresh"] = TIMEOUT_LEAST_NS
    for key, least_ns in least.items():
        try:
            duration_ns(getattr(probe, key), least_ns=least_ns)
        except ValueError as error:
            yield Problem(key, str(error))
    ways = [way for way in (probe.http, probe.sql, probe.mcp) if way is not None]
    if len(ways) != 1:
        yield Problem("http", "name one way to ask: http, sql or mcp")
    if probe.http is not None:
        if bool(probe.http.upstream) == bool(probe.http.url):
            yield Problem("http", "name either upstream (with get) or url, not both")
        if probe.http.upstream and not probe.http.get:
            yield Problem("http.get", "is missing")
    if probe.sql is not None:
        yield from _sql_problems(probe.sql)
    if probe.mcp is not None:
        target = Target(name=probe.name, url=probe.mcp.url, allow_cidrs=probe.mcp.allow_cidrs)
        if (why := undialable(target)) is not None:
            yield Problem("mcp.url", why)


def _sql_problems(sql: SqlProbe) -> Iterator[Problem]:
    places = {int(number) for number in _PLACEHOLDER.findall(sql.query)}
    if places != set(range(1, len(sql.parameters) + 1)):
        text = f"has {len(sql.parameters)} values, and the query asks for $1 to ${len(places)}"
        yield Problem("sql.parameters", text)
    for index, value in enumerate(sql.parameters):
        if not _VALUE.match(value):
            yield Problem(f"sql.parameters.{index}", "is no value; write e.g. arguments.order_id")
    if not re.match(r"\s*(?:select|with|table|values)\b", sql.query, re.IGNORECASE):
        yield Problem("sql.query", "must be a SELECT")
    if "{" in sql.query:
        yield Problem("sql.query", "takes values by $1 and parameters only")
