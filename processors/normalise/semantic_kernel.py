"""Semantic Kernel: plug-in names in front of functions, singular finish reasons.

Rules
1. A function's full name is ``<plug-in>-<function>``; neither part may hold a hyphen.
2. The loop around calls and functions is glue.

Source: microsoft/semantic-kernel python/semantic_kernel/functions/kernel_function_metadata.py,
utils/telemetry.
"""

import re

from processors.model.fragment import RANK_DISCRIMINATOR, RANK_NONE, Reading
from processors.model.span import Span
from processors.model.step import Model, Tool
from processors.value import name

DIALECT = "semantic_kernel"
FAMILIES: frozenset[str] = frozenset()  # called by scope
EVENTS: frozenset[str] = frozenset()
MAPPED = frozenset({"gen_ai.response.finish_reason"})
PREFIXES: tuple[str, ...] = ()
_FULL_NAME = re.compile(r"^([0-9A-Za-z_]+)-([0-9A-Za-z_]+)$")
_LOOPS = ("AutoFunctionInvocationLoop",)


def read_span(span: Span) -> Reading | None:
    """What a Semantic Kernel span says beside the GenAI conventions."""
    if span.name in _LOOPS:
        return Reading(dialect=DIALECT, kind="other", rank=RANK_DISCRIMINATOR, subtype="step")
    reason = name(span.attributes.get("gen_ai.response.finish_reason"))
    if reason is not None:
        return Reading(dialect=DIALECT, rank=RANK_NONE, model=Model(finish_reasons=(reason,)))
    full = _FULL_NAME.match(name(span.attributes.get("gen_ai.tool.name")) or "")
    if full is None:
        return None
    tool = Tool(name=full[2], namespace=full[1])
    return Reading(dialect=DIALECT, kind="tool_call", rank=RANK_NONE, tool=tool)
