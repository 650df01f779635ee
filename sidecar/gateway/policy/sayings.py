"""What a bundle can say of a call: the reasons that its rules put into decisions.

**Rules**
1. A saying is a set (deny, require_approval, allow) and a code, with each place that says it.
2. Only what the entry point for decisions refers to counts: what hides tools from a list decides
   no call.
3. A definition that its data makes inert can say nothing, whatever the call (``inert``).
4. A code that is computed, and not written down, is told as such: nobody can know it beforehand.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from sidecar.gateway.policy.bundle import ENTRYPOINTS
from sidecar.gateway.policy.inert import Inert
from sidecar.gateway.policy.rego import Path, RegoModule, Rule, walk, without_name

Set = Literal["deny", "require_approval", "allow"]
_SETS: Final[tuple[Set, ...]] = ("deny", "require_approval", "allow")


class Saying(Struct, frozen=True, kw_only=True):
    """``code`` is empty where it is computed. ``places`` are ``file:line``; ``live`` whether the
    data lets any of them speak."""

    set: Set
    code: str
    places: tuple[str, ...]
    live: bool


def sayings(modules: Sequence[RegoModule], data: dict[str, Any]) -> tuple[Saying, ...]:
    """All that decisions of a bundle may give as reasons, in order of set and code."""
    rules: dict[Path, list[Rule]] = {}
    for module in modules:
        for rule in module.rules:
            rules.setdefault(rule.path, []).append(rule)
    inert = Inert(modules, data)
    asked = _reached(rules, [tuple(ENTRYPOINTS[0].split("."))])
    found: list[Saying] = []
    for said in _SETS:
        places: dict[str, list[tuple[str, bool]]] = {}
        for path in _reached(rules, [path for path in asked if path[-1] == said], said):
            for rule in rules[path]:
                for code, line in _codes(rule):
                    place = f"{rule.file}:{line}", not inert.definition(rule)
                    places.setdefault(code, []).append(place)
        found += [_saying(said, code, places[code]) for code in sorted(places)]
    return tuple(found)


def _saying(said: Set, code: str, places: Sequence[tuple[str, bool]]) -> Saying:
    return Saying(
        set=said,
        code=code,
        places=tuple(sorted(dict.fromkeys(place for place, _ in places))),
        live=any(live for _, live in places),
    )


def _reached(
    rules: Mapping[Path, Sequence[Rule]], start: Sequence[Path], said: str = ""
) -> list[Path]:
    """The rules that these refer to, themselves included; none of another set than ``said``."""
    waiting, seen = list(start), set[Path]()
    while waiting:
        wanted = waiting.pop()
        for path, definitions in rules.items():
            shorter = min(len(path), len(wanted))
            other = said and path[-1] in _SETS and path[-1] != said
            if path not in seen and path[:shorter] == wanted[:shorter] and not other:
                seen.add(path)
                waiting += [each for one in definitions for each in one.references]
    return sorted(seen)


def _codes(rule: Rule) -> Iterator[tuple[str, int]]:
    """The codes of the reasons that a definition writes down, with their lines."""
    for tag, node in walk(without_name(rule.node)):
        if tag == "Object":
            for _, key, value in node["fields"]:
                if key.get("String", {}).get("value") == "code":
                    yield value.get("String", {}).get("value", ""), node["span"]["line"]
