"""Reading what is to be imported as tapes, and writing them."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from processors.model.names import Capture
from processors.model.span import Batch
from sidecar import clock
from sidecar.errors import SidecarError
from sidecar.otlp.files import decoded, requests_of
from sidecar.pipeline.build import build
from sidecar.replay.import_otlp import taped
from sidecar.replay.import_tape import Imported, Unimportable, redactor_of
from sidecar.replay.import_tau import tau_runs
from sidecar.replay.import_vcr import cassette
from sidecar.tape.files import Packaging, TapeWriter, opened
from sidecar.tape.redaction import Redacts

_FILE_BYTES_MAX = 1 << 30


def imported(
    path: Path, form: str, to: Path, packaging: Packaging, capture: str, made: set[Path]
) -> Iterator[Path]:
    """Write the tapes of a PATH; their files, one by one. Raises SidecarError.

    ``made``: files written before by the same command; two runs of one name are numbered.
    """
    kept = cast(Capture, capture)
    for one in runs_in(path, form, kept):
        place = place_of(to, one.name, made)
        yield write(one, place, packaging, redactor_of(kept), content=kept != "off")


def runs_in(path: Path, form: str, capture: Capture) -> Iterator[Imported]:
    """The runs of a PATH as they would be written. Raises SidecarError."""
    try:
        yield from _runs(path, form, capture)
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


def traced(path: Path) -> Iterator[Imported]:
    """The traces of an OTLP capture as runs, without content. Raises SidecarError."""
    return _traces(path, "off")


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


def place_of(to: Path, name: str, made: set[Path]) -> Path:
    """A file for a tape of that name, beside those made before, and counted among them."""
    path, number = to / f"{name}.tape", 2
    while path in made:
        path, number = to / f"{name}-{number}.tape", number + 1
    made.add(path)
    return path


def write(
    one: Imported, path: Path, packaging: Packaging, redactor: Redacts, *, content: bool
) -> Path:
    """Write one run as a tape; its file. Raises SidecarError."""
    with TapeWriter(
        path, one.header, packaging=packaging, redactor=redactor, content=content
    ) as tape:
        try:
            for number, fact in enumerate(one.facts):
                parts = one.pieces.get(number, ())
                chunks = tuple(digest for part in parts if (digest := tape.put(part)))
                tape.event(replace(fact, chunks=chunks) if chunks else fact)
            tape.seal()
        except Exception:
            path.unlink()  # half an import is none
            raise
    return path


def _bytes(path: Path) -> bytes:
    try:
        with opened(path) as file:
            packed = path.suffix == ".gz"
            data = (gzip.GzipFile(fileobj=file) if packed else file).read(_FILE_BYTES_MAX + 1)
    except (OSError, EOFError, zlib.error) as error:
        told = getattr(error, "strerror", None) or "it is damaged"
        raise SidecarError(
            f"it cannot be read: {told}", where=str(path), do="Check the path."
        ) from None
    if not data:
        raise SidecarError("there is nothing in it", where=str(path), do="Check the path.")
    if len(data) > _FILE_BYTES_MAX:
        raise SidecarError("it is larger than what is imported at once", where=str(path))
    return data
