"""What each event comes after, as one digest: two runs share an event when all before it is shared.

**Rules**
1. What comes before an event is what ``behaviour`` says: its causes, or all its agent did since.
2. ``own`` looks back inside one agent, and at another agent's event only by what it is: one agent's
   divergence is not another's. ``whole`` looks back through all.
3. Any permitted interleaving gives the same digests.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from sidecar.canonical import canonical
from sidecar.tape.model import Event


class Lineage(Struct, frozen=True):
    """A tape's events by agent (``lanes``), what each comes after, and its digests; by seq."""

    lanes: dict[str, tuple[int, ...]]
    before: tuple[tuple[int, ...], ...]
    own: tuple[bytes, ...]
    whole: tuple[bytes, ...]


def lineage(events: Sequence[Event], label: Callable[[Event], Any]) -> Lineage:
    """The lineage of events whose seq counts from 0; ``label`` is what counts of one."""
    lanes: dict[str, list[int]] = {}
    frontiers: dict[str, list[int]] = {}
    before: list[tuple[int, ...]] = []
    own: list[bytes] = []
    whole: list[bytes] = []
    for seq, event in enumerate(events):
        frontier = frontiers.setdefault(event.agent, [])
        past = event.cause or tuple(frontier)
        if not event.cause:
            frontier.clear()
        frontier.append(seq)
        lanes.setdefault(event.agent, []).append(seq)
        before.append(past)
        known = canonical(label(event))
        near = (
            own[one] if events[one].agent == event.agent else _named(events[one]) for one in past
        )
        own.append(_folded(known, near))
        whole.append(_folded(known, (whole[one] for one in past)))
    return Lineage(
        lanes={agent: tuple(seqs) for agent, seqs in lanes.items()},
        before=tuple(before),
        own=tuple(own),
        whole=tuple(whole),
    )


def _named(event: Event) -> bytes:
    return canonical([event.agent, event.kind, event.seam, event.name or event.site])


def _folded(known: bytes, before: Any) -> bytes:
    digest = hashlib.sha256(hashlib.sha256(known).digest())
    for one in sorted(before):
        digest.update(hashlib.sha256(one).digest())
    return digest.digest()
