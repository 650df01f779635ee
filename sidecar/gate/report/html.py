"""A report as one HTML file that opens from disk: the viewer.

**Rules**
1. Nothing is fetched: the policy of the page forbids everything but its own script and style, which
   it names by their hash; a script that came from a tape would not be among them.
2. What was recorded stands in one block of JSON in which no ``<`` occurs, so that nothing ends it;
   the script puts it on the page as text and never as markup.
3. Without scripts the report's text stands there.
"""

import base64
import hashlib
import json
from html import escape
from typing import Final

from msgspec import Struct

from sidecar.gate.report import text
from sidecar.gate.report.exhibit import Exhibit, exhibited
from sidecar.gate.report.model import Report
from sidecar.plain import plain, plain_lines

_NOTHING: Final = Exhibit()


class Viewer(Struct, frozen=True):
    """The viewer's own script and style."""

    script: str
    style: str


def render(report: Report, viewer: Viewer, shown: Exhibit = _NOTHING) -> str:
    """The page."""
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(viewer.script)}",
            f"style-src {_hash(viewer.style)}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{escape(plain(f"{report.outcome}: {report.title}")[:200])}</title>
<style>{viewer.style}</style>
</head>
<body>
<noscript><pre>{escape(plain_lines(text.render(report)))}</pre></noscript>
<div id="app"></div>
<script type="application/json" id="data">{_block(report, shown)}</script>
<script>{viewer.script}</script>
</body>
</html>
"""


def _block(report: Report, shown: Exhibit) -> str:
    written = json.dumps(exhibited(report, shown), separators=(",", ":"))
    for sign in "<>&":
        written = written.replace(sign, f"\\u{ord(sign):04x}")
    return written


def _hash(source: str) -> str:
    made = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return f"'sha256-{made}'"
