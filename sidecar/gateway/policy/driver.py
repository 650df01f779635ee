"""A bundle looked at outside of serving: linted, and its own tests run, each in a child.

**Rules**
1. A bundle is parsed in a child, so that a hostile or broken one cannot take the caller with it.
2. A test is a rule ``test_…`` of any module; it passes where it is true, and fails where it is
   anything else, undefined and error included. Linting leaves test modules out: they may mock with
   ``with``.
3. The engine gets modules in the order of their dependencies, tests last. A bundle that decides
   otherwise in another order, on documents made of its own words, is refused.
4. A bundle that decides otherwise once folded, on the members of those documents that it would be
   given, is not folded. Nor is one with rules of somebody's own, unless that is asked for: the
   rules that ship are tested folded beside OPA, and a fold saves time only.
"""

import asyncio
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from sidecar.errors import SidecarError
from sidecar.gateway.policy.bundle import Bundle, Module
from sidecar.gateway.policy.client import Child, ChildFailed
from sidecar.gateway.policy.contents import TEST_SUFFIX
from sidecar.gateway.policy.facts import Fact, read_facts
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.fold import Folded, fold
from sidecar.gateway.policy.lint import Finding, lint
from sidecar.gateway.policy.order import dependency_order, other_orders
from sidecar.gateway.policy.probe import probes, words
from sidecar.gateway.policy.rego import RegoModule, read_module
from sidecar.gateway.policy.sayings import Saying, sayings
from sidecar.telemetry import log

TEST_SECONDS = 5.0
_LOG = log("policy")
_BESIDE = "folded/"
Probes = Sequence[tuple[int, bytes]]
Folds = Literal["shipped", "always", "never"]


class RuleTest(Struct, frozen=True, kw_only=True):
    """One test rule's result; ``detail`` says what it was instead of true."""

    name: str
    file: str
    status: Literal["pass", "fail", "error"]
    detail: str = ""


class Inspected(Struct, frozen=True):
    """A child that has parsed the bundle, the bundle in its order, what is wrong with it, and which
    facts it reads. ``folded``: what decides the same and is evaluated sooner, on the ``members`` of
    a document, None for all."""

    child: Child
    bundle: Bundle
    findings: tuple[Finding, ...]
    reads: frozenset[Fact]
    folded: Bundle
    members: frozenset[str] | None = None


async def inspect(bundle: Bundle, folds: Folds = "shipped") -> Inspected:
    """Parse, order and lint a bundle, and try it in other orders, and folded where ``folds`` has
    it so. Raises SidecarError.
    """
    try:
        child = await Child.start()
    except ChildFailed as error:
        raise unusable(str(error)) from error
    try:
        await child.load(bundle, warm=False)
        trees = [tree for tree in await child.trees() if not _is_test(tree["source"]["file"])]
        modules = [read_module(tree) for tree in trees]
        ordered = _in_order(bundle, modules)
        findings, folded = lint(modules), Folded(ordered)
        if not findings:
            documents = probes(words(trees, bundle.data))
            if _is_folded(bundle, folds):
                folded = fold(ordered, modules)
            findings, folded = await _tried(child, ordered, folded, documents)
        reads = read_facts(modules)
        return Inspected(child, ordered, findings, reads, folded.bundle, folded.members)
    except BaseException as error:
        await _end(child)
        if isinstance(error, ChildFailed):
            raise unusable(str(error)) from error
        raise


async def check_bundle(bundle: Bundle) -> tuple[Finding, ...]:
    """What is wrong with a bundle that parses. Raises SidecarError where it does not."""
    inspected = await inspect(bundle)
    await _end(inspected.child)
    return inspected.findings


async def sayings_of(bundle: Bundle) -> tuple[Saying, ...]:
    """What decisions of a bundle may give as reasons. Raises SidecarError where it does not parse
    or may not decide."""
    return sayings(await rules_of(bundle), bundle.data)


async def rules_of(bundle: Bundle) -> list[RegoModule]:
    """The modules of a bundle, read, without tests. Raises SidecarError as ``sayings_of``."""
    inspected = await inspect(bundle)
    try:
        if inspected.findings:
            raise unusable(inspected.findings[0].text)
        return [each for each in await _modules(inspected.child) if not _is_test(each.file)]
    finally:
        await _end(inspected.child)


async def run_tests(bundle: Bundle) -> tuple[RuleTest, ...]:
    """The results of all test rules, in order. Raises SidecarError where they do not parse."""
    inspected = await inspect(bundle)
    child, bundle = inspected.child, inspected.bundle
    results: list[RuleTest] = []
    try:
        await child.load(bundle, warm=False)
        names = {
            (rule.file, ".".join(rule.path))
            for module in await _modules(child)
            for rule in module.rules
            if rule.path[-1].startswith("test_")
        }
        for file, name in sorted(names):
            if child.lost:  # the test before took the engine with it
                child = await _restart(child, bundle)
            results.append(await _run_test(child, file, name))
    finally:
        await _end(child)
    return tuple(results)


def unusable(why: str) -> SidecarError:
    """The error where a bundle cannot decide."""
    return SidecarError(
        f"the policy bundle cannot be used: {why}",
        where="policy.bundle",
        do="Correct the policy; `sidecar policy check DIR` shows the same.",
    )


def _is_folded(bundle: Bundle, folds: Folds) -> bool:
    if folds != "shipped":
        return folds == "always"
    own = [module for module in bundle.modules if not _is_test(module.path)]
    return sorted(own, key=_path) == sorted(load_bundle().modules, key=_path)


def _path(module: Module) -> str:
    return module.path


def _is_test(file: str) -> bool:
    return file.endswith(TEST_SUFFIX)


def _in_order(bundle: Bundle, modules: Sequence[RegoModule]) -> Bundle:
    places = {file: place for place, file in enumerate(dependency_order(modules))}
    last = len(places)
    ordered = sorted(bundle.modules, key=lambda each: (places.get(each.path, last), each.path))
    return replace(bundle, modules=tuple(ordered))


async def _tried(
    child: Child, bundle: Bundle, folded: Folded, documents: Probes
) -> tuple[tuple[Finding, ...], Folded]:
    """What is wrong with the order of the modules, and which of both bundles may decide."""
    ordered = [module.path for module in bundle.modules if not _is_test(module.path)]
    orders = [ordered, *other_orders(ordered)]
    why = None
    if folded.bundle is not bundle:
        why = await _differs_beside(child, bundle, folded, orders, documents)
        if why is None:
            return (), folded
    found = await child.differing(bundle, orders, documents) if len(orders) > 1 else None
    if found is not None:
        text = f"decisions differ with the order of the files, as on {found[:300]}"
        return (Finding(ordered[0], 1, "order", text),), Folded(bundle)
    if why is not None:
        _LOG.error("policy decides as it is: folded it decided otherwise", document=why[:300])
    return (), Folded(bundle)


async def _differs_beside(
    child: Child,
    bundle: Bundle,
    folded: Folded,
    orders: Sequence[Sequence[str]],
    documents: Probes,
) -> str | None:
    """What a folded bundle, or the bundle in one of its orders, decides otherwise on."""
    renamed = [replace(module, path=f"{_BESIDE}{module.path}") for module in folded.bundle.modules]
    both = replace(bundle, modules=(*bundle.modules, *renamed))
    beside = [module.path for module in renamed]
    try:
        return await child.differing(both, [*orders, beside], documents, folded.members)
    except ChildFailed as error:  # the engine cannot read it: the bundle itself it could
        if child.lost:
            raise
        return str(error)


async def _modules(child: Child) -> list[RegoModule]:
    return [read_module(tree) for tree in await child.trees()]


async def _run_test(child: Child, file: str, name: str) -> RuleTest:
    try:
        async with asyncio.timeout(TEST_SECONDS):
            value = await child.evaluate(name)
    except ChildFailed as error:
        return RuleTest(name=name, file=file, status="error", detail=str(error))
    except TimeoutError:
        child.kill()
        return RuleTest(name=name, file=file, status="error", detail=f"ran over {TEST_SECONDS} s")
    if value == b"true":
        return RuleTest(name=name, file=file, status="pass")
    detail = f"it is {value.decode('utf-8', 'replace')[:200]}"
    return RuleTest(name=name, file=file, status="fail", detail=detail)


async def _restart(child: Child, bundle: Bundle) -> Child:
    await _end(child)
    fresh = await Child.start()
    await fresh.load(bundle, warm=False)
    return fresh


async def _end(child: Child) -> None:
    child.kill()
    await child.ended()
