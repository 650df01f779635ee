"""Bundles made at random decide the same folded: each rule asked, on documents of odd values."""

import json
import random

import pytest
import regorus
from msgspec.structs import replace

from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.document import part
from sidecar.gateway.policy.fold import fold
from sidecar.gateway.policy.rego import read_module

DATA = {"s": {"none": {}, "nobody": [], "some": {"a": {"b": "c"}}, "words": ["a", "b"]}}
VALUES = (
    "a",
    5,
    None,
    True,
    False,
    [],
    {},
    ["a"],
    {"a": {"b": 1}},
    [1, 2],
    {"k": ["a", 3]},
    "text",
)
WORDS = ("x", "y", "n")
REFUSED = ("used before", "unsafe", "destructuring", "undefined variable", "conflicts with")
"""What the engine says of a bundle that it evaluates for no document."""
PARTS = (
    *(
        "input.x",
        "input.y",
        "input.n",
        'input["x"]',
        "input.y.a",
        "input.n[0]",
        "ix",
        "data.s.words",
    ),
    *(
        "data.s.other",
        "data.s.none[input.x]",
        "data.s.nobody[0]",
        "data.s.some",
        "v",
        "w",
        '"a"',
        "5",
    ),
)
CONDITIONS = (
    *(
        "{} == {}",
        "{} = {}",
        "{} != {}",
        "{} in {}",
        "{} in data.s.nobody",
        "{}",
        "{}",
        "count({}) > 0",
    ),
    *(
        "v := {}",
        "w := {}",
        "some v in {}",
        "some w in data.s.nobody",
        "[v, w] = {}",
        "to_number({})",
    ),
    *(
        "not input.x",
        "not data.s.none",
        "not {}",
        "data.s.other",
        "data.s.none[{}]",
        "v := data.s.other",
    ),
    *(
        "every e in {} {{ {} == e }}",
        "count([1 | v := {}; count(v) > 0]) >= 0",
        "some v; input.n[v]",
    ),
    "some [input.x, v] in [[{}, {}]]",
)
HEADS = (
    *("{name} contains {part} if {body}", "{name} := {part} if {body}", "{name} if {body}"),
    *(
        "{name} contains {part}",
        "{name} := {part}",
        "default {name} := 7\n{name} := {part} if {body}",
    ),
    "{name} := {part} if {body} else := {other} if {body2} else if {body}",
    "{name} contains {part} if {body}\n{name} contains {other} if {body2}",
    "{name} := {part} if {body} else if {body2}\n{name} := {other}",
    "{name} contains {part}\n{name} contains {other} if {body2}",
)


def engine(bundle):
    made = regorus.Engine()
    for module in bundle.modules:
        made.add_policy(module.path, module.text)
    made.add_data_json(json.dumps(bundle.data))
    return made


def said(engine, rule, document):
    """The engine's answer on a document, or its error."""
    engine.set_input_json(json.dumps(document))
    try:
        return json.loads(engine.eval_rule_as_json(rule))
    except RuntimeError as error:
        return f"error {error}".partition("Stack backtrace")[0]


def rule(dice, name, before):
    """A rule that may refer to those before it."""
    names = [each + dice.choice(("", "", ".a", "[input.x]", "[_]")) for each in before]
    parts = [*PARTS, *names, *names]
    if "f" not in name:
        parts += [f"f{dice.choice(('(input.x)', '(data.s.other)', '(input.n, 5)'))}"]

    def body():
        made = [
            dice.choice(CONDITIONS).format(dice.choice(parts), dice.choice(parts))
            for _ in range(dice.randint(1, 4))
        ]
        return "{\n " + "\n ".join(made) + "\n}"

    given = {"name": name, "part": dice.choice(parts), "other": dice.choice(parts)}
    return dice.choice(HEADS).format(**given, body=body(), body2=body())


def made(dice):
    """(bundle, its rules' names): what the engine refuses whatever the document is made anew."""
    text, names = "package a\n\nimport input.x as ix\n\nf(v) := input.y if count(v) > 0\n", []
    for number in range(dice.randint(2, 6)):
        name = dice.choice((f"q{number}", f"q{number}", f"p.r{number}"))
        for _ in range(8):
            longer = f"{text}\n{rule(dice, name, names)}\n"
            bundle = replace(make_bundle([Module("a.rego", longer)], []), data=DATA)
            try:
                answer = str(said(engine(bundle), f"data.a.{name}", {}))
            except RuntimeError:
                continue
            if not any(word in answer for word in REFUSED):
                text, names = longer, [*names, name]
                break
    return replace(make_bundle([Module("a.rego", text)], []), data=DATA), names


@pytest.mark.full
@pytest.mark.requirement("GW-03")
@pytest.mark.parametrize("seed", range(8))
def test_bundles_made_at_random_decide_the_same_folded(seed):
    dice = random.Random(seed)
    for _ in range(50):
        bundle, names = made(dice)
        whole = engine(bundle)
        modules = [read_module(tree) for tree in json.loads(whole.get_ast_as_json())]
        documents = [
            {word: dice.choice(VALUES) for word in WORDS if dice.random() < 0.8} for _ in range(8)
        ]
        for name in (f"data.a.{each}" for each in names):
            folded = fold(bundle, modules, [name])
            after = engine(folded.bundle)
            for each in documents:
                before, now = said(whole, name, each), said(after, name, part(each, folded.members))
                if not (str(before).startswith("error") and str(now).startswith("error")):
                    assert before == now, (name, each, bundle.modules[0].text)
