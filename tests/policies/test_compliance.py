"""The embedded engine answers OPA's own compliance cases as OPA does; what it does not is listed.

``compliance_skips.json`` may only shrink: a built-in or a case on it that agrees fails a test too.
"""

import asyncio
import json
from pathlib import Path

import pytest
from compliance_rig import as_input, ask_all, calls, cases

from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.driver import check_bundle
from sidecar.gateway.policy.lint import BUILTINS

SKIPS = json.loads(Path(__file__).with_name("compliance_skips.json").read_text())
CASES, NOT_JSON = 2067, 11
AGREE_LEAST, SKIPPED_BUILTINS_MOST, SKIPPED_CASES_MOST = 1470, 54, 158


def listed(kind, field):
    return {name: group["reason"] for group in SKIPS[kind] for name in group[field]}


ABSENT = "there is no input at all; the gateway always sends one"
WHOLE = "the query asks for all of data, or for the question itself, which stands in it"
OUTSIDE, SKIPPED = listed("builtins", "names"), listed("cases", "ids")


@pytest.fixture(scope="module")
def answers():
    """(case, names of listed built-ins in it, what the engine said) of each that can be sent."""
    asked = [case for case in cases() if as_input(case)[0]]
    used = [{name for name in OUTSIDE if calls(case, name)} for case in asked]
    return list(zip(asked, used, asyncio.run(ask_all(asked)), strict=True))


@pytest.mark.requirement("GW-03")
def test_every_case_within_the_portable_built_ins_gets_opas_answer_or_is_listed(answers):
    portable = [(case, said) for case, used, said in answers if not used]
    wrong = {case["id"]: said.text for case, said in portable if not said.agrees}
    assert wrong.keys() - SKIPPED.keys() == set(), wrong
    agreed = len(portable) - len(wrong)
    assert agreed >= AGREE_LEAST
    assert len(answers) + NOT_JSON == CASES


def test_what_is_listed_still_differs_so_that_the_list_only_shrinks(answers):
    right = {case["id"] for case, _, said in answers if said.agrees}
    assert SKIPPED.keys() & right == set(), "these agree now: take them off the list"
    assert SKIPPED.keys() <= {case["id"] for case, _, _ in answers}
    differing = set().union(*(used for _, used, said in answers if not said.agrees))
    assert differing == OUTSIDE.keys()
    assert len(OUTSIDE) <= SKIPPED_BUILTINS_MOST and len(SKIPPED) <= SKIPPED_CASES_MOST
    assert all(reason.strip() for reason in (*OUTSIDE.values(), *SKIPPED.values()))


@pytest.mark.full
@pytest.mark.requirement("GW-03")
def test_every_case_has_the_same_answer_or_error_when_its_modules_are_folded(answers):
    folded = asyncio.run(ask_all([case for case, _, _ in answers], folded=True))
    same = zip(answers, folded, strict=True)
    assert {case["id"]: (said, now) for (case, _, said), now in same if said != now} == {}


def test_no_policy_may_call_a_built_in_on_which_the_engines_differ():
    assert OUTSIDE.keys() & BUILTINS == set()


@pytest.mark.requirement("GW-04")
def test_the_engine_is_wrong_without_an_error_only_where_a_policy_cannot_go(answers):
    """A loud difference denies. A silent one is refused by the linter, or needs no input at all."""
    silent = {case["id"]: case for case, used, said in answers if said.silent and not used}
    whole = {name for name in silent if SKIPPED[name] == WHOLE}
    absent = {name for name in silent if SKIPPED[name] == ABSENT}
    (left,) = silent.keys() - whole - absent
    assert {finding.code for finding in findings(silent[left])} >= {"head"}
    assert len(whole) == 4 and len(absent) == 6


def findings(case):
    texts = enumerate(case["modules"])
    bundle = make_bundle([Module(f"module_{number}.rego", text) for number, text in texts], [])
    return asyncio.run(check_bundle(bundle))
