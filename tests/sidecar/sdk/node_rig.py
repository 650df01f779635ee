"""Node, for the TypeScript twin of the SDK: found, or the test skips and says so."""

import shutil
import subprocess
from pathlib import Path

import pytest

TYPESCRIPT = Path(__file__).with_name("typescript")


def node() -> str:
    """The command; skips the test where there is none that is new enough."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("needs node 18 or newer, which is not installed")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60)
    version = said.stdout.strip()
    if int(version.lstrip("v").partition(".")[0] or 0) < 18:
        pytest.skip(f"needs node 18 or newer; installed is {version}")
    return found
