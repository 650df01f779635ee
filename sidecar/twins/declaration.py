"""What a ``twin.yaml`` says: tables, tools, effects, faults, as records (docs/specs/twin.md).

Rules
1. These records are the format: a key that is no field here is refused.
2. A problem that needs only the declaration itself is found here; expressions are compiled by
   ``twin``.
3. A tool has the keys of ``gateway.tools``, so that the gateway in twin mode treats it as in
   production.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from processors.model.names import SideEffectClass
from processors.value import duration_ns
from sidecar.errors import Problem
from sidecar.gateway.config import Cost, Idempotency, Match, Reconcile
from sidecar.gateway.content import is_header
from sidecar.twins.chance import Delay, delay_faults
from sidecar.twins.claimed import Fidelity, Unenforced, claim_problems
from sidecar.twins.names import FLAGS as FLAGS
from sidecar.twins.names import RECORDED
from sidecar.twins.rules import Fault as Fault
from sidecar.twins.rules import FaultKind as FaultKind
from sidecar.twins.rules import When as When
from sidecar.twins.rules import fault_problems as fault_problems

SIGMA_MAX = 1e12
STATUS_LEAST, STATUS_MOST = 200, 599  # what is below ends no call
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_ENTITY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")


class Clock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Virtual time: RFC 3339 ``start``, how far each call moves it, and how long the world runs on
    after the last call for what is still on its way.
    """

    start: str = "2026-01-01T00:00:00Z"
    step: str = "1s"
    settle: str = "1h"


class Entity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table: ``key`` is the field that names a row, ``tenant`` the one that says whose it is,
    ``schema`` JSON Schema or ``{file: …}``.
    """

    key: str
    schema: dict[str, Any] = {}
    rows: tuple[dict[str, Any], ...] = ()
    tenant: str = ""


class StateTerms(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How old a synchronised state may be (empty: any)."""

    age_max: str = ""


class CodeSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the code of a twin stands: a ``file`` beside it, or an importable ``module``."""

    file: str = ""
    module: str = ""


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """JSON Schema of the arguments; ``unknown`` says what a call outside of it is."""

    schema: dict[str, Any] = {}
    unknown: Literal["refuse", "gap"] = "refuse"


class Precondition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """CEL that must hold, and the answer when it does not; with ``gap`` the call is a TwinGap then,
    for that reason.
    """

    require: str
    gap: str = ""
    status: int = 409
    body: Any = None
    headers: dict[str, str] = {}


class Response(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer of a call that went through; ``body`` is an expression, None sends no body."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = {}


class SetEffect(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="set"
):
    """Fields of an existing row, or a flag, take values."""

    entity: str = ""
    key: Any = None
    values: Any = None
    flag: str = ""
    value: Any = None
    when: str = ""


class IncrementEffect(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="increment"
):
    """Exact addition to a field."""

    entity: str
    key: Any
    field: str
    by: Any = 1
    when: str = ""


class AppendEffect(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="append"
):
    """A value at the end of a list field."""

    entity: str
    key: Any
    field: str
    value: Any
    when: str = ""


class MergeEffect(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="merge"
):
    """JSON Merge Patch (RFC 7396) of a row."""

    entity: str
    key: Any
    values: Any
    when: str = ""


class InsertEffect(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="insert"
):
    """A new row; its key must be new."""

    entity: str
    values: Any
    when: str = ""


class DeleteEffect(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="delete"
):
    """The row goes."""

    entity: str
    key: Any
    when: str = ""


class EnqueueEffect(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="enqueue"
):
    """A message at the end of a queue."""

    queue: str
    message: Any
    when: str = ""


class DequeueEffect(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="dequeue"
):
    """The oldest message of a queue goes."""

    queue: str
    when: str = ""


RowEffect = SetEffect | IncrementEffect | AppendEffect | MergeEffect | InsertEffect | DeleteEffect
Effect = RowEffect | EnqueueEffect | DequeueEffect


class Handle(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a message when its time has come: expressions over ``message``."""

    let: dict[str, Any] = {}
    effects: tuple[Effect, ...] = ()


class Queue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages in order; with ``handle`` each is handled ``delay`` after it was put in."""

    delay: Delay = "0s"
    handle: Handle | None = None


class Noise(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a sensor errs: a number of the answer at ``field`` (dotted) is off by a normal (its
    standard deviation ``sigma``) or a uniform error (at most ``sigma``), rounded to ``places``.
    """

    field: str
    sigma: float
    kind: Literal["normal", "uniform"] = "normal"
    places: int | None = None


class Observe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows (or flags) that a recorded answer shows: expressions over ``arguments`` and
    ``response``.
    """

    entity: str = ""
    rows: Any = None
    flags: Any = None


class Tool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool of the service."""

    name: str
    match: Match
    description: str = ""
    class_: SideEffectClass = field(name="class", default="irreversible")
    upstream: str = ""
    arguments: Arguments = Arguments()
    permission: str = ""
    idempotency: Idempotency | bool = True
    effect_key: Any = None
    let: dict[str, Any] = {}
    preconditions: tuple[Precondition, ...] = ()
    effects: tuple[Effect, ...] = ()
    response: Response = Response()
    latency: Delay = ""
    effects_after: Delay = ""
    person: Delay = ""
    noise: tuple[Noise, ...] = ()
    observe: tuple[Observe, ...] = ()
    timeout: str = "30s"
    reconcile: Reconcile | None = None
    cost: Cost | None = None
    no_effect_statuses: tuple[int, ...] | None = None

    @property
    def has_effect(self) -> bool:
        """Whether a call may change the world."""
        return self.class_ != "read"

    @property
    def keyed(self) -> bool:
        """Whether the service remembers idempotency keys for this tool."""
        return self.has_effect and self.idempotency is not False


class Declaration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole ``twin.yaml``; ``as_of``: up to when production was so (RFC 3339)."""

    twin: str
    version: str = "1"
    as_of: str = ""
    upstream: str = ""
    clock: Clock = Clock()
    flags: dict[str, Any] = {}
    entities: dict[str, Entity] = {}
    queues: dict[str, Queue] = {}
    tools: tuple[Tool, ...] = ()
    faults: tuple[Fault, ...] = ()
    code: CodeSource | None = None
    state: StateTerms = StateTerms()
    secrets: tuple[str, ...] = ()
    fidelity: Fidelity | None = None
    unenforced: tuple[Unenforced, ...] = ()

    def problems(self) -> list[Problem]:
        """What is wrong beyond the shape, with dotted paths."""
        found = [*self._names(), *self._times()]
        found += claim_problems(self.secrets, self.fidelity, self.entities)
        if self.code is not None and bool(self.code.file) == bool(self.code.module):
            found.append(Problem("code", "names either a file or a module"))
        for index, tool in enumerate(self.tools):
            where = f"tools.{index}"
            if tool.effects and not tool.has_effect:
                found.append(Problem(f"{where}.effects", "must be empty on a tool of class read"))
            found += self._effect_problems(f"{where}.effects", tool.effects)
            found += self._observe_problems(where, tool)
            found += _gap_problems(f"{where}.preconditions", tool.preconditions)
            found += _answer_problems(f"{where}.response", tool.response)
            for place, one in enumerate(tool.preconditions):
                found += _answer_problems(f"{where}.preconditions.{place}", one)
            found += _noise_problems(f"{where}.noise", tool.noise)
        for name, queue in self.queues.items():
            if queue.handle is not None:
                path = f"queues.{name}.handle.effects"
                found += self._effect_problems(path, queue.handle.effects)
        found += fault_problems("faults", self.faults, [tool.name for tool in self.tools])
        return found

    def written(self) -> dict[str, Any]:
        """The declaration as plain values. A key that came after twins had digests is there where
        something is said by it, so that a twin that says nothing is the twin it was.
        """
        value: dict[str, Any] = msgspec.to_builtins(self)
        del value["state"]  # how old it may be is no part of what it is
        _drop_unsaid(value, "as_of", "secrets", "fidelity", "unenforced")
        for tool in value["tools"]:
            _drop_unsaid(tool, "description")
            for one in tool["preconditions"]:
                _drop_unsaid(one, "gap")
        for delay in _delays(value):
            _drop_unsaid(delay, "quantiles")
        return value

    def can_be_compiled(self) -> bool:
        """Whether its times, fault rules and code can be read, whatever else is wrong with it: then
        its expressions can be looked at too, and all is told at once.
        """
        names = [tool.name for tool in self.tools]
        broken = [*self._times(), *fault_problems("faults", self.faults, names)]
        return not broken and (self.code is None or bool(self.code.file) != bool(self.code.module))

    def _names(self) -> Iterator[Problem]:
        if not _NAME.match(self.twin):
            yield Problem("twin", f"{self.twin!r} cannot be a twin's name")
        if self.twin == RECORDED:  # of which nothing is believed but what was answered
            yield Problem("twin", f"{RECORDED!r} is what tools that answer as recorded are called")
        if self.upstream and not _NAME.match(self.upstream):
            yield Problem("upstream", f"{self.upstream!r} cannot be an upstream's name")
        if not self.tools:
            yield Problem("tools", "must hold at least one tool")
        seen: set[str] = set()
        for index, tool in enumerate(self.tools):
            if tool.name in seen or not _NAME.match(tool.name):
                yield Problem(f"tools.{index}.name", f"{tool.name!r} is not a new tool's name")
            seen.add(tool.name)
            if not tool.match.path.startswith("/"):
                yield Problem(f"tools.{index}.match.path", "must start with /")
        for name in self.entities:
            if not _ENTITY.match(name) or name == FLAGS:
                yield Problem(f"entities.{name}", "cannot be an entity's name")
        for name in self.queues:
            if not _ENTITY.match(name):
                yield Problem(f"queues.{name}", "cannot be a queue's name")

    def _times(self) -> Iterator[Problem]:
        yield from time_problems("clock.start", self.clock.start)
        if self.as_of:
            yield from time_problems("as_of", self.as_of)
        if self.state.age_max:
            yield from _duration_problems("state.age_max", self.state.age_max)
        yield from _duration_problems("clock.step", self.clock.step)
        yield from _duration_problems("clock.settle", self.clock.settle)
        for index, tool in enumerate(self.tools):
            path = f"tools.{index}"
            yield from _duration_problems(f"{path}.timeout", tool.timeout)
            yield from _delay_problems(f"{path}.latency", tool.latency)
            yield from _delay_problems(f"{path}.effects_after", tool.effects_after)
            yield from _delay_problems(f"{path}.person", tool.person)
        for name, queue in self.queues.items():
            yield from _delay_problems(f"queues.{name}.delay", queue.delay)

    def _effect_problems(self, path: str, effects: Sequence[Effect]) -> Iterator[Problem]:
        for index, effect in enumerate(effects):
            where = f"{path}.{index}"
            if isinstance(effect, EnqueueEffect | DequeueEffect):
                if effect.queue not in self.queues:
                    yield Problem(f"{where}.queue", f"there is no queue {effect.queue!r}")
                continue
            if isinstance(effect, SetEffect) and effect.flag:
                if effect.flag not in self.flags:
                    yield Problem(f"{where}.flag", f"there is no flag {effect.flag!r}")
            elif effect.entity not in self.entities:
                yield Problem(f"{where}.entity", f"there is no entity {effect.entity!r}")
            if isinstance(effect, SetEffect) and bool(effect.flag) == bool(effect.entity):
                yield Problem(
                    where, "names either an entity (with key and values) or a flag (with value)"
                )

    def _observe_problems(self, path: str, tool: Tool) -> Iterator[Problem]:
        for index, seen in enumerate(tool.observe):
            where = f"{path}.observe.{index}"
            if seen.entity and seen.entity not in self.entities:
                yield Problem(f"{where}.entity", f"there is no entity {seen.entity!r}")
            if bool(seen.entity) == (seen.flags is not None):
                yield Problem(where, "names either an entity (with rows) or flags")


def _answer_problems(path: str, answer: Response | Precondition) -> Iterator[Problem]:
    """What no answer over HTTP can say."""
    if not STATUS_LEAST <= answer.status <= STATUS_MOST:
        text = f"must be {STATUS_LEAST} to {STATUS_MOST}, not {answer.status}"
        yield Problem(f"{path}.status", text)
    for name, value in answer.headers.items():
        if not is_header(name, value):
            yield Problem(f"{path}.headers.{name}", "cannot stand in an answer's head")


def _delays(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every spread of durations in a declaration."""
    tools = (tool[key] for tool in value["tools"] for key in ("latency", "effects_after", "person"))
    queues = (queue["delay"] for queue in value["queues"].values())
    faults = (fault["delay"] for fault in value["faults"])
    return (one for one in (*tools, *queues, *faults) if isinstance(one, dict))


def _drop_unsaid(value: dict[str, Any], *names: str) -> None:
    for name in names:
        if not value[name]:
            del value[name]


def time_problems(path: str, text: str) -> Iterator[Problem]:
    """A problem when ``text`` is not an RFC 3339 time with an offset."""
    try:
        if datetime.fromisoformat(text).tzinfo is None:
            yield Problem(path, f"{text!r} has no offset; write e.g. 2026-01-05T09:00:00Z")
    except ValueError:
        yield Problem(path, f"{text!r} is not a time; write e.g. 2026-01-05T09:00:00Z")


def _delay_problems(path: str, delay: Delay) -> Iterator[Problem]:
    if delay != "":
        for name, text in delay_faults(delay):
            yield Problem(f"{path}.{name}".rstrip("."), text)


def _noise_problems(path: str, noise: Sequence[Noise]) -> Iterator[Problem]:
    for index, one in enumerate(noise):
        if not 0 <= one.sigma <= SIGMA_MAX:
            yield Problem(f"{path}.{index}.sigma", f"must be between 0 and {SIGMA_MAX:.0e}")
        if one.places is not None and not 0 <= one.places <= 12:
            yield Problem(f"{path}.{index}.places", "must be between 0 and 12")


def _gap_problems(path: str, checks: Sequence[Precondition]) -> Iterator[Problem]:
    for index, one in enumerate(checks):
        if one.gap and one != Precondition(require=one.require, gap=one.gap):
            yield Problem(f"{path}.{index}", "is a gap, and so has no answer of its own")


def _duration_problems(path: str, text: str) -> Iterator[Problem]:
    try:
        duration_ns(text)
    except ValueError as error:
        yield Problem(path, str(error))
