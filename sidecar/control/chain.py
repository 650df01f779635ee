"""The audit chain as it is told: entries of the caller's project whole, others by their hashes.

**Rules**
1. Each line tells ``seq``, ``prev`` and ``hash``, so that the links of an export can be followed
   whoever asked for it; what another project did stands in none.
2. A hash covers the entry as it is told: who holds an entry of their own can check it.
"""

import json
from collections.abc import Mapping
from typing import Any

from sidecar.control.documents import AuditHeadDocument, AuditRecord, AuditVerification
from sidecar.gateway.audit import Verified
from sidecar.store.ledger import AuditEntry


def entry_record(entry: AuditEntry, project: str) -> AuditRecord:
    """One entry, for somebody of ``project``."""
    if entry.project != project:
        return AuditRecord(seq=entry.seq, prev=entry.prev, hash=entry.hash)
    return AuditRecord(
        seq=entry.seq,
        prev=entry.prev,
        hash=entry.hash,
        at_ns=str(entry.at_ns),
        project=entry.project,
        kind=entry.kind,
        body=_body(entry.body),
    )


def head_record(head: AuditHeadDocument) -> AuditRecord:
    """The last line of an export."""
    return AuditRecord(seq=head.seq, hash=head.hash, head=head)


def verification(found: Verified, keys: Mapping[str, bytes]) -> AuditVerification:
    """What verifying found."""
    fault = found.fault
    return AuditVerification(
        good=fault is None,
        entries=found.entries,
        hash=found.hash,
        first_bad_index=fault.index if fault else None,
        what=fault.what if fault else None,
        keys=tuple(sorted(keys)),
    )


def _body(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # altered; verifying says where
