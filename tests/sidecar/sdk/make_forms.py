"""Write the TypeScript twin's forms.js: the tables that the redactor and the recorder go by."""

import json
import sys
from pathlib import Path

import msgspec

from sidecar.capture import bodies, exchange, pieces, streamed
from sidecar.tape import codec, compose, model, record, redaction

PLACE = Path(redaction.__file__).parents[1] / "sdk" / "typescript" / "src" / "forms.js"
HEAD = """\
/**
 * What redactor and recorder go by: keys, tables, and patterns as Python has them.
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
        "CODECS": {seam: msgspec.to_builtins(one) for seam, one in codec.DEFAULT.items()},
        "SCHEMA": model.SCHEMA,
        "SEAMS_OF": {kind: [one or "" for one in seams] for kind, seams in model.SEAMS_OF.items()},
        "INLINE_BYTES_MAX": compose.INLINE_BYTES_MAX,
        "BLOB_BYTES_MAX": record.BLOB_BYTES_MAX,
        "GZIP_FROM": record.GZIP_FROM,
        "BODY_BYTES_MAX": exchange.BODY_BYTES_MAX,
        "FIELDS_MAX": bodies.FIELDS_MAX,
        "MODEL_PATHS": list(exchange._PATHS),
        "MODEL_TOLD": list(exchange._TOLD),
        "HEADER_SECRET": exchange._SECRET.pattern,
        "HEADER_PAGING": exchange._PAGING.pattern,
        "PLUMBING": sorted(exchange._PLUMBING),
        "PLUMBING_STARTS": list(exchange._PLUMBING_STARTS),
        "CLIENTS_OWN": list(exchange._MINE),
        "STREAMED_LINES": sorted(pieces._LINES),
        "STREAMED_AS_IT_CAME": sorted(pieces._AS_IT_CAME),
        "PIECE_BYTES_MAX": pieces.PIECE_BYTES_MAX,
        "STREAM_LAST": sorted(streamed._LAST),
        "STREAM_JOINED": sorted(streamed._JOINED),
    }
    parts = [
        f"export const {name} = {json.dumps(value, indent=2)};\n" for name, value in told.items()
    ]
    return HEAD + "\n".join(parts)


if __name__ == "__main__":
    PLACE.write_text(forms())
    sys.stdout.write(f"{PLACE.name}\n")
