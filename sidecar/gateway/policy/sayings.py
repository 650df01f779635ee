"""What a bundle can say of a call: the reasons that its rules put into decisions.

**Rules**
1. A saying is a set (deny, require_approval, allow) and a code, with each place that says it: a
   rule of a set of that name, or an answer that is written down with its effect and its reasons.
2. Only what the entry point for decisions refers to counts: what hides tools from a list decides
   no call.
3. A definition that its data makes inert can say nothing, whatever the call (``inert``).
4. A code that is computed, and not written down, is told as such: nobody can know it beforehand.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from sidecar.canonical import sha256
from sidecar.gateway.policy.bundle import ENTRYPOINTS, Bundle, Module
from sidecar.gateway.policy.inert import Inert
from sidecar.gateway.policy.rego import Node, Path, RegoModule, Rule, walk, without_name

Set = Literal["deny", "require_approval", "allow"]
_SETS: Final[tuple[Set, ...]] = ("deny", "require_approval", "allow")


class Saying(Struct, frozen=True, kw_only=True):
    """``code`` is empty where it is computed. ``places`` are ``file:line``; ``live`` whether the
    data lets any of them speak."""

    set: Set
    code: str
    places: tuple[str, ...]
    live: bool


class Definition(Struct, frozen=True, kw_only=True):
    """One definition of a set of reasons: where it stands in its file, in bytes."""

    set: Set
    file: str
    line: int
    start: int
    end: int


def definitions(modules: Sequence[RegoModule], data: dict[str, Any]) -> tuple[Definition, ...]:
    """The live definitions that put reasons into the sets of a decision."""
    rules: dict[Path, list[Rule]] = {}
    starts: dict[str, list[int]] = {}
    for module in modules:
        starts[module.file] = [len(module.scope.text)]
        for rule in module.rules:
            rules.setdefault(rule.path, []).append(rule)
            starts[module.file].append(_span(rule)["start"])
    inert = Inert(modules, data)
    found = []
    for path in _reached(rules, [tuple(ENTRYPOINTS[0].split("."))]):
        said = next((name for name in _SETS if name == path[-1]), None)
        for rule in rules[path] if said is not None else ():
            if said is None or not _is_set(rule) or inert.definition(rule):
                continue
            start = _span(rule)["start"]
            end = min(one for one in starts[rule.file] if one > start)
            found.append(Definition(set=said, file=rule.file, line=rule.line, start=start, end=end))
    return tuple(sorted(found, key=lambda one: (_SETS.index(one.set), one.file, one.line)))


def without(bundle: Bundle, one: Definition) -> Bundle:
    """The bundle with a definition that says nothing in its place, under a revision of its own."""
    modules = []
    for module in bundle.modules:
        text = module.text.encode()
        if module.path == one.file:
            lines = b"\n" * text.count(b"\n", one.start, one.end)
            silent = f'{one.set} contains "never" if 1 == 2'.encode()
            text = text[: one.start] + silent + lines + text[one.end :]
        modules.append(Module(module.path, text.decode()))
    told = f"{bundle.revision} without {one.file}:{one.line}"
    return replace(bundle, modules=tuple(modules), revision=sha256(told.encode()))


def _is_set(rule: Rule) -> bool:
    return "Spec" in rule.node and "Set" in rule.node["Spec"]["head"]


def _span(rule: Rule) -> dict[str, int]:
    span: dict[str, int] = next(iter(rule.node.values()))["span"]
    return span


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
                for code, line in _codes(without_name(rule.node)):
                    place = f"{rule.file}:{line}", not inert.definition(rule)
                    places.setdefault(code, []).append(place)
        for rule in (each for path in asked for each in rules[path]):
            for code, line in _answered(rule, said):
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


def _codes(tree: Any) -> Iterator[tuple[str, int]]:
    """The codes of the reasons that are written down in a tree, with their lines."""
    for tag, node in walk(tree):
        if tag == "Object" and (code := _field(node, "code")) is not None:
            yield code.get("String", {}).get("value", ""), node["span"]["line"]


def _answered(rule: Rule, said: Set) -> Iterator[tuple[str, int]]:
    """The codes of whole answers with this effect."""
    for tag, node in walk(without_name(rule.node)):
        effect = _field(node, "effect") if tag == "Object" else None
        word = effect.get("String", {}).get("value") if effect is not None else None
        if word == said or (word == "allow_with_limits" and said == "allow"):
            yield from _codes(_field(node, "reasons"))


def _field(node: Node, name: str) -> Node | None:
    """What an object that is written down has under a name."""
    found: Node | None = next(
        (value for _, key, value in node["fields"] if key.get("String", {}).get("value") == name),
        None,
    )
    return found
