"""In which order an engine gets the modules of a bundle, and which modules have no safe order.

**Rules**
1. Dependencies come first: a module is loaded after every module whose rules it refers to.
2. One package is one module. The embedded engine loses rules of a package that is spread over
   several: which ones depends on the order, and a lost `deny` is an open gate.
3. A rule stays within its own package: a path that two modules define has no safe order either.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations

from sidecar.gateway.policy.rego import Path, RegoModule

# With so few modules every order is tried; with more, those that differ most.
_ALL_ORDERS_MAX = 3


def dependency_order(modules: Sequence[RegoModule]) -> tuple[str, ...]:
    """The modules' files, what is referred to before what refers to it; else by file name."""
    waiting = {module.file: _needs(module, modules) for module in modules}
    ordered: list[str] = []
    while waiting:
        free = sorted(file for file, needs in waiting.items() if not needs & waiting.keys())
        # Modules that need each other: their rules do not (recursion is a finding), so any is good.
        ordered += free or [min(waiting)]
        for file in ordered:
            waiting.pop(file, None)
    return tuple(ordered)


def other_orders(ordered: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Orders in which the decisions must be the same as in ``ordered``."""
    if len(ordered) <= _ALL_ORDERS_MAX:
        made = list(permutations(ordered))
    else:
        by_name = sorted(ordered)
        made = [tuple(reversed(ordered)), tuple(by_name), tuple(reversed(by_name))]
    return tuple(sorted(set(made) - {tuple(ordered)}))


def spread(modules: Sequence[RegoModule]) -> Iterator[tuple[str, int, str]]:
    """Each package or rule that more than one module defines: (file, line, what is wrong)."""
    first: dict[Path, str] = {}
    for module in sorted(modules, key=lambda each: each.file):
        other = first.setdefault(module.package, module.file)
        if other != module.file:
            name = ".".join(module.package[1:])
            yield module.file, 1, f"package {name} is in {other} too; write it in one file"
    for module in modules:
        for rule in module.rules:
            for package, other in first.items():
                if _reaches_into(rule.path, module.package, package):
                    name, owner = ".".join(rule.path[1:]), ".".join(package[1:])
                    text = f"rule {name} reaches into package {owner} of {other}"
                    yield module.file, rule.line, text


def _needs(module: RegoModule, modules: Sequence[RegoModule]) -> set[str]:
    references = {path for rule in module.rules for path in rule.references}
    references |= {call.path for rule in module.rules for call in rule.calls}
    return {
        other.file
        for other in modules
        if other.file != module.file
        and any(_overlap(reference, other.package) for reference in references)
    }


def _reaches_into(rule: Path, own: Path, package: Path) -> bool:
    return len(package) > len(own) and _overlap(rule, package)


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
