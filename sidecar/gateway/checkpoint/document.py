"""A checkpoint as a line of JSON, and the chain held against those that were kept elsewhere.

**Rules**
1. A line says all that is needed to check it but the trust in the key: seq, hash, time, key id,
   public key, signature.
2. A checkpoint that a known key signed and the chain does not bear out is a fault of the chain: it
   was cut off, rewritten, or is another branch.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sidecar.gateway import signing
from sidecar.gateway.audit import Fault
from sidecar.store.ledger import Checkpoint


class NotACheckpoint(ValueError):
    """A line that is none."""


def line(checkpoint: Checkpoint, public: bytes) -> str:
    """The checkpoint as one line, without its end."""
    return json.dumps(
        {
            "checkpoint": checkpoint.seq,
            "hash": checkpoint.hash,
            "at_ns": str(checkpoint.at_ns),
            "kid": checkpoint.kid,
            "public_key": base64.b64encode(public).decode(),
            "signature": base64.b64encode(checkpoint.signature).decode(),
        }
    )


def read(text: str) -> Checkpoint:
    """The checkpoint a line says. Raises NotACheckpoint."""
    try:
        said: Any = json.loads(text)
        return Checkpoint(
            seq=int(said["checkpoint"]),
            hash=str(said["hash"]),
            at_ns=int(said["at_ns"]),
            kid=str(said["kid"]),
            signature=base64.b64decode(said["signature"], validate=True),
        )
    except (ValueError, KeyError, TypeError, binascii.Error, RecursionError):
        raise NotACheckpoint("not a checkpoint") from None


class Witness:
    """Holds a chain against checkpoints while its entries pass; ask ``fault`` at the end."""

    def __init__(self, checkpoints: Iterable[Checkpoint], keys: Mapping[str, bytes]) -> None:
        self._wanted: dict[int, str] = {}
        self._found: list[Fault] = []
        self.count = 0
        for each in checkpoints:
            self.count += 1
            self._take(each, keys)

    def watch(self, entries: Iterable[Any]) -> Iterator[Any]:
        """The entries, each held against the checkpoint of its place."""
        for entry in entries:
            wanted = self._wanted.pop(entry.seq, None)
            if wanted is not None and wanted != entry.hash:
                what = "the chain is not the one a checkpoint was made of: it was rewritten"
                self._found.append(Fault(index=entry.seq, what=what))
            yield entry

    def fault(self) -> Fault | None:
        """The first place where chain and checkpoints part, once all entries have passed."""
        if self._wanted:
            first = min(self._wanted)
            what = "the chain is cut off: a checkpoint was made of this place"
            self._found.append(Fault(index=first, what=what))
            self._wanted = {}
        return min(self._found, key=lambda each: each.index) if self._found else None

    def _take(self, each: Checkpoint, keys: Mapping[str, bytes]) -> None:
        public = keys.get(each.kid)
        if public is None or not signing.verify(public, each.signature, each.document()):
            what = "a checkpoint of this place is not signed by a known key"
            self._found.append(Fault(index=each.seq, what=what))
        elif self._wanted.setdefault(each.seq, each.hash) != each.hash:
            what = "there are two checkpoints of this place that differ: the chain was forked"
            self._found.append(Fault(index=each.seq, what=what))
