"""The reference pages say what the program says; names that users see stand in the docs."""

import subprocess
import sys
from pathlib import Path

import pytest

from processors.model import names
from sidecar.errors import ExitCode

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """The pages as they would be written now, by a process that has run no command before."""
    folder = tmp_path_factory.mktemp("reference")
    script = Path(__file__).with_name("make_reference.py")
    subprocess.run([sys.executable, script, folder], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(
    "name",
    [
        *("configuration.md", "commands.md", "openapi.json", "tape.schema.json"),
        *("report.schema.json", "coverage.schema.json", "test-kit.md"),
    ],
)
def test_a_reference_page_is_current(name, fresh):
    written = (REFERENCE / name).read_text()
    assert written == (fresh / name).read_text(), "run tests/reference/make_reference.py"


def test_every_attribute_of_ours_is_listed():
    page = (REFERENCE / "attributes.md").read_text()
    ours = [v for v in vars(names).values() if isinstance(v, str) and v.startswith("agenttwin")]
    assert len(ours) > 5
    assert [name for name in ours if name not in page] == []


def test_every_exit_code_is_listed():
    page = (REFERENCE / "exit-codes.md").read_text()
    assert all(f"| {code.value} |" in page for code in ExitCode)
