"""How a tape is to be replayed: the mode, what is changed on purpose, what may go live.

**Rules**
1. Everything that is not from the tape is declared here before the run: a mode, a patch, a seam.
   ``allow_real`` is no such thing and is refused.
2. All problems are told at once; nothing is guessed from what is left out.
3. A seam that goes live and is not the mode's own taints the new tape.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sidecar.tape.answers import calls_of
from sidecar.tape.model import Event, Seam
from sidecar.tape.patch import Patched, PatchFailed
from sidecar.tape.tape import Tape
from sidecar.tape.value import encoded

Mode = Literal["strict", "tools", "counterfactual", "fork", "shadow"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
What = Literal["result", "fault", "policy", "state", "model", "prompt", "toolset"]
Exhausted = Literal["miss", "repeat_last"]
PATCHES_MAX: Final = 100

# What a clock, dice or the environment say beyond the tape is real in every mode but strict.
AMBIENT: Final[frozenset[Seam]] = frozenset({"clock", "entropy", "env", "scheduler"})
LIVE_OF: Final[dict[Mode, frozenset[Seam]]] = {
    "strict": frozenset(),
    "tools": frozenset({"provider"}),
    "counterfactual": frozenset({"provider"}),
    "fork": frozenset(get_args(Seam)),
    "shadow": frozenset({"provider"}),
}
# Of a request to a model: which of its members a declared change is about.
REQUEST: Final[dict[What, tuple[str, ...]]] = {
    "model": ("model",),
    "prompt": ("messages", "prompt", "input", "system", "instructions", "contents"),
    "toolset": ("tools", "functions", "tool_choice", "function_call", "parallel_tool_calls"),
}
_ANSWERS: Final = ("result", "fault", "policy", "state")
# The members of a plan that are one of a few words, and where msgspec says that a value is.
_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "mode": MODES,
    "what": get_args(What),
    "live": get_args(Seam),
    "exhausted": get_args(Exhausted),
}
_AT: Final = re.compile(
    r"missing required field `(\w+)`|at `\$(?:\.patches\[\d+\])?\.(\w+)(?:\[[^\]]*\])?`$"
)


class Patch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One declared change. ``seq``: of that event alone; ``name``: of every one so called.

    ``result``, ``policy``, ``state`` answer ``value``, or the recorded answer after the RFC 6902
    ``patch``. ``fault``: the call fails with the class ``error``. ``model``, ``prompt``,
    ``toolset``: requests to models differ in that from ``seq`` on (default: from the first); with a
    ``value`` or ``patch`` the request is changed here, without one the agent changes it itself.
    """

    what: What
    seq: int | None = None
    name: str | None = None
    value: Any = UNSET
    patch: tuple[Any, ...] | UnsetType = UNSET
    error: str | None = None
    message: str | None = None

    def problems(self) -> list[str]:
        """What is wrong with it."""
        found = []
        said = [self.value is not UNSET, self.patch is not UNSET]
        if self.what in _ANSWERS:
            if (self.seq is None) == (self.name is None):
                found.append("one of seq and name says which event")
            if self.what == "fault":
                if not self.error or any(said):
                    found.append("a fault has an error, and no value or patch")
            elif sum(said) != 1:
                found.append("one of value and patch says what is answered")
        elif self.name is not None or all(said):
            found.append("a change of requests has no name, and at most one of value and patch")
        if self.what != "fault" and (self.error is not None or self.message is not None):
            found.append("error and message are a fault's")
        return [f"{self.what}: {one}" for one in found]

    def of(self, event: Event) -> bool:
        """Whether it changes the answer of an event."""
        if self.what not in _ANSWERS:
            return False
        if self.seq is not None:
            return event.seq == self.seq
        kinds = ("decision",) if self.what == "policy" else ("tool_call", "decision", "llm_call")
        return event.name == self.name and event.kind in kinds

    def changed(self, recorded: Any) -> Any:
        """A decoded answer, or request, after the change. Raises PatchFailed."""
        if self.value is not UNSET:
            return self.value
        if isinstance(self.patch, UnsetType):
            return recorded
        made = Patched(encoded(recorded))
        made.apply([*self.patch])
        return made.value

    def request(self, given: Any) -> Any:
        """A request to a model after the change."""
        if self.value is not UNSET and isinstance(given, dict):
            member = next(
                (one for one in REQUEST[self.what] if one in given), REQUEST[self.what][0]
            )
            return {**given, member: self.value}
        return self.changed(given)


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A replay. ``fork``: the seq from which on everything is live. ``live``: seams beside the
    mode's own. ``exhausted``: by tool, what a call beyond the tape is answered (default: miss).
    ``moved``: strict, and call sites may have moved (``moved``): for a bisection. ``control``: of a
    counterfactual, the run with nothing changed, live from the same event on."""

    mode: Mode = "strict"
    fork: int | None = None
    patches: tuple[Patch, ...] = ()
    live: tuple[Seam, ...] = ()
    exhausted: dict[str, Exhausted] = {}
    moved: bool = False
    control: bool = False

    def problems(self) -> list[str]:
        """Everything that is wrong with it."""
        found = [problem for one in self.patches for problem in one.problems()]
        if (self.mode == "fork") != (self.fork is not None):
            found.append("the mode fork has a seq, and no other has")
        if self.fork is not None and self.fork < 0:
            found.append("a seq is not below 0")
        if (self.mode == "counterfactual") != bool(self.patches):
            found.append("the mode counterfactual has patches, and no other has")
        if len(self.patches) > PATCHES_MAX:
            found.append(f"more than {PATCHES_MAX} patches")
        if self.mode == "strict" and (self.live or self.exhausted):
            found.append("in the mode strict nothing is live, and nothing is repeated")
        if self.moved and self.mode != "strict":
            found.append("only in the mode strict call sites may have moved")
        if self.control and not (self.mode == "counterfactual" and self.live):
            found.append("a control is of a counterfactual with something live")
        if "tool" in self.live and self.mode == "shadow":
            found.append("in the mode shadow no tool is ever called")
        return found

    def fits(self, tape: Tape) -> list[str]:
        """What of it does not fit a tape: a seq that is no event, an answer no patch applies to."""
        found = []
        if self.fork is not None and self.fork > len(tape.events):
            found.append(f"the tape has no event {self.fork}")
        asked = answered_by(tape.events)
        for one in self.patches:
            if one.what not in _ANSWERS:
                continue
            if one.seq is not None and one.seq not in asked:
                found.append(f"{one.what}: at seq {one.seq} nothing is answered")
            elif one.seq is None and not any(one.of(each) for each in asked.values()):
                found.append(f"{one.what}: nothing of the name {one.name} is on the tape")
        return found

    @property
    def requests(self) -> tuple[Patch, ...]:
        """The changes of requests that are made here, where a request is."""
        found = (one for one in self.patches if one.what in REQUEST and not self.control)
        return tuple(one for one in found if one.value is not UNSET or one.patch is not UNSET)

    @property
    def taint(self) -> tuple[str, ...]:
        """Why nothing may be concluded from the new tape: what goes live and is not the mode's."""
        return tuple(sorted(f"live:{one}" for one in {*self.live} - LIVE_OF[self.mode]))


def answered_by(events: Sequence[Event]) -> dict[int, Event]:
    """Events that are answered, by their seq and by that of their result."""
    found: dict[int, Event] = {}
    by_seq = {event.seq: event for event in events}
    for event in events:
        if event.kind in ("llm_call", "tool_call", "decision", "human_input"):
            found[event.seq] = event
        elif event.kind == "tool_result":
            for seq in calls_of(event, by_seq):
                found[event.seq] = found[seq]
    return found


def plan_of(value: Any) -> Plan:
    """The plan of JSON-like values. Raises ValueError with every problem."""
    if isinstance(value, Mapping) and "allow_real" in value:
        raise ValueError("allow_real: a replay never calls the real thing; name a mode")
    try:
        plan = msgspec.convert(value, Plan)
    except msgspec.ValidationError as error:
        raise ValueError(_with_words(str(error))) from None
    problems = plan.problems()
    if problems:
        raise ValueError("; ".join(problems))
    return plan


def _with_words(said: str) -> str:
    """What msgspec says of a value, and where it is one of a few words, which ones there are."""
    found = _AT.search(said)
    words = None if found is None else _WORDS.get(found[found.lastindex or 0])
    return said if words is None else f"{said}: it is one of {', '.join(words)}"


__all__ = [
    "AMBIENT",
    "LIVE_OF",
    "MODES",
    "REQUEST",
    "Exhausted",
    "Mode",
    "Patch",
    "PatchFailed",
    "Plan",
    "answered_by",
    "plan_of",
]
