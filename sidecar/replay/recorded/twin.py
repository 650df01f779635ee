"""Tools that are answered from a recording: a twin that knows what was recorded and nothing else.

Rules
1. It is a twin as any other to the gateway, to faults, keys and undo; each episode has the
   recording of its own case, as rows that nothing but its tools reads.
2. A call that was not recorded is a gap: the case is void, and nothing is made up.
3. It has no state: what a recorded answer says is no proof of what the world would be. Expectations
   about state are skipped, and its events are no evidence of an effect.
4. A tool is reached as the configuration says (``gateway.tools``); one that it does not know at
   ``POST /<tool>`` of the upstream ``recorded``, or by ``POST /v1/actions``, with or without a key.
   Its class is the configuration's; else irreversible.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from processors.model.names import SideEffectClass
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.value import too_deep
from sidecar.canonical import digest
from sidecar.gateway.config import Idempotency, Match
from sidecar.gateway.config import Tool as Registered
from sidecar.replay.recorded.lookup import Answer, Miss, look_up, minted, told_now
from sidecar.replay.recorded.trace import STATUS
from sidecar.twins.behaviour import Asked, Performed, named_effect
from sidecar.twins.coded import Code
from sidecar.twins.declaration import CodeSource, Declaration, Entity, Tool
from sidecar.twins.effects import Unforeseen
from sidecar.twins.group import TwinGroup
from sidecar.twins.names import RECORDED
from sidecar.twins.twin import Twin
from sidecar.twins.world import World

_ENTITY = "calls"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_USED, _NAMES = "recorded|used", "recorded|names"
_ANY_KEY = Idempotency(duplicate_window="1ms")  # nobody says that it wants one
_ANSWERED = ("ok", "error", "unset")


class KnownTools(Struct, frozen=True, kw_only=True):
    """What the configuration knows: tools by name, and the classes of every name of theirs."""

    tools: dict[str, Registered] = {}
    classes: dict[str, SideEffectClass] = {}


def recorded_group(traces: Iterable[AgentTrace], known: KnownTools) -> tuple[TwinGroup, list[str]]:
    """The twin of all tools that recordings called, and notes on those it cannot offer."""
    names = dict.fromkeys(
        step.tool.name or step.name
        for trace in traces
        for step in trace.steps
        if step.kind == "tool_call" and step.tool is not None
    )
    notes = [
        f"{name!r} cannot be offered as a tool: its name is none of a registry"
        for name in names
        if not _NAME.match(name)
    ]
    tools = tuple(_tool(name, known) for name in names if _NAME.match(name))
    declaration = Declaration(
        twin=RECORDED,
        tools=tools or (Tool(name="none", match=Match(method="POST", path="/none")),),
        entities={_ENTITY: Entity(key="place")},
        code=CodeSource(module=__name__),
    )
    code = Code(
        name=__name__,
        digest=digest({"tools": [one.name for one in tools]}, domain="agenttwin-recorded/1"),
        behaviours={tool.name: RecordedTool(has_effect=tool.has_effect) for tool in tools},
    )
    return TwinGroup([Twin(declaration, code)]), notes


def recorded_rows(trace: AgentTrace, told: Any) -> tuple[dict[str, Any], ...]:
    """The answers of one recording as rows; ``told`` is what its user said."""
    seen = [msgspec.json.encode(told).decode()]
    rows: list[dict[str, Any]] = []
    for step in trace.steps:
        answer = _answer(step, "\n".join(seen))
        if answer is None:
            continue
        rows.append({"place": str(len(rows)), **msgspec.to_builtins(answer)})
        seen.append(msgspec.json.encode(answer.result).decode())
    return tuple(rows)


def rows_name() -> str:
    """The entity that the rows belong to, as a scenario names it."""
    return f"{RECORDED}.{_ENTITY}"


class RecordedTool(Struct, frozen=True, kw_only=True):
    """One tool, answered from the rows of the episode. Implements Behaviour."""

    has_effect: bool

    def perform(self, world: World, asked: Asked) -> Performed:
        """The recorded answer. Raises Unforeseen where there is none."""
        answers = [_read(row) for row in world.rows(_ENTITY)]
        used: list[int] = world.counters.get(_USED, [])
        names: Mapping[str, str] = world.counters.get(_NAMES, {})
        found = look_up(answers, used, names, asked.tool, asked.arguments)
        if isinstance(found, Miss):
            raise Unforeseen(found.detail)
        answer = answers[found.place]
        if not answer.kept:
            raise Unforeseen(f"the recording has not kept what {asked.tool} answered")
        world.journal.put(world.counters, _USED, [*used, found.place])
        world.journal.put(world.counters, _NAMES, found.names)
        told = told_now(answer.result, found.names)
        made = self.has_effect and answer.status < 400
        return Performed(
            status=answer.status,
            value=told,
            text=told if isinstance(told, str) else None,
            effect_key=named_effect(asked.arguments) if made else None,
        )


def _tool(name: str, known: KnownTools) -> Tool:
    one = known.tools.get(name)
    class_ = known.classes.get(name, "irreversible")
    if one is None or one.match.on_mcp:
        match = Match(method="POST", path=f"/{name}")
        return Tool(name=name, class_=class_, match=match, idempotency=_ANY_KEY)
    return Tool(
        name=name,
        class_=one.class_,
        match=one.match,
        upstream=one.upstream,
        idempotency=one.idempotency,
        timeout=one.timeout,
        cost=one.cost,
        no_effect_statuses=one.no_effect_statuses,
    )


def _answer(step: Step, told: str) -> Answer | None:
    tool = step.tool
    if step.kind != "tool_call" or tool is None or step.status not in _ANSWERED:
        return None
    arguments = _parsed(tool.arguments)
    if not isinstance(arguments, dict):
        return None
    failed = step.status == "error"
    status = step.attributes.get(STATUS)
    return Answer(
        tool=tool.name or step.name,
        arguments=arguments,
        result=_parsed(tool.result),
        status=status if isinstance(status, int) else 500 if failed else 200,
        minted=minted(arguments, told),
        kept=tool.result is not None or failed or status == 204,
    )


def _read(row: Mapping[str, Any]) -> Answer:
    return msgspec.convert({name: row[name] for name in Answer.__struct_fields__}, Answer)


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        found = msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return value
    return value if too_deep(found, value) else found


def answers_of(rows: Sequence[Mapping[str, Any]]) -> list[Answer]:
    """Rows as the answers they stand for."""
    return [_read(row) for row in rows]
