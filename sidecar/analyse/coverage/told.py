"""Coverage in words: lines for a terminal, Markdown for a page, records for a machine.

**Rules**
1. Every missing item is named; those of one group and one reason share a line.
2. A surface that is not known says why, and shows no number.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from processors.model.names import SideEffectClass
from sidecar.analyse.coverage.measured import SCHEMA, Coverage
from sidecar.analyse.coverage.surface import Item, Share, Surface, SurfaceName, Weighs

SCHEMA_ID: Final = "coverage-1.schema.json"


class ItemTold(Struct, frozen=True, kw_only=True):
    """An item as a machine reads it."""

    group: str
    name: str
    covered: bool
    by: tuple[str, ...]
    grade: SideEffectClass | None
    production: int | None
    missing: str


class SurfaceTold(Struct, frozen=True, kw_only=True):
    """A surface; ``items`` are all of its items, ``missing`` those that nobody tried."""

    surface: SurfaceName
    covered: int
    total: int
    unknown: str
    production: Share | None
    weighs: Weighs
    by_class: dict[SideEffectClass, Share]
    missing: tuple[ItemTold, ...]
    items: tuple[ItemTold, ...]
    notes: tuple[str, ...]


class CoverageTold(Struct, frozen=True, kw_only=True):
    """The document (docs/reference/coverage.schema.json)."""

    schema: str
    suites: tuple[str, ...]
    runs: int
    left_out: int
    traffic: int | None
    surfaces: tuple[SurfaceTold, ...]
    below_floor: tuple[str, ...]


def record(found: Coverage, *, suites: Sequence[str], short: Sequence[str]) -> CoverageTold:
    """The document; ``short``: what is below its floor."""
    return CoverageTold(
        schema=SCHEMA,
        suites=tuple(suites),
        runs=found.runs,
        left_out=found.left_out,
        traffic=found.traffic,
        surfaces=tuple(map(_surface, found.surfaces)),
        below_floor=tuple(short),
    )


def schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    _, parts = msgspec.json.schema_components([CoverageTold], ref_template="#/$defs/{name}")
    for part in parts.values():
        part["required"] = list(part["properties"])
        part["additionalProperties"] = False
    parts["CoverageTold"]["properties"]["schema"] = {
        "type": "string",
        "pattern": r"^coverage/1\.\d+\.\d+$",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Coverage, version 1",
        "$ref": "#/$defs/CoverageTold",
        "$defs": parts,
    }


def text(found: Coverage, *, suites: Sequence[str], short: Sequence[str]) -> Iterator[str]:
    """Lines for a terminal."""
    yield f"{', '.join(suites)}: {_basis(found)}"
    for one in found.surfaces:
        if one.unknown:
            yield f"{one.surface:<21}  not known: {one.unknown}"
            continue
        yield f"{one.surface:<21}  {_shares(one)}"
        yield from (f"  missing  {line}" for line in _missing(one))
        yield from (f"  note     {note}" for note in one.notes)
    yield from (f"below its floor: {line}" for line in short)


def markdown(found: Coverage, *, suites: Sequence[str], short: Sequence[str]) -> Iterator[str]:
    """A page."""
    yield f"# Coverage of {', '.join(suites)}"
    yield ""
    yield f"{_basis(found)}. Surfaces are not added up."
    yield ""
    yield "| surface | covered | of production | by class |"
    yield "|---|---|---|---|"
    for one in found.surfaces:
        if one.unknown:
            yield f"| {one.surface} | not known: {_cell(one.unknown)} | | |"
        else:
            production = _weighed(one, one.production) if one.production else ""
            yield f"| {one.surface} | {one.covered}/{one.total} | {production} | {_classes(one)} |"
    for one in found.surfaces:
        lines = [*_missing(one), *one.notes]
        if lines:
            yield ""
            yield f"## {one.surface}: missing"
            yield ""
            yield from (f"- {_cell(line)}" for line in lines)
    if short:
        yield ""
        yield "## Below the floor"
        yield ""
        yield from (f"- {_cell(line)}" for line in short)


def _surface(one: Surface) -> SurfaceTold:
    return SurfaceTold(
        surface=one.surface,
        covered=one.covered,
        total=one.total,
        unknown=one.unknown,
        production=one.production,
        weighs=one.weighs,
        by_class=one.by_class,
        missing=tuple(map(_item, one.missing)),
        items=tuple(map(_item, one.items)),
        notes=one.notes,
    )


def _item(one: Item) -> ItemTold:
    return ItemTold(
        group=one.group,
        name=one.name,
        covered=one.covered,
        by=one.by,
        grade=one.grade,
        production=one.production,
        missing="" if one.covered else one.missing,
    )


def _basis(found: Coverage) -> str:
    left = f", {found.left_out} void or incomplete" if found.left_out else ""
    traffic = "no production traffic" if found.traffic is None else f"{found.traffic} traces"
    return f"{found.runs} runs{left}; {traffic} to weigh by"


def _shares(one: Surface) -> str:
    parts = [f"{one.covered}/{one.total}"]
    if one.production is not None:
        parts.append(_weighed(one, one.production))
    if one.by_class:
        parts.append(_classes(one))
    return "  ".join(parts)


def _classes(one: Surface) -> str:
    return ", ".join(f"{name} {each.covered}/{each.total}" for name, each in one.by_class.items())


def _weighed(one: Surface, share: Share) -> str:
    by = "of production" if one.weighs == "items" else "by calls in production"
    return f"{share.covered / share.total:.1%} {by}"


def _missing(one: Surface) -> Iterator[str]:
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in one.missing:
        groups.setdefault((item.group, item.missing), []).append(item)
    for (group, why), items in groups.items():
        weight = max((item.production or 0 for item in items), default=0)
        what = "times in production" if one.weighs == "items" else "calls of it in production"
        seen = f"; {weight} {what}" if weight else ""
        yield f"{group}: {', '.join(item.name for item in items)} ({why}{seen})"


def _cell(line: str) -> str:
    return line.replace("|", "\\|").replace("<", "&lt;")


def floors_of(texts: Sequence[str], known: Sequence[str]) -> Mapping[str, float]:
    """``SURFACE=SHARE`` as numbers from 0 to 1. Raises ValueError that says what is wrong."""
    found = {}
    for text_of in texts:
        name, sign, share = text_of.partition("=")
        if not sign or name not in known:
            raise ValueError(f"{text_of!r} names no surface; known: {', '.join(known)}")
        try:
            value = float(share.removesuffix("%")) / (100 if share.endswith("%") else 1)
        except ValueError:
            raise ValueError(f"{share!r} is no share, such as 0.9 or 90%") from None
        if not 0 <= value <= 1:
            raise ValueError(f"{share!r} is not from 0 to 1")
        found[name] = value
    return found
