"""One change of a scenario, as a record: what a genome is made of.

Rules
1. A mutation holds its values: applied again to the same scenario it makes the same one.
2. One that does not fit any more (its row is gone) changes nothing, so that any subset of a genome
   is a genome: shrinking needs no repair.
3. Each says its layer and what is ``right`` after it: the same as before, a refusal, or what only
   a reference can tell (unknown).
4. ``simpler`` names simpler forms of it, the simplest first.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from msgspec import Struct, structs

from sidecar.analyse.fuzz.draft import Draft
from sidecar.analyse.fuzz.wording import spoken, text_of, with_text
from sidecar.evaluate.expectations import AnyExpectation
from sidecar.twins.company import AgentTask, Switch
from sidecar.twins.declaration import Fault, When
from sidecar.twins.scenario import Scenario

Layer = Literal[
    "state", "goal", "persona", "tool_result", "injection", "timing", "concurrency", "agent"
]
LAYERS: tuple[Layer, ...] = get_args(Layer)


Right = Literal["same", "refusal", "unknown"]


class Mutation(Struct, frozen=True, kw_only=True, tag_field="mutation"):
    """What all have: the operator's name, and what is right after it."""

    operator: str
    right: Right = "same"

    @property
    def layer(self) -> Layer:
        """The layer of a scenario that it changes."""
        raise NotImplementedError

    def apply(self, draft: Draft) -> Draft:
        """The draft with this change."""
        raise NotImplementedError

    def simpler(self) -> Sequence["AnyMutation"]:
        """Simpler forms."""
        return ()

    def told(self) -> str:
        """In a few words."""
        return self.operator


class RowChanged(Mutation, frozen=True, kw_only=True, tag="row_changed"):
    """A field of a row takes a value."""

    entity: str
    key: str
    field: str
    value: Any

    @property
    def layer(self) -> Layer:
        """Of the state."""
        return "state"

    def apply(self, draft: Draft) -> Draft:
        """Set the field, where the row is there."""
        rows = draft.tables.get(self.entity, {})
        if self.key not in rows:
            return draft
        changed = {**rows[self.key], self.field: self.value}
        return draft.with_rows(self.entity, {**rows, self.key: changed})

    def told(self) -> str:
        """Which field."""
        return f"{self.operator}: {self.entity} {self.key} {self.field} = {self.value!r}"


class RowGone(Mutation, frozen=True, kw_only=True, tag="row_gone"):
    """A row is missing."""

    entity: str
    key: str

    @property
    def layer(self) -> Layer:
        """Of the state."""
        return "state"

    def apply(self, draft: Draft) -> Draft:
        """Take it away."""
        rows = draft.tables.get(self.entity, {})
        if self.key not in rows:
            return draft
        return draft.with_rows(
            self.entity, {key: row for key, row in rows.items() if key != self.key}
        )

    def told(self) -> str:
        """Which row."""
        return f"{self.operator}: {self.entity} {self.key}"


class RowAdded(Mutation, frozen=True, kw_only=True, tag="row_added"):
    """A row more: an extra one, a twin of another, or another tenant's."""

    entity: str
    key: str
    row: dict[str, Any]

    @property
    def layer(self) -> Layer:
        """Of the state."""
        return "state"

    def apply(self, draft: Draft) -> Draft:
        """Put it last."""
        rows = draft.tables.get(self.entity)
        if rows is None or self.key in rows:
            return draft
        return draft.with_rows(self.entity, {**rows, self.key: self.row})

    def told(self) -> str:
        """Which row."""
        return f"{self.operator}: {self.entity} {self.key}"


class FlagSet(Mutation, frozen=True, kw_only=True, tag="flag_set"):
    """A flag stands otherwise."""

    flag: str
    value: Any

    @property
    def layer(self) -> Layer:
        """Of the state."""
        return "state"

    def apply(self, draft: Draft) -> Draft:
        """Set it."""
        return draft.with_(flags={**draft.scenario.flags, self.flag: self.value})

    def told(self) -> str:
        """Which flag."""
        return f"{self.operator}: {self.flag} = {self.value!r}"


class Asks(Mutation, frozen=True, kw_only=True, tag="asks"):
    """The input is another; ``messages`` are turns before it."""

    input: Any
    messages: tuple[dict[str, Any], ...] = ()

    @property
    def layer(self) -> Layer:
        """Of the goal."""
        return "goal"

    def apply(self, draft: Draft) -> Draft:
        """Ask it."""
        return draft.with_(input=self.input, messages=(*draft.scenario.messages, *self.messages))

    def simpler(self) -> Sequence["AnyMutation"]:
        """Without the last turn."""
        if not self.messages:
            return ()
        return (structs.replace(self, messages=self.messages[:-1]),)


class Speaks(Mutation, frozen=True, kw_only=True, tag="speaks"):
    """What is asked is written as somebody with a habit writes."""

    style: str

    @property
    def layer(self) -> Layer:
        """Of who asks."""
        return "persona"

    def apply(self, draft: Draft) -> Draft:
        """Put the words so, where there are any."""
        value = draft.scenario.input
        said = text_of(value)
        if said is None:
            return draft
        return draft.with_(input=with_text(value, spoken(said, self.style, draft.keys())))


class Faulted(Mutation, frozen=True, kw_only=True, tag="faulted"):
    """A fault rule more."""

    fault: Fault
    timing: bool = False

    @property
    def layer(self) -> Layer:
        """Of time where it only delays, else of what tools answer."""
        return "timing" if self.timing else "tool_result"

    def apply(self, draft: Draft) -> Draft:
        """Add the rule."""
        return draft.with_(faults=(*draft.scenario.faults, self.fault))

    def simpler(self) -> Sequence["AnyMutation"]:
        """Only at the first call, then at every call."""
        first, always = When(call_number=1), When()
        if self.fault.when in (first, always):
            return ()
        return (structs.replace(self, fault=structs.replace(self.fault, when=first)),)

    def told(self) -> str:
        """Which fault of which tool."""
        when = self.fault.when
        place = f" at call {when.call_number}" if when.call_number else ""
        return f"{self.operator}: {self.fault.fault} of {self.fault.tool}{place}"


class Injected(Mutation, frozen=True, kw_only=True, tag="injected"):
    """An instruction stands in a text of a row; ``expect`` tells whether it was obeyed."""

    entity: str
    key: str
    field: str
    payload: str
    expect: tuple[AnyExpectation, ...] = ()

    @property
    def layer(self) -> Layer:
        """Of injections."""
        return "injection"

    def apply(self, draft: Draft) -> Draft:
        """Write it behind what stands there."""
        rows = draft.tables.get(self.entity, {})
        if self.key not in rows:
            return draft
        said = rows[self.key].get(self.field) or ""
        row = {**rows[self.key], self.field: f"{said}\n{self.payload}".strip()}
        changed = draft.with_rows(self.entity, {**rows, self.key: row})
        return changed.with_(expect=(*changed.scenario.expect, *self.expect))

    def told(self) -> str:
        """Where it stands."""
        return f"{self.operator}: in {self.entity} {self.key} {self.field}"


class Starts(Mutation, frozen=True, kw_only=True, tag="starts"):
    """The episode starts at another time."""

    now: str

    @property
    def layer(self) -> Layer:
        """Of time."""
        return "timing"

    def apply(self, draft: Draft) -> Draft:
        """Start then."""
        return draft.with_(now=self.now)

    def told(self) -> str:
        """When."""
        return f"{self.operator}: {self.now}"


class Forbidden(Mutation, frozen=True, kw_only=True, tag="forbidden"):
    """The caller may do only this."""

    permissions: tuple[str, ...]

    @property
    def layer(self) -> Layer:
        """Of the state."""
        return "state"

    def apply(self, draft: Draft) -> Draft:
        """Take the others away."""
        return draft.with_(permissions=self.permissions)


class Reseeded(Mutation, frozen=True, kw_only=True, tag="reseeded"):
    """Another seed for the agent and for faults with a probability."""

    seed: int

    @property
    def layer(self) -> Layer:
        """Of the agent."""
        return "agent"

    def apply(self, draft: Draft) -> Draft:
        """Set it."""
        return draft.with_(seed=self.seed)


class Forgot(Mutation, frozen=True, kw_only=True, tag="forgot"):
    """The oldest turns are gone, as a short context leaves them out."""

    turns: int

    @property
    def layer(self) -> Layer:
        """Of the agent."""
        return "agent"

    def apply(self, draft: Draft) -> Draft:
        """Leave them out."""
        return draft.with_(messages=draft.scenario.messages[self.turns :])


class Joined(Mutation, frozen=True, kw_only=True, tag="joined"):
    """Another scenario's errand runs at the same time in the same world."""

    other: Scenario
    name: str
    tables: dict[str, dict[str, Any]] = {}

    @property
    def layer(self) -> Layer:
        """Of concurrency."""
        return "concurrency"

    def apply(self, draft: Draft) -> Draft:
        """Sit down beside the agents that are there; the rows of its own world win."""
        own = draft.scenario
        there = own.agents or (AgentTask(name=own.id, input=own.input, messages=own.messages),)
        if any(one.name == self.name for one in there):
            return draft
        task = AgentTask(name=self.name, input=self.other.input, messages=self.other.messages)
        made = draft
        for entity, rows in self.tables.items():
            made = made.with_rows(entity, {**made.tables.get(entity, {}), **rows})
        return made.with_(
            agents=(*there, task),
            expect=(*own.expect, *(structs.replace(one, id="") for one in self.other.expect)),
        )

    def told(self) -> str:
        """With whom."""
        return f"{self.operator}: beside {self.name}"


class Switched(Mutation, frozen=True, kw_only=True, tag="switched"):
    """After so many calls it is another agent's turn."""

    switch: Switch

    @property
    def layer(self) -> Layer:
        """Of concurrency."""
        return "concurrency"

    def apply(self, draft: Draft) -> Draft:
        """One switch more."""
        known = {one.after: one for one in draft.scenario.schedule}
        known[self.switch.after] = self.switch
        return draft.with_(schedule=tuple(known[after] for after in sorted(known)))

    def told(self) -> str:
        """Where to whom."""
        return f"switch to {self.switch.run} after {self.switch.after} calls"


AnyMutation = (
    RowChanged
    | RowGone
    | RowAdded
    | FlagSet
    | Asks
    | Speaks
    | Faulted
    | Injected
    | Starts
    | Forbidden
    | Reseeded
    | Forgot
    | Joined
    | Switched
)
Genome = tuple[AnyMutation, ...]
