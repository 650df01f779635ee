"""The test kit as one list: every row has a test, or says why it is none of ours.

``rows.json`` holds one row a reported symptom (T1 to T64), an advisory and a part of the kit (A to
L) of the gateway, and one a reported symptom of replay, twins and gates (R1 to R64).
``not_applicable`` is null or one of ``REASONS`` and more words; ``untested`` is null or says what
is missing. A test names its rows: ``@pytest.mark.row("T21", "C")``.
"""

import json
from pathlib import Path

import pytest
from marks import marked

ROWS = json.loads((Path(__file__).parent / "rows.json").read_text())
IDS = {row["id"] for row in ROWS}
REASONS = ("token pricing", "a user interface we lack", "another product's packaging")


def test_every_mark_names_a_row():
    assert not {name: places for name, places in marked("row").items() if name not in IDS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_row_has_a_test_or_says_why_not(row):
    tested = row["id"] in marked("row")
    if row["not_applicable"] is not None:
        assert row["not_applicable"].startswith(REASONS)
        assert not tested and row["untested"] is None
    elif row["untested"] is None:
        assert tested, f"no test carries @pytest.mark.row({row['id']!r})"
    else:
        assert row["untested"].strip()


def test_no_row_stands_twice():
    assert len(IDS) == len(ROWS)


def test_every_row_has_its_symptom_in_our_words():
    symptoms = json.loads((Path(__file__).parent / "symptoms.json").read_text())
    assert list(symptoms) == [row["id"] for row in ROWS]
    assert all(0 < len(text) <= 120 for text in symptoms.values())
