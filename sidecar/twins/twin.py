"""A twin compiled: declaration in, tools with their expressions and schemas ready.

Rules
1. All that can be wrong with a twin is found here, before an episode: ``problems`` must be empty.
2. A compiled twin is immutable; episodes share it and never a world.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema_rs
from msgspec import Struct

from processors.value import duration_ns
from sidecar.canonical import digest
from sidecar.errors import Problem
from sidecar.twins import effects
from sidecar.twins.behaviour import Behaviour
from sidecar.twins.chance import Spread
from sidecar.twins.coded import Code, Coded
from sidecar.twins.declaration import Declaration, Effect, Response, Tool
from sidecar.twins.faults import ready
from sidecar.twins.governed import gateway_problems
from sidecar.twins.value import Lean, Scope, Template, condition, template

_VARIABLES = frozenset({"arguments", "call", "caller", "flags", "now"})
_OBSERVE_VARIABLES = frozenset({"arguments", "response"})
_MESSAGE_VARIABLES = frozenset({"message", "flags", "now"})


class CompiledPrecondition(Struct, frozen=True):
    """What must hold, and the answer when it does not, or why that is a gap."""

    require: Lean
    gap: str
    status: int
    body: Template | None
    headers: tuple[tuple[str, str], ...]


class CompiledObserve(Struct, frozen=True):
    """What a recorded answer tells: rows of ``entity``, or flags where that is empty."""

    entity: str
    value: Template


class CompiledHandle(Struct, frozen=True, kw_only=True):
    """What becomes of a queue's messages."""

    let: tuple[tuple[str, Template], ...]
    effects: tuple[effects.Compiled, ...]


class CompiledTool(Struct, frozen=True, kw_only=True):
    """One tool with its expressions and schema ready; durations in nanoseconds."""

    declared: Tool
    schema: jsonschema_rs.Validator
    let: tuple[tuple[str, Template], ...]
    preconditions: tuple[CompiledPrecondition, ...]
    effects: tuple[effects.Compiled, ...]
    body: Template | None
    effect_key: Template | None
    observe: tuple[CompiledObserve, ...]
    code: Behaviour | None
    latency: int | Spread
    timeout_ns: int


class Twin:
    """A compiled declaration; immutable. ``problems`` must be empty before it is used."""

    def __init__(self, declaration: Declaration, code: Code | None = None) -> None:
        self.declaration = declaration
        self.code = code
        self.problems: list[Problem] = list(_code_problems(declaration, code))
        self.problems += gateway_problems(declaration)
        self.schemas = {
            name: self._validator(entity.schema, f"entities.{name}.schema")
            for name, entity in declaration.entities.items()
        }
        self.tools = {
            tool.name: self._compiled(f"tools.{index}", tool)
            for index, tool in enumerate(declaration.tools)
        }
        self.handles = {
            name: self._handle(f"queues.{name}.handle", queue.handle.let, queue.handle.effects)
            for name, queue in declaration.queues.items()
            if queue.handle is not None
        }
        self.settle_ns = duration_ns(declaration.clock.settle)
        self.faults = ready(declaration.faults, prefix=f"{declaration.twin}/")
        self._check_rows()

    @property
    def name(self) -> str:
        """The twin's name."""
        return self.declaration.twin

    def digest(self) -> str:
        """``sha256:<hex>`` of the declaration with its schemas, and of its code if any."""
        value = self.declaration.written()
        if self.code is not None:
            value = {"declaration": value, "code": self.code.digest}
        return digest(value, domain="agenttwin-twin/1")

    def row_problems(self, path: str, entity: str, rows: Sequence[Any]) -> list[Problem]:
        """What is wrong with rows meant for an entity of this twin."""
        if entity not in self.declaration.entities:
            known = ", ".join(self.declaration.entities) or "none"
            return [Problem(path, f"there is no entity {entity!r}; known: {known}")]
        key = self.declaration.entities[entity].key
        found = []
        for index, row in enumerate(rows):
            if not isinstance(row, dict) or key not in row:
                found.append(Problem(f"{path}.{index}", f"has no {key}, the key of {entity}"))
                continue
            for error in self.schemas[entity].iter_errors(row):
                place = ".".join(map(str, error.instance_path))
                found.append(Problem(f"{path}.{index}.{place}".rstrip("."), error.message))
        return found

    def _check_rows(self) -> None:
        for name, entity in self.declaration.entities.items():
            self.problems += self.row_problems(f"entities.{name}.rows", name, entity.rows)

    def _validator(self, schema: Any, path: str) -> jsonschema_rs.Validator:
        try:
            return jsonschema_rs.validator_for(
                schema, offline=True, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            self.problems.append(Problem(path, str(error).splitlines()[0]))
            return jsonschema_rs.validator_for({})

    def _compiled(self, path: str, tool: Tool) -> CompiledTool:
        let, scope = self._let(f"{path}.let", tool.let, _VARIABLES)
        return CompiledTool(
            declared=tool,
            schema=self._validator(tool.arguments.schema, f"{path}.arguments.schema"),
            let=let,
            preconditions=tuple(self._preconditions(path, tool, scope)),
            effects=self._effects(f"{path}.effects", tool.effects, scope),
            body=self._body(tool.response.body, scope, f"{path}.response.body"),
            effect_key=self._body(tool.effect_key, scope, f"{path}.effect_key"),
            observe=tuple(self._observe(path, tool)),
            code=self._coded(tool),
            latency=self._latency(tool),
            timeout_ns=duration_ns(tool.timeout),
        )

    def _latency(self, tool: Tool) -> int | Spread:
        declared = tool.latency or self.declaration.clock.step
        return duration_ns(declared) if isinstance(declared, str) else declared

    def _coded(self, tool: Tool) -> Behaviour | None:
        if self.code is None or not self.code.has(tool.name):
            return None
        function = self.code.functions.get(tool.name)
        if function is None:
            return self.code.behaviours[tool.name]
        return Coded(function=function, schemas=self.schemas, has_effect=tool.has_effect)

    def _let(
        self, path: str, named: dict[str, Any], variables: frozenset[str]
    ) -> tuple[tuple[tuple[str, Template], ...], Scope]:
        scope = Scope(variables=variables, entities=self.declaration.entities.keys())
        let = []
        for name, value in named.items():
            let.append((name, template(value, scope, f"{path}.{name}", self.problems)))
            scope = Scope(variables=scope.variables | {name}, entities=scope.entities)
        return tuple(let), scope

    def _effects(
        self, path: str, declared: Sequence[Effect], scope: Scope
    ) -> tuple[effects.Compiled, ...]:
        return tuple(
            effects.compiled(effect, scope, f"{path}.{index}", self.problems, self.declaration)
            for index, effect in enumerate(declared)
        )

    def _handle(self, path: str, let: dict[str, Any], some: Sequence[Effect]) -> CompiledHandle:
        named, scope = self._let(f"{path}.let", let, _MESSAGE_VARIABLES)
        return CompiledHandle(let=named, effects=self._effects(f"{path}.effects", some, scope))

    def _preconditions(self, path: str, tool: Tool, scope: Scope) -> list[CompiledPrecondition]:
        found = []
        for index, one in enumerate(tool.preconditions):
            where = f"{path}.preconditions.{index}"
            require = condition(one.require, scope, f"{where}.require", self.problems)
            body = self._body(one.body, scope, f"{where}.body")
            if require is not None:
                headers = tuple(one.headers.items())
                found.append(CompiledPrecondition(require, one.gap, one.status, body, headers))
        return found

    def _observe(self, path: str, tool: Tool) -> list[CompiledObserve]:
        scope = Scope(variables=_OBSERVE_VARIABLES, entities=self.declaration.entities.keys())
        return [
            CompiledObserve(
                one.entity,
                template(
                    one.rows if one.entity else one.flags,
                    scope,
                    f"{path}.observe.{index}.{'rows' if one.entity else 'flags'}",
                    self.problems,
                ),
            )
            for index, one in enumerate(tool.observe)
        ]

    def _body(self, value: Any, scope: Scope, path: str) -> Template | None:
        return None if value is None else template(value, scope, path, self.problems)


def _code_problems(declaration: Declaration, code: Code | None) -> Iterator[Problem]:
    if code is None:
        return
    known = {tool.name for tool in declaration.tools}
    for name in code.functions:
        if name not in known:
            yield Problem("code", f"{code.name} has a function for {name!r}, which is no tool here")
    for index, tool in enumerate(declaration.tools):
        told = bool(tool.let or tool.preconditions or tool.effects) or tool.response != Response()
        if code.has(tool.name) and (
            told or tool.effect_key is not None or tool.effects_after != ""
        ):
            yield Problem(
                f"tools.{index}",
                f"{tool.name} is written in {code.name}: "
                "let, preconditions, effects, effects_after, effect_key and response stand there",
            )
        elif not code.has(tool.name) and not told:
            yield Problem(f"tools.{index}", f"{tool.name} has neither code nor a response")
