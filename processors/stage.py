"""A stage is a callable; a chain of stages is a stage.

Rules
1. A stage takes a value and the time and returns the next value; it does no I/O and keeps no state.
2. What a stage leaves out it says so, as ``Dropped(reason, count)``; nothing vanishes uncounted.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from processors.model.trace import AgentTrace


class Dropped(Struct, frozen=True, kw_only=True):
    """Items left out, by a bounded reason."""

    reason: str
    count: int = 1


Stage = Callable[[AgentTrace, int], AgentTrace]


def chain(stages: Sequence[Stage]) -> Stage:
    """One stage that runs the given ones in order."""

    def run(trace: AgentTrace, now_ns: int) -> AgentTrace:
        for stage in stages:
            trace = stage(trace, now_ns)
        return trace

    return run
