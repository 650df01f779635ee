"""Which rules of a bundle can say nothing whatever the input, since its data leaves them without
effect.

**Rules**
1. Data is constant for a bundle. What is not known for certain has an effect.
2. A condition fails for certain where it refers to what the data does not have, or looks for
   something in what is empty there.
3. Leaving a rule out must not leave out an error, which would have denied: whatever else would have
   been evaluated of it is calm, that is, cannot raise one. Conditions after the failing one that
   use what it defines never come before it; those without a definition keep their order.
4. It is for bundles that replace no documents (``with``) and in which no name of a rule holds a
   variable.

The order of conditions is regorus's (``scheduler.rs``).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from sidecar.gateway.policy.rego import (
    Node,
    Path,
    RegoModule,
    Rule,
    Scope,
    path_length,
    static_path,
    walk,
    whole_references,
)

Meaning = Literal["absent", "empty", "unknown"]
_REFERENCES = ("Var", "RefDot", "RefBrack")
_LITERALS = frozenset({"String", "RawString", "Number", "Bool", "Null"})
_CALM_BUILTINS = frozenset(
    f"is_{kind}" for kind in ("array", "boolean", "null", "number", "object", "set", "string")
)


class Inert:
    """What is known of a bundle's rules: ``definition`` of one, ``silent`` of a set of reasons."""

    def __init__(self, modules: Sequence[RegoModule], data: dict[str, Any]) -> None:
        self._data = data
        self._scopes: dict[str, Scope] = {module.file: module.scope for module in modules}
        self._packages = {module.package for module in modules}
        self._rules: dict[Path, list[Rule]] = {}
        for module in modules:
            for rule in module.rules:
                self._rules.setdefault(rule.path, []).append(rule)
        self._owners: dict[Path, list[Path]] = {}
        self._inert: dict[int, bool] = {}
        self._calm: dict[Path, bool] = {}

    def definition(self, rule: Rule) -> bool:
        """Whether this definition says nothing whatever the input, and raises nothing either."""
        if id(rule) not in self._inert:
            self._inert[id(rule)] = False  # while it is looked at: a ring is no knowledge
            self._inert[id(rule)] = self._says_nothing(rule)
        return self._inert[id(rule)]

    def branches(self, rule: Rule) -> int:
        """How many of the leading branches of an ``else`` chain say nothing and raise nothing."""
        if _kind(rule) != "Compr":
            return 0
        bodies, count = rule.node["Spec"]["bodies"], 0
        while count < len(bodies) and self._is_vain(rule, bodies[count]):
            count += 1
        return count

    def silent(self, path: Path) -> bool:
        """Whether this is a set of reasons that is always empty."""
        rules = self._rules.get(path, [])
        return bool(rules) and all(_kind(rule) == "Set" and self.definition(rule) for rule in rules)

    def spelt(self, rule: Rule, name: str) -> bytes | None:
        """What a name of a rule's package stands for, where that is nothing but a part of the
        input: as it is written there."""
        scope = self._scopes[rule.file]
        rules = self._rules.get((*scope.package, name), [])
        if name in rule.local or name in scope.imports or len(rules) != 1:
            return None
        found = rules[0]
        if _kind(found) != "Compr" or "RefBrack" in _name(found) or found.node["Spec"]["bodies"]:
            return None
        said, own = _said(found), self._scopes[found.file]
        if said is None or not _is_dotted(said) or "input" in own.imports:
            return None
        if static_path(said)[0] != "input":
            return None
        span = next(iter(said.values()))["span"]
        return own.text[span["start"] : span["end"]]

    def owners(self, path: Path) -> list[Path]:
        """The rules that are evaluated for a reference to this path: all that begin with a name
        too, as ``q.a`` and ``q.b``."""
        if path not in self._owners:
            self._owners[path] = [
                owner
                for owner, rules in self._rules.items()
                if _overlap(self._root(rules[0]), path)
            ]
        return self._owners[path]

    def _root(self, rule: Rule) -> Path:
        return rule.path[: len(self._scopes[rule.file].package) + 1]

    def _says_nothing(self, rule: Rule) -> bool:
        if _kind(rule) not in ("Set", "Compr"):
            return False
        head = next(iter(rule.node["Spec"]["head"].values()))
        if "RefBrack" in head["refr"]:
            return False
        bodies, said = rule.node["Spec"]["bodies"], _said(rule)
        if not bodies:
            return said is not None and self._absent(rule, said)
        return all(self._is_vain(rule, body) for body in bodies)

    def _is_vain(self, rule: Rule, body: Node) -> bool:
        """Whether the conditions of a branch fail for certain, or what it says is never there."""
        statements = body["query"]["stmts"]
        if self._fails(rule, statements):
            return True
        said = _value(body) or (None if body["is_else"] else _said(rule))
        calm = all(self._calm_statement(rule, each) for each in statements)
        return said is not None and calm and self._absent(rule, said)

    def _fails(self, rule: Rule, statements: list[Node]) -> bool:
        """Whether one of the conditions fails for certain, and nothing before it raises."""
        for place, statement in enumerate(statements):
            if not self._failing(rule, statement):
                continue
            defined = frozenset(_defined(statement))
            if not (_names(statement) & rule.local) <= defined:
                continue  # it waits for another one
            before = statements[:place]
            if defined:
                after = statements[place + 1 :]
                before = [*before, *(each for each in after if not _waits(each, defined))]
            if all(self._calm_statement(rule, each) for each in before):
                return True
        return False

    def _failing(self, rule: Rule, statement: Node) -> bool:
        tag, literal = next(iter(statement["literal"].items()))
        if tag == "SomeIn":
            return _goes_plainly(literal) and self._nowhere(rule, literal["collection"])
        if tag != "Expr":
            return False
        tag, node = next(iter(literal["expr"].items()))
        if tag == "Membership":
            return self._nowhere(rule, node["collection"]) and self._are_calm(
                rule, [node["value"], *([node["key"]] if node["key"] else [])]
            )
        if tag == "AssignExpr":
            return _is_plain(node) and self._absent(rule, node["rhs"])
        return self._absent(rule, literal["expr"])

    def _nowhere(self, rule: Rule, node: Node) -> bool:
        """Whether a collection is empty or absent, and looking for it raises nothing."""
        return self._meaning(rule, node) != "unknown" and self._is_calm(rule, node)

    def _absent(self, rule: Rule, node: Node) -> bool:
        """Whether a term is undefined for certain, and evaluating it raises nothing."""
        tag, content = next(iter(node.items()))
        if tag in _REFERENCES:
            return self._meaning(rule, node) == "absent" and self._is_calm(rule, node)
        if tag == "Call":
            parts, known = content["params"], self._function(rule, content) is not None
        else:
            parts, known = list(_parts(tag, content)), tag in ("BoolExpr", "Array", "Set", "Object")
        return (
            known
            and self._are_calm(rule, parts)
            and any(self._absent(rule, each) for each in parts)
        )

    def _meaning(self, rule: Rule, node: Node) -> Meaning:
        """What is known of what a reference refers to."""
        path = static_path(node) if next(iter(node)) in _REFERENCES else ()
        if not path or path[0] in rule.local:
            return "unknown"
        resolved = self._resolved(rule, path)
        whole = path_length(node) == len(path)
        owners = self.owners(resolved)
        if owners:
            owner = owners[0]
            if len(owners) > 1 or resolved[: len(owner)] != owner:
                return "unknown"
            if not all(self.definition(each) for each in self._rules[owner]):
                return "unknown"
            longer = not whole or len(resolved) > len(owner)
            kinds = {_kind(each) for each in self._rules[owner]}
            return "absent" if kinds == {"Compr"} or longer else "empty"
        if path[0] == "input" or self._resolved(rule, (path[0],))[0] != "data":
            return "unknown"
        if any(_overlap(package, resolved) for package in self._packages):
            return "unknown"
        return self._in_data(resolved[1:], whole=whole)

    def _in_data(self, path: Path, *, whole: bool) -> Meaning:
        found: Any = self._data
        for name in path:
            if not isinstance(found, dict):
                return "unknown"
            if name not in found:
                return "absent"
            found = found[name]
        if found not in ({}, []):
            return "unknown"
        return "empty" if whole else "absent"

    def _resolved(self, rule: Rule, path: Path) -> Path:
        scope = self._scopes[rule.file]
        resolved = scope.resolve(path)
        if resolved[0] in ("data", "input"):
            return resolved
        return (*scope.package, *resolved)

    def _calm_statement(self, rule: Rule, statement: Node) -> bool:
        tag, literal = next(iter(statement["literal"].items()))
        if tag == "SomeVars":
            return True
        if tag == "SomeIn":
            within = literal["collection"]
            known = _goes_plainly(literal) and self._is_collection(rule, within)
            return known and self._is_calm(rule, within)
        return tag in ("Expr", "NotExpr") and self._is_calm(rule, literal["expr"])

    def _is_collection(self, rule: Rule, node: Node) -> bool:
        """Whether this is one for certain: to go through anything else is an error."""
        tag = next(iter(node))
        if tag in ("Array", "Set", "Object"):
            return True
        if self._meaning(rule, node) != "unknown":
            return True
        path = static_path(node) if tag in _REFERENCES else ()
        if not path or path[0] in rule.local or path_length(node) != len(path):
            return False
        rules = self._rules.get(self._resolved(rule, path), [])
        return bool(rules) and all(_kind(each) == "Set" for each in rules)

    def _are_calm(self, rule: Rule, nodes: Iterable[Node]) -> bool:
        return all(self._is_calm(rule, each) for each in nodes)

    def _is_calm(self, rule: Rule, node: Node) -> bool:
        """Whether evaluating a term raises nothing, whatever the input."""
        tag, content = next(iter(node.items()))
        if tag in _LITERALS:
            return True
        if tag in _REFERENCES:
            return all(self._calm_reference(rule, each) for each in whole_references(node))
        if tag == "Call":
            path = self._function(rule, content)
            written = static_path(content["fcn"])
            builtin = len(written) == 1 and written[0] in _CALM_BUILTINS
            builtin = builtin and self._resolved(rule, written) not in self._rules
            known = builtin or (path is not None and self._calm_rule(path))
            return known and self._are_calm(rule, content["params"])
        if tag == "Object" and not all("String" in key for _, key, _ in content["fields"]):
            return False
        if tag == "AssignExpr" and not _is_plain(content):
            return False
        known = tag in ("BoolExpr", "AssignExpr", "Membership", "Array", "Set", "Object")
        return known and self._are_calm(rule, _parts(tag, content))

    def _calm_reference(self, rule: Rule, node: Node) -> bool:
        if any(next(iter(each)) not in (*_REFERENCES, *_LITERALS) for each in _indexes(node)):
            return False
        if any(_is_local(each, rule) for each in _indexes(node)):
            return False  # it may go through all there is
        path = static_path(node)
        if not path:
            return False
        scope = self._scopes[rule.file]
        owners = self.owners(self._resolved(rule, path))
        if path[0] in scope.imports:  # the engine evaluates the whole of what is imported
            owners = self.owners(scope.imports[path[0]])
        known = path[0] in rule.local or scope.resolve(path)[0] in ("data", "input")
        return (known or bool(owners)) and all(self._calm_rule(each) for each in owners)

    def _function(self, rule: Rule, call: Node) -> Path | None:
        """The path of the function of this bundle that is called, with its arguments and no more:
        one more would be what it is to answer."""
        path = self._resolved(rule, static_path(call["fcn"]))
        rules = self._rules.get(path, [])
        given = len(call["params"])
        return path if rules and all(_arguments(each) == given for each in rules) else None

    def _calm_rule(self, path: Path) -> bool:
        if path not in self._calm:
            self._calm[path] = False  # while it is looked at
            rules = self._rules[path]
            self._calm[path] = _agrees(rules) and all(map(self._is_calm_rule, rules))
        return self._calm[path]

    def _is_calm_rule(self, rule: Rule) -> bool:
        if _kind(rule) == "Default":
            return False
        statements = (
            each for body in rule.node["Spec"]["bodies"] for each in body["query"]["stmts"]
        )
        return all(self._calm_statement(rule, each) for each in statements) and self._are_calm(
            rule, rule.values
        )


def _kind(rule: Rule) -> str:
    """Set, Compr, Func or Default."""
    return next(iter(rule.node["Spec"]["head"])) if "Spec" in rule.node else "Default"


def _arguments(rule: Rule) -> int | None:
    """How many arguments a function has; None for what is none."""
    return len(rule.node["Spec"]["head"]["Func"]["args"]) if _kind(rule) == "Func" else None


def _agrees(rules: list[Rule]) -> bool:
    """Whether the definitions of one name cannot contradict each other."""
    if any("RefBrack" in _name(rule) for rule in rules):
        return False
    kinds = {_kind(rule) for rule in rules}
    return kinds == {"Set"} or (
        len(kinds) == 1 and (len(rules) == 1 or not any(rule.values for rule in rules))
    )


def _name(rule: Rule) -> Node:
    if "Default" in rule.node:
        return {}
    found: Node = next(iter(rule.node["Spec"]["head"].values()))["refr"]
    return found


def _said(rule: Rule) -> Node | None:
    head = next(iter(rule.node["Spec"]["head"].values()))
    found: Node | None = head.get("key") or (head.get("assign") or {}).get("value")
    return found


def _value(body: Node) -> Node | None:
    found: Node | None = (body["assign"] or {}).get("value")
    return found


def _parts(tag: str, content: Node) -> Iterator[Node]:
    if tag == "Object":
        yield from (value for _, _, value in content["fields"])
        return
    for name in ("lhs", "rhs", "key", "value", "collection"):
        if isinstance(content.get(name), dict):
            yield content[name]
    yield from content.get("items", ())


def _is_plain(assigned: Node) -> bool:
    """Whether one name is made, and nothing is taken apart."""
    return assigned["op"] == "ColEq" and "Var" in assigned["lhs"]


def _goes_plainly(literal: Node) -> bool:
    return "Var" in literal["value"] and (literal["key"] is None or "Var" in literal["key"])


def _defined(statement: Node) -> Iterator[str]:
    """The names that a condition makes; none for one that only tests."""
    tag, literal = next(iter(statement["literal"].items()))
    if tag == "SomeIn":
        yield from _variables([literal["key"], literal["value"]])
    elif tag == "Expr" and "AssignExpr" in literal["expr"]:
        yield from _variables(literal["expr"]["AssignExpr"]["lhs"])


def _waits(statement: Node, defined: frozenset[str]) -> bool:
    """Whether a condition uses these names, and so comes after what defines them.

    A name in a query within, or on either side of ``=``, may be another or made there instead.
    """
    tag, literal = next(iter(statement["literal"].items()))
    if tag == "SomeIn":
        made, used = [literal["key"], literal["value"]], literal["collection"]
    elif tag in ("Expr", "NotExpr"):
        made, used = [], literal["expr"]
        if "AssignExpr" in used:
            assigned = used["AssignExpr"]
            if assigned["op"] != "ColEq":
                return False
            made, used = [assigned["lhs"]], assigned["rhs"]
    else:
        return False
    return not defined.isdisjoint(_outer(used)) and defined.isdisjoint(_variables(made))


def _outer(tree: Any) -> Iterator[str]:
    """The names in an expression but for those in queries within it."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
        if not isinstance(item, dict):
            continue
        for tag, node in item.items():
            if tag == "Var":
                yield node["value"]
            elif not tag.endswith("Compr"):
                stack.append(node)


def _names(statement: Node) -> frozenset[str]:
    return frozenset(_variables(statement))


def _variables(tree: Any) -> Iterator[str]:
    return (node["value"] for tag, node in walk([tree]) if tag == "Var")


def _indexes(node: Node) -> Iterator[Node]:
    tag, content = next(iter(node.items()))
    while tag in ("RefDot", "RefBrack"):
        if tag == "RefBrack":
            yield content["index"]
        tag, content = next(iter(content["refr"].items()))


def _is_dotted(node: Node) -> bool:
    while "RefDot" in node:
        node = node["RefDot"]["refr"]
    return "Var" in node


def _is_local(node: Node, rule: Rule) -> bool:
    return node.get("Var", {}).get("value") in rule.local


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
