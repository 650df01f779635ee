"""Expectation: what every type of expectation has, whatever it is about.

Rules
1. Records are the format of a suite; a key that is no field is refused.
2. What can be known to be wrong at load is told at load, with the tools that the twins have.
"""

from collections.abc import Sequence
from typing import Any, Literal

import jsonschema_rs
import re2
from msgspec import Struct

Status = Literal["executed", "any"]


class Expectation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What all expectations have."""

    id: str = ""
    required: bool = True

    def problems(self, tools: Sequence[str]) -> list[str]:
        """What is wrong with the values; ``tools`` are the twins' tools."""
        return [
            f"names the tool {name!r}, which no twin declares"
            for name in self.tools_named()
            if name not in tools
        ]

    def tools_named(self) -> Sequence[str]:
        """The tools it is about."""
        tool = getattr(self, "tool", "")
        return (tool,) if tool else ()

    def about(self) -> str:
        """What it is about, in a word, for its id."""
        return getattr(self, "tool", "") or getattr(self, "entity", "")


def pattern(text: str) -> Any:
    """A compiled RE2 pattern. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(text, options)


def type_of(expectation: Expectation) -> str:
    """The word that names its type in a suite."""
    return str(type(expectation).__struct_config__.tag)


def schema_problem(schema: Any) -> str | None:
    """Why a JSON Schema (2020-12 unless it says otherwise) cannot be used; None where it can."""
    try:
        validator(schema)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return f"schema is no JSON Schema: {str(error).splitlines()[0]}"
    return None


def validator(schema: Any) -> jsonschema_rs.Validator:
    """A compiled JSON Schema that fetches nothing. Raises ValueError, ReferencingError."""
    return jsonschema_rs.validator_for(
        schema, offline=True, pattern_options=jsonschema_rs.RegexOptions()
    )
