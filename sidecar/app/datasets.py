"""Datasets of the store: made, added to, listed and read, for the command and for the library.

**Rules**
1. What is kept has passed the project's redaction as it is now configured: what an agent did in a
   project that keeps no content is no item; what a person wrote is masked, unless everything is
   kept.
2. Nothing is left out without being told, and what cannot be read stops everything.
3. Whoever is faster adds first; the other looks again and adds to that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from processors.model.span import Batch
from processors.model.trace import AgentTrace
from processors.redact.leaves import masked
from processors.redact.masker import Masker
from processors.redact.rules import keeping, redact_with
from sidecar import clock
from sidecar.app import opening
from sidecar.app.taping import terms_of
from sidecar.config import Loaded
from sidecar.errors import ExitCode, SidecarError
from sidecar.evaluate.datasets.item import Item, wrong_dataset_name
from sidecar.evaluate.datasets.version import (
    Extension,
    decode_item,
    extended,
    first_version,
)
from sidecar.evaluate.expectations import AnyExpectation
from sidecar.identity.projects import project_name
from sidecar.otlp.files import decoded, requests_of
from sidecar.pipeline.build import build
from sidecar.replay.dataset_items import NO_CONTENT, FromRun, Made, item_of, read_item
from sidecar.replay.query import StoreQuery, read_query
from sidecar.replay.tape_trace import tape_trace
from sidecar.store.datasets import DatasetSummary, DatasetVersion
from sidecar.tape.files import read_tape
from sidecar.twins.files import load_twins
from sidecar.twins.group import TwinGroup

_TRIES: Final = 8
_ALL: Final = 1000
_WRITTEN: Final = ("input", "messages", "expect", "expected", "title", "scenario")


class Wanted(Struct, frozen=True, kw_only=True):
    """What is to be added. ``lines``: places and mappings, as an export's lines are.

    ``query`` is one of ``store:QUERY``; ``expect`` is added to what items expect.
    """

    query: str = ""
    traces: tuple[str, ...] = ()
    tapes: tuple[Path, ...] = ()
    captures: tuple[Path, ...] = ()
    lines: tuple[tuple[str, dict[str, Any]], ...] = ()
    twins: tuple[Path, ...] = ()
    expect: tuple[AnyExpectation, ...] = ()
    tags: tuple[str, ...] = ()
    split: str = ""
    removed: tuple[str, ...] = ()


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
    versions(loaded, project, name)
    group = load_twins(list(wanted.twins)).group if wanted.twins else None
    made = list(_items(loaded, project, wanted, group))
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
        found: list[DatasetSummary] = []
        while True:
            after = (found[-1].project, found[-1].name) if found else None
            some = store.list_datasets(project, after=after, limit=_ALL)
            found += some
            if len(some) < _ALL:
                return found


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


def _tagged(item: Item, wanted: Wanted) -> Item:
    return structs.replace(
        item,
        tags=(*item.tags, *wanted.tags),
        split=wanted.split or item.split,
        expect=(*item.expect, *wanted.expect),
    )


def _items(
    loaded: Loaded, project: str, wanted: Wanted, group: TwinGroup | None
) -> Iterator[tuple[str, FromRun]]:
    terms = terms_of(loaded, project)
    keep = keeping(terms)

    def run(trace: AgentTrace, kind: Made, tape: str | None = None) -> FromRun:
        kept = trace if keep is None else redact_with(trace, keep)
        return _told(item_of(kept, group, kind=kind, tape=tape), terms.capture)

    for trace in _stored(loaded, project, wanted):
        yield trace.trace_id, run(trace, "trace")
    for path in wanted.tapes:
        yield str(path), _of_tape(path, run)
    for path in wanted.captures:
        for trace in _captured(path, project):
            yield f"{path} {trace.trace_id}", run(trace, "capture")
    masker = None if terms.capture == "full" else Masker(structs.replace(terms, capture="redacted"))
    for where, line in wanted.lines:
        item = read_item(line if masker is None else _masked(line, masker), where)
        if item.source.kind != "written" and terms.capture == "off":
            yield where, _told(FromRun(item=None, why=NO_CONTENT), terms.capture)
        else:
            yield where, FromRun(item=item)


def _of_tape(path: Path, run: Callable[[AgentTrace, Made, str | None], FromRun]) -> FromRun:
    tape = read_tape(path)
    if tape.examination.faults:
        raise SidecarError(
            f"the tape does not hold: {tape.examination.faults[0].detail}",
            where=str(path),
            do="See what is wrong: sidecar tape verify.",
        )
    found = run(tape_trace(tape), "tape", tape.examination.computed.exact_digest)
    if found.item is None or tape.header.trace_ids:
        return found
    source = structs.replace(found.item.source, trace_id=None)  # it has no trace, but a name
    return structs.replace(found, item=structs.replace(found.item, source=source))


def _told(found: FromRun, capture: str) -> FromRun:
    if found.why != NO_CONTENT:
        return found
    why = "its content was not kept, so there is no user input"
    if capture == "off":
        why = "the project keeps no content (projects[].content.capture is off)"
    return structs.replace(found, why=why)


def _masked(line: Mapping[str, Any], masker: Masker) -> dict[str, Any]:
    """A written line with the data in what it says replaced; names, ids and links stay."""
    return {
        name: masked(value, masker) if name in _WRITTEN else value for name, value in line.items()
    }


def _stored(loaded: Loaded, project: str, wanted: Wanted) -> Iterable[AgentTrace]:
    if not wanted.query and not wanted.traces:
        return
    query = StoreQuery(project=project)
    if wanted.query:
        query = read_query(wanted.query, project=project, now_ns=clock.now_ns())
    with opening.open_traces(loaded) as traces:
        ids = [name.lower() for name in wanted.traces]
        if query.trace is not None:
            ids.append(query.trace)
        elif wanted.query:
            ids += [one.trace_id for one in reversed(traces.list_traces(query))]
        for name in dict.fromkeys(ids):
            trace = traces.get_trace(name, project)
            if trace is None:
                raise SidecarError(
                    f"project {project} has no such trace",
                    where=name,
                    do="List the ids with: sidecar trace list",
                )
            yield trace
    if not ids:
        raise SidecarError(
            "no stored trace matches",
            where=wanted.query,
            do="See what there is: sidecar trace list.",
            code=ExitCode.UNDECIDED,
        )


def _captured(path: Path, project: str) -> Sequence[AgentTrace]:
    batches = [decoded(file) for file in requests_of(path)]
    merged = Batch(
        spans=tuple(span for batch in batches for span in batch.spans),
        logs=tuple(record for batch in batches for record in batch.logs),
        rejected=sum(batch.rejected for batch in batches),
    )
    return build(merged, project=project, now_ns=clock.now_ns())


def read_lines(text: str, name: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The lines of a JSONL text, each with its place. Raises SidecarError."""
    found: list[tuple[str, dict[str, Any]]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise SidecarError(f"the line is no JSON: {error}", where=where) from None
        if not isinstance(value, dict):
            raise SidecarError("the line is no JSON object", where=where)
        found.append((where, _spelt_out(value)))
    return tuple(found)


def _spelt_out(line: dict[str, Any]) -> dict[str, Any]:
    """``expected`` may be the answer alone."""
    expected = line.get("expected")
    if expected is None or isinstance(expected, Mapping):
        return line
    return {**line, "expected": {"output": expected}}
