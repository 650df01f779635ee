"""Probes by SQL: one SELECT a try, as a role that can only read, at a database of Postgres.

Rules
1. The address is resolved, vetted and pinned by egress; TLS verifies the name, not the address.
2. The role must not be able to write: a superuser, one that may write any table or a column of
   it, and one that may become such a role, is refused. The transaction is read-only besides, with
   a statement timeout, and holds one statement.
3. Values are bound, never put into the text; one that does not fit its place's type is refused.
4. Numbers beyond integers come as their exact text ("60.00"), times as RFC 3339, JSON parsed.
5. A connection is made for a try and closed after it: nothing of one try is seen by another.
"""

import asyncio
import base64
import datetime
import json
import ssl
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit
from uuid import UUID

import asyncpg

from processors.model.evidence import Evidence
from sidecar import clock
from sidecar.egress.client import Egress
from sidecar.egress.rules import TargetRefused
from sidecar.probe.config import Database
from sidecar.probe.plan import ProbeRequest, SqlAsk, judge_answer, unknown

ROWS_MAX = 1000
TEXT_MAX = 1024**2
_INTEGERS: Final = frozenset({"int2", "int4", "int8", "oid"})
_FLOATS: Final = frozenset({"float4", "float8"})
_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "name", "citext", "unknown", "char"})
_CAN_WRITE: Final = """
    SELECT EXISTS (
        SELECT FROM pg_roles r
        WHERE pg_has_role(current_user, r.oid, 'MEMBER') AND (r.rolsuper OR EXISTS (
            SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname !~ '^pg_'
            AND n.nspname != 'information_schema'
            AND (has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
                OR has_any_column_privilege(r.oid, c.oid, 'INSERT, UPDATE')))))
"""


class _Refused(Exception):
    """The question may not or cannot be asked; ``code`` says why."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


class SqlAsker:
    """Asks the databases of a configuration; paths of files start at ``folder``."""

    def __init__(self, databases: Sequence[Database], egress: Egress, folder: Path) -> None:
        self._databases = {each.name: each for each in databases}
        self._egress = egress
        self._folder = folder

    async def ask(self, request: ProbeRequest, attempts: int, now: clock.Now) -> Evidence:
        """One try."""
        assert request.sql is not None
        data = {"attempts": attempts}
        try:
            async with asyncio.timeout(request.deadline_ns / 1e9):
                rows = await self._rows(request.sql, request.deadline_ns)
        except _Refused as refused:
            return unknown(request, refused.code, now_ns=now(), data=data)
        except TimeoutError:
            return unknown(request, "no_whole_answer", now_ns=now(), data=data)
        except TargetRefused:
            return unknown(request, "unreachable", now_ns=now(), data=data)
        except asyncpg.PostgresError as error:
            return unknown(request, _code(error), now_ns=now(), data=data)
        except (OSError, asyncpg.InterfaceError):
            return unknown(request, "unreachable", now_ns=now(), data=data)
        seen = {**data, "rows": len(rows)}
        at_ns = now()
        return judge_answer(request, "rows", rows, at_ns=at_ns, now_ns=at_ns, data=seen)

    async def _rows(self, ask: SqlAsk, deadline_ns: int) -> list[dict[str, Any]]:
        connection = await self._connected(self._databases[ask.database], deadline_ns)
        try:
            if await connection.fetchval(_CAN_WRITE):
                raise _Refused("role_can_write")
            await connection.set_type_codec(
                "jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )
            await connection.set_type_codec(
                "json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )
            async with connection.transaction(readonly=True):
                return await _selected(connection, ask)
        finally:
            connection.terminate()

    async def _connected(self, database: Database, deadline_ns: int) -> "asyncpg.Connection[Any]":
        endpoint, addresses = await self._egress.vetted(database.target, deadline_ns=deadline_ns)
        parts = urlsplit(database.url)
        settings = {
            "application_name": "agenttwin-sidecar probe",
            "default_transaction_read_only": "on",
            "statement_timeout": str(max(1, deadline_ns // 1_000_000)),
        }
        connection = await asyncpg.connect(
            host=addresses[0],
            port=endpoint.port,
            user=unquote(parts.username or ""),
            database=parts.path.removeprefix("/"),
            password=self._password(database),
            ssl=self._tls(database, endpoint.host),
            timeout=deadline_ns / 1e9,
            server_settings=settings,
        )
        return cast("asyncpg.Connection[Any]", connection)

    def _password(self, database: Database) -> str:
        """The configured password; never one from a file or variable of whoever runs us."""
        if not database.password_file:
            return ""
        try:
            path = self._folder / database.password_file
            return path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _Refused("credential_unreadable") from error

    def _tls(self, database: Database, host: str) -> ssl.SSLContext | bool:
        if database.tls == "off":
            return False
        file = str(self._folder / database.ca_file) if database.ca_file else None
        try:
            context = _Named(ssl.PROTOCOL_TLS_CLIENT)
            if file is not None:
                context.load_verify_locations(file)
            else:
                context.load_default_certs()
        except (OSError, ssl.SSLError) as error:
            raise _Refused("ca_file_unusable") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.name = host
        return context


class _Named(ssl.SSLContext):
    """Verifies the name that was configured, whatever address was dialled."""

    name: str

    def wrap_bio(self, incoming: Any, outgoing: Any, *rest: Any, **more: Any) -> ssl.SSLObject:
        more["server_hostname"] = self.name
        return super().wrap_bio(incoming, outgoing, *rest[:1], **more)


async def _selected(connection: "asyncpg.Connection[Any]", ask: SqlAsk) -> list[dict[str, Any]]:
    statement = await connection.prepare(ask.query)
    types = [each.name for each in statement.get_parameters()]
    values = [_bound(value, kind) for value, kind in zip(ask.values, types, strict=True)]
    rows: list[dict[str, Any]] = []
    size = 0
    async for record in statement.cursor(*values):
        row = {name: _plain(value) for name, value in record.items()}
        size += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(rows) == ROWS_MAX or size > TEXT_MAX:
            raise _Refused("too_many_rows")
        rows.append(row)
    return rows


def _bound(value: Any, kind: str) -> Any:
    """A value as the type its place has. Raises _Refused."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        if kind == "bool":
            return {"true": True, "false": False}[text]
        if kind in _INTEGERS:
            return int(text)
        if kind in _FLOATS:
            return float(text)
        if kind == "numeric":
            return Decimal(text)
        if kind == "uuid":
            return UUID(text)
        if kind in ("timestamptz", "timestamp"):
            return datetime.datetime.fromisoformat(text)
        if kind == "date":
            return datetime.date.fromisoformat(text)
    except (KeyError, ValueError, InvalidOperation):
        raise _Refused("sql_value_does_not_fit") from None
    if kind in _TEXTS:
        if "\0" in text:
            raise _Refused("sql_value_does_not_fit")
        return text
    raise _Refused("sql_value_does_not_fit")


def _plain(value: Any) -> Any:
    """A column's value as an expression sees it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


def _code(error: asyncpg.PostgresError) -> str:
    """What a refusal of the server says, without its words, which may quote values."""
    known = {
        asyncpg.QueryCanceledError: "no_whole_answer",
        asyncpg.InvalidAuthorizationSpecificationError: "not_let_in",
        asyncpg.InsufficientPrivilegeError: "not_permitted",
        asyncpg.ReadOnlySQLTransactionError: "not_a_read",
        asyncpg.SyntaxOrAccessError: "query_refused",
    }
    return next((code for kind, code in known.items() if isinstance(error, kind)), "sql_error")
