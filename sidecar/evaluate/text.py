"""Expectations about what the agent answered: a pattern, exact text, a schema.

Rules
1. Patterns are RE2; schemas are JSON Schema and fetch nothing.
2. An answer that must fit a schema is JSON, alone or as the only fenced block of the text.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import re2

from sidecar.evaluate.expectation import Expectation, pattern, schema_problem, validator
from sidecar.evaluate.judgement import Judgement, failed, passed
from sidecar.evaluate.matching import same
from sidecar.evaluate.observed import Observed

_FENCED: Final = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


class OutputMatches(Expectation, frozen=True, kw_only=True, tag="outputMatches"):
    """The final output has a match of the pattern."""

    pattern: str

    def problems(self, tools: Sequence[str]) -> list[str]:
        """The pattern must be RE2."""
        try:
            pattern(self.pattern)
        except re2.error as error:
            return [*super().problems(tools), f"pattern is none: {error}"]
        return super().problems(tools)


class OutputEquals(Expectation, frozen=True, kw_only=True, tag="outputEquals"):
    """The final output is this text, or this JSON value."""

    value: Any


class OutputSchema(Expectation, frozen=True, kw_only=True, tag="outputSchema"):
    """The final output is JSON that fits the schema."""

    schema: dict[str, Any]

    def problems(self, tools: Sequence[str]) -> list[str]:
        """The schema must be one."""
        wrong = schema_problem(self.schema)
        return [*super().problems(tools), *([wrong] if wrong else [])]


def output_matches(expected: OutputMatches, observed: Observed) -> Judgement:
    """A match is there."""
    found = pattern(expected.pattern).search(observed.trace.final_output or "")
    if found is None:
        return failed(f"the final output does not match {expected.pattern!r}")
    return passed(f"the final output matches {expected.pattern!r}")


def output_equals(expected: OutputEquals, observed: Observed) -> Judgement:
    """It is so."""
    output = observed.trace.final_output or ""
    value = expected.value
    right = output == value if isinstance(value, str) else same(_json(output), value)
    if not right:
        return failed(f"the final output is not {value!r}")
    return passed("the final output is as expected")


def output_schema(expected: OutputSchema, observed: Observed) -> Judgement:
    """It fits."""
    value = _json(observed.trace.final_output or "")
    if value is msgspec.UNSET:
        return failed("the final output is no JSON")
    error = next(iter(validator(expected.schema).iter_errors(value)), None)
    if error is not None:
        place = "/".join(map(str, error.instance_path))
        return failed(f"the final output at /{place}: {error.message}")
    return passed("the final output fits the schema")


def _json(text: str) -> Any:
    blocks = _FENCED.findall(text)
    for one in (text, *(blocks if len(blocks) == 1 else ())):
        try:
            return msgspec.json.decode(one)
        except (msgspec.DecodeError, RecursionError):
            continue
    return msgspec.UNSET
