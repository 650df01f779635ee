"""Test files are told apart by their names alone: pytest imports them so."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_two_test_files_have_one_name():
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py"))
    assert [name for name, times in names.items() if times > 1 and name != "conftest.py"] == []
