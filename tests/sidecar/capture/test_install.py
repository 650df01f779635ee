"""Seams are put in place when the agent imports their library, and taken away at the end."""

import importlib
import sys

import pytest
from capture_rig import session_of

from sidecar.capture.seams import install as seams

pytestmark = pytest.mark.requirement("TAP-02")

SEAM = """
from sidecar.capture.seams.install import patch

def install(session):
    import somebodys_library
    patch(session, somebodys_library, "ask", lambda: "patched")
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    (tmp_path / "somebodys_library.py").write_text("def ask():\n    return 'real'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "somebodys_library", raising=False)
    yield "somebodys_library"
    sys.modules.pop("somebodys_library", None)


@pytest.fixture
def seam(tmp_path, monkeypatch):
    (tmp_path / "its_seam.py").write_text(SEAM)
    monkeypatch.setattr(seams, "_HERE", "")
    yield "its_seam"
    sys.modules.pop("its_seam", None)


def test_a_library_is_patched_once_it_is_imported_and_no_longer_after(library, seam):
    session = session_of()
    session.begin()
    try:
        seams.when_imported(session, {library: (seam,)})
        assert library not in sys.modules
        module = importlib.import_module(library)
        assert module.ask() == "patched"
        assert module.__spec__.loader is module.__loader__
        assert type(module.__loader__).__name__ == "SourceFileLoader"
    finally:
        session.end()
    assert module.ask() == "real"
    assert not [one for one in sys.meta_path if type(one).__module__.startswith("sidecar")]


def test_a_module_of_a_package_is_bound_in_it_before_its_seam(tmp_path, monkeypatch):
    (tmp_path / "somebodys").mkdir()
    (tmp_path / "somebodys" / "__init__.py").write_text("")
    (tmp_path / "somebodys" / "library.py").write_text("def ask():\n    return 'real'\n")
    text = SEAM.replace("somebodys_library", "somebodys.library")
    (tmp_path / "its_dotted_seam.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(seams, "_HERE", "")
    session = session_of()
    session.begin()
    seams.when_imported(session, {"somebodys.library": ("its_dotted_seam",)})
    module = importlib.import_module("somebodys.library")
    said = module.ask()
    session.end()
    for name in ("somebodys", "somebodys.library", "its_dotted_seam"):
        sys.modules.pop(name)
    assert (said, session.broken) == ("patched", {})


def test_a_library_that_is_there_is_patched_at_once(library, seam):
    module = importlib.import_module(library)
    session = session_of()
    session.begin()
    seams.when_imported(session, {library: (seam,)})
    said = module.ask()
    session.end()
    assert said == "patched"


def test_who_patched_after_us_keeps_his(library, seam):
    module = importlib.import_module(library)
    session = session_of()
    session.begin()
    seams.when_imported(session, {library: (seam,)})
    module.ask = lambda: "theirs"
    session.end()
    assert module.ask() == "theirs"


def test_a_seam_that_breaks_is_told_and_hurts_nobody(library):
    session = session_of()
    session.begin()
    seams.when_imported(session, {library: ("no_such_seam",)})
    module = importlib.import_module(library)
    session.end()
    assert module.ask() == "real"
    assert session.broken == {"no_such_seam": "ModuleNotFoundError"}
