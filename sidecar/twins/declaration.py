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

from msgspec import Struct, field

from processors.model.names import SideEffectClass
from processors.value import duration_ns
from sidecar.errors import Problem
from sidecar.gateway.config import Cost, Idempotency, Match, Reconcile

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_ENTITY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
FLAGS = "flags"

FaultKind = Literal[
    "timeout_before",
    "timeout_after",
    "lie_success",
    "http_429",
    "http_500_before",
    "http_500_after",
]


class Clock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Virtual time: RFC 3339 ``start``, and how far each call moves it."""

    start: str = "2026-01-01T00:00:00Z"
    step: str = "1s"


class Entity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table: ``key`` is the field that names a row, ``schema`` JSON Schema or ``{file: …}``."""

    key: str
    schema: dict[str, Any] = {}
    rows: tuple[dict[str, Any], ...] = ()


class CodeSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the code of a twin stands: a ``file`` beside it, or an importable ``module``."""

    file: str = ""
    module: str = ""


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """JSON Schema of the arguments; ``unknown`` says what a call outside of it is."""

    schema: dict[str, Any] = {}
    unknown: Literal["refuse", "gap"] = "refuse"


class Precondition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """CEL that must hold, and the answer when it does not."""

    require: str
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


Effect = SetEffect | IncrementEffect | AppendEffect | MergeEffect | InsertEffect | DeleteEffect


class Observe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows (or flags) that a recorded answer shows: expressions over ``arguments`` and
    ``response``.
    """

    entity: str = ""
    rows: Any = None
    flags: Any = None


class When(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """When a fault fires: all that is given must hold."""

    call_number: int | None = None
    call_numbers: tuple[int, ...] | None = None
    first_n: int | None = None
    every_call: bool = False
    args_match: dict[str, Any] | None = None
    probability: float | None = None


class Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault rule; ``tool`` may be ``*``."""

    fault: FaultKind
    tool: str
    id: str = ""
    when: When = When()
    retry_after: int = 1


class Tool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool of the service."""

    name: str
    match: Match
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
    latency: str = ""
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
    """A whole ``twin.yaml``."""

    twin: str
    version: str = "1"
    upstream: str = ""
    clock: Clock = Clock()
    flags: dict[str, Any] = {}
    entities: dict[str, Entity] = {}
    tools: tuple[Tool, ...] = ()
    faults: tuple[Fault, ...] = ()
    code: CodeSource | None = None

    def problems(self) -> list[Problem]:
        """What is wrong beyond the shape, with dotted paths."""
        found = [*self._names(), *self._times()]
        if self.code is not None and bool(self.code.file) == bool(self.code.module):
            found.append(Problem("code", "names either a file or a module"))
        for index, tool in enumerate(self.tools):
            found += self._effect_problems(f"tools.{index}", tool)
        found += fault_problems("faults", self.faults, [tool.name for tool in self.tools])
        return found

    def _names(self) -> Iterator[Problem]:
        if not _NAME.match(self.twin):
            yield Problem("twin", f"{self.twin!r} cannot be a twin's name")
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

    def _times(self) -> Iterator[Problem]:
        yield from time_problems("clock.start", self.clock.start)
        yield from _duration_problems("clock.step", self.clock.step)
        for index, tool in enumerate(self.tools):
            yield from _duration_problems(f"tools.{index}.timeout", tool.timeout)
            if tool.latency:
                yield from _duration_problems(f"tools.{index}.latency", tool.latency)

    def _effect_problems(self, path: str, tool: Tool) -> Iterator[Problem]:
        if tool.effects and not tool.has_effect:
            yield Problem(f"{path}.effects", "must be empty on a tool of class read")
        for index, effect in enumerate(tool.effects):
            where = f"{path}.effects.{index}"
            if isinstance(effect, SetEffect) and effect.flag:
                if effect.flag not in self.flags:
                    yield Problem(f"{where}.flag", f"there is no flag {effect.flag!r}")
            elif effect.entity not in self.entities:
                yield Problem(f"{where}.entity", f"there is no entity {effect.entity!r}")
            if isinstance(effect, SetEffect) and bool(effect.flag) == bool(effect.entity):
                yield Problem(
                    where, "names either an entity (with key and values) or a flag (with value)"
                )
        for index, seen in enumerate(tool.observe):
            if seen.entity and seen.entity not in self.entities:
                yield Problem(
                    f"{path}.observe.{index}.entity", f"there is no entity {seen.entity!r}"
                )
            if bool(seen.entity) == (seen.flags is not None):
                yield Problem(
                    f"{path}.observe.{index}", "names either an entity (with rows) or flags"
                )


def time_problems(path: str, text: str) -> Iterator[Problem]:
    """A problem when ``text`` is not an RFC 3339 time with an offset."""
    try:
        if datetime.fromisoformat(text).tzinfo is None:
            yield Problem(path, f"{text!r} has no offset; write e.g. 2026-01-05T09:00:00Z")
    except ValueError:
        yield Problem(path, f"{text!r} is not a time; write e.g. 2026-01-05T09:00:00Z")


def fault_problems(path: str, faults: Sequence[Fault], tools: Sequence[str]) -> Iterator[Problem]:
    """What is wrong with a list of fault rules for these tools."""
    ids: set[str] = set()
    for index, fault in enumerate(faults):
        where = f"{path}.{index}"
        if fault.tool != "*" and fault.tool not in tools:
            known = ", ".join(tools)
            yield Problem(f"{where}.tool", f"there is no tool {fault.tool!r}; known: {known}")
        if fault.id and fault.id in ids:
            yield Problem(f"{where}.id", f"{fault.id!r} stands twice")
        ids.add(fault.id)
        probability = fault.when.probability
        if probability is not None and not 0 <= probability <= 1:
            yield Problem(f"{where}.when.probability", "must be between 0 and 1")
        numbers = [
            *(fault.when.call_numbers or ()),
            fault.when.call_number or 1,
            fault.when.first_n or 1,
        ]
        if any(number < 1 for number in numbers):
            yield Problem(f"{where}.when", "counts calls from 1")
        if fault.retry_after < 0:
            yield Problem(f"{where}.retry_after", "must not be negative")


def _duration_problems(path: str, text: str) -> Iterator[Problem]:
    try:
        duration_ns(text)
    except ValueError as error:
        yield Problem(path, str(error))
