"""Which of one list goes with which of another: the longest common subsequence, within bounds.

**Rules**
1. Up to ``EXACT_MAX`` a side the result is a longest one, whatever the keys: no heuristic drops
   frequent ones. Above it, keys that stand once on both sides are anchors, and what lies between
   is aligned in pieces of ``EXACT_MAX``.
2. Time is bounded by lengths alone, never by how the keys repeat.
3. Swapping the lists swaps the pairs and changes nothing else.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final

EXACT_MAX: Final = 5000

Pairs = list[tuple[int, int]]


def aligned(
    left: Sequence[str], right: Sequence[str], anchors: tuple[Sequence[str], Sequence[str]]
) -> Pairs:
    """Pairs of places with equal keys, rising on both sides.

    ``anchors`` are finer keys (equal ones have equal keys), used where the lists are long.
    """
    if (len(left), list(left), list(anchors[0])) > (len(right), list(right), list(anchors[1])):
        return [(one, other) for other, one in aligned(right, left, (anchors[1], anchors[0]))]
    if max(len(left), len(right)) <= EXACT_MAX:
        return _longest(left, right)
    found: Pairs = []
    start_l = start_r = 0
    for one, other in [*_anchored(*anchors), (len(left), len(right))]:
        found += _pieces(left, right, (start_l, one), (start_r, other))
        if one < len(left):
            found.append((one, other))
        start_l, start_r = one + 1, other + 1
    return found


def _pieces(
    left: Sequence[str], right: Sequence[str], of_l: tuple[int, int], of_r: tuple[int, int]
) -> Pairs:
    (place_l, end_l), (place_r, end_r) = of_l, of_r
    found: Pairs = []
    while place_l < end_l and place_r < end_r:
        stop_l, stop_r = min(place_l + EXACT_MAX, end_l), min(place_r + EXACT_MAX, end_r)
        pairs = _longest(left[place_l:stop_l], right[place_r:stop_r])
        found += [(place_l + one, place_r + other) for one, other in pairs]
        place_l, place_r = stop_l, stop_r
    return found


def _anchored(left: Sequence[str], right: Sequence[str]) -> Pairs:
    """Keys that stand once on both sides, the longest run of them that rises on both."""
    in_l, in_r = Counter(left), Counter(right)
    places = {key: place for place, key in enumerate(right) if in_r[key] == 1}
    both = [(n, places[key]) for n, key in enumerate(left) if in_l[key] == 1 and key in places]
    ends: list[int] = []
    tops: list[int] = []
    back: list[int] = []
    for number, (_, other) in enumerate(both):
        at = bisect_left(ends, other)
        back.append(tops[at - 1] if at else -1)
        if at == len(ends):
            ends.append(other)
            tops.append(number)
        else:
            ends[at], tops[at] = other, number
    found: Pairs = []
    number = tops[-1] if tops else -1
    while number >= 0:
        found.append(both[number])
        number = back[number]
    return found[::-1]


def _longest(left: Sequence[str], right: Sequence[str]) -> Pairs:
    """A longest common subsequence, by rows of bits (Hyyrö 2004): a zero bit is one more pair."""
    begin = 0
    while begin < min(len(left), len(right)) and left[begin] == right[begin]:
        begin += 1
    masks: dict[str, int] = {}
    width = len(right) - begin
    for place in range(width):
        key = right[begin + place]
        masks[key] = masks.get(key, 0) | 1 << place
    full = (1 << width) - 1
    row, rows = full, [full]
    for key in left[begin:]:
        met = row & masks.get(key, 0)
        row = ((row + met) | (row - met)) & full
        rows.append(row)
    found: Pairs = []
    place, number = width - 1, len(rows) - 1
    while place >= 0 and number > 0:
        if rows[number] >> place & 1:
            place -= 1
        elif not rows[number - 1] >> place & 1:
            number -= 1
        else:
            found.append((begin + number - 1, begin + place))
            number, place = number - 1, place - 1
    return [(place, place) for place in range(begin)] + found[::-1]
