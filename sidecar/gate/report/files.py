"""The viewer's parts, from the package's own files."""

from functools import cache
from importlib import resources
from typing import Final

from sidecar.gate.report.html import Viewer

_SCRIPTS: Final = (
    "words.js",
    "rules.js",
    "page.js",
    "list.js",
    "payload.js",
    "timeline.js",
    "beside.js",
    "findings.js",
    "main.js",
)


@cache
def viewer() -> Viewer:
    """The script, of several files in one scope, and the style."""
    folder = resources.files("sidecar.gate.report") / "viewer"
    parts = [(folder / name).read_text("utf-8") for name in _SCRIPTS]
    script = '(() => {\n"use strict";\n' + "\n".join(parts) + "\n})();\n"
    return Viewer(script, (folder / "viewer.css").read_text("utf-8"))
