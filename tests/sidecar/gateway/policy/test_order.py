"""The order of a bundle's modules decides nothing: what cannot be made safe is refused at load."""

import asyncio
import itertools
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from built_tools import program

from sidecar.errors import SidecarError
from sidecar.gateway.policy import driver
from sidecar.gateway.policy.bundle import Bundle, Module
from sidecar.gateway.policy.client import Child
from sidecar.gateway.policy.driver import check_bundle, inspect
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.worker import PolicyWorker

POLICIES = Path(__file__).parents[4] / "policies"
LIMITS = """package agenttwin.mine

deny contains {"code": "never", "message": "m", "rule": "r"} if {
	input.resource.id == "no_such_tool"
}
"""
FROZEN = """package agenttwin.mine

deny contains {"code": "frozen", "message": "m", "rule": "r"} if {
	frozen
}

frozen if input.resource.id == "refund"
"""
ENTRY = """package agenttwin.v1

import data.agenttwin.mine

decide := {"effect": "deny", "reasons": [reason | some reason in mine.deny]} if count(mine.deny) > 0

decide := {"effect": "allow", "reasons": [{"code": "fine"}]} if count(mine.deny) == 0

list := decide
"""


def bundle(**texts):
    modules = tuple(Module(f"{name}.rego", text) for name, text in texts.items())
    return Bundle(modules=modules, data={}, revision="r")


def codes(given):
    return {finding.code for finding in asyncio.run(check_bundle(given))}


def joined(folder, files):
    """The default bundle, with a package of two files joined to its denials."""
    shutil.copytree(POLICIES, folder)
    decide = (folder / "decide.rego").read_text()
    decide = decide.replace(
        "import data.agenttwin.lib", "import data.agenttwin.mine\nimport data.agenttwin.lib"
    )
    decide = decide.replace("deny := ", "deny := mine.deny | ")
    (folder / "decide.rego").write_text(decide)
    (folder / "mine").mkdir()
    for name, text in files.items():
        (folder / "mine" / name).write_text(text)
    return folder


@pytest.mark.requirement("GW-03")
@pytest.mark.parametrize("names", [("a_limits", "frozen"), ("z_limits", "frozen")])
def test_a_package_in_two_files_is_refused_whatever_they_are_called(tmp_path, names):
    files = dict(zip((f"{name}.rego" for name in names), (LIMITS, FROZEN), strict=True))
    folder = joined(tmp_path / "bundle", files)

    async def start():
        worker = PolicyWorker(load_bundle(folder))
        try:
            await worker.start()
        finally:
            await worker.stop()

    with pytest.raises(SidecarError, match=r"spread: package agenttwin\.mine is in"):
        asyncio.run(start())


@pytest.mark.requirement("GW-03")
def test_the_same_rules_in_one_file_deny(tmp_path):
    text = LIMITS + FROZEN.partition("\n")[2]
    folder = joined(tmp_path / "bundle", {"mine.rego": text})

    async def decide():
        worker = PolicyWorker(load_bundle(folder))
        await worker.start()
        resource = {"id": "refund", "properties": {"registered_class": "read"}}
        try:
            return await worker.decide({"resource": resource, "action": {"properties": {}}})
        finally:
            await worker.stop()

    answer = asyncio.run(decide())
    assert (answer.effect, [reason.code for reason in answer.reasons]) == ("deny", ["frozen"])


@pytest.mark.parametrize(
    "texts",
    [
        {"a": LIMITS, "b": FROZEN},
        {"a": "package agenttwin.mine\n\nother := 1\n", "b": FROZEN},
        {"a": "package agenttwin\n\nmine.note := 1\n", "b": FROZEN},
        {"a": FROZEN, "b": "package agenttwin.mine.deny\n\nx := 1\n"},
    ],
)
def test_what_two_modules_define_is_found(texts):
    assert "spread" in codes(bundle(entry=ENTRY, **texts))


def test_a_package_below_another_is_no_finding():
    nested = "package agenttwin.mine.words\n\nall := {1}\n"
    assert codes(bundle(entry=ENTRY, a=FROZEN, b=nested)) == set()


def test_modules_are_loaded_after_what_they_refer_to():
    given = bundle(
        a=ENTRY,
        b=FROZEN.replace('input.resource.id == "refund"', "data.agenttwin.facts.cold"),
        z='package agenttwin.facts\n\ncold if input.resource.id == "refund"\n',
    )

    async def order():
        inspected = await inspect(given)
        inspected.child.kill()
        await inspected.child.ended()
        return [module.path for module in inspected.bundle.modules], inspected.findings

    assert asyncio.run(order()) == (["z.rego", "b.rego", "a.rego"], ())


@pytest.mark.requirement("GW-03")
def test_a_bundle_that_decides_by_its_order_is_refused_even_where_the_linter_is_blind(monkeypatch):
    monkeypatch.setattr(driver, "lint", lambda modules: ())
    found = asyncio.run(check_bundle(bundle(entry=ENTRY, a=LIMITS, b=FROZEN)))
    assert [finding.code for finding in found] == ["order"]
    assert "refund" in found[0].text


BODIES = (
    "{name} if count([1]) == 1",
    "{name} if {other}",
    "{name} if not {other}",
    "{name} contains 1 if {other}",
    "{name} := 1 if {other}",
    "{name} contains 2 if not {other}",
    "{name} if input.c == 2",
)


def written(dice):
    """Packages of one module each; a rule refers to rules of a higher number, in any package."""
    places = [(f"p{dice.randrange(4)}", f"r{number}") for number in range(9)]
    lines = {}
    for number, (package, name) in enumerate(places):
        later = places[number + 1 :]
        kind = dice.choice(BODIES if later else (BODIES[0], BODIES[6]))
        for _ in range(dice.randint(1, 2) if "contains" in kind else 1):
            other = dice.choice(later) if later else ("", "")
            reference = other[1] if other[0] == package else f"data.{other[0]}.{other[1]}"
            lines.setdefault(package, []).append(kind.format(name=name, other=reference))
    for rules in lines.values():
        dice.shuffle(rules)
    top = [f'd contains "{name}" if data.{package}.{name}' for package, name in places[:6]]
    texts = {name: "\n\n".join([f"package {name}", *rules]) for name, rules in lines.items()}
    return {**texts, "v": "\n\n".join(["package v", *top])}


@pytest.mark.requirement("GW-03")
@pytest.mark.parametrize("seed", range(24))
def test_one_module_a_package_decides_as_opa_does_in_every_order(tmp_path, seed):
    texts = written(random.Random(seed))
    for name, text in texts.items():
        (tmp_path / f"{name}.rego").write_text(text)
    done = subprocess.run(
        [program("opa"), "eval", "--data", str(tmp_path), "--format", "json", "data.v.d"],
        capture_output=True,
        check=True,
    )
    theirs = json.loads(done.stdout)["result"][0]["expressions"][0]["value"]

    async def ours():
        child = await Child.start()
        answers = set()
        try:
            for order in itertools.permutations(texts):
                await child.load(bundle(**{name: texts[name] for name in order}), warm=False)
                answers.add(tuple(sorted(json.loads(await child.evaluate("data.v.d")))))
        finally:
            child.kill()
            await child.ended()
        return answers

    assert asyncio.run(ours()) == {tuple(sorted(theirs))}
