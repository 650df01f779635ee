"""Reading what is to be imported as tapes, and writing them."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from processors.model.names import Capture
from processors.model.span import Batch
from sidecar import clock
from sidecar.cli.captures import decoded, requests_of
from sidecar.errors import SidecarError
from sidecar.pipeline.build import build
from sidecar.replay.import_otlp import taped
from sidecar.replay.import_tape import Imported, Unimportable, redactor_of
from sidecar.replay.import_tau import tau_runs
from sidecar.replay.import_vcr import cassette
from sidecar.tape.files import Packaging, TapeWriter

_FILE_BYTES_MAX = 1 << 30


def imported(
    path: Path, form: str, to: Path, packaging: Packaging, capture: str, made: set[Path]
) -> Iterator[Path]:
    """Write the tapes of a PATH; their files, one by one. Raises SidecarError.

    ``made``: files written before by the same command; two runs of one name are numbered.
    """
    kept = cast(Capture, capture)
    try:
        for one in _runs(path, form, kept):
            place = _place(to, one.name, made)
            made.add(place)
            yield _write(one, place, packaging, kept)
    except Unimportable as error:
        raise SidecarError(
            f"it cannot be imported as {form}: {error}", where=str(path), do="Check the format."
        ) from None


def _runs(path: Path, form: str, capture: Capture) -> Iterable[Imported]:
    if form == "otlp":
        return _traces(path, capture)
    if form == "tau":
        return tau_runs(_bytes(path), capture)
    return [cassette(_bytes(path), path.name.partition(".")[0], capture)]


def _traces(path: Path, capture: Capture) -> Iterator[Imported]:
    batches = [decoded(file) for file in requests_of(path)]
    merged = Batch(
        spans=tuple(span for batch in batches for span in batch.spans),
        logs=tuple(record for batch in batches for record in batch.logs),
        rejected=sum(batch.rejected for batch in batches),
    )
    for trace in build(merged, project="default", now_ns=clock.now_ns()):
        lost = any(
            span.dropped_attributes and span.trace_id in trace.trace_ids for span in merged.spans
        )
        yield taped(trace, capture, ["dropped_attributes"] if lost else [])


def _place(to: Path, name: str, made: set[Path]) -> Path:
    path, number = to / f"{name}.tape", 2
    while path in made:
        path, number = to / f"{name}-{number}.tape", number + 1
    return path


def _write(one: Imported, path: Path, packaging: Packaging, capture: Capture) -> Path:
    tape = TapeWriter(
        path,
        one.header,
        packaging=packaging,
        redactor=redactor_of(capture),
        content=capture != "off",
    )
    with tape:
        try:
            for fact in one.facts:
                tape.event(fact)
            tape.seal()
        except Exception:
            path.unlink()  # half an import is none
            raise
    return path


def _bytes(path: Path) -> bytes:
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                data = file.read(_FILE_BYTES_MAX + 1)
        else:
            with path.open("rb") as file:
                data = file.read(_FILE_BYTES_MAX + 1)
    except (OSError, EOFError, zlib.error) as error:
        told = getattr(error, "strerror", None) or "it is damaged"
        raise SidecarError(
            f"it cannot be read: {told}", where=str(path), do="Check the path."
        ) from None
    if len(data) > _FILE_BYTES_MAX:
        raise SidecarError("it is larger than what is imported at once", where=str(path))
    return data
