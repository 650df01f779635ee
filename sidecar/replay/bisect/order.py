"""A partial order of points: commits by ancestry, revisions of a configuration, or both at once.

**Rules**
1. Points are 0, 1, …; the parents of a point have lower numbers.
2. A set of points is an integer with one bit a point.
3. A chain of a million points and a graph of ten thousand are dealt with in well under a second; no
   table of all pairs is ever kept.
"""

from collections.abc import Iterable, Iterator, Sequence

POINTS_MAX = 50_000
"""Of an order that is no chain."""


class Order:
    """An order given by the parents of each point. ``linear``: point n has n - 1 as its parent."""

    def __init__(self, parents: Sequence[Sequence[int]]) -> None:
        assert all(one < point for point, each in enumerate(parents) for one in each)
        self.parents = tuple(map(tuple, parents))
        self.linear = all(
            each == (point - 1,) for point, each in enumerate(self.parents) if point
        ) and self.parents[:1] == ((),)
        self._below: dict[int, int] = {}  # of the points that were asked for: a few

    def __len__(self) -> int:
        return len(self.parents)

    def below(self, point: int) -> int:
        """The set of the point and all its ancestors."""
        if self.linear:
            return (1 << (point + 1)) - 1
        found = self._below.get(point)
        if found is None:
            found = self._below[point] = self._reached(point)
        return found

    def above(self, point: int) -> int:
        """The set of the point and all its descendants."""
        if self.linear:
            return (1 << len(self)) - (1 << point)
        held = bytearray(b"0" * len(self))
        held[point] = 49
        for one in range(point + 1, len(self)):
            if any(held[parent] == 49 for parent in self.parents[one]):
                held[one] = 49
        return int(bytes(reversed(held)), 2)

    def masses(self, parts: Sequence[tuple[int, float]]) -> list[float]:
        """For each point the weight of its ancestors and itself.

        ``parts``: disjoint sets, each with the weight of one of its points; all others weigh 0.
        """
        weights = [0.0] * len(self)
        for held, weight in parts:
            for point in points_of(held):
                weights[point] = weight
        left = [0] * len(self)
        for each in self.parents:
            for one in each:
                left[one] += 1
        sets: dict[int, int] = {}  # those that a child still needs
        found: list[float] = []
        for point, parents in enumerate(self.parents):
            if self.linear:
                found.append(weights[point] + (found[-1] if point else 0.0))
                continue
            own = 1 << point
            for one in parents:
                own |= sets[one]
                left[one] -= 1
                if not left[one]:
                    del sets[one]
            if left[point]:
                sets[point] = own
            if len(parents) == 1:
                found.append(found[parents[0]] + weights[point])
            else:
                found.append(sum(weight * (own & held).bit_count() for held, weight in parts))
        return found

    def _reached(self, point: int) -> int:
        seen = bytearray(b"0" * len(self))
        seen[point] = 49
        waiting = [point]
        while waiting:
            for one in self.parents[waiting.pop()]:
                if seen[one] == 48:
                    seen[one] = 49
                    waiting.append(one)
        return int(bytes(reversed(seen)), 2)


class Product:
    """The product of several orders: a point has one coordinate of each.

    Raises ValueError where it has more than ``POINTS_MAX`` points.
    """

    def __init__(self, axes: Sequence[Order]) -> None:
        self.sizes = tuple(map(len, axes))
        total = 1
        for size in self.sizes:
            total *= size
        if len(axes) > 1 and total > POINTS_MAX:
            raise ValueError(f"{total} combinations are more than {POINTS_MAX}")
        if len(axes) == 1:
            self.order = axes[0]
            return
        steps = [1] * len(axes)
        for axis in range(len(axes) - 2, -1, -1):
            steps[axis] = steps[axis + 1] * self.sizes[axis + 1]
        parents = []
        for point in range(total):
            found = []
            for axis, at in enumerate(self.coordinates(point)):
                found += [point - (at - one) * steps[axis] for one in axes[axis].parents[at]]
            parents.append(found)
        self.order = Order(parents)

    def coordinates(self, point: int) -> tuple[int, ...]:
        """A point as its coordinates."""
        found = []
        for size in reversed(self.sizes):
            point, at = divmod(point, size)
            found.append(at)
        return tuple(reversed(found))

    def point(self, coordinates: Sequence[int]) -> int:
        """The point of these coordinates."""
        found = 0
        for size, at in zip(self.sizes, coordinates, strict=True):
            found = found * size + at
        return found


def points_of(held: int) -> Iterator[int]:
    """The points of a set, lowest first."""
    text = bin(held)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)


def set_of(points: Iterable[int]) -> int:
    """The set of some points."""
    found = 0
    for one in points:
        found |= 1 << one
    return found
