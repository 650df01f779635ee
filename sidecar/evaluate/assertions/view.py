"""What an assertion sees of a tape: some of its events, and whether more may have been there.

**Rules**
1. ``missing`` is why events may be absent; who concludes from an absence must look at it.
2. A call is executed unless it was only asked for, refused, put off or called off; one whose result
   is not on the tape may have happened and counts as executed.
3. A call was done when a result with status ``ok`` names it as its cause.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from sidecar.evaluate.assertions.finding import Code, Finding, unasked
from sidecar.evaluate.matching import matches
from sidecar.tape.answers import results_of
from sidecar.tape.model import Event, Kind, Seam, Status
from sidecar.tape.tape import MISSING, Tape
from sidecar.tape.value import decoded

_NOT_EXECUTED: Final = ("denied", "cancelled", "deferred", "requested_only")
# Of an import's gaps, those by which whole events may be absent.
_LOST: Final = frozenset(
    {
        *("missing_root", "orphans", "open", "truncated", "trace_over_limit", "late_after_expiry"),
        "no_spans",
    }
)


class Where(Struct, frozen=True, kw_only=True):
    """Which events: every field given must be the event's; ``arguments`` those of a call."""

    kind: Kind | None = None
    seam: Seam | None = None
    name: str | None = None
    agent: str | None = None
    status: Status | None = None
    arguments: dict[str, Any] = {}


class Unknown(Exception):
    """An event cannot be told to match or not, as its content was not kept."""


class View(Struct, frozen=True, kw_only=True):
    """Events of a tape in order, ``missing`` (a code; empty = whole), and the tape they are of.

    ``results``: the whole tape's results by the seq of their call.
    """

    tape: Tape
    events: tuple[Event, ...]
    missing: Code
    results: dict[int, Event]

    @property
    def last_seq(self) -> int:
        """The seq at which an absence is known."""
        return self.events[-1].seq if self.events else 0

    def calls(self, tool: str | None = None, arguments: Mapping[str, Any] = {}) -> list[Event]:
        """Tool calls, of one tool, with these arguments. Raises Unknown."""
        return [
            event
            for event in self.events
            if event.kind == "tool_call"
            and (not tool or event.name == tool)
            and (not arguments or self.has(event, arguments))
        ]

    def executed(self, call: Event) -> bool:
        """Whether a call went out, or may have."""
        result = self.results.get(call.seq)
        said = (call.st, result.st) if result is not None else (call.st,)
        return not any(one in _NOT_EXECUTED for one in said)

    def done(self, call: Event) -> int | None:
        """The seq at which a call was known to have succeeded."""
        result = self.results.get(call.seq)
        return result.seq if result is not None and result.st == "ok" else None

    def payload(self, event: Event, side: str) -> Any:
        """A payload as a Python value, or MISSING."""
        found = self.tape.payload(event, side)
        return MISSING if found is MISSING else decoded(found)

    def matches(self, event: Event, where: Where) -> bool:
        """Whether an event is one of those. Raises Unknown."""
        wanted = (
            (where.kind, event.kind),
            (where.seam, event.seam),
            (where.name, event.name),
            (where.agent, event.agent),
            (where.status, event.st),
        )
        if any(one is not None and one != other for one, other in wanted):
            return False
        return not where.arguments or self.has(event, where.arguments)

    def has(self, event: Event, arguments: Mapping[str, Any]) -> bool:
        """Whether the input of an event has these members. Raises Unknown."""
        found = self.payload(event, "in")
        if found is MISSING:
            raise Unknown
        return matches(found, arguments)


def whole(tape: Tape) -> View:
    """A tape as a view."""
    return View(
        tape=tape, events=tape.events, missing=_missing(tape), results=results_of(tape.events)
    )


def unseen(view: View) -> Finding | None:
    """A skip where what is absent from the view may only be absent from the tape."""
    if not view.missing:
        return None
    said = {
        "partial": "the tape ends before its seal, so what is not on it may have happened",
        "dropped": "events were dropped while it was recorded, so they may have happened",
        "gaps": f"the import has gaps ({', '.join(view.tape.header.gaps)})",
    }
    return unasked(view.missing, said[view.missing])


def lossy(view: View) -> Finding | None:
    """A skip where events may be absent in the middle; one cut short has its beginning whole."""
    return unseen(view) if view.missing != "partial" else None


def no_content(what: str) -> Finding:
    """A skip where content would be needed and was not kept."""
    return unasked("content", f"{what} is not on the tape (L2 is needed)")


def _missing(tape: Tape) -> Code:
    if tape.seal is None:
        return "partial"
    if tape.seal.counters.dropped:
        return "dropped"
    return "gaps" if _LOST.intersection(tape.header.gaps) else ""
