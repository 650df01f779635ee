"""Captured traffic as cases: what users asked becomes input, what was read becomes the world.

Rules
1. Input is the last user message before the first model call's answer; earlier turns are
   ``messages``.
2. Reads recorded before the first call with an effect set the twin's state, through ``observe``
   alone.
3. Expectations are drafted from the recording and marked so: effects that were made must be made
   again, others must not; a recording that is itself disproved is no model.
4. A trace without content is left out and counted; it is never replayed on a guess.
5. Where tools are answered from the recording itself, that is the world; what it cannot show is not
   expected. A recording without any receipt is believed in what it says it did, and noted.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from processors.model.evidence import Evidence
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
from sidecar.replay.record import AgentExit, EpisodeRecord, Side, Told, run_digest
from sidecar.replay.recorded.twin import recorded_rows, rows_name
from sidecar.twins.group import Beginning, TwinGroup
from sidecar.twins.scenario import ApprovalRule, Case, Severity, drawn_seed
from sidecar.twins.world import World

Tools = Mapping[str, SideEffectClass]
_DONE = ("ok", "error", "unset")
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
    if not group.has_state:
        trace = _believed(trace, notes)
    case = Case(
        id=f"trace-{trace.trace_id}",
        title=title_of(asked),
        severity=severity_of(trace, group.tools),
        input=asked,
        messages=messages,
        beginning=_beginning(trace, group, notes)
        if group.has_state
        else _as_recorded(trace, (asked, messages)),
        permissions=("*",),
        faults=(),
        approvals=_approvals(trace, group.tools),
        seed=drawn_seed(0, trace.trace_id),
        expect=identified(_expected(trace, group)),
        drafted=True,
    )
    return Captured(case=case, recorded=judged(trace, case, group), notes=tuple(notes))


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
    return Beginning(rows=kept, flags=flags, now_ns=_started(trace))


def _expected(trace: AgentTrace, group: TwinGroup) -> tuple[AnyExpectation, ...]:
    """What is drafted, without what tools that answer as recorded cannot show."""
    found = drafted(trace, group.tools)
    if group.has_state or trace.outcome.status in _NO_MODEL:
        return found
    return tuple(one for one in found if not isinstance(one, OutcomeVerified))


def _as_recorded(trace: AgentTrace, told: object) -> Beginning:
    """The world of tools that are answered from the recording."""
    return Beginning(rows={rows_name(): recorded_rows(trace, told)}, now_ns=_started(trace))


def _started(trace: AgentTrace) -> int | None:
    return min((step.start_ns for step in trace.steps if step.start_ns), default=None)


def _believed(trace: AgentTrace, notes: list[str]) -> AgentTrace:
    """The trace, with what its own spans say was done as if there were receipts of it."""
    calls = [one for one in trace.steps if one.kind == "tool_call" and one.tool is not None]
    if not calls or any(item.source == "receipt" for item in trace.evidence):
        return trace
    notes.append("no receipts: what the recording says it did counts as done")
    return structs.replace(
        trace, evidence=(*trace.evidence, *(_said(one) for one in calls if one.status in _DONE))
    )


def _said(step: Step) -> Evidence:
    assert step.tool is not None
    failed = step.status == "error"
    data = {"phase": "executed", "status": 500 if failed else 200}
    return Evidence(
        evidence_id=f"said:{step.step_id}",
        source="receipt",
        name="recording",
        held=not failed,
        subject=step.tool.name or step.name,
        step_id=step.step_id,
        data=data if step.tool.arguments is None else {**data, "arguments": step.tool.arguments},
    )


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


def judged(
    trace: AgentTrace, case: Case, group: TwinGroup, side: Side = "baseline"
) -> EpisodeRecord:
    """A recording as a run of a case: what it shows is judged, the rest is skipped."""
    agent = AgentExit(ending="recorded", output=trace.final_output)
    found = scores(case.expect, Observed(trace=trace, tools=group.tools))
    told = Told(agent=agent, trace=trace, scores=found, ids=(trace.trace_id,))
    return EpisodeRecord(
        episode=f"recorded:{trace.trace_id}:{trace.revision}",
        case=case.id,
        side=side,
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
