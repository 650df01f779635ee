"""Promises and tests name each other: every promise has a test or says why not, and back.

``manifest.json`` holds one row a promise; ``deferred`` is null once built, else why. A partly
built promise may have tests and still be deferred; one that is not deferred must have one.
"""

import ast
import json
from functools import cache
from pathlib import Path

import pytest
from make_manifest import promises

HERE = Path(__file__).parent
TESTS = HERE.parent
ROWS = json.loads((HERE / "manifest.json").read_text())
IDS = {row["id"] for row in ROWS}


@cache
def marked():
    """Every id in a ``@pytest.mark.requirement("ID")`` of the tests, with its places."""
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            is_mark = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_mark and node.func.attr == "requirement":
                for argument in node.args:
                    found.setdefault(argument.value, []).append(f"{path.name}:{node.lineno}")
    return found


def test_every_mark_names_a_promise():
    strangers = {name: places for name, places in marked().items() if name not in IDS}
    assert not strangers


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_promise_has_a_test_or_says_why_not(row):
    assert row["deferred"] is None or row["deferred"].strip()
    if row["deferred"] is None:
        assert row["id"] in marked(), f"{row['id']} is declared built but no test names it"


def test_the_manifest_has_no_id_twice():
    assert len(IDS) == len(ROWS)


def test_the_manifest_is_that_of_the_capabilities():
    source = HERE.parents[2] / "shared" / "design" / "capabilities.md"
    if not source.exists():
        pytest.skip("needs ../shared (design/capabilities.md), which is absent here")
    assert {row["id"]: row["promise"] for row in ROWS} == promises(source.read_text())
