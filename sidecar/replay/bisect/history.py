"""A range of commits as an order: which are suspects, which are taken for good.

**Rules**
1. Suspects are the ancestors of the bad commit and itself, without those of the good ones. Parents
   outside of that are points too, so that a culprit's parent can always be looked at.
2. Where a good commit is no ancestor of the bad one, the commits at which their histories part must
   be good as well, and are verified as the good ends are.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from sidecar.replay.bisect.order import Order


class History(Struct, frozen=True, kw_only=True):
    """Commits, oldest first, by index: ``parents`` of each, the ``floor`` that is no suspect."""

    commits: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]
    goods: tuple[int, ...]
    bad: int
    floor: tuple[int, ...]

    def order(self) -> Order:
        """The order of the commits."""
        return Order(self.parents)


def history(
    listed: Sequence[Sequence[str]],
    goods: Sequence[str],
    bad: str,
    *,
    bases: Sequence[str],
    first_parent: bool,
) -> History:
    """The order of suspects, listed oldest first as [commit, *parents], above the good commits.

    ``bases``: where histories part, if a good commit is no ancestor of the bad one.
    """
    suspects = {line[0] for line in listed}
    parents = {line[0]: line[1:2] if first_parent else line[1:] for line in listed}
    floor = list(dict.fromkeys([*goods, *bases]))
    for line in listed:
        floor += [one for one in parents[line[0]] if one not in suspects and one not in floor]
    commits = [*floor, *(line[0] for line in listed)]
    place: Mapping[str, int] = {one: at for at, one in enumerate(commits)}
    found = [
        () if one not in suspects else tuple(place[up] for up in parents[one]) for one in commits
    ]
    return History(
        commits=tuple(commits),
        parents=tuple(found),
        goods=tuple(place[one] for one in dict.fromkeys([*goods, *bases])),
        bad=place[bad],
        floor=tuple(range(len(floor))),
    )
