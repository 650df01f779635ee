"""``state_invariant``: CEL over the state, at the start and after each patch on the tape.

Rules
1. State is per world (the patches' ``name``). It starts as the tape's own blob, else as ``start``,
   else as the first patch of the whole makes it.
2. A state whose digest is not the one the tape tells, or that does not follow from the one before,
   is an error: nothing is judged by it.
"""

from typing import Any, Final

from sidecar.canonical import NotCanonical
from sidecar.evaluate.assertions.finding import Finding, broken, held, unanswered, unasked
from sidecar.evaluate.assertions.specs import STATE, StateInvariant
from sidecar.evaluate.assertions.view import View, no_content, unseen
from sidecar.expression.cel import Expression, ExpressionFailed, compile_expression
from sidecar.tape.model import Event
from sidecar.tape.patch import Patched, PatchFailed
from sidecar.tape.tape import MISSING
from sidecar.tape.value import decoded, encoded, matches, payload

BYTES_MAX: Final = 512 * 1024 * 1024


def state_invariant(one: StateInvariant, view: View) -> Finding:
    """The patch after which it does not hold is the offence."""
    worlds = _Worlds(one)
    seen = []
    for event in view.events:
        if event.kind != "state_patch" or (one.of is not None and event.name != one.of):
            continue
        found = worlds.step(event, view)
        if found is not None:
            return found
        seen.append(event.seq)
    if (unknown := unseen(view)) is not None:
        return unknown
    if not seen:
        return unasked("state", "no change of state is on the tape")
    return held(f"it holds after each of {len(seen)} changes", *seen)


class _Worlds:
    """The states so far, and how many bytes of them were looked at."""

    def __init__(self, one: StateInvariant) -> None:
        self._one = one
        self._that = compile_expression(one.that, variables=STATE)
        self._states: dict[str, Patched] = {}
        self._bytes = 0

    def step(self, event: Event, view: View) -> Finding | None:
        """A finding where one change of state decides; None where it holds."""
        told = _told(event, view)
        if told is MISSING:
            return no_content("what a change of state is")
        if not isinstance(told, dict) or "patch" not in told:
            return unanswered("state", "a change of state that is none", event.seq)
        try:
            if event.name not in self._states:
                found = self._begin(event, told, view)
            else:
                found = self._looked_at(event, told.get("before"), "")
            if found is not None:
                return found
            self._states[event.name].apply(told["patch"])
        except PatchFailed as error:
            return unanswered("state", str(error), event.seq)
        return self._looked_at(event, told.get("after"), "after")

    def _begin(self, event: Event, told: dict[str, Any], view: View) -> Finding | None:
        start = _start(self._one, told.get("before"), view)
        if start is MISSING:
            if not _whole(told["patch"]):
                said = "the state at the start is not on the tape; give `start`"
                return unasked("state", said)
            self._states[event.name] = Patched(None)
            return None
        self._states[event.name] = Patched(start)
        return self._looked_at(event, told.get("before"), "before")

    def _looked_at(self, event: Event, digest: Any, when: str) -> Finding | None:
        """Whether the state is the one the tape tells, and what holds in it; ``when`` empty: not
        again.
        """
        state = self._states[event.name].value
        try:
            data = payload(encoded(state))
        except NotCanonical:
            return unanswered("state", "a state that has no form on a tape", event.seq)
        self._bytes += len(data)
        if self._bytes > BYTES_MAX:
            said = f"the states come to more than {BYTES_MAX} bytes"
            return unanswered("limit", said, event.seq)
        if digest is not None and not (isinstance(digest, str) and matches(digest, data)):
            return unanswered("state", "the state is not the one the tape tells", event.seq)
        return _judged(self._that, state, event.seq, when) if when else None


def _told(event: Event, view: View) -> Any:
    told = view.payload(event, "out")
    return view.payload(event, "in") if told is MISSING else told


def _start(one: StateInvariant, before: Any, view: View) -> Any:
    if isinstance(before, str):
        kept = view.tape.blob(before)
        if kept is not MISSING:
            return decoded(kept)
    return MISSING if one.start is None else one.start


def _whole(patch: Any) -> bool:
    first = patch[0] if isinstance(patch, list) and patch else None
    return isinstance(first, dict) and first.get("path") == "" and first.get("op") != "test"


def _judged(that: Expression, state: Any, seq: int, when: str) -> Finding | None:
    try:
        value = that.evaluate({"state": state})
    except ExpressionFailed as error:
        return unanswered("expression", str(error), seq)
    if value is True:
        return None
    if value is not False:
        return unanswered("expression", "the expression is neither true nor false", seq)
    return broken(f"it does not hold {when} this change: {that.text}", seq)
