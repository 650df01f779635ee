"""What a step through the journal or the ledger stores: parts by open trace, and what is set aside.

Rules
1. Records of one step that belong to one trace make one part.
2. A record that cannot be read is quarantined whole; an item that cannot be kept is counted.
3. Metrics make no trace: they are passed on to exporters, and nothing else is done with them.
4. A receipt without a trace id belongs to no trace: it stays in the ledger, and is counted.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from processors.model.call import ReceiptFact
from processors.model.span import Batch
from sidecar.errors import named
from sidecar.otlp.decode import decode
from sidecar.pipeline.batch import Rules, pack_receipt
from sidecar.pipeline.clues import early
from sidecar.pipeline.leaving import Leaving
from sidecar.pipeline.pack import join, pack
from sidecar.pipeline.split import split
from sidecar.store.journal import DamagedRecord, JournalEntry, JournalRecord
from sidecar.store.ledger import Fact
from sidecar.store.outbox import Outgoing
from sidecar.store.traces import Part, Quarantined


class Taken(Struct, frozen=True, kw_only=True):
    """What to store. ``dropped`` has a reason for each item that is left out."""

    parts: tuple[Part, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    exports: tuple[Outgoing, ...] = ()
    dropped: tuple[str, ...] = ()


class Source(Struct, frozen=True, kw_only=True):
    """The journal by its name in the quarantine, and what decides on its records."""

    name: str
    rules: Rules
    leaving: Leaving | None = None


def taken(records: Sequence[JournalRecord | DamagedRecord], source: Source, now_ns: int) -> Taken:
    """What some journal records leave to store."""
    sound = [record for record in records if isinstance(record, JournalRecord)]
    aside = [
        _quarantined(record, source.name, record.reason)
        for record in records
        if isinstance(record, DamagedRecord)
    ]
    try:
        return replace(_read(sound, source, now_ns), quarantined=tuple(aside))
    except Exception:
        # One of them is bad, or our code is: those beside it must not wait for it. One by one.
        read: list[Taken] = []
        for record in sound:
            try:
                read.append(_read([record], source, now_ns))
            except Exception as error:
                aside.append(_quarantined(record, source.name, named(error)))
        return Taken(
            parts=tuple(part for one in read for part in one.parts),
            quarantined=tuple(aside),
            exports=tuple(item for one in read for item in one.exports),
            dropped=tuple(reason for one in read for reason in one.dropped),
        )


def taken_facts(facts: Sequence[Fact], source: str, rules: Rules, now_ns: int) -> Taken:
    """The parts of some of the ledger's receipts; what cannot be taken stays in the ledger."""
    parts: list[Part] = []
    aside: list[Quarantined] = []
    dropped: list[str] = []
    for fact in facts:
        if fact.receipt.trace_id is None:
            dropped.append("receipt_without_trace")
            continue
        try:
            parts.append(_receipt_part(fact, fact.receipt.trace_id, rules, now_ns))
        except Exception as error:
            aside.append(
                Quarantined(
                    source=source,
                    seq=fact.seq,
                    project=fact.project,
                    reason=named(error),
                    payload=fact.receipt.receipt_id.encode(),
                )
            )
    return Taken(parts=tuple(parts), quarantined=tuple(aside), dropped=tuple(dropped))


def _receipt_part(fact: Fact, key: str, rules: Rules, now_ns: int) -> Part:
    return Part(
        project=fact.project,
        key=key,
        kind="receipt",
        payload=pack_receipt(ReceiptFact(receipt=fact.receipt, arguments=fact.arguments)),
        expires_ns=now_ns + rules.of(fact.project).content_ns,
    )


def _read(records: Sequence[JournalRecord], source: Source, now_ns: int) -> Taken:
    pieces: dict[tuple[str, str], list[Batch]] = {}
    exports: list[Outgoing] = []
    dropped: list[str] = []
    for record in records:
        entry = record.entry
        if entry.signal == "metrics":
            dropped += _pass_on(entry, source.leaving, exports)
            continue
        batch = decode(entry.signal, entry.encoding, entry.payload)
        if source.leaving is not None:
            batch, looped = source.leaving.strangers(batch)
            dropped += ["looped"] * looped
        for key, piece in split(batch).items():
            pieces.setdefault((entry.project, key), []).append(piece)
    parts = _parts(pieces, source.rules, now_ns)
    return Taken(parts=parts, exports=tuple(exports), dropped=tuple(dropped))


def _pass_on(entry: JournalEntry, leaving: Leaving | None, exports: list[Outgoing]) -> list[str]:
    """Add what passes of a metrics request; a reason for each data point that does not."""
    if leaving is None:
        return ["no_exporter"]
    passing = leaving.metrics(entry)
    exports += passing.items
    return ["looped"] * passing.looped


def _parts(
    pieces: dict[tuple[str, str], list[Batch]], rules: Rules, now_ns: int
) -> tuple[Part, ...]:
    parts: list[Part] = []
    for (project, key), some in pieces.items():
        whole = join(some)
        parts.append(
            Part(
                project=project,
                key=key,
                kind="telemetry",
                payload=pack(whole),
                expires_ns=now_ns + rules.of(project).content_ns,
                clues=early(whole),
            )
        )
    return tuple(parts)


def _quarantined(record: JournalRecord | DamagedRecord, source: str, reason: str) -> Quarantined:
    if isinstance(record, DamagedRecord):
        project, payload = record.project, record.sealed
    else:
        project, payload = record.entry.project, record.entry.payload
    return Quarantined(
        source=source, seq=record.seq, project=project, reason=reason, payload=payload
    )
