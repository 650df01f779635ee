"""Captured traffic as cases: what users asked becomes input, what was read becomes the world.

Rules
1. Input is the last user message before the first model call's answer; earlier turns are
   ``messages``.
2. Reads recorded before the first call with an effect set the twin's state, through ``observe``
   alone.
3. Expectations are drafted from the recording and marked so: effects that were made must be made
   again, others must not; a recording that is itself disproved is no model.
4. A trace without content is left out and counted; it is never replayed on a guess.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from processors.model.names import OutcomeStatus, SideEffectClass
from processors.model.step import Message, Step
from processors.model.trace import AgentTrace
from processors.value import too_deep
from sidecar.evaluate.expectations import (
    AnyExpectation,
    NoDuplicateSideEffect,
    OutcomeVerified,
    ToolCalled,
    ToolNotCalled,
    identified,
)
from sidecar.evaluate.observed import Observed
from sidecar.evaluate.score import conclude, scores
from sidecar.expression.cel import ExpressionFailed
from sidecar.replay.record import AgentExit, EpisodeRecord, Told, run_digest
from sidecar.twins.group import Beginning, TwinGroup
from sidecar.twins.scenario import ApprovalRule, Case, Severity, drawn_seed
from sidecar.twins.world import World

Tools = Mapping[str, SideEffectClass]
_NO_MODEL = ("contradicted", "verified_failure")
_NOT_DISPROVED: tuple[OutcomeStatus, ...] = ("verified_success", "unverified", "indeterminate")


class Captured(Struct, frozen=True, kw_only=True):
    """A trace as a case with its recorded behaviour. ``notes`` say what could not be used."""

    case: Case
    recorded: EpisodeRecord
    notes: tuple[str, ...] = ()


def captured(trace: AgentTrace, group: TwinGroup) -> Captured | None:
    """The case of a stored trace; None when it holds no user input."""
    turns = turns_of(trace)
    if turns is None:
        return None
    messages, asked = turns
    notes: list[str] = []
    case = Case(
        id=f"trace-{trace.trace_id}",
        title=title_of(asked),
        severity=severity_of(trace, group.tools),
        input=asked,
        messages=messages,
        beginning=_beginning(trace, group, notes),
        permissions=("*",),
        faults=(),
        approvals=_approvals(trace, group.tools),
        seed=drawn_seed(0, trace.trace_id),
        expect=identified(drafted(trace, group.tools)),
        drafted=True,
    )
    return Captured(case=case, recorded=_recorded(trace, case, group), notes=tuple(notes))


def severity_of(trace: AgentTrace, tools: Tools) -> Severity:
    """Critical where something was done that cannot be undone."""
    return "critical" if _made(trace, tools, ("irreversible",)) else "major"


def turns_of(trace: AgentTrace) -> tuple[tuple[dict[str, Any], ...], str] | None:
    """The earlier turns, and what the user asked last; None where no content was kept."""
    for step in trace.steps:
        said = [one for one in map(_plain, step.messages_in or ()) if one is not None]
        users = [index for index, one in enumerate(said) if one["role"] == "user"]
        if users:
            last = users[-1]
            return tuple(said[:last]), said[last]["content"]
    return None


def _plain(message: Message) -> dict[str, Any] | None:
    """``{role, content}`` of a message with text; system prompts are the agent's own affair."""
    text = "\n".join(
        part.content
        for part in message.parts
        if part.type == "text" and isinstance(part.content, str)
    )
    if not text or message.role not in ("user", "assistant"):
        return None
    return {"role": message.role, "content": text}


def _beginning(trace: AgentTrace, group: TwinGroup, notes: list[str]) -> Beginning:
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    flags: dict[str, Any] = {}
    for step in _reads_before_effects(trace, group):
        try:
            _observe(step, group, rows, flags)
        except (ExpressionFailed, LookupError, TypeError) as error:
            notes.append(f"{step.name}: its recorded answer could not be read: {error}")
    kept: dict[str, tuple[dict[str, Any], ...]] = {}
    for name, some in rows.items():
        problems = group.row_problems(name, name, list(some.values()))
        notes += [str(problem) for problem in problems]
        if some and not problems:
            kept[name] = tuple(some.values())
    starts = [step.start_ns for step in trace.steps if step.start_ns]
    return Beginning(rows=kept, flags=flags, now_ns=min(starts, default=None))


def _reads_before_effects(trace: AgentTrace, group: TwinGroup) -> Iterable[Step]:
    for step in trace.steps:
        if step.kind != "tool_call" or step.tool is None:
            continue
        class_ = group.tools.get(step.tool.name or "")
        if class_ is None:
            continue
        if class_ != "read":
            if step.status in ("ok", "error", "unset"):
                return
        elif step.status in ("ok", "unset") and step.tool.result is not None:
            yield step


def _observe(
    step: Step,
    group: TwinGroup,
    rows: dict[str, dict[str, dict[str, Any]]],
    flags: dict[str, Any],
) -> None:
    assert step.tool is not None
    twin = group.owner(step.tool.name or "")
    assert twin is not None
    bindings = {"arguments": _parsed(step.tool.arguments), "response": _parsed(step.tool.result)}
    world = World(twin.declaration)
    for one in twin.tools[step.tool.name or ""].observe:
        value = one.value.evaluate(bindings, world.functions)
        if not one.entity:
            flags.update(value)
            continue
        seen = rows.setdefault(f"{twin.name}.{one.entity}", {})
        for key, row in [(world.key_of(one.entity, row), row) for row in value]:
            known = seen.get(key) or world.row(one.entity, key) or {}
            seen[key] = {**known, **row}


def drafted(trace: AgentTrace, tools: Tools) -> tuple[AnyExpectation, ...]:
    """What to expect of a run like this one, where ``tools`` are known by their class."""
    if trace.outcome.status in _NO_MODEL:
        return (NoDuplicateSideEffect(), OutcomeVerified(status=_NOT_DISPROVED))
    made = _made(trace, tools, ("write", "irreversible"))
    found: list[AnyExpectation] = []
    for step in made:
        assert step.tool is not None
        arguments = _parsed(step.tool.arguments)
        found.append(
            ToolCalled(
                tool=step.tool.name or "",
                arguments=arguments if isinstance(arguments, dict) else {},
            )
        )
    names = {step.tool.name for step in made if step.tool is not None}
    found += [
        ToolNotCalled(tool=name, status="executed")
        for name, class_ in tools.items()
        if class_ != "read" and name not in names
    ]
    found.append(NoDuplicateSideEffect())
    if trace.outcome.status == "verified_success":
        found.append(OutcomeVerified())
    return tuple(found)


def _made(trace: AgentTrace, tools: Tools, classes: Sequence[str]) -> list[Step]:
    """The tool calls whose effect the recording confirms."""
    held = {
        item.step_id for item in trace.evidence if item.source == "receipt" and item.held is True
    }
    return [
        step
        for step in trace.steps
        if step.kind == "tool_call"
        and step.tool is not None
        and step.step_id in held
        and tools.get(step.tool.name or "") in classes
    ]


def _approvals(trace: AgentTrace, tools: Tools) -> tuple[ApprovalRule, ...]:
    """What approvers did in the recording, they do again."""
    made = {step.step_id for step in _made(trace, tools, ("write", "irreversible"))}
    rules: dict[str, ApprovalRule] = {}
    for step in trace.steps:
        name = step.tool.name if step.tool is not None else None
        if name is None or name not in tools or step.decision is None:
            continue
        if step.decision.effect == "require_approval":
            approved = step.step_id in made
            denied = step.status == "denied"
            if approved or denied:
                rules[name] = ApprovalRule(
                    tool=name,
                    decision="approve" if approved else "deny",
                    reason="as in the recording",
                )
    return tuple(rules.values())


def _recorded(trace: AgentTrace, case: Case, group: TwinGroup) -> EpisodeRecord:
    agent = AgentExit(ending="recorded", output=trace.final_output)
    found = scores(case.expect, Observed(trace=trace, tools=group.tools))
    told = Told(agent=agent, trace=trace, scores=found, ids=(trace.trace_id,))
    return EpisodeRecord(
        episode=f"recorded:{trace.trace_id}:{trace.revision}",
        case=case.id,
        side="baseline",
        run=1,
        seed=case.seed,
        agent=agent,
        trace=trace,
        scores=found,
        conclusion=conclude(found),
        digest=run_digest(told),
    )


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        found = msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return value
    return value if too_deep(found, value) else found


def title_of(asked: str) -> str:
    """The first words of what was asked, in one line."""
    line = " ".join(asked.split())
    return line if len(line) <= 70 else line[:69] + "…"
