"""smolagents: the tool by which its model ends a run is no tool.

Rules
1. ``final_answer`` says the answer: kind ``other``, subtype ``final_answer``.

Source: huggingface/smolagents src/smolagents/default_tools.py;
openinference-instrumentation-smolagents.
"""

from processors.model.fragment import RANK_HANDOFF, Reading
from processors.model.span import Span
from processors.value import first_name

DIALECT = "smolagents"
FAMILIES: frozenset[str] = frozenset()  # called by scope
EVENTS: frozenset[str] = frozenset()
MAPPED: frozenset[str] = frozenset()
PREFIXES: tuple[str, ...] = ()
_FINAL = "final_answer"
_FINAL_SPANS = ("FinalAnswerTool", "execute_tool final_answer")


def read_span(span: Span) -> Reading | None:
    """What a smolagents span says beside the dialect it is written in."""
    tool = first_name(span.attributes, ("gen_ai.tool.name", "tool.name"))
    if tool != _FINAL and span.name not in _FINAL_SPANS:
        return None
    return Reading(
        dialect=DIALECT,
        kind="other",
        rank=RANK_HANDOFF,
        subtype="final_answer",
        output=span.attributes.get("output.value"),
    )
