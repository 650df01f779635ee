"""A bundle folded with its data: what the embedded engine evaluates in place of it.

**Rules**
1. It decides the same as the bundle it was made of, errors included, and has its revision.
2. What can say nothing whatever the input is left out (``inert``), and what the entry points do not
   refer to. A reference to a set of reasons that is always empty is written ``set()``.
3. Of an ``else`` chain the leading branches that can say nothing are left out: the name is then
   followed by what the first of the others says.
4. A name that stands for a part of the input and nothing else is written as that part.
5. A name that is still referred to keeps a definition. Nothing else is written anew.
6. A package that is imported is kept whole, since the engine evaluates the whole of it. A bundle
   that refers to a package as a document, replaces documents (``with``), has rules with a variable
   in the midst of their name, a rule within another's name or under an imported one is left as it
   is.

A document's members that no definition reads need not be given to the engine. Whoever uses a folded
bundle tries it beside the other first (``driver``).
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from sidecar.gateway.policy.bundle import ENTRYPOINTS, Bundle, Module
from sidecar.gateway.policy.inert import Inert
from sidecar.gateway.policy.rego import (
    Node,
    Path,
    RegoModule,
    Rule,
    path_length,
    static_path,
    walk,
    whole_references,
    without_name,
)

_EMPTY = b"set()"


class Folded(Struct, frozen=True):
    """A bundle folded; ``members``: those of the document that it reads, None where that may be
    any."""

    bundle: Bundle
    members: frozenset[str] | None = None


def fold(
    bundle: Bundle, modules: Sequence[RegoModule], entries: Sequence[str] = ENTRYPOINTS
) -> Folded:
    """The bundle, in its order, with what its data makes inert left out. Lines keep their numbers.

    ``modules`` are the bundle's, read; ``entries`` what is asked of it.
    """
    packages = [module.package for module in modules]
    rules = [rule for module in modules for rule in module.rules]
    if any(_is_beyond(rule, packages) for rule in rules) or any(map(_is_ambiguous, modules)):
        return Folded(bundle)
    return _Folding(bundle, modules).made(entries)


def _is_beyond(rule: Rule, packages: Sequence[Path]) -> bool:
    """Whether a rule sees other rules otherwise than by their names."""
    return (
        bool(rule.mocked)
        or rule.open_head
        or any(package[: len(path)] == path for path in rule.references for package in packages)
    )


def _is_ambiguous(module: RegoModule) -> bool:
    """Whether a name of a module may mean two things."""
    paths = {rule.path for rule in module.rules}
    shorter = {path[:end] for path in paths for end in range(len(module.package) + 1, len(path))}
    names = {path[len(module.package)] for path in paths}
    return not (paths.isdisjoint(shorter) and names.isdisjoint(module.scope.imports))


class _Folding:
    def __init__(self, bundle: Bundle, modules: Sequence[RegoModule]) -> None:
        self._bundle = bundle
        self._modules = {module.file: module for module in modules}
        self._inert = Inert(modules, bundle.data)
        self._rules: dict[Path, list[Rule]] = {}
        for module in modules:
            for rule in module.rules:
                self._rules.setdefault(rule.path, []).append(rule)
        self._kept: dict[str, list[Rule]] = {}

    def made(self, entries: Sequence[str]) -> Folded:
        waiting: list[Path] = [tuple(name.split(".")) for name in entries]
        seen: set[Path] = set()
        while waiting:
            path = waiting.pop()
            if path not in seen:
                seen.add(path)
                for rule in self._used(path):
                    waiting += self._referred(rule)
                    waiting += () if rule.file in self._kept else self._imported(rule.file)
                    self._kept.setdefault(rule.file, []).append(rule)
        folded = [
            Module(module.path, self._text(module.path))
            for module in self._bundle.modules
            if module.path in self._kept
        ]
        return Folded(replace(self._bundle, modules=tuple(folded)), self._members())

    def _members(self) -> frozenset[str] | None:
        """The members of the document that the definitions which are kept read, those of the names
        that are written as a part of it among them."""
        kept = [rule for rules in self._kept.values() for rule in rules]
        rules = (rule for file in self._kept for rule in self._modules[file].rules)
        spelt = [each for each in rules if self._inert.spelt(each, each.path[-1]) is not None]
        paths = {path for rule in (*kept, *spelt) for path in rule.inputs}
        if any(len(path) < 2 for path in paths):
            return None
        return frozenset(path[1] for path in paths)

    def _used(self, path: Path) -> list[Rule]:
        """The definitions of a rule that may say something; one of them where none does.

        All of a set's where one of these goes through something in what it says: where it finds
        nothing the engine has no set, unless another definition was tried.
        """
        rules = self._rules[path]
        used = [rule for rule in rules if not self._inert.definition(rule)] or rules[:1]
        return rules if any(map(_goes_through, used)) else used

    def _referred(self, rule: Rule) -> Iterator[Path]:
        for path, node in self._references(rule):
            if not self._replaced(rule, path, node) and self._spelt(rule, node) is None:
                yield from self._inert.owners(path)

    def _imported(self, file: str) -> Iterator[Path]:
        for path in self._modules[file].scope.imports.values():
            yield from self._inert.owners(path)

    def _references(self, rule: Rule) -> Iterator[tuple[Path, Node]]:
        scope, left_out = self._modules[rule.file].scope, self._left_out(rule)
        for node in whole_references(without_name(rule.node)):
            if _span(node)["start"] in left_out:
                continue
            if path := static_path(node):
                resolved = scope.resolve(path)
                known = resolved[0] in ("data", "input")
                yield resolved if known else (*scope.package, *resolved), node

    def _replaced(self, rule: Rule, path: Path, node: Node) -> bool:
        """Whether this reference is to a set that is always empty, as a whole."""
        written = static_path(node)
        if path_length(node) != len(written) or written[0] in rule.local:
            return False
        imported = written[0] in self._modules[rule.file].scope.imports
        return not imported and self._inert.silent(path)

    def _spelt(self, rule: Rule, node: Node) -> tuple[int, int, bytes] | None:
        """The edit that writes the part of the input a reference begins with, if it does."""
        while "Var" not in node:
            node = next(iter(node.values())).get("refr") or {"Var": {"value": "", "span": {}}}
        instead = self._inert.spelt(rule, node["Var"]["value"])
        if instead is None:
            return None
        return _span(node)["start"], _span(node)["end"], instead

    def _left_out(self, rule: Rule) -> range:
        """The part of a definition's text, from its name's end, that holds its dead branches."""
        dead = self._inert.branches(rule)
        bodies = rule.node["Spec"]["bodies"] if dead else ()
        if not dead or dead == len(bodies) or not bodies[dead]["is_else"]:
            return range(0)
        if bodies[dead]["assign"] is None:
            return range(0)
        name = _span(rule.node["Spec"]["head"]["Compr"]["refr"])
        return range(name["end"], bodies[dead]["assign"]["span"]["start"])

    def _text(self, file: str) -> str:
        """The module with the definitions that are kept, each where it was."""
        module = self._modules[file]
        text, kept = module.scope.text, set(map(_start, self._kept[file]))
        starts = sorted(_start(rule) for rule in module.rules)
        rules = {_start(rule): rule for rule in module.rules}
        parts = [text[: starts[0]]]
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
            made = self._definition(rules[start], text, end) if start in kept else b""
            lines = text.count(b"\n", start, end) - made.count(b"\n")
            parts += [made, b"\n" * lines]
        return b"".join(parts).decode()

    def _definition(self, rule: Rule, text: bytes, end: int) -> bytes:
        at, parts = _start(rule), []
        edits = [
            (_span(node)["start"], _span(node)["end"], _EMPTY)
            for path, node in self._references(rule)
            if self._replaced(rule, path, node)
        ]
        spelt = (self._spelt(rule, node) for _, node in self._references(rule))
        edits += [edit for edit in spelt if edit is not None]
        if left_out := self._left_out(rule):
            edits.append((left_out.start, left_out.stop, b" "))
        for start, stop, instead in sorted(edits):
            parts += [text[at:start], instead]
            at = stop
        return b"".join([*parts, text[at:end]])


def _goes_through(rule: Rule) -> bool:
    """Whether what is said to be in a set may go through something."""
    key = rule.node["Spec"]["head"].get("Set", {}).get("key") if "Spec" in rule.node else None
    return any(
        tag == "RefBrack" and next(iter(node["index"])) not in ("String", "Number")
        for tag, node in walk(key)
    )


def _start(rule: Rule) -> int:
    start: int = _span(rule.node)["start"]
    return start


def _span(node: Node) -> Node:
    span: Node = next(iter(node.values()))["span"]
    return span
