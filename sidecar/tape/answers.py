"""Which call a tool's result answers.

**Rules**
1. A result comes after its call, and may come after others too: of several calls that it comes
   after it answers the one ``attr.call`` names, else those of its own site and name, else all.
2. The first result of a call is its answer.
"""

from collections.abc import Iterable, Mapping

from sidecar.tape.model import Event


def calls_of(result: Event, events: Mapping[int, Event]) -> tuple[int, ...]:
    """The seqs of the calls a ``tool_result`` answers; ``events`` by their seq."""
    before = [events[seq] for seq in result.cause if seq in events]
    calls = [one for one in before if one.kind == "tool_call"]
    named = result.attr.get("call")
    for wanted in (
        [one.seq for one in calls if one.seq == named],
        [one.seq for one in calls if (one.site, one.name) == (result.site, result.name)],
    ):
        if wanted:
            return tuple(wanted)
    return tuple(one.seq for one in calls)


def results_of(events: Iterable[Event]) -> dict[int, Event]:
    """Each answered call's seq, and its result; ``events`` in their order."""
    met: dict[int, Event] = {}
    found: dict[int, Event] = {}
    for event in events:
        met[event.seq] = event
        if event.kind == "tool_result":
            for seq in calls_of(event, met):
                found.setdefault(seq, event)
    return found
