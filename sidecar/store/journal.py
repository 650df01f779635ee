"""The journal's records: what was received, whose it is, and how it is bound to its seal.

Rules
1. A record is the request as it came, decompressed and checked to decode; nothing is interpreted.
2. The tenant of a record is the project of the credential it came with, never a word inside it.
3. A record's seal is bound to all its columns: a row edited or moved does not open.
4. A sequence number is given once; a journal that was made anew has another ``journal_id``, so that
   an old cursor never passes over its records.
"""

from typing import Literal

from msgspec import Struct

Signal = Literal["traces", "logs", "metrics"]
Encoding = Literal["protobuf", "json"]


class JournalFull(Exception):
    """The journal holds as many bytes as it may; ``retry_after_s`` is when to try again."""

    def __init__(self, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(f"the journal is full; try again in {retry_after_s} s")


class JournalEntry(Struct, frozen=True, kw_only=True):
    """One request to keep. ``principal`` is the credential's id; ``payload`` the OTLP bytes."""

    project: str
    principal: str
    signal: Signal
    encoding: Encoding
    payload: bytes
    received_ns: int


class JournalRecord(Struct, frozen=True, kw_only=True):
    """An entry at its place in the journal."""

    seq: int
    entry: JournalEntry


class DamagedRecord(Struct, frozen=True, kw_only=True):
    """A row whose seal does not open, with the ``reason``; never passed over in silence."""

    seq: int
    project: str
    reason: str
    sealed: bytes


def binding(entry: JournalEntry) -> bytes:
    """The associated data of an entry's seal."""
    parts = (entry.project, entry.principal, entry.signal, entry.encoding, str(entry.received_ns))
    return "\n".join(("journal/1", *parts)).encode()


def journal_cursor(journal_id: str) -> str:
    """The cursor's name for a journal; another journal in the same place has another."""
    return f"journal:{journal_id}"
