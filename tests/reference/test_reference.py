"""The reference pages say what the program says; names that users see stand in the docs."""

import pytest
from make_reference import PAGES, REFERENCE

from processors.model import names
from sidecar.errors import ExitCode


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_current(name):
    written = (REFERENCE / name).read_text()
    assert written == PAGES[name]().rstrip("\n") + "\n", "run tests/reference/make_reference.py"


def test_every_attribute_of_ours_is_listed():
    page = (REFERENCE / "attributes.md").read_text()
    ours = [v for v in vars(names).values() if isinstance(v, str) and v.startswith("agenttwin")]
    assert len(ours) > 5
    assert [name for name in ours if name not in page] == []


def test_every_exit_code_is_listed():
    page = (REFERENCE / "exit-codes.md").read_text()
    assert all(f"| {code.value} |" in page for code in ExitCode)
