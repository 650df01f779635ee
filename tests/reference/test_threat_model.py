"""Every threat names the test that guards it, and that test is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "specs" / "threat-model.md"
ROWS = [line for line in PAGE.read_text().splitlines() if re.match(r"\|.*\|.*\| .*`tests/", line)]
HEADINGS = (
    "Spoofing",
    "Tampering",
    "Repudiation",
    "Information disclosure",
    "Denial of service",
    "Elevation of privilege",
)


@cache
def named_in(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_the_guard_of_a_threat_exists(row):
    guards = re.findall(r"`(tests/[^`]+)`", row)
    assert guards
    for guard in guards:
        path, _, name = guard.partition("::")
        assert (ROOT / path).is_file(), path
        assert name in named_in(path), guard


@pytest.mark.parametrize("heading", HEADINGS)
def test_each_letter_of_stride_has_guarded_rows(heading):
    section = PAGE.read_text().split(f"### {heading}\n")[1].split("\n#")[0]
    threats = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(threats) >= 4
    assert all("`tests/" in line for line in threats), heading
