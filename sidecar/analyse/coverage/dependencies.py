"""Which of the services behind the tools a suite meets, and in which of their states.

**Rules**
1. Items of a twin: each tool's success and each way its preconditions refuse; each value that a
   schema lists for a field of a row; each flag with another value than its own; each queue.
2. A value is met where a row with it stood at the start of a scenario that was run, or was written.
3. Production weighs an answer by how often the gateway had it there: calls without a receipt have
   no status that anybody vouches for.
4. Models and retrieval sources are items where production or a run used them; a run must use them
   too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from processors.model.trace import AgentTrace
from sidecar.analyse.coverage.given import Given, by_key
from sidecar.analyse.coverage.surface import Item, Surface, cases_of, surface
from sidecar.canonical import canonical
from sidecar.replay.record import EpisodeRecord
from sidecar.twins.declaration import Declaration, Tool
from sidecar.twins.scenario import Case


def dependency_surface(given: Given) -> Surface:
    """Answers of tools, states of rows, flags, queues, models and retrieval sources."""
    counted = None if given.traffic is None else Counter(_had(given.traffic))
    met = by_key(
        [
            *(pair for run in given.runs for pair in _answers(run, given.declarations)),
            *(pair for run in given.runs for pair in _written(run, given.declarations)),
            *_begun(given),
        ]
    )
    items = [
        *(one for each in given.declarations for one in _answered(each, met, counted)),
        *(one for each in given.declarations for one in _stated(each, met)),
        *_used(given),
    ]
    notes = [
        f"{one.twin} is written in Python: what its code may answer is not known"
        for one in given.declarations
        if one.code is not None
    ]
    if not given.declarations:
        notes.append("no twin's declaration is known")
    return surface("dependency", items, notes=notes)


def _answered(
    twin: Declaration, met: Mapping[str, tuple[str, ...]], counted: Counter[str] | None
) -> Iterator[Item]:
    for tool in twin.tools:
        for status, why in _statuses(tool):
            yield Item(
                group=f"{twin.twin}.{tool.name}",
                name=f"answers {status}",
                by=cases_of(met.get(f"{tool.name} {status}", ())),
                grade=tool.class_,
                production=None if counted is None else counted[f"{tool.name} {status}"],
                missing=why,
            )


def _had(traffic: tuple[AgentTrace, ...]) -> Iterator[str]:
    for trace in traffic:
        for one in trace.evidence:
            if one.source == "receipt" and one.subject and one.data.get("status"):
                yield f"{one.subject} {one.data['status']}"


def _statuses(tool: Tool) -> list[tuple[int, str]]:
    refused: dict[int, list[str]] = {}
    for one in tool.preconditions:
        refused.setdefault(one.status, []).append(one.require)
    told = [(tool.response.status, "no call succeeds")]
    return told + [
        (status, f"no call is refused since not {' or '.join(rules)}")
        for status, rules in refused.items()
    ]


def _stated(twin: Declaration, met: Mapping[str, tuple[str, ...]]) -> Iterator[Item]:
    for entity, field, value in _values(twin):
        name = f"{twin.twin}.{entity}.{field}"
        yield Item(
            group=name,
            name=_text(value),
            by=cases_of(met.get(f"{name}={_text(value)}", ())),
            missing="no row has it, at the start or later",
        )
    for flag in twin.flags:
        yield Item(
            group=f"{twin.twin}.flags",
            name=flag,
            by=cases_of(met.get(f"{twin.twin}.flags.{flag}", ())),
            missing="no scenario gives it another value",
        )
    for queue in twin.queues:
        yield Item(
            group=f"{twin.twin}.queues",
            name=queue,
            by=cases_of(met.get(f"{twin.twin}.queues.{queue}", ())),
            missing="no message of it is handled or waits",
        )


def _values(twin: Declaration) -> Iterator[tuple[str, str, Any]]:
    for entity, declared in twin.entities.items():
        fields = declared.schema.get("properties", {})
        for field, schema in fields.items() if isinstance(fields, dict) else ():
            listed = schema.get("enum", ()) if isinstance(schema, dict) else ()
            for value in listed if isinstance(listed, list) else ():
                yield entity, field, value


def _answers(
    run: EpisodeRecord, declarations: tuple[Declaration, ...]
) -> Iterator[tuple[str, str]]:
    twins = {tool.name: tool for one in declarations for tool in one.tools}
    for event in run.events:
        tool = twins.get(event.tool)
        if event.kind == "answered" or (
            event.kind == "refused" and event.detail == "a precondition does not hold"
        ):
            yield f"{event.tool} {event.status}", run.case
        elif event.kind == "unanswered" and event.changes and tool is not None:
            # The effect is there; only its answer was lost.
            yield f"{event.tool} {tool.response.status}", run.case
        if event.kind == "handled":
            yield f"{event.twin}.queues.{event.tool}", run.case


def _written(
    run: EpisodeRecord, declarations: tuple[Declaration, ...]
) -> Iterator[tuple[str, str]]:
    for event in run.events:
        for change in event.changes:
            if isinstance(change.after, dict):
                pairs = _row(change.entity.rpartition(".")[2], change.after, declarations)
                yield from ((key, run.case) for key in pairs)


def _begun(given: Given) -> Iterator[tuple[str, str]]:
    """What stood at the start of each scenario that was run."""
    ran = {run.case for run in given.runs}
    for case in given.cases:
        if case.id in ran:
            yield from ((key, case.id) for key in _start(case, given.declarations))


def _start(case: Case, declarations: tuple[Declaration, ...]) -> Iterator[str]:
    cleared = {name.rpartition(".")[2] for name in case.beginning.clear}
    for twin in declarations:
        for entity, declared in twin.entities.items():
            if entity not in cleared:
                for row in declared.rows:
                    yield from _row(entity, row, (twin,))
        for flag, value in case.beginning.flags.items():
            if flag in twin.flags and twin.flags[flag] != value:
                yield f"{twin.twin}.flags.{flag}"
    for name, rows in case.beginning.rows.items():
        for row in rows:
            yield from _row(name.rpartition(".")[2], row, declarations)


def _row(entity: str, row: Mapping[str, Any], twins: Iterable[Declaration]) -> Iterator[str]:
    for twin in twins:
        if entity in twin.entities:
            for field, value in row.items():
                if value is None or isinstance(value, str | int | bool):
                    yield f"{twin.twin}.{entity}.{field}={_text(value)}"


def _used(given: Given) -> list[Item]:
    """Models and retrieval sources."""
    tried = by_key((name, run.case) for run in given.runs for name in _sources(run.trace))
    counted = (
        None
        if given.traffic is None
        else Counter(name for trace in given.traffic for name in _sources(trace))
    )
    return [
        Item(
            group=name.partition(" ")[0],
            name=name.partition(" ")[2],
            by=cases_of(tried.get(name, ())),
            production=None if counted is None else counted[name],
            missing="no run uses it",
        )
        for name in dict.fromkeys([*tried, *(counted or ())])
    ]


def _sources(trace: AgentTrace) -> Iterator[str]:
    for step in trace.steps:
        if step.kind == "model_call" and step.model is not None:
            if name := step.model.response_model or step.model.request_model:
                yield f"model {name}"
        elif step.kind == "retrieval" and step.name:
            yield f"retrieval {step.name}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value).decode()
