"""The published schema takes what is written, and refuses what no tape may hold."""

import json

import jsonschema_rs
import pytest
from hypothesis import given, settings
from tape_rig import RUN, facts, lines

from sidecar.tape.model import SEAMS_OF
from sidecar.tape.schema import document

SCHEMA = jsonschema_rs.validator_for(document())
EVENT = {"rec": "event", "v": 1, "seq": 0, "kind": "llm_call", "seam": "provider"}
HEADER = {
    "rec": "header",
    "schema": "tape/1.0.0",
    "tape_id": "t",
    "captured_at": "2026-07-01T12:00:00Z",
}


@pytest.mark.requirement("TAP-01")
@settings(max_examples=30)
@given(facts(most=4))
def test_every_line_that_is_written_is_valid(facts_):
    for line in lines([*facts_[:-1], *RUN]):
        SCHEMA.validate(json.loads(line))


@pytest.mark.parametrize(
    "line",
    [
        {**EVENT, "kind": "chat"},
        {**EVENT, "seam": "tool"},
        {**EVENT, "seam": None},
        {key: item for key, item in EVENT.items() if key != "seam"},
        {**EVENT, "seq": "0"},
        {**EVENT, "in": "sha256:short"},
        {**EVENT, "kind": "terminal"},
        {**HEADER, "schema": "tape/2.0.0"},
        {**HEADER, "fidelity": "L9"},
        {**HEADER, "captured_at": "yesterday"},
        {**HEADER, "expires_at": 5},
        {"rec": "blob", "id": "sha256:" + "0" * 64},
        {"rec": "seal"},
        {"rec": "other"},
        [],
    ],
)
def test_what_no_tape_may_hold_is_invalid(line):
    assert not SCHEMA.is_valid(line)


def test_fields_of_a_later_version_are_valid():
    SCHEMA.validate({**HEADER, "schema": "tape/1.8.0", "later": 1})
    SCHEMA.validate({**EVENT, "later": 1})


@pytest.mark.parametrize("kind", SEAMS_OF)
def test_the_schema_knows_the_seams_of_a_kind(kind):
    for seam in {seam for seams in SEAMS_OF.values() for seam in seams}:
        assert SCHEMA.is_valid({**EVENT, "kind": kind, "seam": seam}) == (seam in SEAMS_OF[kind])
