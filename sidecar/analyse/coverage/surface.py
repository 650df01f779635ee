"""Surface, Item: one way of looking at how much of something a suite has tried.

**Rules**
1. A surface is covered items of all its items, with each that is missing named. Surfaces are never
   added up: there is no number for all of them.
2. An item is covered by runs that came to a conclusion; the cases that cover it are named.
3. Production weighs an item by how often it happened there, 0 where it never did; an item that
   nobody can count there (a fault, a way to verify) by the calls of its tool, and says so.
4. Items are told apart by what they may do (read, write, irreversible), and never weighed by it.
5. A surface that could not be looked at says why and has no items.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

from msgspec import Struct

from processors.model.names import SideEffectClass

SurfaceName = Literal[
    "tool",
    "critical_tool",
    "policy",
    "failure_mode",
    "regression",
    "dependency",
    "fault",
    "outcome_verification",
]
SURFACES: Final[tuple[SurfaceName, ...]] = get_args(SurfaceName)
Weighs = Literal["items", "calls"]
CASES_MAX: Final = 5
GRADES: Final[tuple[SideEffectClass, ...]] = ("irreversible", "write", "read")


class Item(Struct, frozen=True, kw_only=True):
    """``group`` is what it belongs to, ``name`` which of its items it is.

    ``by``: the first cases that cover it, none where it is missing. ``production``: how often it
    happened there; None where that was not counted. ``missing``: what nobody tried, in words.
    """

    group: str
    name: str
    by: tuple[str, ...] = ()
    grade: SideEffectClass | None = None
    production: int | None = None
    missing: str = ""

    @property
    def covered(self) -> bool:
        """Whether a run tried it."""
        return bool(self.by)


class Share(Struct, frozen=True, kw_only=True):
    """``covered`` of ``total``."""

    covered: int
    total: int


class Surface(Struct, frozen=True, kw_only=True):
    """``production``: the share of what happened there that is covered, in occurrences.

    ``weighs``: whether weights count the items themselves, or the calls of their tools.
    ``by_class``: the items of tools by what these may do. ``unknown``: why nothing is known.
    """

    surface: SurfaceName
    covered: int
    total: int
    missing: tuple[Item, ...]
    items: tuple[Item, ...]
    by_class: dict[SideEffectClass, Share]
    production: Share | None = None
    weighs: Weighs = "items"
    notes: tuple[str, ...] = ()
    unknown: str = ""


def surface(
    name: SurfaceName,
    items: Iterable[Item],
    *,
    weighs: Weighs = "items",
    notes: Iterable[str] = (),
    unknown: str = "",
) -> Surface:
    """A surface of these items; what happens most in production is named first."""
    ordered = tuple(sorted(items, key=_order))
    weighed = [one for one in ordered if one.production is not None]
    total = sum(one.production or 0 for one in weighed)
    return Surface(
        surface=name,
        covered=sum(one.covered for one in ordered),
        total=len(ordered),
        missing=tuple(one for one in ordered if not one.covered),
        items=ordered,
        by_class={
            grade: share for grade in GRADES if (share := _share(ordered, grade)) is not None
        },
        production=Share(
            covered=sum(one.production or 0 for one in weighed if one.covered), total=total
        )
        if total
        else None,
        weighs=weighs,
        notes=tuple(notes),
        unknown=unknown,
    )


def cases_of(found: Mapping[str, None] | Iterable[str]) -> tuple[str, ...]:
    """The first cases of many, each once."""
    return tuple(dict.fromkeys(found))[:CASES_MAX]


def _share(items: tuple[Item, ...], grade: SideEffectClass) -> Share | None:
    chosen = [one for one in items if one.grade == grade]
    if not chosen:
        return None
    return Share(covered=sum(one.covered for one in chosen), total=len(chosen))


def _order(one: Item) -> tuple[int, int, str, str]:
    grade = GRADES.index(one.grade) if one.grade in GRADES else len(GRADES)
    return -(one.production or 0), grade, one.group, one.name
