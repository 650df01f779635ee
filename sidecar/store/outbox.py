"""The outbox: what exporters are to send, with one cursor for each of them.

Rules
1. An item is put in by the transaction that publishes what it tells of, so that neither is without
   the other; its content has passed redaction, and is sealed like all operational bytes.
2. A cursor moves when the items behind it were delivered, refused for good, or given up; the move
   and its tally are one transaction.
3. An exporter that lags more than its ``bytes_max`` loses its oldest items, and only its own:
   counted under ``queue_full``.
4. What every cursor has passed is deleted.
"""

from typing import Final

from msgspec import Struct

from sidecar.store.journal import Signal

SENT: Final = "sent"
QUEUE_FULL: Final = "queue_full"
DAMAGED: Final = "damaged"
Fate = str
"""``sent``, or why an item was not: one of a closed set of words."""


class Outgoing(Struct, frozen=True, kw_only=True):
    """An OTLP request to send on, of ``items`` spans, log records or data points.

    With ``if_revised`` it is kept only when this publication gives that trace a new revision.
    """

    project: str
    signal: Signal
    items: int
    payload: bytes
    if_revised: str | None = None


class Waiting(Struct, frozen=True, kw_only=True):
    """An item of the outbox; ``payload`` is None where its seal does not open."""

    seq: int
    project: str
    signal: Signal
    items: int
    payload: bytes | None


class Tally(Struct, frozen=True, kw_only=True):
    """How many items of a signal met a fate."""

    signal: Signal
    fate: Fate
    items: int


class Advance(Struct, frozen=True, kw_only=True):
    """An exporter's step to ``seq``, with what became of the items it passes."""

    name: str
    seq: int
    tallies: tuple[Tally, ...] = ()


class Progress(Struct, frozen=True, kw_only=True):
    """How an exporter does: sealed bytes that wait for it, since when, and its tallies."""

    name: str
    waiting_bytes: int
    oldest_ns: int | None
    tallies: tuple[Tally, ...]


class Lane(Struct, frozen=True, kw_only=True):
    """An exporter as the outbox knows it."""

    name: str
    bytes_max: int


def binding(project: str, signal: Signal, items: int) -> bytes:
    """The associated data of an item's seal."""
    return "\n".join(("export/1", project, signal, str(items))).encode()
