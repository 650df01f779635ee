"""The JSON Schema of a tape's records (docs/reference/tape.schema.json), made from the types."""

from typing import Any, Final

import msgspec

from sidecar.tape.model import SEAMS_OF, Blob, Event, Header, Seal

SCHEMA_ID: Final = "tape-1.schema.json"
_DIGEST: Final = "^(sha256|b2b):[0-9a-f]{64}$"
_MOMENT: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$"
_DIGESTS: Final = {
    "Event": ("in", "out", "in_n", "out_n", "in_b"),
    "Blob": ("id",),
    "Blobs": ("root",),
    "Seal": ("exact_digest", "behavior_digest", "chain"),
    "EventError": ("message",),
}
_NAMES: Final = {"Header": "header", "Event": "event", "Blob": "blob", "Seal": "seal"}


def document() -> dict[str, Any]:
    """The schema of one line of a tape."""
    _, parts = msgspec.json.schema_components(
        [Header, Event, Blob, Seal], ref_template="#/$defs/{name}"
    )
    for name, fields in _DIGESTS.items():
        for field in fields:
            _text_of(parts[name]["properties"][field])["pattern"] = _DIGEST
    for name, rec in _NAMES.items():
        part = parts[name]
        part["properties"].pop("more", None)
        part["properties"] = {"rec": {"const": rec}, **part["properties"]}
        part["required"] = ["rec", *part.get("required", [])]
    header = parts["Header"]
    header["properties"]["schema"] = {"type": "string", "pattern": r"^tape/1\.\d+\.\d+$"}
    for name in ("captured_at", "expires_at"):
        _text_of(header["properties"][name])["pattern"] = _MOMENT
    header["required"] = ["rec", "schema", "tape_id", "captured_at"]
    parts["Event"]["allOf"] = [_goes_with(kind, seams) for kind, seams in SEAMS_OF.items()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "One line of a tape, version 1",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in _NAMES],
        "$defs": parts,
    }


def _goes_with(kind: str, seams: tuple[str | None, ...]) -> dict[str, Any]:
    named = [seam for seam in seams if seam is not None]
    rule: dict[str, Any] = {"properties": {"seam": {"enum": list(seams)}}}
    if len(named) == len(seams):
        rule["required"] = ["seam"]
    return {"if": {"properties": {"kind": {"const": kind}}}, "then": rule}


def _text_of(part: dict[str, Any]) -> dict[str, Any]:
    for each in part.get("anyOf", [part]):
        if each.get("type") == "string":
            found: dict[str, Any] = each
            return found
    raise AssertionError("a digest that is no text")
