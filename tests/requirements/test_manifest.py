"""Promises and tests name each other: every promise has a test or says why not, and back.

``manifest.json`` holds one row a promise; ``deferred`` is null once built, else why. A partly
built promise may have tests and still be deferred; one that is not deferred must have one.
"""

import json
from pathlib import Path

import pytest
from make_manifest import promises
from marks import marked

HERE = Path(__file__).parent
ROWS = json.loads((HERE / "manifest.json").read_text())
IDS = {row["id"] for row in ROWS}


def test_every_mark_names_a_promise():
    strangers = {name: places for name, places in marked("requirement").items() if name not in IDS}
    assert not strangers


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_promise_has_a_test_or_says_why_not(row):
    assert row["deferred"] is None or row["deferred"].strip()
    if row["deferred"] is None:
        assert row["id"] in marked("requirement"), (
            f"{row['id']} is declared built but no test names it"
        )


def test_the_manifest_has_no_id_twice():
    assert len(IDS) == len(ROWS)


def test_the_manifest_is_that_of_the_capabilities():
    source = HERE.parents[2] / "shared" / "design" / "capabilities.md"
    if not source.exists():
        pytest.skip("needs ../shared (design/capabilities.md), which is absent here")
    assert {row["id"]: row["promise"] for row in ROWS} == promises(source.read_text())
