"""What a scenario can expect, as records (docs/specs/suite.md): one type of expectation, one
record.

Rules
1. These records are the format; a key that is no field here is refused.
2. An expectation is required unless it says otherwise; one that is not decides nothing.
3. Each has an id, unique in its scenario: given, or made of its type and what it is about.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import re2
from msgspec import field, structs

from processors.model.detection import DetectionCode, DetectionSeverity
from processors.model.names import OutcomeStatus
from sidecar.errors import Problem
from sidecar.evaluate.collateral import Collateral
from sidecar.evaluate.ending import EndState, Said
from sidecar.evaluate.expectation import Expectation, Status, pattern, type_of
from sidecar.evaluate.limits import MaxCostUsd, MaxLatencyMs, MaxSteps
from sidecar.evaluate.milestones import Milestones, Progress, Rubric
from sidecar.evaluate.path import Trajectory
from sidecar.evaluate.repetition import MaxRetries, NoLoop, NoUnsafeRetry
from sidecar.evaluate.safety import (
    NoCrossTenantAccess,
    NoIrreversibleAction,
    NoPolicyViolation,
    NoSecretDisclosure,
)
from sidecar.evaluate.semantic import Semantic
from sidecar.evaluate.text import OutputEquals, OutputMatches, OutputSchema
from sidecar.evaluate.tool_use import RequiredEscalation, ToolArgs, ToolStatus


class StateIs(Expectation, frozen=True, kw_only=True, tag="state"):
    """At the end, a row has these values (or exists, or not), or CEL holds over the world."""

    entity: str = ""
    key: Any = None
    equals: dict[str, Any] | None = None
    exists: bool | None = None
    that: str = ""

    def problems(self, tools: Sequence[str]) -> list[str]:
        """One of ``that``, ``equals`` and ``exists`` must be given, with what it needs."""
        given = [bool(self.that), self.equals is not None, self.exists is not None]
        found = super().problems(tools)
        if sum(given) != 1:
            found.append("needs exactly one of that, equals and exists")
        if not self.that and (not self.entity or self.key is None):
            found.append("needs entity and key")
        return found


class StateUnchanged(Expectation, frozen=True, kw_only=True, tag="stateUnchanged"):
    """No row differs from the start."""

    entities: tuple[str, ...] = ()
    except_: dict[str, tuple[Any, ...]] = field(name="except", default_factory=dict)


class ToolCalled(Expectation, frozen=True, kw_only=True, tag="toolCalled"):
    """So many matching calls; by default at least one, executed."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    times: int | None = None
    min: int | None = None
    max: int | None = None
    status: Status = "executed"

    def problems(self, tools: Sequence[str]) -> list[str]:
        """Counts must be possible."""
        found = super().problems(tools)
        if self.times is not None and (self.min is not None or self.max is not None):
            found.append("has times beside min or max")
        if (self.min or 0) > (self.max if self.max is not None else self.min or 0):
            found.append("has min above max")
        return found


class ToolNotCalled(Expectation, frozen=True, kw_only=True, tag="toolNotCalled"):
    """No matching call was tried; with ``executed``, none went through."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    status: Status = "any"


class MaxToolCalls(Expectation, frozen=True, kw_only=True, tag="maxToolCalls"):
    """At most so many calls were tried."""

    max: int
    tool: str = ""


class Order(Expectation, frozen=True, kw_only=True, tag="order"):
    """All were executed, the first execution of each before the first of the next."""

    tools: tuple[str, ...]

    def tools_named(self) -> Sequence[str]:
        """The tools in order."""
        return self.tools

    def problems(self, tools: Sequence[str]) -> list[str]:
        """An order has at least two."""
        short = [] if len(self.tools) > 1 else ["needs at least two tools"]
        return [*super().problems(tools), *short]


class RequiresBefore(Expectation, frozen=True, kw_only=True, tag="requiresBefore"):
    """Every executed call of ``before`` has an executed call of ``tool`` before it."""

    tool: str
    before: str

    def tools_named(self) -> Sequence[str]:
        """Both."""
        return (self.tool, self.before)


class ApprovalRequired(Expectation, frozen=True, kw_only=True, tag="approvalRequired"):
    """The tool was asked for, and each matching executed call used up an approval."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


class NoDuplicateSideEffect(Expectation, frozen=True, kw_only=True, tag="noDuplicateSideEffect"):
    """No two effects of the twins have one effect key."""

    tool: str = ""


class NoDetections(Expectation, frozen=True, kw_only=True, tag="noDetections"):
    """No detector found anything of these codes (all, when empty) this grave or graver."""

    codes: tuple[DetectionCode, ...] = ()
    severity: DetectionSeverity = "minor"


class OutcomeVerified(Expectation, frozen=True, kw_only=True, tag="outcomeVerified"):
    """The trace's outcome is one of these."""

    status: tuple[OutcomeStatus, ...] = ("verified_success",)


class FinalOutcome(Expectation, frozen=True, kw_only=True, tag="finalOutcome", rename="camel"):
    """What the agent said at the end."""

    claim: Literal["success", "failure", "unknown", "none"] | None = None
    contains: str | None = None
    not_contains: str | None = None
    equals: str | None = None
    matches: str | None = None

    def problems(self, tools: Sequence[str]) -> list[str]:
        """Something must be asked; the pattern must be RE2."""
        found = super().problems(tools)
        asked = (self.claim, self.contains, self.not_contains, self.equals, self.matches)
        if all(one is None for one in asked):
            found.append("needs claim, contains, notContains, equals or matches")
        if self.matches is not None:
            try:
                pattern(self.matches)
            except re2.error as error:
                found.append(f"matches is no pattern: {error}")
        return found


class OutputContains(Expectation, frozen=True, kw_only=True, tag="outputContains"):
    """The final output has the text; case is ignored."""

    text: str


class OutputNotContains(Expectation, frozen=True, kw_only=True, tag="outputNotContains"):
    """The final output has not the text; case is ignored."""

    text: str


AnyExpectation = (
    StateIs
    | StateUnchanged
    | ToolCalled
    | ToolNotCalled
    | MaxToolCalls
    | Order
    | RequiresBefore
    | ApprovalRequired
    | NoDuplicateSideEffect
    | NoDetections
    | OutcomeVerified
    | FinalOutcome
    | OutputContains
    | OutputNotContains
    | OutputMatches
    | OutputEquals
    | OutputSchema
    | ToolArgs
    | ToolStatus
    | RequiredEscalation
    | MaxRetries
    | NoUnsafeRetry
    | NoLoop
    | MaxSteps
    | MaxLatencyMs
    | MaxCostUsd
    | NoPolicyViolation
    | NoIrreversibleAction
    | NoSecretDisclosure
    | NoCrossTenantAccess
    | Trajectory
    | Milestones
    | Progress
    | Rubric
    | Collateral
    | Semantic
    | EndState
    | Said
)


def identified(expectations: Sequence[AnyExpectation]) -> tuple[AnyExpectation, ...]:
    """The same with ids: type and subject, with ``#2`` and so on for repetitions."""
    seen: Counter[str] = Counter()
    result = []
    for one in expectations:
        name = one.id
        if not name:
            about = one.about()
            plain = f"{type_of(one)}:{about}" if about else type_of(one)
            seen[plain] += 1
            name = plain if seen[plain] == 1 else f"{plain}#{seen[plain]}"
        result.append(structs.replace(one, id=name))
    return tuple(result)


def expectation_problems(
    path: str, expectations: Sequence[AnyExpectation], tools: Sequence[str]
) -> list[Problem]:
    """What is wrong with a scenario's expectations."""
    found = []
    ids: set[str] = set()
    for index, one in enumerate(expectations):
        where = f"{path}.{index}"
        found += [Problem(where, text) for text in one.problems(tools)]
        if one.id and one.id in ids:
            found.append(Problem(f"{where}.id", f"{one.id!r} stands twice"))
        ids.add(one.id)
    return found
