"""What a step through the journal or the ledger stores: parts by open trace, and what is set aside.

Rules
1. Records of one step that belong to one trace make one part.
2. A record that cannot be read is quarantined whole; an item that cannot be kept is counted.
3. A receipt without a trace id belongs to no trace: it stays in the ledger, and is counted.
"""

from collections.abc import Sequence

from msgspec import Struct

from processors.model.call import ReceiptFact
from processors.model.span import Batch
from sidecar.otlp.decode import decode
from sidecar.pipeline.batch import Rules, pack_receipt
from sidecar.pipeline.fault import named
from sidecar.pipeline.pack import join, pack
from sidecar.pipeline.split import split
from sidecar.store.journal import DamagedRecord, JournalRecord
from sidecar.store.ledger import Fact
from sidecar.store.traces import Part, Quarantined


class Taken(Struct, frozen=True, kw_only=True):
    """What to store. ``dropped`` has a reason for each item that is left out."""

    parts: tuple[Part, ...]
    quarantined: tuple[Quarantined, ...] = ()
    dropped: tuple[str, ...] = ()


def taken(
    records: Sequence[JournalRecord | DamagedRecord], source: str, rules: Rules, now_ns: int
) -> Taken:
    """The parts of some journal records; ``source`` names the journal in the quarantine."""
    sound = [record for record in records if isinstance(record, JournalRecord)]
    aside = [
        _quarantined(record, source, record.reason)
        for record in records
        if isinstance(record, DamagedRecord)
    ]
    try:
        return Taken(parts=_parts(sound, rules, now_ns), quarantined=tuple(aside))
    except Exception:
        # One of them is bad, or our code is: those beside it must not wait for it. One by one.
        parts: list[Part] = []
        for record in sound:
            try:
                parts += _parts([record], rules, now_ns)
            except Exception as error:
                aside.append(_quarantined(record, source, named(error)))
        return Taken(parts=tuple(parts), quarantined=tuple(aside))


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


def _parts(records: Sequence[JournalRecord], rules: Rules, now_ns: int) -> tuple[Part, ...]:
    pieces: dict[tuple[str, str], list[Batch]] = {}
    for record in records:
        entry = record.entry
        batch = decode(entry.signal, entry.encoding, entry.payload)
        for key, piece in split(batch).items():
            pieces.setdefault((entry.project, key), []).append(piece)
    return tuple(
        Part(
            project=project,
            key=key,
            kind="telemetry",
            payload=pack(join(some)),
            expires_ns=now_ns + rules.of(project).content_ns,
        )
        for (project, key), some in pieces.items()
    )


def _quarantined(record: JournalRecord | DamagedRecord, source: str, reason: str) -> Quarantined:
    if isinstance(record, DamagedRecord):
        project, payload = record.project, record.sealed
    else:
        project, payload = record.entry.project, record.entry.payload
    return Quarantined(
        source=source, seq=record.seq, project=project, reason=reason, payload=payload
    )
