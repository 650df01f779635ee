"""Tapes written anew from tapes: in another packaging, in this version's terms, with another end.

**Rules**
1. The result is there whole, or not at all; the old tape is left as it is.
2. Another packaging changes no digest.
"""

import os
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sidecar.canonical import canonical
from sidecar.errors import SidecarError
from sidecar.tape.codec import Codecs
from sidecar.tape.examine import Examination
from sidecar.tape.faults import TapeIncomparable
from sidecar.tape.files.blobs import NewFile, Packaging, store_beside
from sidecar.tape.files.reading import examine, read_tape, records, tape_codecs
from sidecar.tape.migrate import Migration, needed
from sidecar.tape.model import Blob, Event, Header, Origin, Seal, Status
from sidecar.tape.record import as_dict, as_line, blob_data, blob_of
from sidecar.tape.seal import Sealer
from sidecar.tape.tape import MISSING
from sidecar.tape.value import address


def migrate(
    path: Path,
    to: Path,
    packaging: Packaging,
    *,
    tape_id: str,
    codecs: Codecs | None = None,
) -> tuple[Examination, list[str]]:
    """Write a tape anew in this version's terms, or with ``codecs``; what was changed.

    Where nothing is to be changed it is only packaged. Raises SidecarError, TapeIncomparable where
    a fault is in it, or content is missing that is needed.
    """
    tape = read_tape(path)
    _refuse(path, tape.examination)
    codecs = codecs or tape_codecs(tape)
    alias = any(name.startswith("b2b:") for name in tape.blobs)
    reasons = needed(tape.header, codecs, alias=alias)
    if not reasons:
        return repack(path, to, packaging), reasons
    packed, target = packaging == "packed", store_beside(to)
    origin = Origin(
        tape_id=tape.header.tape_id, exact_digest=tape.examination.computed.exact_digest
    )
    gone = set(tape.header.codecs.values()) - set(codecs.fingerprints().values())
    with NewFile(to) as write:

        def put(digest: str, data: bytes) -> None:
            if not packed:
                target.put(digest, data)
            write(as_line(blob_of(digest, data, packed=packed)))

        anew = Migration(tape.header, codecs, put, tape_id=tape_id, of=origin)
        write(as_line(anew.header))
        anew.put_codecs()
        for record, _ in records(path, store_beside(path).get):
            if isinstance(record, Blob):
                if record.id not in gone:
                    anew.blob(record, tape.get(record.id) or b"")
            elif isinstance(record, Event):
                asked, given = tape.payload(record, "in"), tape.payload(record, "out")
                write(as_line(anew.event(record, asked, given)))
            elif isinstance(record, Seal):
                write(as_line(anew.seal(record)))
    return examine(to), reasons


def repack(path: Path, to: Path, packaging: Packaging) -> Examination:
    """Write a tape in another packaging, record by record; no digest changes.

    A partial tape stays partial. Raises SidecarError, TapeIncomparable where a fault is in it.
    """
    _refuse(path, examine(path))
    source, target = store_beside(path), store_beside(to)
    packed = packaging == "packed"
    with NewFile(to) as write:
        for record, line in records(path, source.get):
            if not isinstance(record, Blob):
                write(line.rstrip(b"\r\n") + b"\n")
                continue
            data = blob_data(record) or source.get(record)
            if data is None:
                raise SidecarError("a blob is nowhere to be found", where=record.id)
            if not packed:
                target.put(record.id, data)
            write(as_line(blob_of(record.id, data, packed=packed)))
    return examine(to)


def end_again(path: Path, status: Status, reason: str | None) -> None:
    """Say in a sealed tape's last event how the run really ended; nothing else becomes another.

    Without content only the status is said. Raises SidecarError.
    """
    tape = read_tape(path)
    _refuse(path, tape.examination)
    said = tape.payload(tape.events[-1], "out")
    last = _ended(tape.events[-1], status, said, reason)
    sealer = Sealer(tape.header)
    waiting = path.with_name(f"{path.name}.{os.getpid()}")
    with NewFile(waiting) as write:
        for record, line in records(path, store_beside(path).get):
            if isinstance(record, Header):
                write(line)
            elif isinstance(record, Blob):
                sealer.add_blob(record)
                write(line)
            elif isinstance(record, Seal):
                write(as_line(sealer.seal(record.counters, record.leaks, record.more)))
            else:
                event = last if record.kind == "terminal" else record
                sealer.add_event(event, canonical(as_dict(event)))
                write(as_line(event))
    waiting.replace(path)


def _ended(event: Event, status: Status, said: Any, reason: str | None) -> Event:
    if said is MISSING or not isinstance(said, dict):
        return replace(event, st=status)
    now = {**said, "reason": reason}
    return replace(event, st=status, out=address(canonical(now)), inl={**event.inl, "out": now})


def _refuse(path: Path, found: Examination) -> None:
    if found.faults:
        raise TapeIncomparable(
            f"{len(found.faults)} things do not hold in it",
            where=str(path),
            do="See them with: sidecar tape verify",
        )
