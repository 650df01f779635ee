"""Telemetry to traces, before anything is verified or hidden: decode's Batch in, AgentTraces out.

Rules
1. Pure: the same batch gives the same traces, whatever the order or repetition of its items.
2. Content is kept whole here; what may be kept for good is the last stage's business.
"""

from processors.assemble.trace import assemble, clued
from processors.model.span import Batch
from processors.model.trace import AgentTrace
from processors.normalise.detect import normalise


def build(batch: Batch, *, project: str, now_ns: int) -> tuple[AgentTrace, ...]:
    """The agent traces of a batch, in order of start."""
    return assemble(normalise(batch), project=project, now_ns=now_ns)


def built(
    batch: Batch, *, project: str, now_ns: int
) -> tuple[tuple[AgentTrace, ...], frozenset[str]]:
    """The agent traces, and the words by which what else belongs to them is found."""
    return clued(normalise(batch), project=project, now_ns=now_ns)
