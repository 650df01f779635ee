"""Programs that ``make test`` builds once into the user's cache: where they are, or why to skip."""

import os
import shutil
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_TARGETS = {"opa": "opa", "otelcol": "collector", "helm": "helm", "oidc": "oidc", "envoy": "envoy"}


def program(name):
    """The program's path; the test skips, saying what to do, where it is not there."""
    cached = CACHE / "agenttwin-sidecar" / "bin" / name
    found = str(cached) if cached.is_file() else shutil.which(name)
    if found is None:
        needs = "" if name == "envoy" else "install Go and "
        pytest.skip(f"needs {name}: {needs}run `make {_TARGETS[name]}`")
    return found
