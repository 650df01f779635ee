"""A bundle looked at outside of serving: linted, and its own tests run, each in a child.

**Rules**
1. A bundle is parsed in a child, so that a hostile or broken one cannot take the caller with it.
2. A test is a rule ``test_…`` of any module; it passes where it is true, and fails where it is
   anything else, undefined and error included. Linting leaves test modules out: they may mock with
   ``with``.
"""

import asyncio
from typing import Literal

from msgspec import Struct

from sidecar.errors import SidecarError
from sidecar.gateway.policy.bundle import Bundle
from sidecar.gateway.policy.client import Child, ChildFailed
from sidecar.gateway.policy.lint import Finding, lint
from sidecar.gateway.policy.rego import RegoModule, read_module

TEST_SECONDS = 5.0
TEST_SUFFIX = "_test.rego"


class RuleTest(Struct, frozen=True, kw_only=True):
    """One test rule's result; ``detail`` says what it was instead of true."""

    name: str
    file: str
    status: Literal["pass", "fail", "error"]
    detail: str = ""


async def inspect(bundle: Bundle) -> tuple[Child, tuple[Finding, ...]]:
    """A child with the bundle loaded, and the bundle's lint findings. Raises SidecarError."""
    try:
        child = await Child.start()
    except ChildFailed as error:
        raise unusable(str(error)) from error
    try:
        await child.load(bundle, warm=False)
        return child, lint([m for m in await _modules(child) if not m.file.endswith(TEST_SUFFIX)])
    except BaseException as error:
        await _end(child)
        if isinstance(error, ChildFailed):
            raise unusable(str(error)) from error
        raise


async def check_bundle(bundle: Bundle) -> tuple[Finding, ...]:
    """What is wrong with a bundle that parses. Raises SidecarError where it does not."""
    child, findings = await inspect(bundle)
    await _end(child)
    return findings


async def run_tests(bundle: Bundle) -> tuple[RuleTest, ...]:
    """The results of all test rules, in order. Raises SidecarError where they do not parse."""
    child, _ = await inspect(bundle)
    results: list[RuleTest] = []
    try:
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
