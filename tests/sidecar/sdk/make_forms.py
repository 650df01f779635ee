"""Write the TypeScript twin's forms.js from the redactor's own patterns."""

import json
import sys
from pathlib import Path

from sidecar.tape import redaction

PLACE = Path(redaction.__file__).parents[1] / "sdk" / "typescript" / "src" / "forms.js"
HEAD = """\
/**
 * What the redactors know: secrets' keys, and patterns as Python has them.
 * Written by tests/sidecar/sdk/make_forms.py; never edited.
 */

"""


def forms() -> str:
    """The file's text."""
    named = (redaction._ASSIGNED, redaction._HEADS, redaction._VALUES, redaction._LINE)
    detectors = [
        {"name": name, "pattern": pattern.pattern, "group": group, "needles": list(needles)}
        for name, pattern, group, needles in redaction._FORMS
    ]
    told = {
        "SECRET_KEYS": list(redaction.SECRET_KEYS),
        "ENDS": list(redaction._ENDS),
        "NAMED": [one.pattern for one in named],
        "DETECTORS": detectors,
    }
    parts = [
        f"export const {name} = {json.dumps(value, indent=2)};\n" for name, value in told.items()
    ]
    return HEAD + "\n".join(parts)


if __name__ == "__main__":
    PLACE.write_text(forms())
    sys.stdout.write(f"{PLACE.name}\n")
