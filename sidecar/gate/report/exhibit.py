"""What the viewer shows beside a report: the events of its tapes, and how two stand to each other.

**Rules**
1. A payload is the text of its canonical form, once, however many events have it.
2. Everything is bounded; what is left out for its size is counted, never silently missing.
3. Nothing here is markup: ``html.py`` makes the whole harmless at once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from sidecar.gate.report.json import told
from sidecar.gate.report.model import Report
from sidecar.replay.diff.model import Diff
from sidecar.tape.model import Event
from sidecar.tape.record import as_dict
from sidecar.tape.tape import Tape

EVENTS_MAX: Final = 100_000
ALL_EVENTS_MAX: Final = 4 * EVENTS_MAX
CHUNKS_MAX: Final = 1_000
PAYLOAD_MAX: Final = 256 * 1024
ALL_PAYLOADS_MAX: Final = 48 * 1024 * 1024
_MILLISECOND_NS: Final = 1_000_000
_USUAL: Final[dict[str, Any]] = {
    "agent": 0,
    "name": "",
    "site": "",
    "ord": 0,
    "status": "unset",
    "cause": (),
    "chunks": [],
    "more_chunks": 0,
    "use": {},
    "attr": {},
}


class Exhibit(Struct, frozen=True, kw_only=True):
    """``tapes`` go with the report's ``runs`` by place; None for one that could not be read.

    ``diff``: of the first two of them.
    """

    tapes: tuple[Tape | None, ...] = ()
    diff: Diff | None = None


class Payloads:
    """Payloads by digest, each once, until there is no more room."""

    def __init__(self) -> None:
        self.kept: list[list[Any]] = []
        self._places: dict[str, int | str] = {}
        self._room = ALL_PAYLOADS_MAX

    def place(self, digest: str | None, get: Callable[[], bytes | None]) -> int | str | None:
        """Its place in ``kept``; its digest where there is no content; None without a digest."""
        if digest is None or digest in self._places:
            return self._places.get(digest or "")
        data = get()
        if data is None:
            self._places[digest] = digest
            return digest
        text = data.decode("utf-8", "replace")
        shown = text[: min(PAYLOAD_MAX, max(self._room, 0))]
        self._room -= len(shown)
        self.kept.append([digest, shown, len(text) - len(shown)])
        self._places[digest] = len(self.kept) - 1
        return self._places[digest]


class Names(Struct):
    """Names by number, in the order of their coming."""

    known: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """The number of a name."""
        return self.known.setdefault(name, len(self.known))


def exhibited(report: Report, shown: Exhibit) -> dict[str, Any]:
    """All that the viewer needs, as JSON-like values."""
    payloads = Payloads()
    tapes: list[dict[str, Any] | None] = []
    room = ALL_EVENTS_MAX
    for _, tape in zip(report.runs, shown.tapes, strict=False):
        tapes.append(None if tape is None else _tape(tape, payloads, min(EVENTS_MAX, room)))
        room -= 0 if tape is None else min(len(tape.events), EVENTS_MAX, room)
    return {
        "report": told(report),
        "tapes": tapes,
        "payloads": payloads.kept,
        "beside": None if shown.diff is None else _beside(shown.diff),
    }


def _tape(tape: Tape, payloads: Payloads, room: int) -> dict[str, Any]:
    agents = Names()
    events = tape.events[:room]
    return {
        "header": as_dict(tape.header),
        "faults": msgspec.to_builtins(tape.examination.faults),
        "events": [_event(one, tape, payloads, agents) for one in events],
        "agents": list(agents.known),
        "left_out": len(tape.events) - len(events),
    }


def _event(event: Event, tape: Tape, payloads: Payloads, agents: Names) -> dict[str, Any]:
    error = event.err
    start, end = event.t.get("start"), event.t.get("end")
    found = {
        "kind": event.kind,
        "seam": event.seam,
        "agent": agents.number(event.agent),
        "name": event.name,
        "site": event.site,
        "ord": event.ord,
        "status": event.st,
        "cause": event.cause,
        "in": payloads.place(event.in_, partial(tape.payload_bytes, event, "in")),
        "out": payloads.place(event.out, partial(tape.payload_bytes, event, "out")),
        "chunks": [
            payloads.place(one, partial(tape.get, one)) for one in event.chunks[:CHUNKS_MAX]
        ],
        "more_chunks": max(len(event.chunks) - CHUNKS_MAX, 0),
        "error": error and error.type,
        "message": error and payloads.place(error.message, partial(tape.get, error.message or "")),
        "start": None if start is None else start / _MILLISECOND_NS,
        "took": None if start is None or end is None else (end - start) / _MILLISECOND_NS,
        "use": event.use,
        "attr": event.attr,
    }
    return {name: value for name, value in found.items() if value != _USUAL.get(name)}


def _beside(found: Diff) -> dict[str, Any]:
    kinds = Names()
    agents = []
    for one in found.agents:
        rows = one.rows[:EVENTS_MAX]
        first = one.first_divergence
        agents.append(
            {
                "agent": one.agent,
                "common": one.common,
                "rows": [
                    [row.seq_l, row.seq_r, kinds.number(row.kind), int(row.consequence)]
                    for row in rows
                ],
                "left_out": len(one.rows) - len(rows),
                "first": None if first is None else [first.seq_l, first.seq_r],
            }
        )
    return {"agents": agents, "kinds": list(kinds.known)}


def tapes_of(tapes: Sequence[Tape | None], diff: Diff | None = None) -> Exhibit:
    """An exhibit of tapes in the order of the report's runs."""
    return Exhibit(tapes=tuple(tapes), diff=diff)
