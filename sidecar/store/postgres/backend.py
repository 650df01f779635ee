"""Every store in schemas of one Postgres database: ``ledger`` and ``traces``.

Rules
1. Stores of one schema share a pool, opened with the first of them and closed with the backend.
2. What writes brings its schema up to date first; what reads needs one that is there.
"""

from collections.abc import Sequence
from pathlib import Path

from sidecar.errors import NoStore
from sidecar.store.envelope import Sealers
from sidecar.store.files import backup_folder, seal_folder
from sidecar.store.location import Location
from sidecar.store.migrate import NOTHING
from sidecar.store.outbox import Lane
from sidecar.store.postgres.connection import CONNECTIONS_MAX, Database
from sidecar.store.postgres.datasets import PostgresDatasets
from sidecar.store.postgres.episodes import PostgresEpisodes
from sidecar.store.postgres.keys import PostgresKeys
from sidecar.store.postgres.ledger import PostgresLedger
from sidecar.store.postgres.ledger_reader import PostgresLedgerReader
from sidecar.store.postgres.migrations import Kind, applied, migrate, migrations
from sidecar.store.postgres.open_traces import PostgresOpenTraces
from sidecar.store.postgres.outbox import PostgresExportProgress, PostgresOutbox, prepare_outbox
from sidecar.store.postgres.published import PostgresPublished
from sidecar.store.postgres.traces import PostgresTraces
from sidecar.store.postgres.upkeep import dump, state
from sidecar.store.postgres.verdicts import PostgresVerdicts
from sidecar.store.traces import Bounds
from sidecar.store.upkeep import BackupManifest, SchemaState

_KINDS: tuple[Kind, ...] = ("ledger", "traces")


class PostgresBackend:
    """A Backend over one database; ``connections_max`` is of each schema's pool. ``folder`` is the
    data folder of this sidecar, where it has one."""

    def __init__(
        self,
        location: Location,
        *,
        folder: Path | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self._location = location
        self._folder = folder
        self._connections_max = connections_max
        self._databases: dict[Kind, Database] = {}
        self._current: set[Kind] = set()

    def keys(self, *, make: bool = True) -> PostgresKeys:
        """The keys; without ``make`` those of a store that is there."""
        if not make:
            self._there("ledger")
        return PostgresKeys(self._made("ledger"))

    def ledger(self, sealers: Sealers) -> PostgresLedger:
        """The ledger."""
        return PostgresLedger(self._made("ledger"), sealers, folder=self._folder)

    def read_ledger(self, sealers: Sealers) -> PostgresLedgerReader:
        """The ledger, to read."""
        return PostgresLedgerReader(self._there("ledger"), sealers)

    def migrate_traces(self) -> None:
        """Make the traces where there are none, and bring them up to date."""
        self._made("traces")

    def traces(self, source: str | None = None) -> PostgresTraces:
        """Published traces."""
        return PostgresTraces(self._there("traces"), source=source)

    def published(self) -> PostgresPublished:
        """Published revisions."""
        return PostgresPublished(self._there("traces"))

    def open_traces(self, sealers: Sealers, bounds: Bounds, source: str) -> PostgresOpenTraces:
        """The pipeline's working state."""
        database = self._made("traces")
        return PostgresOpenTraces(database, sealers=sealers, bounds=bounds, source=source)

    def prepare_outbox(self, lanes: Sequence[Lane], source: str) -> int:
        """Make a sidecar's places those of ``lanes``; requests forgotten with what nobody has."""
        return prepare_outbox(self._made("traces"), lanes, source=source)

    def outbox(self, sealers: Sealers, source: str) -> PostgresOutbox:
        """What exporters are to send."""
        return PostgresOutbox(self._made("traces"), sealers=sealers, source=source)

    def export_progress(self) -> PostgresExportProgress:
        """How the exporters do."""
        return PostgresExportProgress(self._there("traces"))

    def schemas(self) -> tuple[SchemaState, ...]:
        """What each schema has."""
        return tuple(state(kind, migrations(kind), applied(self._opened(kind))) for kind in _KINDS)

    def migrate(self) -> None:
        """Make both schemas, or bring them up to date."""
        for kind in _KINDS:
            self._made(kind)

    def backup(self, folder: str, made_at_ns: int) -> BackupManifest:
        """Copy both schemas, as they are at one moment; journals lie with their receivers."""
        for kind in _KINDS:
            self._there(kind)
        with backup_folder(Path(folder)) as making:
            found = self.schemas()
            dump(self._location, _KINDS, making)
            manifest = BackupManifest(
                kind="postgres", made_at_ns=made_at_ns, schemas=found, files=()
            )
            return seal_folder(making, manifest)

    def verdicts(self, *, write: bool) -> PostgresVerdicts:
        """Gate verdicts."""
        return PostgresVerdicts(self._made("traces") if write else self._there("traces"))

    def datasets(self, *, write: bool) -> PostgresDatasets:
        """Datasets."""
        return PostgresDatasets(self._made("traces") if write else self._there("traces"))

    def episodes(self, *, write: bool) -> PostgresEpisodes:
        """Replays in shards."""
        return PostgresEpisodes(self._made("traces") if write else self._there("traces"))

    def close(self) -> None:
        """Close the pools. Safe to call twice."""
        while self._databases:
            self._databases.popitem()[1].close()

    def _made(self, kind: Kind) -> Database:
        database = self._opened(kind)
        if kind not in self._current:
            migrate(database, migrations(kind))
            self._current.add(kind)
        return database

    def _there(self, kind: Kind) -> Database:
        database = self._opened(kind)
        if kind not in self._current and applied(database) == NOTHING:
            raise NoStore(
                "there is no store",
                where=f"{database.where} schema {kind}",
                do="Start the sidecar on it once, or name another with --store.",
            )
        return database

    def _opened(self, kind: Kind) -> Database:
        if kind not in self._databases:
            self._databases[kind] = Database(
                self._location, schema=kind, connections_max=self._connections_max
            )
        return self._databases[kind]
