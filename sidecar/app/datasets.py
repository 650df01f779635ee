"""Datasets of the store: made, added to, listed, read, exported and erased, for the command and for
the library.

**Rules**
1. Nothing is left out without being told, and what cannot be read stops everything.
2. Whoever is faster adds first; the other looks again and adds to that.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml
from msgspec import Struct, structs

from sidecar import clock
from sidecar.app import opening
from sidecar.app.dataset_runs import Wanted, gathered
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.evaluate.datasets.item import Item, plain_item, wrong_dataset_name
from sidecar.evaluate.datasets.version import (
    Extension,
    decode_item,
    extended,
    first_version,
)
from sidecar.identity.projects import project_name
from sidecar.plain import plain_json
from sidecar.replay.dataset_items import suite_document
from sidecar.store.datasets import DatasetSummary, DatasetVersion, Erasure
from sidecar.store.ports import Datasets
from sidecar.twins.files import checked_suite, load_twins

_TRIES: Final = 8
_ALL: Final = 1000


class LeftOut(Struct, frozen=True, kw_only=True):
    """A run that is no item, and why."""

    run: str
    why: str


class Added(Struct, frozen=True, kw_only=True):
    """What adding came to: the version that is the newest now, and what is in it since."""

    project: str
    name: str
    version: int
    digest: str
    items: int
    added: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()


class Exported(Struct, frozen=True, kw_only=True):
    """A version with its items in order; ``erased`` are the ids of those that say nothing more."""

    version: DatasetVersion
    items: tuple[Item, ...]
    erased: tuple[str, ...]


def project_of(loaded: Loaded, named: str | None) -> str:
    """The project that is meant: the first one where none is named. Raises SidecarError."""
    if named is None:
        return loaded.config.projects[0].name
    return project_name(named, where="--project")


def create(loaded: Loaded, project: str, name: str) -> DatasetVersion:
    """Make an empty dataset. Raises SidecarError where there is one."""
    why = wrong_dataset_name(name)
    if why is not None:
        raise SidecarError(why, where="NAME")
    first = first_version(project, name, clock.now_ns())
    with opening.open_datasets(loaded, write=True) as store:
        if not store.create_dataset(first):
            raise SidecarError(
                f"project {project} has a dataset {name!r}",
                do="Add to it with: sidecar dataset add NAME.",
            )
    return first


def add(loaded: Loaded, project: str, name: str, wanted: Wanted) -> Added:
    """Add runs and lines to a dataset, as one new version. Raises SidecarError."""
    if wanted == Wanted(twins=wanted.twins, tags=wanted.tags, split=wanted.split):
        raise SidecarError(
            "there is nothing to add",
            do="Name traces, tapes, captures or lines, or what to remove.",
        )
    versions(loaded, project, name)
    group = load_twins(list(wanted.twins)).group if wanted.twins else None
    made = list(gathered(loaded, project, wanted, group))
    items = [_tagged(one.item, wanted) for _, one in made if one.item is not None]
    left_out = tuple(LeftOut(run=run, why=one.why) for run, one in made if one.item is None)
    with opening.open_datasets(loaded, write=True) as store:
        for _ in range(_TRIES):
            newest = store.dataset_versions(project, name)[-1]
            there = store.dataset_items(project, name, newest.version)
            found = extended(
                newest,
                there,
                items,
                removed=wanted.removed,
                now_ns=clock.now_ns(),
                new_id=clock.new_id,
            )
            if found.change is None or store.change_dataset(found.change):
                notes = tuple(f"{run}: {note}" for run, one in made for note in one.notes)
                return _added(newest, found, left_out, notes)
    raise SidecarError(
        "others add to this dataset all the time", where=name, do="Try again in a moment."
    )


def _added(
    newest: DatasetVersion,
    found: Extension,
    left_out: tuple[LeftOut, ...],
    notes: tuple[str, ...],
) -> Added:
    now = newest if found.change is None else found.change.version
    return Added(
        project=now.project,
        name=now.name,
        version=now.version,
        digest=now.digest,
        items=now.items,
        added=found.added,
        edited=found.edited,
        removed=found.removed,
        duplicates=found.duplicates,
        left_out=left_out,
        notes=notes,
    )


def listed(loaded: Loaded, project: str | None) -> list[DatasetSummary]:
    """The datasets of a project, or of all, by name."""
    with opening.open_datasets(loaded) as store:
        return list(every_dataset(store, project))


def every_dataset(store: Datasets, project: str | None = None) -> Iterator[DatasetSummary]:
    """The datasets of an open store, by project and name."""
    after: tuple[str, str] | None = None
    while True:
        some = store.list_datasets(project, after=after, limit=_ALL)
        yield from some
        if len(some) < _ALL:
            return
        after = (some[-1].project, some[-1].name)


class Erased(Struct, frozen=True, kw_only=True):
    """How many items say nothing any more, and the names under which there was nothing to erase."""

    erased: int
    nothing: tuple[str, ...] = ()


def erase(
    loaded: Loaded, project: str, *, traces: Sequence[str] = (), items: Sequence[str] = ()
) -> Erased:
    """Erase what items say, or all that was made from traces, in every version and for good.

    Those that say nothing any more are not counted. Raises SidecarError.
    """
    wanted = [
        *(Erasure(project=project, trace_id=one.lower(), limit=_ALL) for one in traces),
        *(Erasure(project=project, item_id=one, limit=_ALL) for one in items),
    ]
    erased = 0
    nothing = []
    with opening.open_datasets(loaded) as there:  # a store is not made to erase something in it
        named = list(every_dataset(there, project))
    with opening.open_datasets(loaded, write=bool(named)) as store:
        for one in wanted:
            before = erased
            while gone := store.erase_items(one):
                erased += gone
            if erased == before:
                nothing.append(one.item_id or one.trace_id or "")
    return Erased(erased=erased, nothing=tuple(nothing))


def versions(loaded: Loaded, project: str, name: str) -> list[DatasetVersion]:
    """The versions of a dataset, oldest first. Raises SidecarError where there is none."""
    with opening.open_datasets(loaded) as store:
        found = store.dataset_versions(project, name)
    if not found:
        raise SidecarError(
            f"project {project} has no dataset {name!r}",
            do="Make it with: sidecar dataset create NAME; see what there is: sidecar dataset list",
        )
    return found


def exported(loaded: Loaded, project: str, name: str, version: int | None = None) -> Exported:
    """One version, by default the newest. Raises SidecarError."""
    known = {one.version: one for one in versions(loaded, project, name)}
    number = max(known) if version is None else version
    if number not in known:
        raise SidecarError(
            f"dataset {name!r} has no version {number}; its newest is {max(known)}",
            where="--version",
        )
    with opening.open_datasets(loaded) as store:
        kept = store.dataset_items(project, name, number)
    items = [(one.item_id, decode_item(one)) for one in kept]
    return Exported(
        version=known[number],
        items=tuple(item for _, item in items if item is not None),
        erased=tuple(item_id for item_id, item in items if item is None),
    )


def lines_text(items: Iterable[Item]) -> str:
    """Items as lines of JSON."""
    lines = (plain_json(json.dumps(plain_item(one), ensure_ascii=False)) for one in items)
    return "".join(f"{line}\n" for line in lines)


def suite_text(
    version: DatasetVersion,
    items: Sequence[Item],
    twins: Sequence[Path],
    agent: str = "",
    to: Path | None = None,
) -> str:
    """Items as a suite.yaml, read as one already. Raises SidecarError.

    Twins are named relative to the folder of ``to``, else to the one that we are in.
    """
    if not twins:
        raise SidecarError("a suite needs the twins of its tools", where="--twin", do="Name one.")
    folder = (to.parent if to is not None else Path()).resolve()
    if not folder.is_dir():
        raise SidecarError(
            "there is no such folder", where=str(folder), do="Make it, or correct --to."
        )
    named = [os.path.relpath(twin.resolve(), folder) for twin in twins]
    document = suite_document(version.name, version.version, items, named, agent)
    told = f"# Dataset {version.name}, version {version.version}, {version.digest}\n"
    text = told + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    checked_suite(text, folder / f"{version.name}.yaml")
    return text


def write_export(
    to: Path,
    version: DatasetVersion,
    items: Sequence[Item],
    twins: Sequence[Path],
    agent: str = "",
) -> None:
    """Write a suite where there are twins, else lines of JSON. Raises SidecarError."""
    write(to, suite_text(version, items, twins, agent, to) if twins else lines_text(items))


def write(path: Path, text: str) -> None:
    """Write an export, whole or not at all: half of one would be a smaller dataset, and what stood
    there would be gone. Raises SidecarError.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if not path.is_file() and path.exists():  # a device or a pipe takes it as it comes
            path.write_text(text, encoding="utf-8")
            return
        part.write_text(text, encoding="utf-8")
        part.replace(path.resolve())
    except OSError as error:
        part.unlink(missing_ok=True)
        raise SidecarError(f"it cannot be written: {error.strerror}", where=str(path)) from None


def _tagged(item: Item, wanted: Wanted) -> Item:
    return structs.replace(
        item,
        tags=(*item.tags, *wanted.tags),
        split=wanted.split or item.split,
        expect=(*item.expect, *wanted.expect),
    )
