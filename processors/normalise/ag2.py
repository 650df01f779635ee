"""AG2: ``ag2.span.type`` beside the GenAI conventions, and questions to people.

Rules
1. ``await_human_input`` is a person's answer; its prompt and response are its messages.
2. A conversation is the run around its agents' turns.
3. A failure stands in ``error.type``; the status stays unset.

Source: ag2ai/ag2 autogen/opentelemetry.
"""

from processors.model.fragment import RANK_DECISION, RANK_DISCRIMINATOR, RANK_HANDOFF, Reading
from processors.model.names import StepKind
from processors.model.span import Span
from processors.value import name

DIALECT = "ag2"
FAMILIES = frozenset({"ag2"})
EVENTS: frozenset[str] = frozenset()
MAPPED = frozenset({"ag2.span.type", "ag2.human_input.prompt", "ag2.human_input.response"})
PREFIXES: tuple[str, ...] = ()
TYPES: dict[str, tuple[StepKind, str | None, int]] = {
    "conversation": ("other", "workflow", RANK_HANDOFF),
    "multi_conversation": ("other", "workflow", RANK_HANDOFF),
    "agent": ("agent", None, RANK_DISCRIMINATOR),
    "llm": ("model_call", None, RANK_DISCRIMINATOR),
    "tool": ("tool_call", None, RANK_DISCRIMINATOR),
    "human_input": ("human_input", None, RANK_DECISION),
    "code_execution": ("tool_call", "code_execution", RANK_DISCRIMINATOR),
    "speaker_selection": ("other", "step", RANK_HANDOFF),
}


def read_span(span: Span) -> Reading | None:
    """What an AG2 span says beside the GenAI conventions; None for any other span."""
    attributes = span.attributes
    written = name(attributes.get("ag2.span.type"))
    asked = name(attributes.get("ag2.human_input.prompt"))
    if span.name.startswith("await_human_input") or asked:
        written = "human_input"
    if written not in TYPES:
        return None
    kind, subtype, rank = TYPES[written]
    words = {"human.prompt": asked} if asked else {}
    answer = attributes.get("ag2.human_input.response")
    return Reading(
        dialect=DIALECT, kind=kind, rank=rank, subtype=subtype, output=answer, attributes=words
    )
