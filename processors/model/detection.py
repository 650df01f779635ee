"""Detection: a way of going wrong that a detector recognises in one trace.

Rules
1. A detection is about conduct, not outcome: it raises and lowers no outcome.
2. ``sentence`` and ``remedy`` are in plain words and name tools and numbers, never content;
   ``subjects`` are the tool names in the sentence, for redaction.
3. What of content supports it stands in ``evidence`` and is kept only as capture allows.
"""

from typing import Final, Literal

from msgspec import Struct

DetectionCode = Literal[
    "loop",
    "unsafe_retry",
    "repeated_call",
    "budget_burn",
    "skipped_approval",
    "out_of_order",
    "claim_without_action",
    "injected_instruction",
]
DetectionSeverity = Literal["info", "minor", "major", "critical"]

CODES: Final[tuple[DetectionCode, ...]] = (
    "loop",
    "unsafe_retry",
    "repeated_call",
    "budget_burn",
    "skipped_approval",
    "out_of_order",
    "claim_without_action",
    "injected_instruction",
)
SEVERITIES: Final[tuple[DetectionSeverity, ...]] = ("info", "minor", "major", "critical")


class Exhibit(Struct, frozen=True, kw_only=True):
    """One piece of evidence: a place in a step, what it is there for, and an excerpt.

    ``field`` is dotted (``arguments.to``, ``result.customer_note``), ``role`` a word of ours;
    ``excerpt`` is content, at most 200 characters. ``step_id`` is None for the trace's own fields.
    """

    role: str
    step_id: str | None = None
    field: str | None = None
    excerpt: str | None = None


class Detection(Struct, frozen=True, kw_only=True):
    """One finding of a detector; ``steps`` in causal order, at most 64 of ``measures["steps"]``.

    ``measures`` are the numbers behind the sentence (repeats, period, tokens, limit …).
    """

    detection_id: str
    code: DetectionCode
    severity: DetectionSeverity
    sentence: str
    remedy: str
    steps: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    evidence: tuple[Exhibit, ...] = ()
    measures: dict[str, int] = {}
