"""The decisions that a change of policy is judged by: some of each sort, however rare.

**Rules**
1. At most ``most`` are kept. Where there are more, the oldest of the sort with the most goes: many
   reads do not push out the few refunds that a looser policy would be about.
2. A sort is a tool with an effect. Tools that are not registered are one sort: their names are the
   caller's to choose.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from sidecar.gateway.policy.result import PolicyAnswer

Remembered = tuple[bytes, PolicyAnswer]
"""A document as it was encoded, and the answer on it."""
Sort = tuple[str, str]


def sort_of(document: dict[str, Any], answer: PolicyAnswer) -> Sort:
    """Which decisions this one is like."""
    return named(document) if _registered(document) else "", answer.effect


def named(document: dict[str, Any]) -> str:
    """The tool that a document is about; empty where it names none."""
    resource = document.get("resource")
    return str(resource.get("id", "")) if isinstance(resource, dict) else ""


def _registered(document: dict[str, Any]) -> bool:
    resource = document.get("resource")
    properties = resource.get("properties") if isinstance(resource, dict) else None
    class_ = properties.get("registered_class") if isinstance(properties, dict) else None
    return class_ != "unlisted"


class Memory:
    """Decisions by their sort; iterates over all of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sorts: dict[Sort, deque[Remembered]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Remembered]:
        for each in self._sorts.values():
            yield from each

    def add(self, sort: Sort, one: Remembered) -> None:
        """Remember one, and forget one where that is too many."""
        if self._most == 0:
            return
        own = self._sorts.setdefault(sort, deque())
        own.append(one)
        self._count += 1
        if self._count <= self._most:
            return
        # Mostly the own sort is the one with the most, or has more than its share.
        if len(own) * len(self._sorts) > self._most:
            self._forget(sort)
        else:
            self._forget(max(self._sorts, key=lambda each: len(self._sorts[each])))

    def replace(self, all_: Iterable[tuple[Sort, Remembered]]) -> None:
        """Remember these instead."""
        kept = list(all_)
        self._sorts.clear()
        self._count = 0
        for sort, one in kept:
            self.add(sort, one)

    def _forget(self, sort: Sort) -> None:
        group = self._sorts[sort]
        group.popleft()
        self._count -= 1
        if not group:
            del self._sorts[sort]
