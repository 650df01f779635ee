"""Items of datasets made from runs, and suites made from items.

Rules
1. A run without kept content is no item, and is told; it is never made up.
2. Without a twin an item has what was asked and what its receipts show; with one also the world as
   the run had read it, and the approvals that were given.
3. An item becomes a scenario of its own id, with all that a scenario can say; nothing is left out.
   An item that expects nothing is refused: a scenario that expects nothing proves nothing.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, structs
from msgspec.inspect import Type, type_info

from processors.model.names import SideEffectClass
from processors.model.trace import AgentTrace
from sidecar.errors import Problem, SidecarError
from sidecar.evaluate.datasets.item import Expected, Item, Source, plain_item, whole
from sidecar.evaluate.expectations import AnyExpectation, expectation_problems, identified
from sidecar.expression.document import Document, convert, report, shape_problems
from sidecar.replay.captured import captured, drafted, severity_of, title_of, turns_of
from sidecar.twins import timeline
from sidecar.twins.group import TwinGroup
from sidecar.twins.scenario import Case, Scenario

_FIELDS: Final = ("input", "messages", "expect", "title", "severity", "tags")
NO_CONTENT: Final = "no_content"
Made = Literal["trace", "tape", "capture"]


class FromRun(Struct, frozen=True, kw_only=True):
    """An item, or None and why; ``notes`` say what of the run could not be used."""

    item: Item | None
    why: str = ""
    notes: tuple[str, ...] = ()


def item_of(
    trace: AgentTrace, group: TwinGroup | None, *, kind: Made = "trace", tape: str | None = None
) -> FromRun:
    """The item of a run, whatever told of it; its id is still to be given."""
    turns = turns_of(trace)
    if turns is None:
        return FromRun(item=None, why=NO_CONTENT)
    messages, asked = turns
    source = Source(
        kind=kind,
        trace_id=trace.trace_id,
        revision=trace.revision if kind == "trace" else None,
        tape=tape,
        service=trace.service.name,
        version=trace.service.version,
        outcome=trace.outcome.status,
        drafted=True,
    )
    item = Item(
        input=asked,
        messages=messages,
        expected=Expected(output=trace.final_output, outcome=trace.outcome.status),
        title=title_of(asked),
        source=source,
    )
    if group is None:
        tools = receipted(trace)
        expect = identified(drafted(trace, tools))
        return FromRun(
            item=structs.replace(item, expect=expect, severity=severity_of(trace, tools))
        )
    found = captured(trace, group)
    assert found is not None, "there are turns"
    case = found.case
    item = structs.replace(
        item, expect=case.expect, severity=case.severity, scenario=_scenario_part(case)
    )
    return FromRun(item=item, notes=found.notes)


def receipted(trace: AgentTrace) -> dict[str, SideEffectClass]:
    """The class of each tool that the run's receipts name."""
    return {
        item.subject: item.data["class"]
        for item in trace.evidence
        if item.source == "receipt" and item.subject and item.data.get("class")
    }


def _scenario_part(case: Case) -> dict[str, Any]:
    beginning = case.beginning
    part: dict[str, Any] = {}
    if beginning.rows:
        part["state"] = {name: list(rows) for name, rows in beginning.rows.items()}
    if beginning.flags:
        part["flags"] = beginning.flags
    if beginning.now_ns is not None:
        part["now"] = timeline.text(beginning.now_ns)
    if case.approvals:
        part["approvals"] = [_without_defaults(rule) for rule in case.approvals]
    return part


def _without_defaults(rule: Struct) -> dict[str, Any]:
    made = msgspec.to_builtins(rule)
    return {
        field.name: made[field.name]
        for field in structs.fields(rule)
        if getattr(rule, field.name) != field.default
    }


@cache
def _shape(kind: type[Struct]) -> Type:
    """What a record is made of: a tenth of a second to find out, for each of many lines."""
    return type_info(kind)


def read_item(line: dict[str, Any], where: str) -> Item:
    """The item of a line of JSON. Raises SidecarError with everything that is wrong with it."""
    problems = list(shape_problems(_shape(Item), line, ""))
    if not problems:
        try:
            item = whole(msgspec.convert(line, Item))
        except msgspec.ValidationError as error:
            raise SidecarError(f"it is no item: {error}", where=where) from None
        problems = [*item.problems(), *scenario_problems(item)]
        if not problems:
            return item
    told = "; ".join(f"{one.path}: {one.text}" for one in problems)
    raise SidecarError(f"it is no item: {told}", where=where, do="See docs/specs/dataset.md.")


def read_expectations(document: Document) -> tuple[AnyExpectation, ...]:
    """The expectations of a YAML list. Raises SidecarError."""
    found = convert(document, tuple[AnyExpectation, ...])
    tools = sorted({name for one in found for name in one.tools_named()})
    report(document, list(expectation_problems("", found, tools)))
    return found


def scenario_problems(item: Item) -> list[Problem]:
    """What keeps an item from being a scenario, whichever twins there are."""
    taken = [name for name in item.scenario if name in ("id", *_FIELDS)]
    if taken:
        return [Problem(f"scenario.{name}", "stands in the item itself") for name in taken]
    said = {**item.scenario, "id": "x", "expect": []}
    return [
        Problem(f"scenario.{one.path}", one.text)
        for one in shape_problems(_shape(Scenario), said, "")
    ]


def scenario_of(item: Item) -> dict[str, Any]:
    """The item as a scenario of a suite.yaml, what only repeats a default left out."""
    plain = plain_item(item)
    said = {name: plain[name] for name in _FIELDS if plain.get(name)}
    if item.split:
        said["tags"] = [*said.get("tags", ()), f"split:{item.split}"]
    return {"id": item.item_id, **said, **item.scenario}


def suite_document(
    name: str, version: int, items: Sequence[Item], twins: Sequence[str], agent: str = ""
) -> dict[str, Any]:
    """A whole suite.yaml of items. Raises SidecarError where some expect nothing."""
    bare = [one.item_id for one in items if not one.expect]
    if bare:
        raise SidecarError(
            f"{len(bare)} of {len(items)} items expect nothing, and would pass whatever an agent "
            f"does: {', '.join(bare[:5])}{', …' if len(bare) > 5 else ''}",
            do="Give them expectations: export as jsonl, add `expect`, and add the lines again.",
        )
    return {
        "suite": name,
        "version": str(version),
        "twins": list(twins),
        **({"agent": agent} if agent else {}),
        "scenarios": [scenario_of(one) for one in items],
    }
