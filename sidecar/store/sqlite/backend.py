"""Every store in files of one folder: ``ledger.db`` and ``traces.db``."""

from collections.abc import Sequence
from pathlib import Path

from sidecar.store.envelope import Sealers
from sidecar.store.files import backup_folder, seal_folder
from sidecar.store.outbox import Lane
from sidecar.store.sqlite.connection import open_database
from sidecar.store.sqlite.datasets import SqliteDatasets
from sidecar.store.sqlite.episodes import SqliteEpisodes
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.ledger import SqliteLedger
from sidecar.store.sqlite.ledger_reader import SqliteLedgerReader
from sidecar.store.sqlite.outbox import SqliteExportProgress, SqliteOutbox, prepare_outbox
from sidecar.store.sqlite.published import SqlitePublished
from sidecar.store.sqlite.traces import SqliteOpenTraces, SqliteTraces, migrate_traces
from sidecar.store.sqlite.upkeep import copy_all, migrate_all, schemas
from sidecar.store.sqlite.verdicts import SqliteVerdicts
from sidecar.store.traces import Bounds
from sidecar.store.upkeep import BackupManifest, SchemaState

LEDGER, TRACES = "ledger.db", "traces.db"


class SqliteBackend:
    """A Backend over files. Each store has connections of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ledger = folder / LEDGER
        self._traces = folder / TRACES

    def keys(self, *, make: bool = True) -> SqliteKeys:
        """The keys; without ``make`` those of a store that is there."""
        if not make:
            open_database(self._ledger, read_only=True).close()
        return SqliteKeys(self._ledger)

    def ledger(self, sealers: Sealers) -> SqliteLedger:
        """The ledger."""
        return SqliteLedger(self._ledger, sealers)

    def read_ledger(self, sealers: Sealers) -> SqliteLedgerReader:
        """The ledger, to read."""
        return SqliteLedgerReader(self._ledger, sealers)

    def migrate_traces(self) -> None:
        """Make the traces where there are none, and bring them up to date."""
        migrate_traces(self._traces)

    def traces(self, source: str | None = None) -> SqliteTraces:  # noqa: ARG002 (there is one)
        """Published traces."""
        return SqliteTraces(self._traces)

    def published(self) -> SqlitePublished:
        """Published revisions."""
        return SqlitePublished(self._traces)

    def open_traces(
        self,
        sealers: Sealers,
        bounds: Bounds,
        source: str,  # noqa: ARG002 (there is one)
    ) -> SqliteOpenTraces:
        """The pipeline's working state."""
        return SqliteOpenTraces(self._traces, sealers=sealers, bounds=bounds)

    def prepare_outbox(self, lanes: Sequence[Lane], source: str) -> int:  # noqa: ARG002 (there is one)
        """Make a sidecar's places those of ``lanes``; requests forgotten with what nobody has."""
        return prepare_outbox(self._traces, lanes)

    def outbox(self, sealers: Sealers, source: str) -> SqliteOutbox:  # noqa: ARG002 (there is one)
        """What exporters are to send."""
        return SqliteOutbox(self._traces, sealers=sealers)

    def export_progress(self) -> SqliteExportProgress:
        """How the exporters do."""
        return SqliteExportProgress(self._traces)

    def schemas(self) -> tuple[SchemaState, ...]:
        """What each file has."""
        return schemas(self._folder)

    def migrate(self) -> None:
        """Make every file, or bring it up to date."""
        migrate_all(self._folder)

    def backup(self, folder: str, made_at_ns: int) -> BackupManifest:
        """Copy every file, the journal with them, as they are at one moment."""
        with backup_folder(Path(folder)) as making:
            copy_all(self._folder, making)
            manifest = BackupManifest(
                kind="sqlite", made_at_ns=made_at_ns, schemas=schemas(making), files=()
            )
            return seal_folder(making, manifest)

    def verdicts(self, *, write: bool) -> SqliteVerdicts:
        """Gate verdicts."""
        if write:
            migrate_traces(self._traces)
        return SqliteVerdicts(self._traces, read_only=not write)

    def datasets(self, *, write: bool) -> SqliteDatasets:
        """Datasets."""
        if write:
            migrate_traces(self._traces)
        return SqliteDatasets(self._traces, read_only=not write)

    def episodes(self, *, write: bool) -> SqliteEpisodes:
        """Replays in shards."""
        if write:
            migrate_traces(self._traces)
        return SqliteEpisodes(self._traces, read_only=not write)

    def close(self) -> None:
        """Nothing is shared."""
