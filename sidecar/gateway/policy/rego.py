"""Rego syntax trees, read: rules, what they refer to and what they call.

**Rules**
1. Reading errs on the side of more: a name that may refer to a rule counts as a reference to it.
2. A path is a tuple from the root document: ``("data", "agenttwin", "v1", "decide")``.
3. The trees are those of regorus (``get_ast_as_json``); nothing else knows their shape.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

Path = tuple[str, ...]
Node = dict[str, Any]


class Call(Struct, frozen=True):
    """A function call: the path as written (imports resolved) and its argument nodes."""

    path: Path
    arguments: tuple[Node, ...]
    line: int


class Rule(Struct, frozen=True, kw_only=True):
    """One definition of a rule. ``only_negations``: it has conditions and each is a ``not``.

    ``wide_negations``: lines of a ``not`` over more than a reference, or than plain local
    variables. ``open_head``: a variable stands in its name with more after it, as in ``p[x].q``.
    ``inputs``: what of the input it refers to, as far as that is known. ``node``: its tree;
    ``local``: the names it makes for itself; ``loose``: those of them of a plain ``some``.
    """

    path: Path
    file: str
    line: int
    is_default: bool
    is_function: bool
    calls: tuple[Call, ...]
    references: tuple[Path, ...]
    inputs: tuple[Path, ...]
    mocked: tuple[Path, ...]
    values: tuple[Node, ...]
    only_negations: bool
    wide_negations: tuple[int, ...]
    open_head: bool
    node: Node
    local: frozenset[str]
    loose: frozenset[str]


class Scope(Struct, frozen=True):
    """What names mean in a module: its text, its package, and what it imports by which name."""

    text: bytes
    package: Path
    imports: Mapping[str, Path]

    def resolve(self, path: Path) -> Path:
        """The path with its import, where it begins with one."""
        if path[0] in self.imports:
            return (*self.imports[path[0]], *path[1:])
        return path


class RegoModule(Struct, frozen=True, kw_only=True):
    """One module's rules, its package's path, and what its names mean."""

    file: str
    package: Path
    rules: tuple[Rule, ...]
    scope: Scope


def read_module(tree: Node) -> RegoModule:
    """A module of a tree as regorus gives it."""
    text, file = tree["source"]["contents"].encode(), tree["source"]["file"]
    package = ("data", *static_path(tree["ast"]["package"]["refr"]))
    scope = Scope(text, package, _imports(tree["ast"]["imports"], text))
    return RegoModule(
        file=file,
        package=package,
        rules=tuple(_rule(node, file, scope) for node in tree["ast"]["rules"]),
        scope=scope,
    )


def _imports(nodes: list[Node], text: bytes) -> dict[str, Path]:
    found = {}
    for node in nodes:
        path = static_path(node["refr"])
        if path[0] not in ("data", "input"):
            continue  # `rego.v1` and `future.keywords` give no name
        alias = node.get("as")
        found[_spanned(alias, text) if alias else path[-1]] = path
    return found


def _rule(node: Node, file: str, scope: Scope) -> Rule:
    kind, body = next(iter(node.items()))
    head = body if kind == "Default" else next(iter(body["head"].values()))
    local = frozenset(_declared(body, scope.text))
    tree = without_name(node)
    return Rule(
        path=(*scope.package, *static_path(head["refr"])),
        file=file,
        line=body["span"]["line"],
        is_default=kind == "Default",
        is_function=kind == "Spec" and "Func" in body["head"],
        calls=tuple(_calls(tree, scope)),
        references=tuple(_references(tree, scope, local)),
        inputs=tuple(_inputs(tree, scope)),
        mocked=tuple(_mocked(tree, scope)),
        values=tuple(_values(kind, body, head)),
        only_negations=kind == "Spec" and _only_negations(body["bodies"]),
        wide_negations=tuple(_wide_negations(tree, local)),
        open_head=len(static_path(head["refr"])) < path_length(head["refr"]) - 1,
        node=node,
        local=local,
        loose=frozenset(_loose(body, scope.text)),
    )


def without_name(node: Node) -> Any:
    """The tree of a rule but for its name."""
    kind, body = next(iter(node.items()))
    head = body if kind == "Default" else next(iter(body["head"].values()))
    parts = [value for key, value in head.items() if key != "refr"]
    index = head["refr"].get("RefBrack", {}).get("index")
    return [*parts, index, body.get("bodies") if kind == "Spec" else None]


def _values(kind: str, body: Node, head: Node) -> Iterator[Node]:
    if kind == "Default":
        yield body["value"]
        return
    for assigned in (head.get("assign"), *(each["assign"] for each in body["bodies"])):
        if assigned:
            yield assigned["value"]
    if head.get("key"):
        yield head["key"]


def _only_negations(bodies: list[Node]) -> bool:
    return any(
        statements and all("NotExpr" in each["literal"] for each in statements)
        for statements in (body["query"]["stmts"] for body in bodies)
    )


def walk(node: Any) -> Iterator[tuple[str, Node]]:
    """Every tagged node below: (tag, content)."""
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for key, value in item.items():
                if key[:1].isupper() and isinstance(value, dict):
                    yield key, value
                stack.append(value)
        elif isinstance(item, list):
            stack.extend(item)


def _calls(tree: Any, scope: Scope) -> Iterator[Call]:
    for tag, node in walk(tree):
        if tag == "Call":
            path = scope.resolve(static_path(node["fcn"]))
            yield Call(path, tuple(node["params"]), node["span"]["line"])


def _references(tree: Any, scope: Scope, local: frozenset[str]) -> Iterator[Path]:
    for reference in whole_references(tree):
        path = static_path(reference)
        if not path or path[0] == "input":
            continue
        resolved = scope.resolve(path)
        if resolved[0] == "data":
            yield resolved
        if path[0] != "data" and path[0] not in local:
            yield (*scope.package, *path)


def _inputs(tree: Any, scope: Scope) -> Iterator[Path]:
    for reference in whole_references(tree):
        path = static_path(reference)
        if path and scope.resolve(path)[0] == "input":
            yield scope.resolve(path)


def whole_references(tree: Any) -> Iterator[Node]:
    """References as written, not the shorter ones they are made of; those in an index count too."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
        if not isinstance(item, dict):
            continue
        tag = next((tag for tag in ("Var", "RefDot", "RefBrack") if tag in item), None)
        if tag is None:
            stack.extend(item.values())
            continue
        yield {tag: item[tag]}
        base = item
        while tag in ("RefDot", "RefBrack"):
            stack.append(base[tag].get("index"))
            base = base[tag]["refr"]
            tag = next(iter(base))
        if tag != "Var":
            stack.append(base)


def _wide_negations(tree: Any, local: frozenset[str]) -> Iterator[int]:
    for tag, node in walk(tree):
        if tag == "NotExpr" and not _is_narrow(node["expr"], local):
            yield node["span"]["line"]


def _is_narrow(expression: Node, local: frozenset[str]) -> bool:
    tag, node = next(iter(expression.items()))
    if tag in ("Var", "RefDot", "RefBrack"):
        inner = [each for each in whole_references(expression) if each != expression]
        return all(_is_plain(each, local) for each in inner)
    operands = [value for key, value in node.items() if key != "fcn"]
    return all(_is_plain(each, local) for each in whole_references(operands)) and not any(
        each == "Call" for each, _ in walk(operands)
    )


def _is_plain(reference: Node, local: frozenset[str]) -> bool:
    return reference.get("Var", {}).get("value") in local


def _mocked(tree: Any, scope: Scope) -> Iterator[Path]:
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for modifier in item.get("with_mods") or ():
                yield scope.resolve(static_path(modifier["refr"]))
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _declared(body: Any, text: bytes) -> Iterator[str]:
    """Names that a rule makes for itself: arguments, ``some``, ``:=``, ``every``."""
    for argument in _function_arguments(body):
        yield from _variables(argument)
    yield from _loose(body, text)
    for tag, node in walk(body):
        if tag == "AssignExpr":
            yield from _variables(node["lhs"])
        elif tag == "SomeIn":
            yield from _variables([node["key"], node["value"]])
        elif tag == "Every":
            yield from (_spanned(span, text) for span in _spans([node["key"], node["value"]]))


def _loose(body: Any, text: bytes) -> Iterator[str]:
    for tag, node in walk(body):
        if tag == "SomeVars":
            yield from (_spanned(span, text) for span in _spans(node["vars"]))


def _function_arguments(body: Node) -> list[Any]:
    return list(body.get("head", {}).get("Func", {}).get("args", ()))


def _variables(pattern: Any) -> Iterator[str]:
    """The names that a pattern makes: what it refers to within, as ``[input.x, y]``, it makes
    not."""
    stack = [pattern]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
        if not isinstance(item, dict):
            continue
        for tag, node in item.items():
            if tag == "Var":
                yield node["value"]
            elif tag in ("Array", "Object", "Set"):
                stack.extend(node.get("items") or node.get("fields") or ())


def _spans(nodes: list[Any]) -> Iterator[Node]:
    for node in nodes:
        span = node[0] if isinstance(node, list) else node
        if isinstance(span, dict) and "start" in span:
            yield span


def _spanned(span: Node, text: bytes) -> str:
    return text[span["start"] : span["end"]].decode()


def static_path(node: Node) -> Path:
    """The leading part of a reference that is known without evaluation."""
    tag, content = next(iter(node.items()))
    if tag == "Var":
        return (content["value"],)
    if tag == "RefDot":
        path, whole = _prefix(content["refr"])
        return (*path, content["field"][1]) if whole else path
    if tag == "RefBrack":
        path, whole = _prefix(content["refr"])
        index = content["index"].get("String")
        return (*path, index["value"]) if whole and index else path
    return ()


def _prefix(node: Node) -> tuple[Path, bool]:
    path = static_path(node)
    return path, len(path) == path_length(node)


def path_length(node: Node) -> int:
    """How many parts a reference has, known or not; 1 for what is none."""
    tag, content = next(iter(node.items()))
    return 1 + path_length(content["refr"]) if tag in ("RefDot", "RefBrack") else 1
