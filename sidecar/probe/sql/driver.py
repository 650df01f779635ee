"""One look into a database: connect, make sure the role cannot write, ask, and read the rows.

**Rules**
1. The role must not be able to write or to act for others (``role``). The transaction is read-only
   besides, with a statement timeout, and holds one statement.
2. Values are bound, never put into the text; one that does not fit its place's type is refused.
3. Numbers beyond integers come as their exact text ("60.00"), times as RFC 3339, JSON parsed.
4. A connection is made for a try and closed after it: nothing of one try is seen by another.
5. Whatever goes wrong is a code. Nothing of a row, a value or a password is in it.
"""

import asyncio
import base64
import datetime
import json
import ssl
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

import asyncpg

from sidecar.probe.extent import VALUES_MAX, count
from sidecar.probe.sql.frames import ANSWER_BYTES_MAX
from sidecar.probe.sql.messages import Job, Told
from sidecar.probe.sql.postgres import CheckedLoop
from sidecar.probe.sql.role import CANNOT_BE_USED

_INTEGERS: Final = frozenset({"int2", "int4", "int8", "oid"})
_FLOATS: Final = frozenset({"float4", "float8"})
_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "name", "citext", "unknown", "char"})


class _Refused(Exception):
    """The question may not or cannot be asked; ``code`` says why."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


async def look(job: Job) -> Told:
    """One try. Never raises for what the database does."""
    try:
        async with asyncio.timeout(job.deadline_ns / 1e9):
            return await _asked(job)
    except _Refused as refused:
        code = refused.code
    except TimeoutError:
        code = "no_whole_answer"
    except asyncpg.PostgresError as error:
        code = _code(error)
    except (OSError, asyncpg.InterfaceError):
        code = "unreachable"
    except Exception:  # a date that no datetime holds, a number of 5,000 digits …
        code = "answer_unreadable"
    return Told(identity=job.identity, code=code)


async def _asked(job: Job) -> Told:
    loop = CheckedLoop(_tls(job), job.host)
    try:
        rows = await _rows(job, loop)
    except Exception:
        if loop.refused is not None:
            raise _Refused(loop.refused) from None
        raise
    return Told(identity=job.identity, rows=rows)


async def _rows(job: Job, loop: CheckedLoop) -> list[dict[str, Any]]:
    connection = await _connected(job, loop)
    try:
        if (code := await connection.fetchval(CANNOT_BE_USED)) is not None:
            raise _Refused(code)
        for name in ("jsonb", "json"):
            await connection.set_type_codec(
                name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )
        async with connection.transaction(readonly=True):
            return await _selected(connection, job, loop)
    finally:
        connection.terminate()


async def _connected(job: Job, loop: CheckedLoop) -> "asyncpg.Connection[Any]":
    settings = {
        "application_name": "agenttwin-sidecar probe",
        "default_transaction_read_only": "on",
        "statement_timeout": str(max(1, job.deadline_ns // 1_000_000)),
    }
    connection = await asyncpg.connect(
        host=job.address,
        port=job.port,
        user=job.user,
        database=job.database,
        password=_password(job),
        ssl=False,  # the loop's own
        loop=cast(asyncio.AbstractEventLoop, loop),
        timeout=job.deadline_ns / 1e9,
        server_settings=settings,
    )
    return cast("asyncpg.Connection[Any]", connection)


def _password(job: Job) -> str:
    """The configured password; never one from a file or variable of whoever runs us."""
    if not job.password_file:
        return ""
    try:
        return Path(job.password_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _Refused("credential_unreadable") from error


def _tls(job: Job) -> ssl.SSLContext | None:
    if not job.tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if job.ca_file:
            context.load_verify_locations(job.ca_file)
        else:
            context.load_default_certs()
    except (OSError, ssl.SSLError) as error:
        raise _Refused("ca_file_unusable") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


async def _selected(
    connection: "asyncpg.Connection[Any]", job: Job, loop: CheckedLoop
) -> list[dict[str, Any]]:
    statement = await connection.prepare(job.query)
    types = [each.name for each in statement.get_parameters()]
    values = [_bound(value, kind) for value, kind in zip(job.values, types, strict=True)]
    rows: list[dict[str, Any]] = []
    size = found = 0
    loop.answer()
    async for record in statement.cursor(*values):
        row = {name: _plain(value) for name, value in record.items()}
        found += count(row)
        size += sum(len(value) for value in row.values() if isinstance(value, str))
        if size > ANSWER_BYTES_MAX or found > VALUES_MAX:
            raise _Refused("answer_too_large")
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
