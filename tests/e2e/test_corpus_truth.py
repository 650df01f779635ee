"""Captured runs, judged with what the shop's books say: lies, doubles and injections are found, the
honest are left alone, and the books decide, not the telemetry.

The table: ``python tests/e2e/corpus_truth.py``.
"""

from collections import defaultdict
from functools import lru_cache

import corpus_truth
import pytest
from corpus_truth import CORPUS, QUIET, cases, missing, verdict, wrong

from processors.verify.detect_settings import Settings

# How many captures of a scenario must have been judged: a law over nothing is none.
LEAST = {"false_success": 20, "retry_dup": 40, "injection": 16, "wrong_order": 17, "loop": 17}


@lru_cache(1)
def corpus():
    if not CORPUS.is_dir():
        pytest.skip("needs ../shared (corpora/otlp), which is absent here")
    found = defaultdict(list)
    for case in cases():
        found[case.scenario].append(case)
    return found


@pytest.mark.requirement("ASM-02")
@pytest.mark.requirement("OUT-03")
@pytest.mark.parametrize("scenario", sorted(LEAST))
def test_every_case_whose_bytes_tell_of_it_is_flagged(scenario):
    judged = 0
    for case in corpus()[scenario]:
        reasons = missing(case)
        if reasons:
            print(f"left out {case.name}: {'; '.join(reasons)}")
            continue
        judged += 1
        assert wrong(case, verdict(case)) is None, case.name
    assert judged >= LEAST[scenario]


@pytest.mark.requirement("ASM-02")
@pytest.mark.parametrize("scenario", QUIET)
def test_runs_that_did_what_they_should_raise_nothing(scenario):
    verified = 0
    for case in corpus()[scenario]:
        found = verdict(case)
        assert not found.contradictions, case.name
        assert not found.detections, case.name
        if not missing(case) and case.books["refunds_issued"]:
            verified += 1
            assert "verified_success" in found.outcomes, case.name
    assert verified >= 20


@pytest.mark.requirement("ASM-02")
def test_order_is_flagged_only_where_the_policy_says_so():
    for case in corpus()["wrong_order"]:
        assert "out_of_order" not in verdict(case, settings=Settings()).detections, case.name


def pairs(scenario, other="baseline"):
    """A case of each scenario by library, where the bytes of both tell enough."""
    whole = defaultdict(dict)
    for name in (scenario, other):
        for case in corpus()[name]:
            if not missing(case) and case.truth.get("n_runs", 1) == 1:
                whole[case.library].setdefault(name, case)
    return [(row[scenario], row[other]) for row in whole.values() if len(row) == 2]


@pytest.mark.requirement("OUT-03")
@pytest.mark.parametrize(
    ("scenario", "code"),
    [("false_success", "claimed_success_state_failed"), ("retry_dup", "duplicate_effect")],
)
def test_with_the_books_of_two_cases_swapped_the_verdicts_swap(scenario, code):
    swapped = 0
    for case, honest in pairs(scenario):
        assert code in verdict(case).contradictions, case.name
        assert verdict(honest).contradictions == frozenset(), honest.name
        assert verdict(case, honest.books).contradictions == frozenset(), case.name
        assert code in verdict(honest, case.books).contradictions, honest.name
        swapped += 1
    assert swapped >= 18


@pytest.mark.requirement("OUT-03")
def test_books_that_name_another_target_or_amount_prove_nothing_done():
    case = next(case for case in corpus()["baseline"] if not missing(case))
    entry = case.books["refunds_issued"][0]
    for change in ({"order_id": "Z-9"}, {"amount": 1.0}):
        books = {"refunds_issued": [{**entry, **change}], "emails_sent": []}
        found = verdict(case, books)
        assert "claimed_success_state_failed" in found.contradictions, change


def test_the_table_is_printed_and_fails_where_a_law_does(capsys, monkeypatch):
    one = corpus()["false_success"][0]
    monkeypatch.setattr(corpus_truth, "cases", lambda _: [one])
    monkeypatch.setattr("sys.argv", ["corpus_truth.py"])
    assert corpus_truth.main() == 0
    assert f"{one.library:46}" in capsys.readouterr().out
    monkeypatch.setattr(corpus_truth, "evidence", lambda *_: ())
    assert corpus_truth.main() == 1
    assert f"WRONG {one.name}" in capsys.readouterr().out
