"""Datasets on Postgres (``store.datasets``)."""

from sidecar.store.asked import bounded
from sidecar.store.datasets import (
    ITEM,
    VERSION,
    DatasetChange,
    DatasetSummary,
    DatasetVersion,
    Erasure,
    KeptItem,
    Outliving,
    item_row,
    version_row,
)
from sidecar.store.postgres.connection import Connection, Database
from sidecar.store.postgres.text import storable

_ADD_VERSION = (
    f"INSERT INTO dataset_version ({VERSION}) VALUES ($1, $2, $3, $4, $5, $6)"  # noqa: S608
    " ON CONFLICT (project, name, version) DO NOTHING RETURNING 1"
)
_ADD_ITEM = (
    f"INSERT INTO dataset_item (project, name, {ITEM})"  # noqa: S608 (fixed texts only)
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
)
# The rows of the version before are what a second writer waits for.
_NEWEST = (
    "SELECT version FROM dataset_version WHERE project = $1 AND name = $2"
    " ORDER BY version DESC LIMIT 1 FOR UPDATE"
)
_REMOVE = (
    "UPDATE dataset_item SET removed_in = $3 WHERE project = $1 AND name = $2"
    " AND item_id = ANY ($4::text[]) AND removed_in IS NULL"
)
_LIST = (
    f"SELECT v.*, (SELECT count(*) FROM dataset_item i WHERE i.project = v.project"  # noqa: S608
    " AND i.name = v.name AND i.content IS NULL AND i.added_in <= v.version"
    " AND (i.removed_in IS NULL OR i.removed_in > v.version)) AS erased"
    f" FROM (SELECT DISTINCT ON (project, name) {VERSION} FROM dataset_version"
    " WHERE ($1::text IS NULL OR project = $1)"
    " AND ($2::text IS NULL OR (project, name) > ($2, $3))"
    " ORDER BY project, name, version DESC LIMIT $4) v ORDER BY v.project, v.name"
)
_VERSIONS = (
    f"SELECT {VERSION} FROM dataset_version"  # noqa: S608 (fixed texts only)
    " WHERE project = $1 AND name = $2 ORDER BY version"
)
_ITEMS = (
    f"SELECT {ITEM} FROM dataset_item WHERE project = $1 AND name = $2"  # noqa: S608
    " AND added_in <= $3 AND (removed_in IS NULL OR removed_in > $3) ORDER BY place"
)
_HOLDING = (
    "SELECT DISTINCT name, item_id FROM dataset_item WHERE project = $1 AND trace_id = $2"
    " AND content IS NOT NULL ORDER BY name, item_id"
)
_ERASE = (
    "UPDATE dataset_item SET content = NULL WHERE ctid = ANY (ARRAY(SELECT ctid FROM dataset_item"
    " WHERE project = $1 AND {} AND content IS NOT NULL LIMIT $3 FOR UPDATE)) RETURNING 1"
)
_OUTLIVING = (
    "SELECT i.project, i.name, count(DISTINCT i.item_id) AS items FROM dataset_item i"
    " WHERE i.trace_id IS NOT NULL AND i.content IS NOT NULL AND NOT EXISTS"
    " (SELECT 1 FROM trace t WHERE t.trace_id = i.trace_id AND t.project = i.project)"
    " AND NOT EXISTS (SELECT 1 FROM superseded s WHERE s.trace_id = i.trace_id"
    " AND s.project = i.project)"
    " GROUP BY i.project, i.name ORDER BY i.project, i.name"
)
_ERASE_ITEM = _ERASE.format("item_id = $2")
_ERASE_OF_TRACE = _ERASE.format("trace_id = $2")
ERASE_OLD_ITEMS = _ERASE.format("captured AND added_at_ns < $2")


class PostgresDatasets:
    """The datasets of one store. Every write is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create_dataset(self, first: DatasetVersion) -> bool:
        """Make a dataset; False where there is one of that name."""

        async def create(connection: Connection) -> bool:
            if await connection.fetchval(_NEWEST, first.project, first.name) is not None:
                return False
            return await connection.fetchval(_ADD_VERSION, *version_row(first)) is not None

        return self._database.transact_sync(create)

    def change_dataset(self, change: DatasetChange) -> bool:
        """Add a version; False, with nothing written, where another came first."""
        made = change.version
        named = (made.project, made.name)

        async def add(connection: Connection) -> bool:
            if await connection.fetchval(_NEWEST, *named) != made.version - 1:
                return False
            if await connection.fetchval(_ADD_VERSION, *version_row(made)) is None:
                return False
            await connection.execute(_REMOVE, *named, made.version, list(change.removed))
            await connection.executemany(_ADD_ITEM, [item_row(change, one) for one in change.added])
            return True

        return self._database.transact_sync(add)

    def list_datasets(
        self, project: str | None = None, *, after: tuple[str, str] | None = None, limit: int = 50
    ) -> list[DatasetSummary]:
        """The newest version of each, by project and name; ``after`` those two."""
        if not storable(project, *(after or ())):
            return []
        before, name = after or (None, None)
        rows = self._database.read_sync(lambda c: c.fetch(_LIST, project, before, name, limit))
        return [DatasetSummary(**dict(row)) for row in rows]

    def dataset_versions(self, project: str, name: str) -> list[DatasetVersion]:
        """All versions, oldest first; none where there is no such dataset."""
        if not storable(project, name):
            return []
        rows = self._database.read_sync(lambda c: c.fetch(_VERSIONS, project, name))
        return [DatasetVersion(**dict(row)) for row in rows]

    def dataset_items(self, project: str, name: str, version: int) -> list[KeptItem]:
        """The items of a version, in their order."""
        if not storable(project, name):
            return []
        rows = self._database.read_sync(lambda c: c.fetch(_ITEMS, project, name, bounded(version)))
        return [KeptItem(**dict(row)) for row in rows]

    def holding(self, project: str, trace_id: str) -> list[tuple[str, str]]:
        """Dataset and item of what still says something that a trace said."""
        if not storable(project, trace_id):
            return []
        rows = self._database.read_sync(lambda c: c.fetch(_HOLDING, project, trace_id))
        return [(row["name"], row["item_id"]) for row in rows]

    def outliving(self) -> list[Outliving]:
        """Which datasets still say what traces said that are kept no longer."""
        rows = self._database.read_sync(lambda c: c.fetch(_OUTLIVING))
        return [Outliving(**dict(row)) for row in rows]

    def erase_items(self, erasure: Erasure) -> int:
        """Erase what items say; of how many. Idempotent."""
        text: str
        value: str | int | None
        if erasure.item_id is not None:
            text, value = _ERASE_ITEM, erasure.item_id
        elif erasure.trace_id is not None:
            text, value = _ERASE_OF_TRACE, erasure.trace_id
        else:
            text, value = ERASE_OLD_ITEMS, bounded(erasure.before_ns)
        if not storable(erasure.project, erasure.item_id, erasure.trace_id):
            return 0
        rows = self._database.transact_sync(
            lambda c: c.fetch(text, erasure.project, value, erasure.limit)
        )
        return len(rows)

    def close(self) -> None:
        """Nothing is held."""
