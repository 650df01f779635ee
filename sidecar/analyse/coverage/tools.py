"""Which tools a suite tries, and whether it tries critical ones both ways.

**Rules**
1. A tool is tried where a call of it went through, or was answered from a stored key.
2. A critical tool (irreversible) is tried two ways: *done*, a call that went through, and
   *withheld*, a call that was refused or held, or a required expectation that none is made.
3. A tool that production calls and no registry or twin names is an item of its own, and said so.
"""

from collections import Counter
from collections.abc import Iterator

from processors.model.trace import AgentTrace
from sidecar.analyse.coverage.given import Given, by_key
from sidecar.analyse.coverage.surface import Item, Surface, cases_of, surface
from sidecar.evaluate.expectations import ToolNotCalled
from sidecar.evaluate.safety import NoIrreversibleAction


def called_in(traffic: tuple[AgentTrace, ...] | None) -> Counter[str] | None:
    """How often production called each tool."""
    if traffic is None:
        return None
    return Counter(
        (step.tool.name if step.tool else None) or step.name
        for trace in traffic
        for step in trace.steps
        if step.kind == "tool_call"
    )


def tool_surface(given: Given) -> Surface:
    """Every tool."""
    tried = by_key(
        (call.tool, run.case)
        for run in given.runs
        for call in given.calls(run)
        if call.executed or call.held is not None
    )
    counted = called_in(given.traffic)
    unlisted = [name for name in counted or () if name and name not in given.tools]
    items = [
        Item(
            group=name,
            name="called",
            by=cases_of(tried.get(name, ())),
            grade=given.tools.get(name),
            production=None if counted is None else counted[name],
            missing="no run calls it",
        )
        for name in (*given.tools, *unlisted)
    ]
    notes = [f"{name}: production calls it, and no registry or twin names it" for name in unlisted]
    return surface("tool", items, notes=notes)


def critical_surface(given: Given) -> Surface:
    """Irreversible tools, both ways."""
    counted = called_in(given.traffic)
    ways = {
        "done": by_key(
            (call.tool, run.case)
            for run in given.runs
            for call in given.calls(run)
            if call.executed and not call.failed
        ),
        "withheld": by_key(_withheld(given)),
    }
    says = {
        "done": "no run makes its effect",
        "withheld": "no run shows a call of it refused or held, nor expects that none is made",
    }
    return surface(
        "critical_tool",
        [
            Item(
                group=name,
                name=way,
                by=cases_of(ways[way].get(name, ())),
                grade=grade,
                production=None if counted is None else counted[name],
                missing=says[way],
            )
            for name, grade in given.tools.items()
            if grade == "irreversible"
            for way in ways
        ],
        weighs="calls",
    )


def _withheld(given: Given) -> Iterator[tuple[str, str]]:
    for run in given.runs:
        for one in run.receipts:
            if one.phase == "refused":
                yield one.tool, run.case
        for event in run.events:
            if event.kind == "refused":
                yield event.tool, run.case
    for run, expectation in given.judged():
        if isinstance(expectation, ToolNotCalled):
            yield expectation.tool, run.case
        elif isinstance(expectation, NoIrreversibleAction):
            for name in given.tools:
                if name not in expectation.except_tools:
                    yield name, run.case
