"""An exported audit chain (``sidecar audit export``), read back: entries, signed head, public keys.

**Rules**
1. Nothing is believed: what a line says is only what the verifier then checks.
2. A body is written in the form its hash covers (RFC 8785), however its line spells it.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from typing import Any

from sidecar.canonical import NotCanonical, canonical
from sidecar.store.ledger import AuditEntry, AuditHead


class NotAnExport(ValueError):
    """A line that is no entry and no head."""


class Exported:
    """Iterate ``entries`` once; ``head`` and ``keys`` are known after that."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.head: AuditHead | None = None
        self.keys: dict[str, bytes] = {}

    def entries(self) -> Iterator[AuditEntry]:
        """The entries as the file has them. Raises NotAnExport."""
        for number, text in enumerate(self._lines, start=1):
            try:
                said: Any = json.loads(text)
                if "head" in said:
                    self._take_head(said)
                else:
                    yield _entry(said)
            except (ValueError, KeyError, TypeError, RecursionError, binascii.Error, NotCanonical):
                raise NotAnExport(f"line {number} is no line of an export") from None

    def _take_head(self, said: dict[str, Any]) -> None:
        self.head = AuditHead(
            seq=int(said["head"]),
            hash=str(said["hash"]),
            signed_at_ns=int(said["signed_at_ns"]),
            kid=str(said["kid"]),
            signature=base64.b64decode(said["signature"], validate=True),
        )
        self.keys = {
            str(kid): base64.b64decode(public, validate=True)
            for kid, public in said["public_keys"].items()
        }


def _entry(said: dict[str, Any]) -> AuditEntry:
    body = said["body"]
    return AuditEntry(
        seq=int(said["seq"]),
        at_ns=int(said["at_ns"]),
        project=str(said["project"]),
        kind=str(said["kind"]),
        body=body if isinstance(body, str) else canonical(body).decode(),
        prev=str(said["prev"]),
        hash=str(said["hash"]),
    )
