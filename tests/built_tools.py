"""What ``make test`` puts once into the user's cache: where it is, or why to skip."""

import json
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


def chromium():
    """The browser's path; Debian's, never one that was downloaded."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("needs Chromium: install the package chromium")
    return found


def schema(name):
    """A published JSON Schema."""
    path = CACHE / "agenttwin-sidecar" / "schemas" / name
    if not path.is_file():
        pytest.skip(f"needs {name}: install Go and run `make schemas`")
    return json.loads(path.read_text())
