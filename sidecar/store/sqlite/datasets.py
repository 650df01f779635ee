"""Datasets in traces.db (``store.datasets``)."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sidecar.store.asked import bounded, encodable
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
from sidecar.store.sqlite.connection import open_database, translating

_ADD_VERSION = (
    f"INSERT INTO dataset_version ({VERSION}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 (fixed texts)
    " ON CONFLICT (project, name, version) DO NOTHING"
)
_ADD_ITEM = (
    f"INSERT INTO dataset_item (project, name, {ITEM})"  # noqa: S608 (fixed texts only)
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_IN_VERSION = (
    "added_in <= dataset_version.version"
    " AND (removed_in IS NULL OR removed_in > dataset_version.version)"
)


class SqliteDatasets:
    """The datasets of one store. Every write is durable when it returns."""

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self._path = str(path)
        self._connection = open_database(path, read_only=read_only)

    def create_dataset(self, first: DatasetVersion) -> bool:
        """Make a dataset; False where there is one of that name."""
        with self._writing() as connection:
            taken = connection.execute(
                "SELECT 1 FROM dataset_version WHERE project = ? AND name = ? LIMIT 1",
                (first.project, first.name),
            ).fetchone()
            return not taken and connection.execute(_ADD_VERSION, version_row(first)).rowcount == 1

    def change_dataset(self, change: DatasetChange) -> bool:
        """Add a version; False, with nothing written, where another came first."""
        made = change.version
        named = (made.project, made.name)
        with self._writing() as connection:
            (newest,) = connection.execute(
                "SELECT max(version) FROM dataset_version WHERE project = ? AND name = ?", named
            ).fetchone()
            if newest is None or newest != made.version - 1:
                return False
            connection.execute(_ADD_VERSION, version_row(made))
            connection.executemany(
                "UPDATE dataset_item SET removed_in = ? WHERE project = ? AND name = ?"
                " AND item_id = ? AND removed_in IS NULL",
                [(made.version, *named, item_id) for item_id in change.removed],
            )
            connection.executemany(_ADD_ITEM, [item_row(change, one) for one in change.added])
        return True

    def list_datasets(
        self, project: str | None = None, *, after: tuple[str, str] | None = None, limit: int = 50
    ) -> list[DatasetSummary]:
        """The newest version of each, by project and name; ``after`` those two."""
        if not encodable(project, *(after or ())):
            return []
        before, name = after or (None, None)
        rows = self._rows(
            f"SELECT {VERSION}, (SELECT count(*) FROM dataset_item i"  # noqa: S608 (fixed texts only)
            " WHERE i.project = dataset_version.project AND i.name = dataset_version.name"
            f" AND content IS NULL AND {_IN_VERSION}) AS erased FROM dataset_version"
            " WHERE (?1 IS NULL OR project = ?1) AND (?2 IS NULL OR (project, name) > (?2, ?3))"
            " AND version = (SELECT max(version) FROM dataset_version v"
            " WHERE v.project = dataset_version.project AND v.name = dataset_version.name)"
            " ORDER BY project, name LIMIT ?4",
            (project, before, name, limit),
        )
        names = (*VERSION.split(", "), "erased")
        return [DatasetSummary(**dict(zip(names, row, strict=True))) for row in rows]

    def dataset_versions(self, project: str, name: str) -> list[DatasetVersion]:
        """All versions, oldest first; none where there is no such dataset."""
        if not encodable(project, name):
            return []
        rows = self._rows(
            f"SELECT {VERSION} FROM dataset_version"  # noqa: S608 (fixed texts only)
            " WHERE project = ? AND name = ? ORDER BY version",
            (project, name),
        )
        names = VERSION.split(", ")
        return [DatasetVersion(**dict(zip(names, row, strict=True))) for row in rows]

    def dataset_items(self, project: str, name: str, version: int) -> list[KeptItem]:
        """The items of a version, in their order."""
        if not encodable(project, name):
            return []
        return self._items(
            "project = ?1 AND name = ?2 AND added_in <= ?3"
            " AND (removed_in IS NULL OR removed_in > ?3) ORDER BY place",
            (project, name, bounded(version)),
        )

    def holding(self, project: str, trace_id: str) -> list[tuple[str, str]]:
        """Dataset and item of what still says something that a trace said."""
        if not encodable(project, trace_id):
            return []
        rows = self._rows(
            "SELECT DISTINCT name, item_id FROM dataset_item WHERE project = ? AND trace_id = ?"
            " AND content IS NOT NULL ORDER BY name, item_id",
            (project, trace_id),
        )
        return [(row[0], row[1]) for row in rows]

    def outliving(self) -> list[Outliving]:
        """Which datasets still say what traces said that are kept no longer."""
        rows = self._rows(
            "SELECT i.project, name, count(DISTINCT item_id) FROM dataset_item i"
            " WHERE i.trace_id IS NOT NULL AND i.content IS NOT NULL AND NOT EXISTS"
            " (SELECT 1 FROM trace t WHERE t.trace_id = i.trace_id AND t.project = i.project)"
            " AND NOT EXISTS (SELECT 1 FROM superseded s WHERE s.trace_id = i.trace_id"
            " AND s.project = i.project)"
            " GROUP BY i.project, name ORDER BY i.project, name",
            (),
        )
        return [Outliving(project=row[0], name=row[1], items=row[2]) for row in rows]

    def erase_items(self, erasure: Erasure) -> int:
        """Erase what items say; of how many. Idempotent."""
        value: str | int | None
        if erasure.item_id is not None:
            where, value = "item_id = ?", erasure.item_id
        elif erasure.trace_id is not None:
            where, value = "trace_id = ?", erasure.trace_id
        else:
            where, value = "captured = 1 AND added_at_ns < ?", bounded(erasure.before_ns)
        if not encodable(erasure.project, erasure.item_id, erasure.trace_id):
            return 0
        with self._writing() as connection:
            return connection.execute(
                "UPDATE dataset_item SET content = NULL WHERE rowid IN (SELECT rowid"  # noqa: S608
                f" FROM dataset_item WHERE project = ? AND {where} AND content IS NOT NULL"
                " LIMIT ?)",
                (erasure.project, value, erasure.limit),
            ).rowcount

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _items(self, where: str, values: tuple[object, ...]) -> list[KeptItem]:
        rows = self._rows(f"SELECT {ITEM} FROM dataset_item WHERE {where}", values)  # noqa: S608
        names = ITEM.split(", ")
        found = (dict(zip(names, row, strict=True)) for row in rows)
        return [KeptItem(**{**row, "captured": bool(row["captured"])}) for row in found]

    def _rows(self, text: str, values: tuple[object, ...]) -> list[Any]:
        with translating(self._path):
            return self._connection.execute(text, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that writes, begun at once so that it cannot fail half-way for a lock."""
        with translating(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
