"""What a policy may not contain, found at load: whatever could make two engines differ, or never
end.

**Rules**
1. Built-ins are an allow-list: pure, portable between OPA and the embedded engine, without clock,
   network, dice or environment. An unknown function is a finding, since engines differ on what it
   then yields.
2. No recursion, no ``with`` on anything but ``input`` and ``data.…`` documents that are not rules.
3. A regular expression is a literal, within RE2 and below a size; so are arguments of a few
   built-ins that engines read differently where they are odd.
4. Safety is never the absence of a deny: no default that allows, no allow whose every condition is
   a ``not``.
5. `not` stands over a reference, or over local variables: engines differ on `not f(x)` and `not x
   in y` where `x` is undefined (OPA has no answer then, the embedded engine says true). Name a
   helper rule.
6. One package is one module: the embedded engine loses rules of one that is spread (``order``).
7. No variable in the midst of a rule's name: the embedded engine loses what another rule adds to
   `p[x].q`.
8. A plain ``some x`` has the name of no rule of its package: the embedded engine looks for the
   rule's value in ``y[x]``, where OPA goes through ``y``.
9. Both entry points exist: ``data.agenttwin.v1.decide`` and ``data.agenttwin.v1.list``.
"""

from collections.abc import Iterator, Mapping, Sequence

import re2
from msgspec import Struct

from sidecar.gateway.policy.bundle import ENTRYPOINTS
from sidecar.gateway.policy.order import spread
from sidecar.gateway.policy.rego import Call, Path, RegoModule, Rule, walk

PATTERN_CHARS_MAX = 500

BUILTINS = frozenset(
    {
        *("count", "sum", "product", "max", "min", "sort", "abs", "ceil", "floor", "round"),
        *("numbers.range", "to_number", "format_int"),
        *("array.concat", "array.reverse", "array.slice"),
        *("object.get", "object.keys", "object.remove", "object.union", "object.union_n"),
        *("object.filter",),
        *("union", "intersection"),
        *("contains", "startswith", "endswith", "substring", "concat"),
        *("trim", "trim_left", "trim_right", "trim_prefix", "trim_suffix", "trim_space"),
        *("split", "replace", "sprintf", "strings.any_prefix_match", "strings.any_suffix_match"),
        *("strings.reverse", "glob.match"),
        *("regex.match", "regex.replace", "regex.split", "regex.find_n"),
        *("is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string"),
        *("type_name", "json.is_valid", "json.filter", "json.remove"),
        *("base64.decode", "base64.encode", "base64.is_valid", "hex.decode", "hex.encode"),
        *("semver.compare", "semver.is_valid", "net.cidr_contains"),
        *("time.clock", "time.date", "time.weekday", "time.parse_rfc3339_ns"),
        *("time.parse_duration_ns", "time.add_date"),
    }
)
_PATTERN_ARGUMENT = {"regex.match": 0, "regex.split": 0, "regex.find_n": 0, "regex.replace": 1}
# Arguments that must be written out, since engines part where they are odd: (position, what it is).
_WRITTEN_OUT = {
    "substring": ((1, "number"), (2, "number")),
    "regex.find_n": ((2, "number"),),
    "replace": ((1, "text"),),
}
_INSTEAD = dict.fromkeys(("lower", "upper"), "; match on input.normalized")
_ALLOWING = frozenset({"allow", "allow_with_limits"})


class Finding(Struct, frozen=True):
    """One thing wrong with a policy."""

    file: str
    line: int
    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.code}: {self.text}"


def lint(modules: Sequence[RegoModule]) -> tuple[Finding, ...]:
    """Everything wrong with the modules of a bundle, in order of file and line."""
    rules = [rule for module in modules for rule in module.rules]
    paths = {rule.path for rule in rules}
    packages = {module.file: module.package for module in modules}
    names = {
        module.file: {rule.path[len(module.package)] for rule in module.rules} for module in modules
    }
    found = [
        finding
        for rule in rules
        for finding in (
            *_call_findings(rule, packages[rule.file], paths),
            *_mock_findings(rule, paths),
            *_allow_findings(rule),
            *_negation_findings(rule),
            *_head_findings(rule),
            *_shadow_findings(rule, names[rule.file]),
        )
    ]
    found += _recursion_findings(rules)
    found += _entry_findings(modules, paths)
    found += [Finding(file, line, "spread", text) for file, line, text in spread(modules)]
    return tuple(sorted(set(found), key=lambda each: (each.file, each.line, each.text)))


def _call_findings(rule: Rule, package: Path, paths: set[Path]) -> Iterator[Finding]:
    for call in rule.calls:
        name = ".".join(call.path)
        if call.path in paths or (*package, *call.path) in paths:
            continue
        if name not in BUILTINS:
            yield Finding(
                rule.file,
                call.line,
                "function",
                f"{name} is neither defined nor a portable built-in{_INSTEAD.get(name, '')}",
            )
            continue
        for position, what in _WRITTEN_OUT.get(name, ()):
            if not _is_written_out(call, position, what):
                text = f"{name}: argument {position + 1} must be a written-out {what}"
                yield Finding(rule.file, call.line, "argument", text)
        if name in _PATTERN_ARGUMENT:
            why = _pattern_fault(call, _PATTERN_ARGUMENT[name])
            if why:
                yield Finding(rule.file, call.line, "pattern", f"{name}: {why}")


def _is_written_out(call: Call, position: int, what: str) -> bool:
    node = call.arguments[position] if position < len(call.arguments) else {}
    if what == "number":
        return "Number" in node or "Number" in node.get("UnaryExpr", {}).get("expr", {})
    literal = node.get("String") or node.get("RawString")
    return bool(literal and literal["value"])


def _pattern_fault(call: Call, position: int) -> str | None:
    node = call.arguments[position] if position < len(call.arguments) else {}
    literal = node.get("String") or node.get("RawString")
    if literal is None:
        return "the pattern must be written out, not computed"
    pattern = literal["value"]
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"the pattern is longer than {PATTERN_CHARS_MAX} characters"
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error:
        return "the pattern is not RE2"
    return None


def _mock_findings(rule: Rule, paths: set[Path]) -> Iterator[Finding]:
    for path in rule.mocked:
        is_rule = any(path[: len(other)] == other or other[: len(path)] == path for other in paths)
        if path[0] not in ("input", "data") or is_rule:
            yield Finding(
                rule.file,
                rule.line,
                "with",
                f"`with {'.'.join(path)}` replaces a function or a rule",
            )


def _allow_findings(rule: Rule) -> Iterator[Finding]:
    allows = any(_allows(value) for value in rule.values)
    if rule.is_default and (allows or _is_true_allow(rule)):
        yield Finding(rule.file, rule.line, "default_allow", "a default that allows")
    elif (allows or rule.path[-1] in _ALLOWING) and rule.only_negations:
        yield Finding(
            rule.file, rule.line, "allow_by_absence", "an allow whose every condition is a `not`"
        )


def _negation_findings(rule: Rule) -> Iterator[Finding]:
    for line in rule.wide_negations:
        yield Finding(
            rule.file, line, "negation", "`not` over a call or comparison of what may be undefined"
        )


def _head_findings(rule: Rule) -> Iterator[Finding]:
    if rule.open_head:
        name = ".".join(rule.path[1:])
        text = f"a variable in the midst of the name {name}[…]: nest objects in its value instead"
        yield Finding(rule.file, rule.line, "head", text)


def _shadow_findings(rule: Rule, names: set[str]) -> Iterator[Finding]:
    for name in sorted(rule.loose & names):
        text = f"`some {name}` has the name of a rule of its package: name it otherwise"
        yield Finding(rule.file, rule.line, "shadow", text)


def _allows(value: Mapping[str, object]) -> bool:
    return any(tag == "String" and node["value"] in _ALLOWING for tag, node in walk(value))


def _is_true_allow(rule: Rule) -> bool:
    word = rule.path[-1]
    return ("allow" in word or word == "list") and any(
        value.get("Bool", {}).get("value") is True for value in rule.values
    )


def _recursion_findings(rules: Sequence[Rule]) -> list[Finding]:
    paths = sorted({rule.path for rule in rules})
    edges: dict[Path, set[Path]] = {path: set() for path in paths}
    for rule in rules:
        for reference in rule.references:
            edges[rule.path].update(path for path in paths if _overlap(path, reference))
    looping = {path for path in paths if _reaches(path, path, edges)}
    return [
        Finding(rule.file, rule.line, "recursion", f"{'.'.join(rule.path)} depends on itself")
        for rule in rules
        if rule.path in looping
    ]


def _overlap(path: Path, reference: Path) -> bool:
    shorter = min(len(path), len(reference))
    return path[:shorter] == reference[:shorter]


def _reaches(start: Path, goal: Path, edges: Mapping[Path, set[Path]]) -> bool:
    seen: set[Path] = set()
    stack = list(edges[start])
    while stack:
        path = stack.pop()
        if path == goal:
            return True
        if path not in seen:
            seen.add(path)
            stack.extend(edges[path])
    return False


def _entry_findings(modules: Sequence[RegoModule], paths: set[Path]) -> list[Finding]:
    return [
        Finding(modules[0].file if modules else "-", 1, "entrypoint", f"{name} is not defined")
        for name in ENTRYPOINTS
        if tuple(name.split(".")) not in paths
    ]
