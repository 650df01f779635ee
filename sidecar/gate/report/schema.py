"""The JSON Schema of a report (docs/reference/report.schema.json), made from its types."""

from typing import Any, Final

import msgspec

from sidecar.gate.report.model import Report

SCHEMA_ID: Final = "report-1.schema.json"


def document() -> dict[str, Any]:
    """The schema. A command may have keys of its own beside those that every report has."""
    _, parts = msgspec.json.schema_components([Report], ref_template="#/$defs/{name}")
    for part in parts.values():
        # Everything is always there, what has a default too.
        part["required"] = list(part["properties"])
        if part["title"] != "Report":
            part["additionalProperties"] = False
    schema = {"type": "string", "pattern": r"^report/1\.\d+\.\d+$"}
    parts["Report"]["properties"]["schema"] = schema
    parts["Case"]["properties"]["signature"]["pattern"] = "^([0-9a-f]{32})?$"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "A report, version 1",
        "$ref": "#/$defs/Report",
        "$defs": parts,
    }
