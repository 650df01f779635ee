"""Verdicts are kept once, found by id or its beginning, listed newest first, scoped by project."""

import pytest
import trace_stores

from processors.model.verdict import Failure, Finding, Verdict
from sidecar.store.verdicts import VerdictQuery


def verdict(number, project="default", status="BLOCK"):
    return Verdict(
        verdict_id=f"{number:04d}abcd",
        project=project,
        suite="refunds",
        baseline="cmd:a",
        candidate="cmd:b",
        status=status,
        exit_code=1,
        findings=(Finding(rule="r", severity="block", detail="d", operands={"n": 1}),),
        failures=(Failure(case="c", case_class="regressed", expectation="e", detail="d"),),
        counts={"cases": 1},
        created_at_ns=number,
        digest="sha256:0",
        evidence={"folder": "x", "cases": [1, 2]},
    )


@pytest.fixture(params=trace_stores.BACKENDS)
def store(request, tmp_path):
    kept = trace_stores.made(request.param, tmp_path)
    yield kept.verdicts()
    kept.close()


def test_a_verdict_comes_back_as_it_was_given(store):
    store.add_verdict(verdict(1, status=None))
    assert store.get_verdict("0001abcd") == verdict(1, status=None)
    assert store.get_verdict("0001") == verdict(1, status=None)
    assert store.get_verdict("0001abcd", project="other") is None
    assert store.get_verdict("") is None and store.get_verdict("9") is None


def test_a_beginning_that_is_not_unique_finds_nothing(store):
    store.add_verdict(verdict(1))
    store.add_verdict(verdict(2))
    assert store.get_verdict("000") is None


def test_lists_are_newest_first_and_scoped(store):
    for number in (1, 2, 3):
        store.add_verdict(verdict(number, project="b" if number == 2 else "a"))
    assert [one.verdict_id for one in store.list_verdicts(VerdictQuery(project="a"))] == [
        "0003abcd",
        "0001abcd",
    ]
    assert len(store.list_verdicts(VerdictQuery(limit=1))) == 1


def test_a_verdict_is_never_overwritten(store):
    store.add_verdict(verdict(1))
    with pytest.raises(trace_stores.integrity_errors()):
        store.add_verdict(verdict(1, status="PASS"))
    assert store.get_verdict("0001abcd").status == "BLOCK"
