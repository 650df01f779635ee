"""A dataset's versions: what the next one holds, by its digest and within its bounds.

Rules
1. A version never changes; whatever is added, edited or removed makes the next one. Nothing new
   makes none.
2. What asks the same as an item that is there is not added again; nor is a trace a second time,
   though what was made of it be erased. An erased item asks nothing any more.
3. An item that comes with the id of one that is there is its edit: it keeps its id and its place.
4. A version's digest is of its items' ids and digests, in order.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct, structs

from sidecar.canonical import NotCanonical, digest
from sidecar.errors import SidecarError
from sidecar.evaluate.datasets.item import (
    ITEM_BYTES_MAX,
    Item,
    item_digest,
    plain_item,
    question_digest,
    whole,
)
from sidecar.store.datasets import DatasetChange, DatasetVersion, KeptItem

ITEMS_MAX: Final = 10_000
DATASET_BYTES_MAX: Final = 256 * 1024**2
_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(Item)


class Extension(Struct, frozen=True, kw_only=True):
    """What adding came to. ``change`` is None where the newest version says all of it already.

    ``duplicates``: the ids of items that ask the same, one for each item that was not added.
    """

    change: DatasetChange | None
    added: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()


def first_version(project: str, name: str, now_ns: int) -> DatasetVersion:
    """Version 0, which is empty."""
    return DatasetVersion(
        project=project,
        name=name,
        version=0,
        digest=version_digest(()),
        items=0,
        created_at_ns=now_ns,
    )


def version_digest(items: Sequence[KeptItem]) -> str:
    """Of the items of a version, in their order; the same after what they say was erased."""
    named = [[one.item_id, one.digest] for one in sorted(items, key=lambda one: one.place)]
    return digest(named, domain="agenttwin-dataset/1")


def decode_item(kept: KeptItem) -> Item | None:
    """What an item says; None once it is erased."""
    return None if kept.content is None else _DECODER.decode(kept.content)


def extended(
    newest: DatasetVersion,
    items: Sequence[KeptItem],
    wanted: Sequence[Item],
    *,
    removed: Sequence[str] = (),
    now_ns: int,
    new_id: Callable[[], str],
) -> Extension:
    """The version after ``newest``, whose ``items`` are all there are. Raises SidecarError."""
    making = _Making(items, newest.version + 1, now_ns)
    for item_id in removed:
        making.remove(item_id)
    for item in wanted:
        making.take(whole(item), new_id)
    return making.made(newest)


class _Making:
    """The next version while it is put together."""

    def __init__(self, items: Sequence[KeptItem], number: int, now_ns: int) -> None:
        self._live = {one.item_id: one for one in items}
        self._asked = {one.question: one.item_id for one in items if one.content is not None}
        self._traces = {one.trace_id: one.item_id for one in items if one.trace_id is not None}
        self._place = max((one.place for one in items), default=-1) + 1
        self._number, self._now_ns = number, now_ns
        self._fresh: dict[str, KeptItem] = {}
        self._gone: dict[str, None] = {}
        self._edited: list[str] = []
        self._duplicates: list[str] = []

    def remove(self, item_id: str) -> None:
        """Leave an item out."""
        kept = self._live.pop(item_id, None)
        if kept is None:
            raise SidecarError(
                f"there is no item {item_id!r} to remove",
                do="List them with: sidecar dataset export NAME.",
            )
        self._gone[item_id] = None
        if self._asked.get(kept.question) == item_id:
            del self._asked[kept.question]
        if self._traces.get(kept.trace_id or "") == item_id:
            del self._traces[kept.trace_id or ""]

    def take(self, item: Item, new_id: Callable[[], str]) -> None:
        """Add an item, or put it in the place of the one it edits."""
        if item.item_id in self._fresh:
            raise SidecarError("two of the items have this id", where=item.item_id)
        before = self._live.get(item.item_id) if item.item_id else None
        try:
            made = item_digest(item)
            asked = question_digest(item)
        except NotCanonical as error:
            raise SidecarError(
                f"an item cannot be kept: {error}", where=item.item_id or item.title
            ) from None
        if before is not None and before.digest == made:
            return
        trace_id = item.source.trace_id
        known = self._asked.get(asked)
        if known is None and before is None and trace_id is not None:
            known = self._traces.get(trace_id)
        if known is not None and known != item.item_id:
            self._duplicates.append(known)
            return
        named = structs.replace(item, item_id=item.item_id or new_id())
        self._keep(named, made, asked, before)

    def _keep(self, item: Item, made: str, asked: str, before: KeptItem | None) -> None:
        content = _ENCODER.encode(plain_item(item))
        if len(content) > ITEM_BYTES_MAX:
            raise SidecarError(
                f"an item has {len(content)} bytes, more than {ITEM_BYTES_MAX}",
                where=item.title or item.item_id,
                do="Leave out what the agent is not asked.",
            )
        if before is not None:
            self._gone[item.item_id] = None
            self._edited.append(item.item_id)
            if self._asked.get(before.question) == item.item_id:
                del self._asked[before.question]
        kept = KeptItem(
            item_id=item.item_id,
            place=self._place if before is None else before.place,
            digest=made,
            question=asked,
            trace_id=item.source.trace_id,
            captured=item.source.kind != "written",
            added_in=self._number,
            added_at_ns=self._now_ns if before is None else before.added_at_ns,
            size_bytes=len(content),
            content=content,
        )
        self._place += before is None
        self._live[item.item_id] = self._fresh[item.item_id] = kept
        self._asked[asked] = item.item_id
        if kept.trace_id is not None:
            self._traces[kept.trace_id] = item.item_id

    def made(self, newest: DatasetVersion) -> Extension:
        """The change, if there is one."""
        items = list(self._live.values())
        if len(items) > ITEMS_MAX:
            raise SidecarError(
                f"a dataset holds at most {ITEMS_MAX} items, this would be {len(items)}",
                do="Make another dataset.",
            )
        if sum(one.size_bytes for one in items if one.content is not None) > DATASET_BYTES_MAX:
            raise SidecarError(
                f"a dataset's items have at most {DATASET_BYTES_MAX} bytes together",
                do="Make another dataset.",
            )
        change = None
        if self._fresh or self._gone:
            change = DatasetChange(
                version=structs.replace(
                    newest,
                    version=self._number,
                    digest=version_digest(items),
                    items=len(items),
                    created_at_ns=self._now_ns,
                ),
                added=tuple(self._fresh.values()),
                removed=tuple(self._gone),
            )
        edited = set(self._edited)
        return Extension(
            change=change,
            added=tuple(one for one in self._fresh if one not in edited),
            edited=tuple(self._edited),
            removed=tuple(one for one in self._gone if one not in edited),
            duplicates=tuple(self._duplicates),
        )
