"""What a ``suite.yaml`` says: scenarios over twins, as records (docs/specs/suite.md).

Rules
1. These records are the format: a key that is no field here is refused.
2. A scenario expects something, or it is refused: what expects nothing would pass by inaction.
3. A scenario's seed is drawn from the suite's by its id, so that adding one never shifts another.
"""

import hmac
import re
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, to_builtins

from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar.errors import Problem
from sidecar.evaluate.expectations import (
    AnyExpectation,
    StateIs,
    StateUnchanged,
    expectation_problems,
    identified,
)
from sidecar.evaluate.fairness import Fairness
from sidecar.evaluate.matching import matches
from sidecar.evaluate.safety import NoSecretDisclosure
from sidecar.evaluate.state import STATE_VARIABLES
from sidecar.expression.cel import ExpressionInvalid, compile_expression
from sidecar.twins import timeline
from sidecar.twins.company import AgentTask, Switch, company_problems
from sidecar.twins.declaration import FLAGS, Fault, fault_problems, time_problems
from sidecar.twins.episode import Setting
from sidecar.twins.expected import unfaithful_problems
from sidecar.twins.group import Beginning, TwinGroup
from sidecar.twins.pinned import PinnedTape, pinned_problems
from sidecar.twins.user import User
from sidecar.twins.world import FUNCTIONS, NoSuchEntity

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
Severity = Literal["critical", "major", "minor"]


class ApprovalRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the scripted approver answers a held call of ``tool`` (``*``: any)."""

    tool: str = "*"
    arguments: dict[str, Any] = {}
    decision: Literal["approve", "deny", "none"] = "none"
    by: str = "scripted-approver"
    reason: str = "decided by the scenario"

    def fits(self, tool: str, arguments: Any) -> bool:
        """Whether the rule is about this call."""
        return self.tool in ("*", tool) and matches(arguments or {}, self.arguments)


class ReferenceCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call of a reference path; ``held``: asked for, and an approver says no, so not made.

    ``agent``: who makes it, in a scenario of several.
    """

    tool: str
    agent: str = ""
    arguments: dict[str, Any] = {}
    key: str = ""
    held: bool = False


class Reference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to pass, for the linter: the calls in order, and the answer at the end."""

    calls: tuple[ReferenceCall, ...] = ()
    output: str


class Defaults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a scenario says when it says nothing."""

    severity: Severity = "major"
    permissions: tuple[str, ...] = ("*",)
    approvals: tuple[ApprovalRule, ...] = ()
    now: str = ""


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case: a world, an input, what may go wrong, and what is expected.

    ``regression`` says which known failure it pins (a trace, an incident): it must not come back.
    """

    id: str
    expect: tuple[AnyExpectation, ...]
    input: Any = ""
    title: str = ""
    severity: Severity | UnsetType = UNSET
    tags: tuple[str, ...] = ()
    messages: tuple[dict[str, Any], ...] = ()
    state: dict[str, tuple[dict[str, Any], ...]] = {}
    clear: tuple[str, ...] = ()
    flags: dict[str, Any] = {}
    now: str = ""
    permissions: tuple[str, ...] | UnsetType = UNSET
    faults: tuple[Fault, ...] = ()
    approvals: tuple[ApprovalRule, ...] | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    version: str = "1"
    regression: str = ""
    reference: Reference | None = None
    user: User | None = None
    agents: tuple[AgentTask, ...] = ()
    schedule: tuple[Switch, ...] = ()


class Suite(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole ``suite.yaml``; ``agent`` is the name policy knows the agent by, on both sides,
    ``state`` the folder of its twins' world.
    """

    suite: str
    twins: tuple[str, ...]
    scenarios: tuple[Scenario, ...]
    version: str = "1"
    agent: str = ""
    deterministic: bool = False
    seed: int = 0
    deadline: str = "60s"
    state: str = ""
    environment: dict[str, str] = {}
    defaults: Defaults = Defaults()
    fairness: tuple[Fairness, ...] = ()
    tapes: tuple[PinnedTape, ...] = ()

    def told(self) -> dict[str, Any]:
        """What a digest is over: newer keys stand in it where something is said by them."""
        value: dict[str, Any] = to_builtins(self)
        del value["state"]  # where it stands; what it holds is in the twins' digests
        if not self.tapes:
            del value["tapes"]
        for scenario in value["scenarios"]:
            if not scenario["regression"]:
                del scenario["regression"]
        return value


class Case(Struct, frozen=True, kw_only=True):
    """A scenario with every default filled in; ``drafted`` when its expectations come from a
    recording.
    """

    id: str
    title: str
    severity: Severity
    input: Any
    messages: tuple[dict[str, Any], ...]
    beginning: Beginning
    permissions: tuple[str, ...]
    faults: tuple[Fault, ...]
    approvals: tuple[ApprovalRule, ...]
    seed: int
    expect: tuple[AnyExpectation, ...]
    drafted: bool = False
    tags: tuple[str, ...] = ()
    regression: str = ""
    reference: Reference | None = None
    user: User | None = None
    agents: tuple[AgentTask, ...] = ()
    schedule: tuple[Switch, ...] = ()

    def setting(self, agent: str) -> Setting:
        """What holds for one episode of this case."""
        return Setting(
            agent=agent,
            permissions=frozenset(self.permissions),
            faults=self.faults,
            seed=self.seed,
        )

    def request(self) -> dict[str, Any]:
        """What the agent is given."""
        return {
            "input": self.input,
            "messages": list(self.messages),
            "scenario": self.id,
            "seed": self.seed,
        }


def cases(suite: Suite) -> tuple[Case, ...]:
    """The scenarios of a suite that has no problems, made whole."""
    return tuple(_case(suite, scenario) for scenario in suite.scenarios)


def drawn_seed(suite_seed: int, name: str) -> int:
    """The seed of what is called ``name``: 32 bits of HMAC-SHA-256(suite seed,
    ``scenario|name``).
    """
    mac = hmac.digest(str(suite_seed).encode(), f"scenario|{name}".encode(), "sha256")
    return int.from_bytes(mac[:4], "big")


def suite_problems(suite: Suite, group: TwinGroup) -> list[Problem]:
    """What is wrong beyond the shape, with dotted paths; ``group`` are the suite's twins."""
    found = [*group.problems(), *_head_problems(suite)]
    seen: set[str] = set()
    for index, scenario in enumerate(suite.scenarios):
        path = f"scenarios.{index}"
        if not scenario.id or scenario.id in seen:
            found.append(Problem(f"{path}.id", f"{scenario.id!r} is empty or stands twice"))
        seen.add(scenario.id)
        found += _scenario_problems(path, scenario, group)
    found += _approval_problems("defaults.approvals", suite.defaults.approvals, group)
    for index, rule in enumerate(suite.fairness):
        found += [
            Problem(f"fairness.{index}", text)
            for text in rule.problems(tuple(seen), list(group.tools))
        ]
    return [*found, *pinned_problems(suite.tapes), *_voters(suite)]


def _head_problems(suite: Suite) -> Iterator[Problem]:
    if not suite.scenarios:
        yield Problem("scenarios", "must hold at least one scenario")
    if not suite.twins:
        yield Problem("twins", "must name at least one twin")
    try:
        duration_ns(suite.deadline, least_ns=TIMEOUT_LEAST_NS)
    except ValueError as error:
        yield Problem("deadline", str(error))
    if suite.defaults.now:
        yield from time_problems("defaults.now", suite.defaults.now)
    for name, value in suite.environment.items():
        if not _VARIABLE.match(name):
            yield Problem(f"environment.{name}", f"{name!r} cannot be a variable's name")
        if "\0" in value:
            yield Problem(f"environment.{name}", "holds the character 0")


def _scenario_problems(path: str, scenario: Scenario, group: TwinGroup) -> Iterator[Problem]:
    tools = list(group.tools)
    if not scenario.expect:
        yield Problem(f"{path}.expect", "is empty: a scenario that expects nothing proves nothing")
    if scenario.now:
        yield from time_problems(f"{path}.now", scenario.now)
    for name, rows in scenario.state.items():
        yield from group.row_problems(f"{path}.state.{name}", name, rows)
    for index, name in enumerate(scenario.clear):
        yield from group.row_problems(f"{path}.clear.{index}", name, ())
    flags = {flag for twin in group.twins.values() for flag in twin.declaration.flags}
    for name in scenario.flags:
        if name not in flags:
            yield Problem(f"{path}.flags.{name}", f"there is no flag {name!r}")
    yield from fault_problems(f"{path}.faults", scenario.faults, tools)
    yield from company_problems(path, scenario.agents, scenario.schedule)
    yield from expectation_problems(f"{path}.expect", scenario.expect, tools)
    for index, one in enumerate(scenario.expect):
        yield from _state_problems(f"{path}.expect.{index}", one, group)
    if scenario.approvals is not UNSET:
        yield from _approval_problems(f"{path}.approvals", scenario.approvals, group)
    if not scenario.version:
        yield Problem(f"{path}.version", "is empty")
    if scenario.user is not None:
        for where, text in scenario.user.problems():
            yield Problem(f"{path}.user.{where}", text)
    yield from _reference_problems(path, scenario, group)


def _reference_problems(path: str, scenario: Scenario, group: TwinGroup) -> Iterator[Problem]:
    names = [one.name for one in scenario.agents]
    for number, call in enumerate(scenario.reference.calls if scenario.reference else ()):
        where = f"{path}.reference.calls.{number}"
        if call.tool not in group.tools:
            yield Problem(f"{where}.tool", f"there is no tool {call.tool!r}")
        if names and call.agent not in names:
            said = f"there is no agent {call.agent!r}" if call.agent else "says no agent"
            yield Problem(f"{where}.agent", f"{said}; known: {', '.join(names)}")
        elif call.agent and not names:
            yield Problem(f"{where}.agent", "is for scenarios of several agents")


def _state_problems(path: str, one: AnyExpectation, group: TwinGroup) -> Iterator[Problem]:
    if isinstance(one, StateIs) and one.that:
        try:
            compile_expression(one.that, variables=STATE_VARIABLES, functions=FUNCTIONS)
        except ExpressionInvalid as error:
            yield Problem(f"{path}.that", str(error))
    if isinstance(one, NoSecretDisclosure) and one.declared and not group.secrets:
        yield Problem(f"{path}.declared", "no twin of the suite declares secrets")
    yield from unfaithful_problems(path, one, group)
    names: tuple[str, ...] = ()
    if isinstance(one, StateIs) and one.entity:
        names = (one.entity,)
    elif isinstance(one, StateUnchanged):
        names = (*one.entities, *one.except_)
    for name in names:
        try:
            if name != FLAGS:
                group.entity(name)
        except NoSuchEntity as error:
            yield Problem(path, str(error))


def _approval_problems(
    path: str, rules: tuple[ApprovalRule, ...], group: TwinGroup
) -> Iterator[Problem]:
    for index, rule in enumerate(rules):
        if rule.tool != "*" and rule.tool not in group.tools:
            yield Problem(f"{path}.{index}.tool", f"there is no tool {rule.tool!r}")


def _voters(suite: Suite) -> list[Problem]:
    """Approvers who are the agent itself: nobody approves their own calls."""
    agent = (suite.agent or suite.suite).casefold()
    lists = [("defaults.approvals", suite.defaults.approvals)]
    for index, scenario in enumerate(suite.scenarios):
        if scenario.approvals is not UNSET:
            lists.append((f"scenarios.{index}.approvals", scenario.approvals))
    return [
        Problem(f"{path}.{index}.by", f"{rule.by!r} is the agent's own name; it cannot approve")
        for path, rules in lists
        for index, rule in enumerate(rules)
        if rule.by.casefold() == agent
    ]


def _case(suite: Suite, scenario: Scenario) -> Case:
    defaults = suite.defaults
    now = scenario.now or defaults.now
    return Case(
        id=scenario.id,
        title=scenario.title or scenario.id,
        severity=_given(scenario.severity, defaults.severity),
        input=scenario.input,
        messages=scenario.messages,
        beginning=Beginning(
            rows=scenario.state,
            clear=scenario.clear,
            flags=scenario.flags,
            now_ns=timeline.start_ns(now) if now else None,
        ),
        permissions=_given(scenario.permissions, defaults.permissions),
        faults=scenario.faults,
        approvals=_given(scenario.approvals, defaults.approvals),
        seed=_given(scenario.seed, drawn_seed(suite.seed, scenario.id)),
        expect=identified(scenario.expect),
        tags=scenario.tags,
        regression=scenario.regression,
        reference=scenario.reference,
        user=scenario.user,
        agents=scenario.agents,
        schedule=scenario.schedule,
    )


def _given(value: Any, default: Any) -> Any:
    return default if value is UNSET else value
