"""What a ``sync.yaml`` says: where the rows of each entity come from, and how they become rows.

Rules
1. These records are the format; all that is wrong is found before anything is asked.
2. A source only reads: one SELECT with bound values, one GET, or a file.
3. More rows than ``rows_max`` are refused, never cut off: a world with a part of its rows is
   another world.
"""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar.egress.rules import Target, undialable
from sidecar.errors import Problem
from sidecar.expression.cel import ExpressionInvalid, compile_expression
from sidecar.probe.config import Database, McpCredential
from sidecar.twins.group import TwinGroup
from sidecar.twins.world import NoSuchEntity

SQLITE = "sqlite:///"
ROWS_MOST = 1_000_000
_PLACEHOLDER = re.compile(r"\$([0-9]+)")
_SELECT = re.compile(r"\s*(?:select|with|table|values)\b", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


class SqlSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One SELECT at a database of ``databases``; ``$1``, ``$2`` … are bound to ``parameters``."""

    database: str
    query: str
    parameters: tuple[str | int | float | bool, ...] = ()


class HttpSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GET of JSON; ``rows`` (CEL over ``response``) are the rows in it."""

    url: str
    path: str = ""
    allow_cidrs: tuple[str, ...] = ()
    credential: McpCredential | None = None
    rows: str = "response"

    def target(self, name: str) -> Target:
        """Where it is dialled, for egress to vet."""
        return Target(name=name, url=self.url, allow_cidrs=self.allow_cidrs)


class EntitySync(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The source of one entity: ``sql``, ``http`` or ``file`` (.json, .json.gz, .csv).

    ``columns``: column of the source to field of the row; without it all columns by their names.
    """

    sql: SqlSource | None = None
    http: HttpSource | None = None
    file: str = ""
    columns: dict[str, str] = {}
    rows_max: int = 10_000
    deadline: str = "60s"

    @property
    def deadline_ns(self) -> int:
        """How long the source may take, in all."""
        return duration_ns(self.deadline)

    @property
    def source(self) -> str:
        """What is told of where rows came from; no address and no secret."""
        if self.sql is not None:
            return f"sql {self.sql.database}"
        return f"http {self.http.url}" if self.http is not None else f"file {self.file}"


class Sync(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole ``sync.yaml``. ``databases`` are as in ``sidecar.yaml``, or ``sqlite:///<file>``."""

    sync: str
    twins: tuple[str, ...]
    entities: dict[str, EntitySync]
    databases: tuple[Database, ...] = ()

    def problems(self, group: TwinGroup) -> Iterator[Problem]:
        """What is wrong with it for these twins."""
        if not _NAME.match(self.sync):
            yield Problem("sync", f"{self.sync!r} cannot be a name")
        if not self.entities:
            yield Problem("entities", "must name at least one entity")
        names = set()
        for index, database in enumerate(self.databases):
            where = f"databases.{index}"
            if database.name in names:
                yield Problem(f"{where}.name", f"{database.name!r} is named twice")
            names.add(database.name)
            yield from _database(where, database)
        for name, entity in self.entities.items():
            yield from _entity(f"entities.{name}", name, entity, group)
            if entity.sql is not None and entity.sql.database not in names:
                text = f"there is no database {entity.sql.database!r} in databases"
                yield Problem(f"entities.{name}.sql.database", text)


def _database(where: str, database: Database) -> Iterator[Problem]:
    if not database.url.startswith(SQLITE):
        for one in database.problems():
            yield Problem(f"{where}.{one.path}", one.text)
        return
    if len(database.url) == len(SQLITE):
        yield Problem(f"{where}.url", "names no file: write sqlite:///shop.db")
    given = {"password_file": database.password_file, "ca_file": database.ca_file}
    given["allow_cidrs"] = " ".join(database.allow_cidrs)
    for key, value in given.items():
        if value:
            yield Problem(f"{where}.{key}", "means nothing to a file")


def _entity(where: str, name: str, one: EntitySync, group: TwinGroup) -> Iterator[Problem]:
    if sum((one.sql is not None, one.http is not None, bool(one.file))) != 1:
        yield Problem(where, "needs exactly one of sql, http and file")
    if not 1 <= one.rows_max <= ROWS_MOST:
        yield Problem(f"{where}.rows_max", f"must be between 1 and {ROWS_MOST}")
    try:
        duration_ns(one.deadline, least_ns=TIMEOUT_LEAST_NS)
    except ValueError as error:
        yield Problem(f"{where}.deadline", str(error))
    fields = list(one.columns.values())
    if len(set(fields)) != len(fields):
        yield Problem(f"{where}.columns", "names a field twice")
    try:
        twin, entity = group.entity(name)
    except NoSuchEntity as error:
        yield Problem(where, str(error))
    else:
        key = group.twins[twin].declaration.entities[entity].key
        if one.columns and key not in fields:
            yield Problem(f"{where}.columns", f"has no {key}, the key of {name}")
    if one.sql is not None:
        yield from _sql(f"{where}.sql", one.sql)
    if one.http is not None:
        yield from _http(f"{where}.http", name, one.http)


def _sql(where: str, sql: SqlSource) -> Iterator[Problem]:
    places = {int(number) for number in _PLACEHOLDER.findall(sql.query)}
    if places != set(range(1, len(sql.parameters) + 1)):
        text = f"has {len(sql.parameters)} values, and the query asks for $1 to ${len(places)}"
        yield Problem(f"{where}.parameters", text)
    if not _SELECT.match(sql.query) or ";" in sql.query:
        yield Problem(f"{where}.query", "must be one SELECT, without a ;")


def _http(where: str, name: str, http: HttpSource) -> Iterator[Problem]:
    if (why := undialable(http.target(name))) is not None:
        yield Problem(f"{where}.url", why)
    if http.path and not http.path.startswith("/"):
        yield Problem(f"{where}.path", "must start with /")
    try:
        compile_expression(http.rows, variables=frozenset({"response"}))
    except ExpressionInvalid as error:
        yield Problem(f"{where}.rows", str(error))


def rows_of(http: HttpSource, response: Any) -> Any:
    """The rows in an answer. Raises ExpressionFailed."""
    compiled = compile_expression(http.rows, variables=frozenset({"response"}))
    return compiled.evaluate({"response": response}, {})
