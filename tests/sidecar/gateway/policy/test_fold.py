"""A bundle folded with its data decides as it did, errors included, and evaluates less."""

import asyncio
import json

import pytest
import regorus
from msgspec.structs import replace

from sidecar.gateway.policy import driver
from sidecar.gateway.policy.bundle import ENTRYPOINTS, Module, make_bundle
from sidecar.gateway.policy.document import part
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.fold import Folded, fold
from sidecar.gateway.policy.rego import read_module
from sidecar.gateway.policy.worker import PolicyWorker

DATA = {"s": {"none": {}, "nobody": [], "some": {"a": {"b": "c"}}, "words": ["a"]}}
DOCUMENTS = (
    *({}, {"x": "a", "y": "b"}, {"x": "b", "n": []}, {"x": "a", "n": 5, "y": "c"}),
    *({"x": ["a"], "n": "text"}, {"n": {"a": 1}, "y": 7, "x": 1}, {"n": 5}),
)


def engine(bundle):
    made = regorus.Engine()
    for module in bundle.modules:
        made.add_policy(module.path, module.text)
    made.add_data_json(json.dumps(bundle.data))
    return made


def folded(bundle, entries=ENTRYPOINTS):
    trees = json.loads(engine(bundle).get_ast_as_json())
    return fold(bundle, [read_module(tree) for tree in trees], entries)


def said(engine, rule, document):
    """The engine's answer on a document, or its error."""
    engine.set_input_json(document)
    try:
        return json.loads(engine.eval_rule_as_json(rule))
    except RuntimeError as error:
        return str(error).partition("Stack backtrace")[0]


def small(text):
    """A bundle of one module whose question is ``data.a.asked``, and the same folded."""
    bundle = replace(make_bundle([Module("a.rego", f"package a\n\n{text}\n")], []), data=DATA)
    return bundle, folded(bundle, ["data.a.asked"]).bundle


INERT = {
    "a value that is not there": "r contains x if x := data.s.none[input.x]",
    "a path that is not there": "r contains 1 if data.s.other.more == input.x",
    "nothing to be one of": "r contains 1 if input.x in data.s.nobody",
    "nothing to go through": "r contains x if {\n some x in data.s.nobody\n x == input.y\n}",
    "a condition before what may fail": "r contains 1 if {\n input.x in data.s.nobody\n"
    " count(input.n) > 0\n}",
    "a condition that makes what may fail": "r contains x if {\n x := data.s.none[input.x]\n"
    " count(x) > 0\n}",
    "a rule that is not there": "q := data.s.none[input.x]\n\nr contains q",
    "a set that is empty": "q contains 1 if data.s.other\n\nr contains x if some x in q",
    "a function of what is not there": "q := data.s.other\n\nf(v) if v == 1\n\n"
    "r contains 1 if f(q)",
    "text of many bytes": '# Straße 日本 😀\nr contains "ß😀" if data.s.other # ö\n\nq := "é"',
    "all branches of a chain": "q := 1 if data.s.other else := data.s.none[input.x]\n\n"
    "r contains q",
}
KEPT = {
    "an error before it": "r contains 1 if {\n count(input.n) > 0\n input.x in data.s.nobody\n}",
    "an error that may come before it": "r contains x if {\n x := data.s.none[input.x]\n"
    " count(input.n) > 0\n}",
    "an error within it": "r contains x if x := data.s.none[count(input.n)]",
    "an error of a rule within it": "q := count(input.n)\n\nr contains x if x := data.s.none[q]",
    "going through what may be no list": "r contains x if {\n some k in input.n\n"
    " x := data.s.none[k]\n}",
    "two values that may differ": "q := 1 if input.x\n\nq := 2 if input.y\n\n"
    "r contains x if x := data.s.none[q]",
    "what is there": "r contains x if x := data.s.some[input.x]",
    "one of what is there": "r contains 1 if input.x in data.s.words",
    "a denial of what is not there": "r contains 1 if not data.s.none[input.x]",
    "a default": "default q := 7\n\nq := data.s.none[input.x]\n\nr contains q",
    "an error in a query with a name of its own": "r contains 1 if {\n"
    " count([1 | v := input.n; count(v) > 5]) >= 0\n v := data.s.none[input.y]\n}",
    "an error in a loop with a name of its own": "r contains 1 if {\n"
    " count([1 | some v in [input.n]; count(v) > 5]) >= 0\n some v in data.s.nobody\n}",
    "an error of a function that is asked whether it answers something": "f(v) := count(v)\n\n"
    "r contains 1 if f(input.x, data.s.other)",
    "an error of what begins with a name too": "q.a := count(input.n)\n\n"
    "r contains 1 if {\n not q.b\n data.s.other\n}",
    "what goes through nothing": "r contains q[_] if input.x\n\nr contains 1 if data.s.other\n\n"
    "q contains 1 if input.n",
    "a branch that says true": "q := data.s.other if input.y else if input.x\n\n"
    "q := 1 if input.z\n\nr contains q",
    "taking apart": "r contains x if [x, y] := data.s.none[input.x]",
    "an argument of that name": "f(data_s) := data_s\n\nr contains 1 if f(input.x) == 1",
}


@pytest.mark.parametrize("name", INERT)
def test_what_can_say_nothing_is_left_out(name):
    bundle, made = small(f"asked := union({{r, {{input.x}}}})\n\n{INERT[name]}")
    (module,) = made.modules
    assert "set()" in module.text and "r contains" not in module.text
    assert_same(bundle, made)


@pytest.mark.parametrize("name", KEPT)
def test_what_may_say_something_or_raise_an_error_is_kept(name):
    bundle, made = small(f"asked := union({{r, {{1}}}})\n\n{KEPT[name]}")
    (module,) = made.modules
    assert "r contains" in module.text and "set()" not in module.text
    assert_same(bundle, made)


WHOLE = {
    "with": "asked := 1 if q with data.s.none as 5\n\nq if data.s.none[input.x]",
    "a package as a document": "asked := data.a.b\n\nb contains 1 if data.s.other\n\n"
    "c := data[input.x]",
    "a rule under an imported name": "import input.x as q\n\nasked contains 1 if q == 5\n\n"
    "q := 5 if input.y",
    "a rule within another": "asked contains who\n\nwho := input.x\n\nwho.z := 1",
    "a package by equality": "asked if data.a = 5",
    "a variable in a name": "asked contains 1 if q.a.b\n\nq[x].b := 1 if x := data.s.none.a",
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_bundle_that_sees_rules_otherwise_than_by_name_is_left_as_it_is(name):
    bundle, made = small(WHOLE[name])
    assert made is bundle


def test_a_chain_begins_with_the_first_branch_that_may_say_something():
    text = 'asked := own if own.x else := data.s.some[input.x] if input.y else := "none"'
    bundle, made = small(f"{text}\n\nown := data.s.none[input.x]")
    assert "asked := data.s.some[input.x] if input.y else" in made.modules[0].text
    assert "own" not in made.modules[0].text
    assert_same(bundle, made)


def test_a_name_for_a_part_of_the_input_is_written_as_that_part():
    text = "asked contains who.y if who.x == 1\n\nasked contains who if {\n some who in [1]\n}"
    bundle, made = small(f"{text}\n\nwho := input")
    assert "asked contains input.y if input.x == 1" in made.modules[0].text
    assert "some who in [1]" in made.modules[0].text
    assert_same(bundle, made)


def test_an_error_names_the_place_where_it_was_written():
    text = "r contains 1 if {\n data.s.other\n}\n\nasked := count(input.n)"
    bundle, made = small(text)
    assert made.modules[0].text.splitlines()[6] == "asked := count(input.n)"
    assert_same(bundle, made)


@pytest.mark.parametrize("name", ["rego.v1", "future.keywords"])
def test_what_is_imported_for_the_language_has_no_name(name):
    own = name.rpartition(".")[2]
    text = f'import {name}\n\nasked contains 1 if {own} == "a"\n\n{own} := input.x if input.y'
    assert_same(*small(text))


def test_all_rules_that_begin_with_a_name_are_kept_together():
    bundle, made = small("asked := [1 | not q.b]\n\nq.a := count(input.n)")
    assert "q.a" in made.modules[0].text
    assert_same(bundle, made)


MEMBERS = {
    "those that are equated": (
        'asked contains y if {\n input.x = "a"\n input.n = y\n}',
        {"x", "n"},
    ),
    "those of an imported name that is equated": (
        'import input.x as n\n\nasked if n = "a"',
        {"x"},
    ),
    "those in what is taken apart": (
        'asked contains v if {\n some [input.x, {"v": v}] in [["a", {"v": 1}]]\n'
        ' {"a": input.n, "b": w} = {"a": 5, "b": v}\n w == v\n}',
        {"x", "n"},
    ),
    "all, where a name hides it elsewhere in the rule": (
        "asked contains 1 if {\n input.x\n count([1 | some input in [1]]) == 1\n}",
        None,
    ),
    "none": ("asked := 1", set()),
    "those of what is kept": ("asked := input.x.z\n\nother := [input.y]", {"x"}),
    "those of names written as a part of it": (
        "asked contains 1 if who\n\nasked contains input.n if {\n count(input.x) > 0\n}\n\n"
        "who := input.y.z",
        {"n", "x", "y"},
    ),
    "those within a function and by an index": (
        'asked := f(1)\n\nf(v) := input.x[v][input.y]\n\ng := input["n"]',
        {"x", "y"},
    ),
    "any, where it is computed": ("asked := input[data.s.words[0]]", None),
    "any, where the whole is looked at": ("asked := object.get(input, data.s.words, 1)", None),
    "any, where the whole has another name": ("asked := who.x\n\nwho := input", None),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_a_folded_bundle_says_which_members_of_a_document_it_reads(name):
    text, members = MEMBERS[name]
    bundle = replace(make_bundle([Module("a.rego", f"package a\n\n{text}\n")], []), data=DATA)
    made = folded(bundle, ["data.a.asked"])
    assert made.members == members
    before, after = engine(bundle), engine(made.bundle)
    for document in DOCUMENTS:
        read = json.dumps(part(document, made.members))
        whole = said(before, "data.a.asked", json.dumps(document))
        assert whole == said(after, "data.a.asked", read)


def assert_same(bundle, made):
    before, after = engine(bundle), engine(made)
    for document in map(json.dumps, DOCUMENTS):
        assert said(before, "data.a.asked", document) == said(after, "data.a.asked", document)


def test_the_default_bundle_folds_to_what_is_in_use():
    bundle = load_bundle()
    found = folded(bundle)
    made = found.bundle
    assert found.members == {"action", "context", "resource"}
    assert made.revision == bundle.revision and made.data == bundle.data
    left = {module.path for module in bundle.modules} - {module.path for module in made.modules}
    assert left == {
        f"{name}/{name}.rego"
        for name in ("approvals", "arguments", "hours", "isolation", "limits", "trust")
    }


@pytest.mark.parametrize("instead", ["", "no rego,"])
def test_a_fold_that_decides_otherwise_or_cannot_be_read_is_not_used(monkeypatch, capsys, instead):
    def wrong(bundle, _modules):
        (first, *rest) = bundle.modules
        at = next(number for number, each in enumerate(rest) if each.path == "decide.rego")
        text = rest[at].text.replace("data.agenttwin.tool_calls.deny,", instead)
        rest[at] = Module("decide.rego", text)
        return Folded(replace(bundle, modules=(first, *rest)), frozenset())

    monkeypatch.setattr(driver, "fold", wrong)
    inspected = asyncio.run(inspect(load_bundle()))
    assert inspected.findings == () and inspected.folded is inspected.bundle
    assert inspected.members is None
    assert "folded it decided otherwise" in capsys.readouterr().err


def test_a_fold_that_says_too_few_members_is_not_used(monkeypatch):
    def wrong(bundle, modules):
        found = fold(bundle, modules)
        return Folded(found.bundle, found.members - {"action"})

    monkeypatch.setattr(driver, "fold", wrong)
    inspected = asyncio.run(inspect(load_bundle()))
    assert inspected.findings == () and inspected.folded is inspected.bundle
    assert inspected.members is None


async def inspect(bundle):
    inspected = await driver.inspect(bundle)
    inspected.child.kill()
    await inspected.child.ended()
    return inspected


def test_the_worker_evaluates_the_bundle_folded_under_its_own_revision():
    bundle = load_bundle()
    held, revision = asyncio.run(started(bundle))
    assert revision == bundle.revision and len(held.modules) < len(bundle.modules)


def test_only_rules_that_ship_are_folded_unless_it_is_asked_for():
    shipped = load_bundle()
    own = Module("own.rego", "package own\n\nimport rego.v1\n\nnever if data.nothing.at.all\n")
    other_data = replace(shipped, data={**shipped.data, "own": {"limit": 1}})
    with_own = replace(shipped, modules=(*shipped.modules, own))
    changed = (replace(shipped.modules[0], text=shipped.modules[0].text + "\n"),)
    with_changed = replace(shipped, modules=(*changed, *shipped.modules[1:]))

    def folded(bundle, **asked):
        held, _ = asyncio.run(started(bundle, **asked))
        return len(held.modules) < len(bundle.modules)

    turned = replace(shipped, modules=shipped.modules[::-1])
    assert folded(shipped) and folded(other_data) and folded(turned)
    assert not folded(with_own) and not folded(with_changed)
    assert folded(with_own, folds="always") and not folded(shipped, folds="never")


async def started(bundle, **asked):
    worker = PolicyWorker(bundle, **asked)
    await worker.start()
    await worker.stop()
    return worker._bundle, worker.revision
