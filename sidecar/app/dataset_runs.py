"""What is to be added to a dataset, gathered: stored traces, tapes, captures, lines of JSON.

**Rules**
1. Every run passes the project's redaction as it is now configured, whatever it passed before. In a
   project that keeps no content no run is an item.
2. What a person wrote is masked, unless the project keeps everything.
3. What cannot be read stops everything; what is no item is told with why.
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
from sidecar.evaluate.expectations import AnyExpectation
from sidecar.otlp.files import decoded, requests_of
from sidecar.pipeline.build import build
from sidecar.replay.dataset_items import NO_CONTENT, FromRun, Made, item_of, read_item
from sidecar.replay.query import StoreQuery, read_query
from sidecar.replay.tape_trace import tape_trace
from sidecar.tape.files import read_tape
from sidecar.twins.group import TwinGroup

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


def gathered(
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
        found.append((where, spelt_out(value)))
    return tuple(found)


def spelt_out(line: dict[str, Any]) -> dict[str, Any]:
    """A line whose ``expected`` may be the answer alone."""
    expected = line.get("expected")
    if expected is None or isinstance(expected, Mapping):
        return line
    return {**line, "expected": {"output": expected}}
