"""How results match, and how differences are named."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.replay.fidelity import differences, fidelity, matched
from sidecar.replay.onto_twin import Answered, RunOnTwin, TapedCall, TapedRun

pytestmark = pytest.mark.requirement("TWN-05")

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), some),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_matches_itself_and_its_own_json_exactly(value):
    assert matched(value, value) == ("exact", frozenset())
    if not isinstance(value, str):
        assert matched(json.dumps(value), value)[0] == "exact"


@given(VALUES, VALUES)
def test_whatever_is_not_equal_has_a_place(left, right):
    match, places = matched(left, right)
    assert (match == "exact") == (not places)
    assert bool(list(differences(left, right))) == bool(list(differences(right, left)))


@pytest.mark.parametrize(
    ("recorded", "twin", "match", "places"),
    [
        ({"a": 25}, {"a": 25.0}, "exact", []),
        ({"a": [1, 2]}, {"a": [2, 1]}, "semantic", [("/a/*", "/a/*")]),
        ({"a": "25.0"}, {"a": 25}, "semantic", [("/a", "/a")]),
        ({"a": "x"}, {"a": "y"}, "schema", [("/a", "/a")]),
        ({"a": "x"}, {"a": 1}, "differs", [("/a", "/a")]),
        ({"a": True}, {"a": 1}, "differs", [("/a", "/a")]),
        ({"p": {"old": 1}}, {"p": {"new": 1}}, "differs", [("/p/old", "/p/new")]),
        ({"a/b": 1}, {}, "differs", [("/a~1b", None)]),
        ({}, {"n": 1}, "differs", [(None, "/n")]),
        ({"a": [1]}, {"a": [1, 2]}, "schema", [(None, "/a/*")]),
        ("Error: no", {"a": 1}, "differs", [("/", "/")]),
    ],
)
def test_a_difference_is_named_by_its_place(recorded, twin, match, places):
    assert matched(recorded, twin) == (match, frozenset(places))


def run(recorded, twin, *, agrees=True):
    call = TapedCall(seq=1, tool="get", arguments={}, result=recorded)
    told = "verified_success" if agrees else "verified_failure"
    return RunOnTwin(
        run=TapedRun(
            name="r", task="t", calls=(call,), said=(), actions=(), outputs=(), verified=told
        ),
        verified="verified_success",
        scores=(),
        answers=(Answered(call=call, value=twin, status=200, known=True),),
        changes=(),
    )


def test_a_tool_that_drifts_in_more_than_one_of_twenty_results_asks_for_a_new_twin():
    same, other = run({"a": 1}, {"a": 1}), run({"a": 1}, {"a": 2})
    assert fidelity([same] * 19 + [other]).tools[0].policy == "ok"
    assert fidelity([same] * 18 + [other] * 2).tools[0].policy == "ticket"


def test_a_difference_in_a_run_that_ends_otherwise_changes_verdicts_and_warns():
    found = fidelity([run({"a": 1}, {"a": 1}), run({"a": 1}, {"a": 2}, agrees=False)])
    (tool,) = found.tools
    assert (tool.policy, tool.drift[0].verdict) == ("warn", "changing")
    assert (found.verdicts_compared, found.verdicts_agreeing) == (2, 1)


def test_a_run_that_the_twin_could_not_judge_tells_nothing_of_verdicts():
    judged = run({"a": 1}, {"a": 2})
    found = fidelity([msgspec.structs.replace(judged, verified="unverified")])
    assert (found.verdicts_compared, found.tools[0].drift[0].verdict) == (0, "neutral")
