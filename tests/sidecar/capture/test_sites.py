"""The first frame of own files is found by where its file is."""

import pytest

from sidecar.capture.seams.sites import Site, Sites

pytestmark = pytest.mark.requirement("TAP-02")
SOURCE = "import sys\ndef call():\n    return sys._getframe(0)\n"


def frame_of(file):
    space = {}
    exec(compile(SOURCE, str(file), "exec"), space)
    return space["call"]()


def test_code_that_looks_alike_belongs_to_the_file_it_is_in(tmp_path):
    own, other = frame_of(tmp_path / "agent" / "one.py"), frame_of(tmp_path / "library" / "one.py")
    assert own.f_code == other.f_code  # what they are compared by leaves the file out
    sites = Sites([tmp_path / "agent"])
    assert sites.own(other.f_code) is None
    assert sites.own(own.f_code) == Site("one", "call")
    again = frame_of(tmp_path / "agent" / "two.py")
    assert sites.own(again.f_code) == Site("two", "call")
