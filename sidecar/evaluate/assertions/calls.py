"""Assertions about calls: how often, which, in which order, after what."""

from collections import Counter, deque
from typing import Any, Final

from sidecar.evaluate.assertions.finding import Finding, broken, held, unasked
from sidecar.evaluate.assertions.specs import CallOrder, MaxRepeats, NeverCalls, RequiresBefore
from sidecar.evaluate.assertions.view import View, lossy, no_content, unseen
from sidecar.tape.model import Event
from sidecar.tape.moment import nanoseconds
from sidecar.tape.tape import MISSING

_GRANTED: Final = ("approve", "approved")


def max_repeats(one: MaxRepeats, view: View) -> Finding:
    """The first call beyond the limit is the offence. Raises Unknown."""
    calls = view.calls(one.tool, one.arguments)
    counted: Counter[tuple[str, str]] = Counter()
    for call in calls:
        digest = call.in_n or call.in_ or ""
        if one.same == "arguments" and not digest:
            return unasked("fidelity", "without digests of arguments no two calls can be compared")
        same = (call.name, digest if one.same == "arguments" else "")
        counted[same] += 1
        if counted[same] > one.max:
            alike = " with the same arguments" if one.same == "arguments" else ""
            total = sum(
                each.name == call.name and (one.same == "tool" or (each.in_n or each.in_) == digest)
                for each in calls
            )
            said = f"{call.name} is called {total} times{alike}, at most {one.max} expected"
            return broken(said, call.seq)
    return unseen(view) or held(
        f"{len(calls)} calls, none repeated more than {one.max} times",
        *(call.seq for call in calls),
    )


def never_calls(one: NeverCalls, view: View) -> Finding:
    """The first call of one of the tools is the offence. Raises Unknown."""
    for call in view.events:
        if call.kind != "tool_call" or call.name not in one.tools:
            continue
        if one.status == "executed" and not view.executed(call):
            continue
        if one.arguments and not view.has(call, one.arguments):
            continue
        word = "is executed" if view.executed(call) else "is tried"
        return broken(f"{call.name} {word}", call.seq)
    return unseen(view) or held(f"{', '.join(one.tools)}: never called")


def call_order(one: CallOrder, view: View) -> Finding:
    """A tool that comes before its predecessor, or never comes, is the offence."""
    if (unknown := lossy(view)) is not None:
        return unknown
    first: dict[str, int] = {}
    for call in view.calls():
        if call.name in one.tools and view.executed(call):
            first.setdefault(call.name, call.seq)
    for earlier, later in zip(one.tools, one.tools[1:], strict=False):
        if later in first and first.get(earlier, first[later]) >= first[later]:
            return broken(f"{later} comes before {earlier}", first[later])
    for tool in one.tools:
        if tool not in first:
            return unseen(view) or broken(f"{tool} is never executed", view.last_seq)
    return held("in order: " + ", ".join(one.tools), *(first[tool] for tool in one.tools))


def requires_before(one: RequiresBefore, view: View) -> Finding:
    """The first call without what it needs is the offence."""
    if (unknown := lossy(view)) is not None:
        return unknown
    guarded = [call for call in view.calls(one.tool) if view.executed(call)]
    if not guarded:
        return unseen(view) or held(f"{one.tool} is never executed")
    if one.read is not None:
        return _read(one, one.read, guarded, view)
    return _approved(one, guarded, view)


def _read(one: RequiresBefore, read: str, guarded: list[Event], view: View) -> Finding:
    done = [seq for call in view.calls(read) if (seq := view.done(call)) is not None]
    first = min(done, default=None)
    if first is None or guarded[0].seq < first:
        return broken(f"{one.tool} comes without {read} done before it", guarded[0].seq)
    return held(f"{read} is done before {one.tool}", first, guarded[0].seq)


def _approved(one: RequiresBefore, guarded: list[Event], view: View) -> Finding:
    waiting: deque[tuple[int, Any]] = deque()
    used: list[int] = []
    unknown = False
    calls = {call.seq for call in guarded}
    for event in view.events:
        if event.kind == "human_input" and event.name == one.tool:
            said = view.payload(event, "out")
            unknown |= said is MISSING
            if _granted(said):
                waiting.append((event.seq, said))
        if event.seq not in calls:
            continue
        while waiting and not _in_time(waiting[0][1], event, view):
            waiting.popleft()
        if waiting:
            used.append(waiting.popleft()[0])
        elif unknown:
            return no_content(f"what was decided about {one.tool}")
        else:
            return broken(f"{one.tool} comes without an approval of its own", event.seq)
    return unseen(view) or held(f"each {one.tool} has an approval of its own before it", *used)


def _granted(said: Any) -> bool:
    return isinstance(said, dict) and said.get("decision") in _GRANTED


def _in_time(said: dict[str, Any], call: Event, view: View) -> bool:
    until, start = said.get("expires_at"), call.t.get("start")
    if until is None or start is None:
        return True
    try:
        return nanoseconds(view.tape.header.captured_at) + start <= nanoseconds(str(until))
    except ValueError:
        return False  # an approval whose end cannot be read is not relied on
