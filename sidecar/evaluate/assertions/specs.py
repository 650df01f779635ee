"""What can be asserted of a tape, as records (docs/specs/tape-assertions.md): one spec, one record.

Rules
1. These records are the format; a key that is no field here is refused.
2. ``problems`` says what is wrong with values before any tape is read.
3. Records hold no state: the same record and tape give the same finding.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

import jsonschema_rs
from msgspec import Struct, structs

from sidecar.errors import Problem
from sidecar.evaluate.assertions.view import Where
from sidecar.expression.cel import ExpressionInvalid, compile_expression
from sidecar.tape.moment import nanoseconds

DEPTH_MAX: Final = 20
STATE: Final = frozenset({"state"})


class Assertion(Struct, frozen=True, kw_only=True):
    """What all have: values that may be wrong."""

    def wrong(self) -> Iterator[tuple[str, str]]:
        """Field and fault of each value that is wrong."""
        return iter(())


class MaxRepeats(Assertion, frozen=True, kw_only=True):
    """No tool (or ``tool``) is called more than ``max`` times; ``same`` = what makes a repeat."""

    max: int
    tool: str | None = None
    arguments: dict[str, Any] = {}
    same: Literal["tool", "arguments"] = "tool"

    def wrong(self) -> Iterator[tuple[str, str]]:
        """A limit is a number of calls."""
        if self.max < 0:
            yield "max", "must not be negative"


class NeverCalls(Assertion, frozen=True, kw_only=True):
    """None of the tools is called (with these arguments); ``status: executed`` allows refusals."""

    tools: tuple[str, ...]
    arguments: dict[str, Any] = {}
    status: Literal["any", "executed"] = "any"

    def wrong(self) -> Iterator[tuple[str, str]]:
        """Nothing never called proves nothing."""
        if not self.tools:
            yield "tools", "must name a tool"


class TerminatesWithin(Assertion, frozen=True, kw_only=True):
    """The terminal event's seq is below ``events``."""

    events: int

    def wrong(self) -> Iterator[tuple[str, str]]:
        """Nothing ends before it begins."""
        if self.events < 1:
            yield "events", "must be 1 or more"


class BudgetWithin(Assertion, frozen=True, kw_only=True):
    """Sums over the run stay within each limit that is given."""

    tool_calls: int | None = None
    model_calls: int | None = None
    tokens: int | None = None
    cost_usd_micros: int | None = None
    seconds: float | None = None

    def wrong(self) -> Iterator[tuple[str, str]]:
        """A limit must be given, and none below 0."""
        given = {name: value for name, value in structs.asdict(self).items() if value is not None}
        if not given:
            yield "", "needs a limit: " + ", ".join(structs.asdict(self))
        yield from ((name, "must not be negative") for name, value in given.items() if value < 0)


class CallOrder(Assertion, frozen=True, kw_only=True):
    """The first executed calls of the tools come in this order, and all come."""

    tools: tuple[str, ...]

    def wrong(self) -> Iterator[tuple[str, str]]:
        """An order is of two different ones or more."""
        if len(self.tools) < 2 or len(set(self.tools)) < len(self.tools):
            yield "tools", "must name two tools or more, none twice"


class OutputSchema(Assertion, frozen=True, kw_only=True):
    """The final output (or each result of ``tool``) is valid; ``parse``: it is a text of JSON."""

    schema: Any
    tool: str | None = None
    parse: bool = False

    def wrong(self) -> Iterator[tuple[str, str]]:
        """A schema must be one, and refers to nothing outside itself."""
        try:
            validator(self.schema)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            yield "schema", f"is no JSON Schema: {str(error).splitlines()[0]}"


class StateInvariant(Assertion, frozen=True, kw_only=True):
    """CEL over ``state`` holds at the start and after each patch (of the world ``of``)."""

    that: str
    of: str | None = None
    start: Any = None

    def wrong(self) -> Iterator[tuple[str, str]]:
        """The expression must compile."""
        try:
            compile_expression(self.that, variables=STATE)
        except ExpressionInvalid as error:
            yield "that", str(error)


class RequiresBefore(Assertion, frozen=True, kw_only=True):
    """Each executed call of ``tool`` comes after an approval of its own, or a read that is done."""

    tool: str
    read: str | None = None
    approval: bool = False

    def wrong(self) -> Iterator[tuple[str, str]]:
        """One of the two."""
        if (self.read is None) == (not self.approval):
            yield "", "needs exactly one of read and approval"
        if self.read == self.tool:
            yield "read", "must be another tool"


class ClaimVerified(Assertion, frozen=True, kw_only=True):
    """What the run claims was verified, as its terminal event says."""


class AllOf(Assertion, frozen=True, kw_only=True):
    """All hold."""

    of: tuple[Assertion, ...]


class AnyOf(Assertion, frozen=True, kw_only=True):
    """One holds."""

    of: tuple[Assertion, ...]


class Not(Assertion, frozen=True, kw_only=True):
    """It does not hold."""

    that: Assertion


class Implies(Assertion, frozen=True, kw_only=True):
    """Where ``when`` holds, ``then`` does."""

    when: Assertion
    then: Assertion


class Within(Assertion, frozen=True, kw_only=True):
    """It holds in a slice: seqs from ``from_seq`` to before ``to_seq``, or between two events.

    ``after``: begins behind the first such event; ``before``: ends before the next such one.
    """

    that: Assertion
    from_seq: int = 0
    to_seq: int | None = None
    after: Where | None = None
    before: Where | None = None

    def wrong(self) -> Iterator[tuple[str, str]]:
        """A slice must be able to hold something."""
        if self.from_seq < 0 or (self.to_seq is not None and self.to_seq <= self.from_seq):
            yield "to_seq", "must be above from_seq, which is 0 or more"


class PerAgent(Assertion, frozen=True, kw_only=True):
    """It holds for each agent's events alone."""

    that: Assertion


class Eventually(Assertion, frozen=True, kw_only=True):
    """Such an event comes."""

    event: Where


class Never(Assertion, frozen=True, kw_only=True):
    """No such event comes."""

    event: Where


class Until(Assertion, frozen=True, kw_only=True):
    """``event`` comes, and every event before it is a ``hold``."""

    hold: Where
    event: Where


class Severity(Assertion, frozen=True, kw_only=True):
    """How much a failure weighs: ``warning`` is told and fails nothing."""

    level: Literal["error", "warning"]
    that: Assertion


class Quarantine(Assertion, frozen=True, kw_only=True):
    """Told and not counted before ``until``; ``owner`` is who mends it by then."""

    until: str
    owner: str
    that: Assertion

    def wrong(self) -> Iterator[tuple[str, str]]:
        """It ends, and is somebody's."""
        try:
            nanoseconds(self.until)
        except ValueError:
            yield "until", f"must be a moment such as 2026-07-01T00:00:00Z, not {self.until!r}"
        if not self.owner.strip():
            yield "owner", "must name who mends it"


SPECS: Final[dict[str, type[Assertion]]] = {
    "max_repeats": MaxRepeats,
    "never_calls": NeverCalls,
    "terminates_within": TerminatesWithin,
    "budget_within": BudgetWithin,
    "call_order": CallOrder,
    "output_schema": OutputSchema,
    "state_invariant": StateInvariant,
    "requires_before": RequiresBefore,
    "claim_verified": ClaimVerified,
    "all_of": AllOf,
    "any_of": AnyOf,
    "not_": Not,
    "implies": Implies,
    "within": Within,
    "per_agent": PerAgent,
    "eventually": Eventually,
    "never": Never,
    "until": Until,
    "severity": Severity,
    "quarantine": Quarantine,
}
SPEC_OF: Final = {kind: name for name, kind in SPECS.items()}
_RUN: Final = (TerminatesWithin, ClaimVerified)


def validator(schema: Any) -> jsonschema_rs.Validator:
    """A validator that fetches nothing. Raises ValueError, ReferencingError."""
    return jsonschema_rs.validator_for(
        schema, offline=True, pattern_options=jsonschema_rs.RegexOptions()
    )


def children(one: Assertion) -> Iterator[tuple[str, Assertion]]:
    """The assertions right below one, with their dotted places."""
    for name in one.__struct_fields__:
        value = getattr(one, name)
        if isinstance(value, Assertion):
            yield name, value
        elif isinstance(value, tuple):
            yield from (
                (f"{name}.{n}", item) for n, item in enumerate(value) if isinstance(item, Assertion)
            )


def problems(one: Assertion, path: str, above: tuple[type[Assertion], ...] = ()) -> list[Problem]:
    """Everything that is wrong with an assertion and those below it."""
    found = [Problem(f"{path}.{at}" if at else path, text) for at, text in one.wrong()]
    if isinstance(one, AllOf | AnyOf) and not one.of:
        found.append(Problem(f"{path}.of", "must name an assertion: of none, nothing follows"))
    if isinstance(one, Severity | Quarantine) and not set(above) <= {Severity, Quarantine}:
        found.append(Problem(path, "must stand above all others: it says what a failure weighs"))
    if isinstance(one, _RUN) and {Within, PerAgent} & set(above):
        found.append(Problem(path, "is of the whole run and cannot stand in a slice of it"))
    if len(above) >= DEPTH_MAX:
        return [*found, Problem(path, f"is more than {DEPTH_MAX} deep")]
    for at, below in children(one):
        found += problems(below, f"{path}.{at}", (*above, type(one)))
    return found
