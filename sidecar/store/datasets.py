"""Datasets as they are kept: versions that never change, and items that stand in a row of them.

Rules
1. A version is written once, whole or not at all, and only upon the one it was made from.
2. An item stands in every version from ``added_in`` on, until the one it was ``removed_in``. An
   item that was edited keeps its id and its place.
3. What an item says can be erased, in every version at once; its digest stays, so that what a
   version was can still be told.
"""

from msgspec import Struct


class DatasetVersion(Struct, frozen=True, kw_only=True):
    """One version: 0 when it is made, empty; ``items`` are counted, erased ones too."""

    project: str
    name: str
    version: int
    digest: str
    items: int
    created_at_ns: int


class KeptItem(Struct, frozen=True, kw_only=True):
    """One item. ``content`` is None once erased; ``size_bytes`` is its length before.

    ``digest`` is of all it says, ``question`` of what it asks. ``captured``: it was made from what
    an agent did, so that its content is kept no longer than the project keeps captured content.
    """

    item_id: str
    place: int
    digest: str
    question: str
    trace_id: str | None
    captured: bool
    added_in: int
    added_at_ns: int
    size_bytes: int
    content: bytes | None


class DatasetChange(Struct, frozen=True, kw_only=True):
    """A new version: what comes to the one before, and which ids are in it no longer.

    An id among both was edited. ``version.version`` follows the version it was made from.
    """

    version: DatasetVersion
    added: tuple[KeptItem, ...] = ()
    removed: tuple[str, ...] = ()


class DatasetSummary(Struct, frozen=True, kw_only=True):
    """A dataset's newest version in one line; ``erased`` of its items say nothing any more."""

    project: str
    name: str
    version: int
    digest: str
    items: int
    erased: int
    created_at_ns: int


class Erasure(Struct, frozen=True, kw_only=True):
    """Which content to erase: of up to ``limit`` items of a project.

    Either one item's, or what was made from a trace, or what was captured and is older.
    """

    project: str
    limit: int
    item_id: str | None = None
    trace_id: str | None = None
    before_ns: int | None = None


class Outliving(Struct, frozen=True, kw_only=True):
    """How many items of a dataset still say what traces said that are kept no longer."""

    project: str
    name: str
    items: int


VERSION = "project, name, version, digest, items, created_at_ns"
"""The columns of a version, in its order."""
ITEM = (
    "item_id, place, digest, question, trace_id, captured, added_in, added_at_ns, size_bytes,"
    " content"
)
"""The columns of an item, in its order."""


def version_row(version: DatasetVersion) -> tuple[object, ...]:
    """The values of ``VERSION``."""
    return tuple(getattr(version, name) for name in VERSION.split(", "))


def item_row(change: DatasetChange, item: KeptItem) -> tuple[object, ...]:
    """The values of ``project, name`` and ``ITEM``."""
    made = change.version
    return (made.project, made.name, *(getattr(item, name) for name in ITEM.split(", ")))
