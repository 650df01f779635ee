"""What is bisected: the points of all axes at once, and how each is called.

**Rules**
1. Commits and revisions are one order: a combination comes before another when none of its parts
   comes after the other's.
2. Suspects are all combinations but those of good ends alone.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from sidecar.canonical import digest
from sidecar.replay.bisect.history import History
from sidecar.replay.bisect.model import Asked
from sidecar.replay.bisect.order import Order, Product, set_of
from sidecar.replay.bisect.revisions import Axis, text_of


class Place(Struct, frozen=True, kw_only=True):
    """One point: a commit (or None) and one revision of each axis, by index."""

    commit: str | None
    revisions: tuple[int, ...]


class Question:
    """Commits, revisions, or both. Raises ValueError where there are too many combinations."""

    def __init__(self, history: History | None, axes: Sequence[Axis]) -> None:
        assert history is not None or axes
        self.history, self.axes = history, tuple(axes)
        orders = [] if history is None else [history.order()]
        orders += [_chain(len(axis.revisions)) for axis in axes]
        self._product = Product(orders)
        self.order = self._product.order

    def asked(self, **more: Any) -> Asked:
        """The bisection between the ends."""
        first, last = [0] * len(self.axes), [len(axis.revisions) - 1 for axis in self.axes]
        goods, floor, bad = [first], [first], last
        if self.history is not None:
            goods = [[one, *first] for one in self.history.goods]
            floor = [[one, *first] for one in self.history.floor]
            bad = [self.history.bad, *last]
        return Asked(
            goods=tuple(map(self._product.point, goods)),
            bad=self._product.point(bad),
            floor=set_of(map(self._product.point, floor)),
            **more,
        )

    def place(self, point: int) -> Place:
        """What a point is."""
        at = self._product.coordinates(point)
        if self.history is None:
            return Place(commit=None, revisions=at)
        return Place(commit=self.history.commits[at[0]], revisions=at[1:])

    def named(self, point: int) -> dict[str, Any]:
        """A point by its names: ``commit``, and ``revision`` by axis."""
        place = self.place(point)
        found: dict[str, Any] = {} if place.commit is None else {"commit": place.commit}
        if self.axes:
            found["revision"] = {
                axis.name: axis.revision(at).name
                for axis, at in zip(self.axes, place.revisions, strict=True)
            }
        return found

    def digest(self, **more: Any) -> str:
        """One text for the whole question: another one is another bisection."""
        told = {
            "commits": None if self.history is None else digest_of(self.history),
            "axes": [
                [axis.name, axis.to, [_told(axis, at) for at in range(len(axis.revisions))]]
                for axis in self.axes
            ],
            **more,
        }
        return digest(told, domain="agenttwin-bisect/1").removeprefix("sha256:")


def digest_of(history: History) -> list[Any]:
    """What makes two ranges of commits the same: their ends, and how they hang together."""
    goods = [history.commits[one] for one in history.goods]
    return [
        goods,
        history.commits[history.bad],
        len(history.commits),
        sum(map(len, history.parents)),
    ]


def _told(axis: Axis, at: int) -> list[str | None]:
    one = axis.revision(at)
    return [one.name, one.file, text_of(one)]


def _chain(count: int) -> Order:
    return Order([[], *([one] for one in range(count - 1))])
