"""Statements over events in their order, and the slices of a tape they may be asked of."""

from msgspec import structs

from sidecar.evaluate.assertions.finding import Finding, broken, held, unasked
from sidecar.evaluate.assertions.specs import Eventually, Never, Until, Within
from sidecar.evaluate.assertions.view import View, lossy, unseen


def eventually(one: Eventually, view: View) -> Finding:
    """Its absence is known at the last event. Raises Unknown."""
    for event in view.events:
        if view.matches(event, one.event):
            return held("such an event comes", event.seq)
    return unseen(view) or broken("no such event comes", view.last_seq)


def never(one: Never, view: View) -> Finding:
    """The first such event is the offence. Raises Unknown."""
    for event in view.events:
        if view.matches(event, one.event):
            return broken("such an event comes", event.seq)
    return unseen(view) or held("no such event comes")


def until(one: Until, view: View) -> Finding:
    """The first event that is neither, before the awaited one, is the offence. Raises Unknown."""
    for event in view.events:
        if view.matches(event, one.event):
            return lossy(view) or held("all hold until it comes", event.seq)
        if not view.matches(event, one.hold):
            return lossy(view) or broken("another event comes first", event.seq)
    return unseen(view) or broken("the awaited event never comes", view.last_seq)


def sliced(one: Within, view: View) -> View | Finding:
    """The part of a view that ``within`` names; a skip where it does not begin. Raises Unknown."""
    top = one.to_seq
    events = [each for each in view.events if each.seq >= one.from_seq]
    ended = top is not None and any(each.seq >= top - 1 for each in view.events)
    if top is not None:
        events = [each for each in events if each.seq < top]
    if one.after is not None:
        begin = next((n for n, each in enumerate(events) if view.matches(each, one.after)), None)
        if begin is None:
            return unseen(view) or unasked("slice", "the event that begins the slice never comes")
        events = events[begin + 1 :]
    if one.before is not None:
        end = next((n for n, each in enumerate(events) if view.matches(each, one.before)), None)
        if end is not None:
            events, ended = events[:end], True
    if not events and one.after is None and one.before is None:
        return unseen(view) or unasked("slice", "the tape has no event in the slice")
    missing = "" if ended and view.missing == "partial" else view.missing
    return structs.replace(view, events=tuple(events), missing=missing)
