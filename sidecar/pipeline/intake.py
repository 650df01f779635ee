"""What a step through the journal or the ledger stores: parts by open trace, and what is set aside.

Rules
1. Records of one step that belong to one trace make one part.
2. A record that cannot be read is quarantined whole; an item that cannot be kept is counted.
3. Metrics make no trace: they are passed on to exporters, and nothing else is done with them.
4. A receipt without a trace id belongs to no trace: it stays in the ledger, and is counted.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from processors.model.call import ReceiptFact
from processors.model.span import Batch
from sidecar.errors import named
from sidecar.otlp.decode import decode_within
from sidecar.otlp.limits import LIMITS, Limits
from sidecar.pipeline.batch import Rules, pack_receipt
from sidecar.pipeline.clues import early
from sidecar.pipeline.leaving import Leaving
from sidecar.pipeline.pack import join, pack
from sidecar.pipeline.split import split
from sidecar.store.journal import DamagedRecord, JournalEntry, JournalRecord
from sidecar.store.ledger import Fact
from sidecar.store.outbox import Outgoing
from sidecar.store.traces import Bounds, Part, Quarantined


class Taken(Struct, frozen=True, kw_only=True):
    """What to store. ``dropped``: how much is left out, by reason."""

    parts: tuple[Part, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    exports: tuple[Outgoing, ...] = ()
    dropped: Counter[str] = field(default_factory=Counter)


class Source(Struct, frozen=True, kw_only=True):
    """The journal by its name in the quarantine, and what decides on its records.

    ``items_max``: of one trace.
    """

    name: str
    rules: Rules
    leaving: Leaving | None = None
    limits: Limits = LIMITS
    items_max: int = Bounds().trace_items_max


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
            dropped=sum((one.dropped for one in read), Counter()),
        )


def taken_facts(facts: Sequence[Fact], source: str, rules: Rules, now_ns: int) -> Taken:
    """The parts of some of the ledger's receipts; what cannot be taken stays in the ledger."""
    parts: list[Part] = []
    aside: list[Quarantined] = []
    dropped: Counter[str] = Counter()
    for fact in facts:
        if fact.receipt.trace_id is None:
            dropped["receipt_without_trace"] += 1
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
    return Taken(parts=tuple(parts), quarantined=tuple(aside), dropped=dropped)


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
    dropped: Counter[str] = Counter()
    for record in records:
        entry = record.entry
        if entry.signal == "metrics":
            dropped.update(_pass_on(entry, source.leaving, exports))
            continue
        decoded = decode_within(entry.signal, entry.encoding, entry.payload, source.limits)
        dropped.update(decoded.cuts)
        batch = decoded.batch
        if source.leaving is not None:
            batch, looped = source.leaving.strangers(batch)
            dropped["looped"] += looped
        for key, piece in split(batch).items():
            pieces.setdefault((entry.project, key), []).append(piece)
    parts = _parts(pieces, source, now_ns, dropped)
    return Taken(parts=parts, exports=tuple(exports), dropped=dropped)


def _pass_on(
    entry: JournalEntry, leaving: Leaving | None, exports: list[Outgoing]
) -> dict[str, int]:
    """Add what passes of a metrics request; how much does not, by reason."""
    if leaving is None:
        return {"no_exporter": 1}
    passing = leaving.metrics(entry)
    exports += passing.items
    return {"looped": passing.looped}


def _parts(
    pieces: dict[tuple[str, str], list[Batch]],
    source: Source,
    now_ns: int,
    dropped: Counter[str],
) -> tuple[Part, ...]:
    parts: list[Part] = []
    for (project, key), some in pieces.items():
        whole = _first(join(some), source.items_max, dropped)
        parts.append(
            Part(
                project=project,
                key=key,
                kind="telemetry",
                payload=pack(whole),
                expires_ns=now_ns + source.rules.of(project).content_ns,
                clues=early(whole),
                items=len(whole.spans) + len(whole.logs),
            )
        )
    return tuple(parts)


def _first(batch: Batch, items_max: int, dropped: Counter[str]) -> Batch:
    """As many items as one trace may have, in order of arrival."""
    over = len(batch.spans) + len(batch.logs) - items_max
    if over <= 0:
        return batch
    dropped["trace_over_limit"] += over
    spans = batch.spans[:items_max]
    return replace(batch, spans=spans, logs=batch.logs[: items_max - len(spans)])


def _quarantined(record: JournalRecord | DamagedRecord, source: str, reason: str) -> Quarantined:
    if isinstance(record, DamagedRecord):
        project, payload = record.project, record.sealed
    else:
        project, payload = record.entry.project, record.entry.payload
    return Quarantined(
        source=source, seq=record.seq, project=project, reason=reason, payload=payload
    )
