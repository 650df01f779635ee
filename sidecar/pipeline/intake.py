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
from sidecar.otlp.decode import Undecodable, decode
from sidecar.pipeline.batch import Rules, pack_receipt
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
    batches: dict[tuple[str, str], list[Batch]] = {}
    aside: list[Quarantined] = []
    for record in records:
        decoded = _decoded(record, source)
        if isinstance(decoded, Quarantined):
            aside.append(decoded)
            continue
        project, batch = decoded
        for key, piece in split(batch).items():
            batches.setdefault((project, key), []).append(piece)
    parts = [
        Part(
            project=project,
            key=key,
            kind="telemetry",
            payload=pack(join(pieces)),
            expires_ns=now_ns + rules.of(project).content_ns,
        )
        for (project, key), pieces in batches.items()
    ]
    return Taken(parts=tuple(parts), quarantined=tuple(aside))


def taken_facts(facts: Sequence[Fact], rules: Rules, now_ns: int) -> Taken:
    """The parts of some of the ledger's receipts."""
    parts, dropped = [], []
    for fact in facts:
        if fact.receipt.trace_id is None:
            dropped.append("receipt_without_trace")
            continue
        parts.append(
            Part(
                project=fact.project,
                key=fact.receipt.trace_id,
                kind="receipt",
                payload=pack_receipt(ReceiptFact(receipt=fact.receipt, arguments=fact.arguments)),
                expires_ns=now_ns + rules.of(fact.project).content_ns,
            )
        )
    return Taken(parts=tuple(parts), dropped=tuple(dropped))


def _decoded(record: JournalRecord | DamagedRecord, source: str) -> tuple[str, Batch] | Quarantined:
    if isinstance(record, DamagedRecord):
        reason, payload, project = record.reason, record.sealed, record.project
    else:
        entry = record.entry
        project, payload = entry.project, entry.payload
        try:
            return project, decode(entry.signal, entry.encoding, payload)
        except (Undecodable, ValueError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
    return Quarantined(
        source=source, seq=record.seq, project=project, reason=reason, payload=payload
    )
