"""docs/specs/detectors.md says what the detectors do: codes, severities, defaults."""

import re
from pathlib import Path

from processors.model.detection import CODES, SEVERITIES
from processors.verify.detect import DETECTIONS_MAX, STEPS_MAX
from processors.verify.detect_settings import DEFAULTS

SPEC = (Path(__file__).parents[3] / "docs" / "specs" / "detectors.md").read_text()


def test_every_code_has_its_row_in_order():
    rows = re.findall(r"^\| `(\w+)` \|", SPEC.partition("## Codes")[2], re.MULTILINE)
    assert tuple(rows) == CODES


def test_severities_and_bounds_are_those_of_the_code():
    assert ", ".join(f"`{name}`" for name in SEVERITIES) in SPEC
    assert f"At most {DETECTIONS_MAX} detections a code" in SPEC
    assert f"at most {STEPS_MAX} " in SPEC


def test_defaults_are_those_of_the_code():
    said = dict(re.findall(r"`((?:loop|repeat)\.\w+)` \((\d+)\)", SPEC))
    assert said
    for place, number in said.items():
        part, _, name = place.partition(".")
        assert getattr(getattr(DEFAULTS, part), name) == int(number), place
    budget = DEFAULTS.budget
    for text, limit in (
        (f"{budget.tokens_max:,} tokens", budget.tokens_max),
        (f"{budget.model_calls_max} model calls", budget.model_calls_max),
        (f"{budget.tool_calls_max} tool calls", budget.tool_calls_max),
    ):
        assert limit
        assert text in SPEC
    assert not (budget.seconds_max or budget.tokens_per_minute_max or budget.cost_usd_max)
