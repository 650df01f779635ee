"""The shipped bundles: their own tests pass on both engines, and both engines give one answer."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from built_tools import program
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from make_golden import TOOLS
from policy_rig import embedded_answers

from processors.model.call import Action
from processors.model.principal import Principal
from sidecar.canonical import canonical
from sidecar.gateway.policy.document import Situation, document
from sidecar.gateway.policy.driver import run_tests
from sidecar.gateway.policy.files import load_bundle

POLICIES = Path(__file__).parents[2] / "policies"
TUNED = Path(__file__).with_name("tuned.yaml")
ALLOW_ALL = POLICIES / "examples/allow_all"
SEQUENCE = POLICIES / "examples/sequence"
AGENT = Principal(id="key:1", kind="agent", project="shop")


def opa(*arguments, **kwargs):
    done = subprocess.run([program("opa"), *arguments], capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_bundles_tests_pass_on_the_embedded_engine():
    for folder in (POLICIES, ALLOW_ALL, SEQUENCE):
        results = asyncio.run(run_tests(load_bundle(folder, tests=True)))
        assert results and {result.status for result in results} == {"pass"}


@pytest.mark.requirement("GW-03")
def test_the_bundles_tests_pass_on_opa_and_its_checks_are_content():
    for folder, ignored in (
        (POLICIES, ("--ignore", "examples", "--ignore", "schema")),
        (ALLOW_ALL, ()),
        (SEQUENCE, ()),
    ):
        opa("check", "--strict", str(folder), *ignored)
        assert json.loads(opa("test", "--format", "json", str(folder), *ignored))
        assert opa("fmt", "--list", str(folder)) == ""


def test_a_failing_and_an_erring_test_are_told_apart_from_a_passing_one(tmp_path):
    (tmp_path / "a_test.rego").write_text(
        "package a_test\n\ntest_good := true\n\ntest_bad if 1 == 2\n\n"
        'test_wrong := 3\n\ntest_broken if to_number("zz") == 1\n'
    )
    results = asyncio.run(run_tests(load_bundle(tmp_path, tests=True)))
    found = {result.name.rpartition("_")[2]: result.status for result in results}
    assert found == {"good": "pass", "bad": "fail", "wrong": "fail", "broken": "error"}


def action(**changes):
    given_action = {
        "tenant": "shop",
        "agent": "key:1",
        "tool": "issue_refund",
        "upstream": "payments",
        "class_": "irreversible",
        "method": "POST",
        "path": "/orders/1/refunds",
        "cost_amount": "12.50",
        "cost_currency": "EUR",
    }
    return Action(**{**given_action, **changes})


@pytest.fixture(scope="module")
def default_answers():
    """A call's change, and whether it has a key -> the default bundle's answer."""

    def ask(changes, key_present):
        situation = Situation(time_ns=1, request_id="r", key_present=key_present)
        made = document(action(**changes), AGENT, situation)
        return asyncio.run(embedded_answers(POLICIES, [made], inspected=False))[0]

    return ask


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize(
    ("changes", "key_present", "effect", "code"),
    [
        ({"class_": "read"}, False, "allow", "read_allowed"),
        ({"class_": "write"}, False, "allow", "write_allowed"),
        ({}, True, "allow", "irreversible_allowed"),
        ({}, False, "deny", "idempotency_key_required"),
        ({"cost_amount": "100.00"}, True, "require_approval", "amount_needs_approval"),
        ({"cost_amount": "99.999"}, True, "allow", "irreversible_allowed"),
        ({"cost_amount": None, "cost_currency": None}, True, "require_approval", "cost_unknown"),
        ({"cost_currency": "XAU"}, True, "require_approval", "currency_unknown"),
        ({"cost_currency": None}, True, "require_approval", "currency_unknown"),
        ({"class_": "unlisted"}, True, "deny", "tool_unlisted"),
    ],
)
def test_the_default_decision_for_each_kind_of_call(
    default_answers, changes, key_present, effect, code
):
    answer = default_answers(changes, key_present)
    assert answer["effect"] == effect
    assert code in {reason["code"] for reason in answer["reasons"]}


ACTIONS = st.builds(
    action,
    class_=st.sampled_from(["read", "write", "irreversible", "odd"]),
    cost_amount=st.none()
    | st.decimals(0, 10**12, places=2).map(str)
    | st.sampled_from(["99.99", "100", "100.00", "100.0000000001", "15000", "1e2", "-1", "zz", ""]),
    cost_currency=st.none() | st.sampled_from(["EUR", "USD", "JPY", "XAU", "eur", "İ"]),
    arguments=st.dictionaries(
        st.text(max_size=4),
        st.none()
        | st.booleans()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=6),
        max_size=3,
    ),
)
SITUATIONS = st.builds(
    Situation,
    time_ns=st.integers(0, 2**62),
    request_id=st.just("r"),
    key_present=st.booleans(),
    prior_tools=st.lists(st.sampled_from(["get_order", "get_policy"]), max_size=2).map(tuple),
)


def tuned_bundle(folder):
    """The default bundle with every setting in use."""
    shutil.copytree(POLICIES, folder, dirs_exist_ok=True)
    shutil.copy(TUNED, folder / "data.yaml")
    return folder


def opa_answers(folder, inputs, tmp_path):
    """OPA's answers, in one process: where strict errors make one fail, each is asked alone."""
    query = (
        "[x | some made in input; some rule in [0, 1]; "
        "x := [data.agenttwin.v1.decide, data.agenttwin.v1.list][rule] with input as made]"
    )
    file = tmp_path / "inputs.json"
    file.write_text(json.dumps(inputs))
    done = subprocess.run(
        [
            *(program("opa"), "eval", "--data", str(folder), "--ignore", "examples"),
            *(
                "--ignore",
                "schema",
                "--ignore",
                "*_test.rego",
                "--strict-builtin-errors",
                "--format",
                "json",
            ),
            *("--input", str(file), "--import", "rego.v1", query),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        values = json.loads(done.stdout)["result"][0]["expressions"][0]["value"]
        if len(values) == 2 * len(inputs):
            return values
    if len(inputs) == 1:
        return ["error", "error"] if done.returncode else [None, None]
    return [value for made in inputs for value in opa_answers(folder, [made], tmp_path)]


@pytest.mark.requirement("GW-03")
@settings(
    max_examples=2,
    phases=[
        Phase.generate
    ],  # each example is two processes; the failing document is in the message
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(ACTIONS, SITUATIONS), min_size=60, max_size=60))
def test_one_document_gets_one_answer_from_opa_and_from_the_embedded_engine(tmp_path, pairs):
    folder = tuned_bundle(tmp_path / "bundle")
    inputs = [
        {**made, "resource": {**made["resource"], "id": TOOLS[number % len(TOOLS)]}}
        for number, made in enumerate(document(a, AGENT, s) for a, s in pairs)
    ]
    ours = asyncio.run(embedded_answers(folder, inputs))
    theirs = opa_answers(folder, inputs, tmp_path)
    assert len(ours) == len(theirs) == 2 * len(inputs)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert canonical(one) == canonical(other), (inputs[number // 2], one, other)
