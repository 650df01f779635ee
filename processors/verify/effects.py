"""Effects: what a run attempted in the world, and what independent evidence says of each.

Rules
1. An effect is one tool with one set of arguments: attempts that repeat it belong together.
2. Reads are no effects, unless a probe or a twin was asked about one. A tool call that neither the
   registry nor a receipt knows, and that only runs agents or tools below it, is theirs.
3. State (a probe, a twin) outweighs receipts: a receipt says what the tool answered, state what is.
   Among observations of state one that did not hold decides, then one that could not be had.
4. Among receipts of one effect a confirmed one decides, then an unknown one.
5. State observed before its step had ended, or dated ahead of now, is no observation: unknown.
6. What an emitter says is no evidence of an effect, and neither is a check for duplicates.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from msgspec import Struct, field

from processors.model.evidence import Evidence
from processors.model.names import SideEffectClass
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.verify.pairing import argument_key
from processors.verify.subjects import is_control, is_reading, plain, registered, spellings

NO_DUPLICATE: Final = "no_duplicate_effect"
_HOPS_MAX: Final = 64
AHEAD_NS: Final = 300_000_000_000
_NOT_ATTEMPTED = ("requested_only", "denied", "deferred")


class Effect(Struct, frozen=True, kw_only=True):
    """One effect in order of first attempt. ``class_`` is None where nobody declared the tool.

    ``held``: True it is there, False it is not, None unknown; ``proved`` whether any independent
    evidence speaks of it at all.
    """

    subject: str | None
    class_: SideEffectClass | None
    arguments: Any
    step_ids: tuple[str, ...]
    receipts: tuple[Evidence, ...]
    states: tuple[Evidence, ...]
    held: bool | None
    proved: bool

    @property
    def evidence_ids(self) -> tuple[str, ...]:
        """The ids of all evidence of the effect, state first."""
        return tuple(item.evidence_id for item in (*self.states, *self.receipts))


class _Group(Struct, kw_only=True):
    subject: str | None
    class_: SideEffectClass | None = None
    arguments: Any = None
    step_ids: dict[str, None] = field(default_factory=dict)
    receipts: list[Evidence] = field(default_factory=list)
    states: dict[str, Evidence] = field(default_factory=dict)


def effects(
    trace: AgentTrace, tools: Mapping[str, SideEffectClass], now_ns: int
) -> tuple[Effect, ...]:
    """The effects of a run in order of first attempt."""
    calls = [step for step in trace.steps if step.kind == "tool_call"]
    if not calls and not trace.evidence:
        return ()
    gathering = _Gathering(trace, tools, now_ns)
    for step in calls:
        gathering.add_step(step)
    gathering.add_unplaced()
    return tuple(
        _effect(group)
        for group in gathering.groups.values()
        if group.class_ != "read" or group.states
    )


class _Gathering:
    """Evidence sorted to effects."""

    def __init__(
        self, trace: AgentTrace, tools: Mapping[str, SideEffectClass], now_ns: int
    ) -> None:
        self.groups: dict[tuple[str | None, str], _Group] = {}
        self._tools = tools
        self._names: dict[str, str] = {}
        self._met: dict[str, tuple[int, str]] = {}  # by spelling: the first name that has it
        self._met_whole: dict[str, tuple[int, str]] = {}
        self._receipts: dict[str, list[Evidence]] = {}
        self._states: dict[str, list[Evidence]] = {}
        self._unplaced: list[Evidence] = []
        self._steps = trace.steps
        # Without evidence a read is no effect whatever its arguments are, which most calls are.
        self._reads_matter = bool(trace.evidence)
        ends = {step.step_id: step.end_ns for step in trace.steps} if trace.evidence else {}
        for item in trace.evidence:
            if item.source == "emitter" or item.name == NO_DUPLICATE:
                continue
            if item.step_id not in ends:
                self._unplaced.append(_sound(item, 0, now_ns))
            elif item.source == "receipt":
                self._receipts.setdefault(item.step_id or "", []).append(item)
            else:
                sound = _sound(item, ends[item.step_id or ""], now_ns)
                self._states.setdefault(item.step_id or "", []).append(sound)

    @cached_property
    def _delegating(self) -> set[str]:
        return _delegating(self._steps)

    def add_step(self, step: Step) -> None:
        """A tool call and the evidence of it; one that was never attempted only with evidence."""
        receipts = self._receipts.get(step.step_id, ())
        states = self._states.get(step.step_id, ())
        groups = [self._of_receipt(item, step) for item in receipts if item.subject]
        if receipts and not groups:  # a request refused before it was any tool's: no effect
            return
        if not receipts:
            if step.status in _NOT_ATTEMPTED and not states:
                return
            own = self._of_step(step)
            if own is None:
                return
            groups = [own]
        real = [group for group in groups if group.class_ != "read"] or groups
        for group in real:
            group.states.update((item.evidence_id, item) for item in states)

    def add_unplaced(self) -> None:
        """Evidence of no step: to the effects of its subject, else an effect of its own."""
        for item in self._unplaced:
            if item.source == "receipt":
                if item.subject:
                    self._of_receipt(item, None)
                continue
            subject = self._name(item.subject)
            groups = [group for group in self.groups.values() if group.subject == subject]
            if subject is None or not groups:
                groups = [self._group(subject, item.name if subject is None else "")]
                groups[0].class_ = self._class(subject)
            for group in groups:
                group.states[item.evidence_id] = item

    def _of_receipt(self, item: Evidence, step: Step | None) -> _Group:
        arguments = item.data.get("arguments")
        key = argument_key(arguments) or str(item.data.get("action") or item.evidence_id)
        subject = self._name(item.subject)
        group = self._group(subject, key)
        group.class_ = self._class(subject) or item.data.get("class")
        group.arguments = arguments
        group.receipts.append(item)
        if step is not None:
            group.step_ids[step.step_id] = None
        return group

    def _of_step(self, step: Step) -> _Group | None:
        tool = step.tool
        subject = self._name((tool.name if tool is not None else None) or step.name)
        class_ = self._class(subject)
        harmless = subject is not None and (is_reading(subject) or is_control(subject))
        if not self._reads_matter and (class_ == "read" or (class_ is None and harmless)):
            return None
        arguments = tool.arguments if tool is not None else None
        group = self._group(subject, argument_key(arguments) or step.step_id)
        if not group.step_ids:
            harmless = harmless or (class_ is None and step.step_id in self._delegating)
            group.class_ = class_ or ("read" if harmless else None)
            group.arguments = arguments
        group.step_ids[step.step_id] = None
        return group

    def _group(self, subject: str | None, key: str) -> _Group:
        return self.groups.setdefault((subject, key), _Group(subject=subject))

    def _class(self, subject: str | None) -> SideEffectClass | None:
        return self._tools.get(subject) if subject is not None else None

    def _name(self, name: str | None) -> str | None:
        """The registry's name, else the first spelling of the same tool that was met."""
        if name is None:
            return None
        if name not in self._names:
            found = registered(name, self._tools) or self._first_met(name)
            place = (len(self._names), found)
            for spelling in spellings(found):
                self._met.setdefault(spelling, place)
            self._met_whole.setdefault(plain(found), place)
            self._names[name] = found
        return self._names[name]

    def _first_met(self, name: str) -> str:
        """The first name met that is the same tool (``same_tool``, of which this is the index)."""
        found = [self._met_whole[one] for one in spellings(name) if one in self._met_whole]
        if plain(name) in self._met:
            found.append(self._met[plain(name)])
        return min(found)[1] if found else name


def _delegating(steps: Sequence[Step]) -> set[str]:
    """The tool calls that have an agent or another tool call below them."""
    called = {step.step_id for step in steps if step.kind == "tool_call"}
    if called.isdisjoint([step.parent_step_id for step in steps]):
        return set()
    parents = {step.step_id: step for step in steps}
    found: set[str] = set()
    for step in steps:
        if step.kind not in ("agent", "tool_call"):
            continue
        above = parents.get(step.parent_step_id or "")
        for _ in range(_HOPS_MAX):
            if above is None or above.step_id in found:
                break
            if above.kind == "tool_call":
                found.add(above.step_id)
            above = parents.get(above.parent_step_id or "")
    return found


def _sound(item: Evidence, end_ns: int, now_ns: int) -> Evidence:
    """Rule 5. A virtual clock's evidence (twins) is not compared with the wall clock's."""
    at = item.observed_ns
    # An emitter that says its step ends in the future cannot make every look at state too early.
    earliest = end_ns if end_ns <= now_ns else 0
    if item.source != "probe" or not at or (earliest <= at <= now_ns + AHEAD_NS):
        return item
    return Evidence(
        evidence_id=item.evidence_id,
        source=item.source,
        name=item.name,
        held=None,
        subject=item.subject,
        step_id=item.step_id,
        observed_ns=at,
        detail="stale",
    )


def _effect(group: _Group) -> Effect:
    states = tuple(group.states.values())
    held = _all_hold(states) if states else _any_confirmed(group.receipts)
    return Effect(
        subject=group.subject,
        class_=group.class_,
        arguments=group.arguments,
        step_ids=tuple(group.step_ids),
        receipts=tuple(group.receipts),
        states=states,
        held=held,
        proved=bool(states or group.receipts),
    )


def _all_hold(states: Sequence[Evidence]) -> bool | None:
    found = {item.held for item in states}
    return False if False in found else None if None in found else True


def _any_confirmed(receipts: Sequence[Evidence]) -> bool | None:
    found = {item.held for item in receipts}
    return True if True in found else None if None in found or not found else False


def identifiers(value: Any) -> set[str]:
    """The texts of arguments that look like identifiers: with a digit or an @, no plain numbers."""
    if isinstance(value, dict):
        return {leaf for item in value.values() for leaf in identifiers(item)}
    if isinstance(value, list):
        return {leaf for item in value for leaf in identifiers(item)}
    if not isinstance(value, str) or not 3 <= len(value) <= 64 or " " in value.strip():
        return set()
    named = "@" in value or (any(c.isdigit() for c in value) and any(c.isalpha() for c in value))
    return {value} if named else set()


def same_target(left: Effect, right: Effect) -> bool:
    """Whether two effects are about one thing: equal identifiers, else equal texts."""
    if not isinstance(left.arguments, dict) or not isinstance(right.arguments, dict):
        return False
    one, other = identifiers(left.arguments), identifiers(right.arguments)
    if one or other:
        return bool(one & other) and (one <= other or other <= one)
    shared = left.arguments.keys() & right.arguments.keys()
    return bool(shared) and all(
        left.arguments[key] == right.arguments[key]
        for key in shared
        if isinstance(left.arguments[key], str)
    )
