"""The default bundle decides the same whether it is folded with its settings or not, whatever they
are.
"""

import copy
import json
import random

import pytest
import regorus
import yaml
from make_golden import HERE, documents
from msgspec.structs import replace

from sidecar.gateway.policy.document import encode, part
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.fold import fold
from sidecar.gateway.policy.rego import read_module

ENTRY = {"decide": "data.agenttwin.v1.decide", "list": "data.agenttwin.v1.list"}


def engine(bundle):
    made = regorus.Engine()
    for module in bundle.modules:
        made.add_policy(module.path, module.text)
    made.add_data_json(json.dumps(bundle.data))
    return made


def folded(bundle):
    trees = json.loads(engine(bundle).get_ast_as_json())
    return fold(bundle, [read_module(tree) for tree in trees])


def said(engine, rule, document):
    """The engine's answer on a document, or its error."""
    engine.set_input_json(document)
    try:
        return json.loads(engine.eval_rule_as_json(rule))
    except RuntimeError as error:
        return str(error).partition("Stack backtrace")[0]


@pytest.mark.requirement("GW-03")
@pytest.mark.parametrize("seed", range(6))
def test_the_default_bundle_decides_the_same_folded_with_any_settings(seed):
    dice, shipped = random.Random(seed), load_bundle()
    tuned = yaml.safe_load((HERE / "tuned.yaml").read_text())["settings"]
    data = copy.deepcopy(shipped.data)
    for name in sorted(tuned):
        if dice.random() < 0.4:
            data["settings"][name] = tuned[name]
        elif dice.random() < 0.2:
            data["settings"].pop(name, None)
    bundle = replace(shipped, data=data)
    made = folded(bundle)
    before, after = engine(bundle), engine(made.bundle)
    for _ in range(25):
        for entry, document in documents(dice):
            whole, read = encode(document).decode(), encode(part(document, made.members)).decode()
            assert said(before, ENTRY[entry], whole) == said(after, ENTRY[entry], read), document
